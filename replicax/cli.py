"""The command line: parses, calls, prints. What is slow to import is imported where it is used."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicax.errors import GoalNotReached, UserError
from replicax.options import batch_sizes_option, counts_option, seconds_option

if TYPE_CHECKING:
    from replicax.study.configuration import Configuration
    from replicax.study.report import Report
    from replicax.tasks import Task

VIEWS = ("curve.png", "tuning.png", "result.json")
EXIT_DIFFERENT = 1
EXIT_TIME_LIMIT = 4
EXIT_INTERRUPTED = 130

app = typer.Typer(
    help="Run a training step on any number of devices; measure how many are worth it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    help="Data sets: what there is, where it lies, get it.", no_args_is_help=True
)
app.add_typer(data_app, name="data")


class Interrupted(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, of which typer makes a bare exit code."""


def main() -> None:
    """Runs the command line; a user's mistake is one line on stderr and an exit code."""
    usage_error: Any = typer.BadParameter.__base__
    try:
        signal.signal(signal.SIGINT, _interrupt)
        sys.exit(app(standalone_mode=False, prog_name="replicax") or 0)
    except UserError as error:
        print(f"replicax: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except usage_error as error:
        print(f"replicax: {error.format_message()}{_received(error)}", file=sys.stderr)
        sys.exit(2)
    except (Interrupted, KeyboardInterrupt):
        print("replicax: interrupted; what was saved is kept", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _received(error: Exception) -> str:
    """What typer's parser got, which its message does not tell."""
    problems: list[Any] = getattr(error.__cause__, "errors", list)()
    return f"; got {problems[0]['input']!r}" if problems else ""


def _interrupt(*_: object) -> None:
    raise Interrupted


Out = Annotated[Path | None, typer.Option(help="Output folder; default runs/TASK.")]


@app.command()
def study(
    task: Annotated[
        str, typer.Argument(help="A data set, or dataset/model; see `replicax tasks`.")
    ],
    optimizer: Annotated[str | None, typer.Option(help="sgd, momentum or nesterov.")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant or linear decay.")] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(help="4,16,64 or a range of powers of two, 4..4096, or of four, 4..4096x4."),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials at each batch size.")] = None,
    count_feasible: Annotated[
        bool, typer.Option("--count-feasible", help="Count trials that did not diverge only.")
    ] = False,
    goal: Annotated[float | None, typer.Option(help="Validation error to get below.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Step budget of a trial.")] = None,
    max_examples: Annotated[int | None, typer.Option(help="Example budget of a trial.")] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Run every trial to its budget.")
    ] = False,
    widen: Annotated[
        bool, typer.Option(help="Widen a search space with its best at a bound.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of points, initial weights and data order.")] = 0,
    out: Out = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data set's files.")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Stop and save after 90s, 10m or 2h; run again to go on.")
    ] = None,
    executor: Annotated[
        str | None, typer.Option(help="LOOP:SIZE:STREAMS, e.g. scan:4:2; measured by default.")
    ] = None,
    min_gap: Annotated[
        int | None, typer.Option(help="Least steps between evaluations; measured by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, result only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Measure steps to a goal at each batch size; the same command again goes on or shows it."""
    limit = None if time_limit is None else seconds_option("--time-limit", time_limit)
    with _stop_when_asked(limit) as stop:
        learned = _task(task)
        configuration = _configuration(
            learned,
            optimizer=optimizer,
            schedule=schedule,
            batch_sizes=None if batch_sizes is None else batch_sizes_option(batch_sizes),
            trials=trials,
            goal=goal,
            max_steps=max_steps,
            max_examples=max_examples,
            count_feasible=count_feasible,
            exhaustive=exhaustive,
            widen=widen,
            seed=seed,
            executor=executor,
            min_gap=min_gap,
        )
        folder = out or _default_folder(task, optimizer)
        stopped = _run(learned, configuration, folder, data_dir, stop, quiet)
    if stopped == "interrupted":
        return EXIT_INTERRUPTED
    report = _report(folder)
    _write_views(report, folder)
    _print(report, folder, as_json)
    return EXIT_TIME_LIMIT if stopped else _exit_code(report, folder)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Output folder of a study.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Analyse a study again, from its ledger; it may still be running."""
    report = _report(folder)
    _print(report, folder, as_json)
    return _exit_code(report, folder)


@app.command()
def tasks() -> None:
    """List the tasks, with their goals and default studies."""
    from rich.table import Table

    from replicax import tasks as catalogue
    from replicax.views.table import report_console

    table = Table("task", "goal", "optimizer", "batch sizes", "trials", box=None, pad_edge=False)
    for name in catalogue.names():
        task = catalogue.get(name)
        sizes = ", ".join(map(str, task.batch_sizes))
        table.add_row(
            name, f"{task.metric} < {task.goal:g}", task.optimizer, sizes, f"{task.trials}"
        )
    report_console(sys.stdout).print(table)


_SCRIPT_OPTIONS = {"allow_interspersed_args": False, "ignore_unknown_options": True}


@app.command(context_settings=_SCRIPT_OPTIONS)
def launch(
    script: Annotated[Path, typer.Argument(help="Python file.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the script gets, options too.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(help="CPU devices of the one process; default: all devices.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    devices_per_process: Annotated[int | None, typer.Option(help="CPU devices of each.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Where the processes meet; default: a free one.")
    ] = None,
) -> int:
    """Run a script on several CPU devices, in one process or more."""
    from replicax.replicate.launch import launch as start

    if devices is not None and (processes > 1 or devices_per_process is not None):
        raise UserError(
            f"--devices is for one process; got --devices {devices} with --processes or "
            "--devices-per-process; leave it out, or leave those out"
        )
    each = devices if devices is not None else devices_per_process
    return start(script, arguments or [], devices=each, processes=processes, port=port)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Python file with init_fn, input_fn, step_fn.")],
    replicas: Annotated[str, typer.Option(help="Numbers of replicas to compare.")] = "1,2,4,8",
    batch_size: Annotated[
        int | None, typer.Option(help="Examples per step; default: the file's batch_size, or 64.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps to compare.")] = 20,
    tolerance: Annotated[
        float, typer.Option(help="Of a leaf, relative to its largest element.")
    ] = 1e-4,
    seed: Annotated[int, typer.Option(help="Of the initial state and the random streams.")] = 0,
) -> int:
    """Prove that N replicas of a training step equal one, or name what differs first."""
    from replicax.replicate.check import Subject, compare

    counts = counts_option("--replicas", replicas)
    subject = Subject.of_file(file, batch_size)
    different = False
    for found in compare(subject, counts, steps=steps, tolerance=tolerance, seed=seed):
        beside = f"{found.replicas} replicas beside {counts[0]}, {found.steps} steps: "
        if found.leaf is None:
            print(f"{beside}equal, largest relative difference {found.difference:.1e}")
        else:
            different = True
            print(f"{beside}{found.leaf} differs in step {found.step} by {found.difference:.1e}")
    return EXIT_DIFFERENT if different else 0


@app.command()
def doctor() -> int:
    """Look at versions, devices, ports and proxies, run real collectives, say what to fix."""
    from replicax.replicate.doctor import findings

    wrong = False
    for finding in findings():
        wrong |= finding.verdict == "wrong"
        print(f"{finding.verdict:>5}  {finding.what}: {finding.said}", flush=True)
    return EXIT_DIFFERENT if wrong else 0


DataDir = Annotated[
    Path | None, typer.Option(help="Folder of data sets; default REPLICAX_DATA, else the cache.")
]


@data_app.command("list")
def data_list(data_dir: DataDir = None) -> None:
    """List the data sets: sizes, licences, where they lie, credits."""
    from rich.table import Table

    from replicax import data
    from replicax.views.table import report_console

    console, entries = report_console(sys.stdout), data.entries(data_dir)
    columns = ("data set", "train", "validation", "test", "licence", "where")
    table = Table(*columns, box=None, pad_edge=False)
    table.columns[-1].overflow = "fold"  # a path in full can be copied
    for entry in entries:
        sizes = (f"{size:,}" for size in entry.sizes)
        table.add_row(entry.name, *sizes, entry.licence, str(entry.folder or "not here"))
    console.print(table)
    for entry in entries:
        console.print(f"{entry.name}: {entry.credit}")


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="Data set.")],
    data_dir: DataDir = None,
    mirror: Annotated[
        str | None,
        typer.Option(help="Download from MIRROR/NAME/ instead; default REPLICAX_MIRROR."),
    ] = None,
) -> None:
    """Download a data set unless it is here, verify it, print the folder that holds it."""
    from replicax import data
    from replicax.views.download import download_bars

    with download_bars(sys.stderr) as new_bar:
        folder, downloaded = data.get(name, data_dir, mirror=mirror, new_bar=new_bar)
    print(f"{name} is {'now' if downloaded else 'already'} here:", file=sys.stderr)
    print(folder)


@data_app.command("where")
def data_where(
    name: Annotated[str, typer.Argument(help="Data set.")], data_dir: DataDir = None
) -> None:
    """Print the folder that holds a data set."""
    from replicax import data

    print(data.where(name, data_dir))


def _task(name: str) -> Task:
    from replicax import tasks as catalogue

    return catalogue.get(name)


def _configuration(task: Task, *, executor: str | None, **chosen: Any) -> Configuration:
    """The task's defaults, and what the user chose instead."""
    from replicax.study.configuration import Configuration
    from replicax.study.executor import Executor

    given = {n: value for n, value in chosen.items() if value is not None}
    if executor is not None:
        given["executor"] = Executor.parse(executor)
    return Configuration.of(task, **given)


def _default_folder(task: str, optimizer: str | None) -> Path:
    name = task.replace("/", "_")
    return Path("runs") / (name if optimizer is None else f"{name}_{optimizer}")


def _run(
    task: Task,
    configuration: Configuration,
    folder: Path,
    data_folder: Path | None,
    stop: Callable[[], str | None],
    quiet: bool,
) -> str | None:
    """Runs the study; returns why it stopped before its end, None if it did not."""
    from replicax.study import scaling_study
    from replicax.study.run import Stopped
    from replicax.views.live import watcher

    with watcher(sys.stderr, configuration.batch_sizes, quiet=quiet) as watching:
        try:
            scaling_study.run(
                task, configuration, folder, watching, stop=stop, data_folder=data_folder
            )
        except Stopped as reason:
            stopped = str(reason)
        else:
            return None
    print(f"replicax: {stopped}: saved in {folder}; the same command goes on", file=sys.stderr)
    return stopped


@contextmanager
def _stop_when_asked(limit: float | None) -> Iterator[Callable[[], str | None]]:
    """A function that says why to stop. The second Ctrl-C does not wait for the next evaluation.

    The first one sets a flag only: an exception would be lost if it came in a callback of JAX.
    """
    begin, asked = time.monotonic(), False

    def on_interrupt(*_: object) -> None:
        nonlocal asked
        if asked:
            raise Interrupted
        asked = True
        print("replicax: stopping at the next evaluation, to save", file=sys.stderr)

    def stop() -> str | None:
        if asked:
            return "interrupted"
        return "time limit" if limit is not None and time.monotonic() - begin > limit else None

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _report(folder: Path) -> Report:
    from replicax.study.ledger import Ledger
    from replicax.study.report import report

    with Ledger.read(folder) as ledger:
        return report(ledger)


def _json(report: Report) -> dict[str, Any]:
    from replicax.views.result import to_json

    return to_json(
        report.curve,
        status="finished" if report.finished else "unfinished",
        configuration=asdict(report.configuration),
        execution={str(b): facts for b, facts in report.execution.items()},
        provenance=report.provenance,
    )


def _write_views(report: Report, folder: Path) -> None:
    from replicax.views.curve_figure import write_curve
    from replicax.views.result import write_result
    from replicax.views.tuning_figure import write_tuning

    try:
        write_curve(report.curve, folder / "curve.png")
        write_tuning(report.curve, folder / "tuning.png")
        write_result(_json(report), folder / "result.json")
    except OSError as error:
        raise UserError(
            f"cannot write {error.filename or folder}: {error.strerror}; the study itself is kept; "
            f"free space or rights there, then run the same command again"
        ) from error


def _print(report: Report, folder: Path, as_json: bool) -> None:
    from replicax.views.result import to_text
    from replicax.views.table import print_report, report_console
    from replicax.views.terminal import print_chart

    if as_json:
        sys.stdout.write(to_text(_json(report)))
        return
    if report.curve.points:
        print_report(report.curve, report_console(sys.stdout))
        print_chart(report.curve, sys.stdout)
    if not report.finished:
        ended, asked = len(report.curve.points), len(report.configuration.batch_sizes)
        print(f"Unfinished: {ended} of {asked} batch sizes have ended.")
    views = [name for name in VIEWS if (folder / name).exists()]
    print(f"In {folder}: {', '.join([*views, 'the ledger'])}.")


def _exit_code(report: Report, folder: Path) -> int:
    """0, or GoalNotReached where a finished study has no result at any batch size."""
    curve = report.curve
    if not report.finished or any(p.steps is not None for p in curve.points):
        return 0
    known = [(p.best, p.batch_size) for p in curve.points if p.best is not None]
    found = "no trial was ever measured"
    if known:
        best, batch_size = max(known) if curve.maximize else min(known)
        found = f"the best {curve.metric} was {best:g}, at batch size {batch_size}"
    raise GoalNotReached(
        f"no trial reached the goal {curve.goal:g}: {found}; give an easier --goal, a larger "
        f"--max-steps or --max-examples, or more --trials, and another --out; the study is kept in "
        f"{folder}"
    )


if __name__ == "__main__":
    main()
