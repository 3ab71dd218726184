"""A scaling study: one study per batch size, into one ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import jax
import platformdirs

from replicax.analysis import better
from replicax.data import Dataset
from replicax.errors import UserError
from replicax.study.checks import check
from replicax.study.configuration import Configuration
from replicax.study.executor import Executor
from replicax.study.ledger import INDEX, Ledger
from replicax.study.points import points, search_space
from replicax.study.population import Population
from replicax.study.programs import Programs
from replicax.study.progress import Watcher
from replicax.study.provenance import provenance
from replicax.study.run import Stop, Study
from replicax.study.waves import INITIAL
from replicax.tasks import Task
from replicax.train import make_optimizer


def run(
    task: Task,
    configuration: Configuration,
    folder: Path,
    watcher: Watcher,
    *,
    stop: Stop = lambda: None,
    data_folder: Path | None = None,
) -> None:
    """Runs a scaling study, or goes on with it; the ledger in `folder` holds the result.

    Studies run from the largest batch size to the smallest, since the largest need fewest steps.

    Args:
      task: what to learn, one of the catalogue or any other.
      configuration: what to run; the ledger of a started study must hold the same.
      folder: made if need be.
      watcher: is told about the progress.
      stop: asked at every evaluation; a text ends the run.
      data_folder: where the data set lies, if not in its usual places.

    Raises:
      UserError: the configuration cannot work, or the folder cannot be used.
      Stopped: `stop` gave a reason; the same call goes on.
    """
    if (folder / INDEX).exists():
        with Ledger.create_or_resume(folder, configuration) as ledger:
            if all((row := ledger.study(b)) and row.done for b in configuration.batch_sizes):
                return
    use_compile_cache()
    data = task.load(data_folder)
    check(configuration, task, len(data.train.label))
    if not (folder / INDEX).exists():
        check_goal_is_open(task, configuration, data)
    optimizer = make_optimizer(configuration.optimizer, configuration.schedule)
    with Ledger.create_or_resume(folder, configuration) as ledger:
        ledger.add_provenance(datetime.now(UTC).isoformat(timespec="seconds"), provenance())
        for batch_size in sorted(configuration.batch_sizes, reverse=True):
            programs = Programs(
                task, optimizer, data, batch_size=batch_size, seed=configuration.seed
            )
            Study(task, configuration, programs, ledger).run(watcher, stop)


def check_goal_is_open(task: Task, configuration: Configuration, data: Dataset) -> None:
    """Raises UserError if a trial meets the goal before its first step."""
    optimizer = make_optimizer(configuration.optimizer, configuration.schedule)
    batch_size = configuration.batch_sizes[0]
    programs = Programs(task, optimizer, data, batch_size=batch_size, seed=configuration.seed)
    drawn = points(
        search_space(task, configuration, batch_size),
        configuration.trials,
        seed=configuration.seed,
        batch_size=batch_size,
        wave=INITIAL,
    )
    population = Population.start(programs, Executor("dispatch", 1, 1), dict(enumerate(drawn)))
    for trial, evaluation in population.advance(0, 0).items():
        value = evaluation.metrics[task.metric]
        if better(value, configuration.goal, task.maximize):
            raise UserError(
                f"the goal {configuration.goal:g} is already met at step 0: trial {trial} starts "
                f"with {task.metric} {value:g}; give a goal that must be learned with --goal "
                f"(default {task.goal:g})"
            )


def use_compile_cache() -> None:
    """Compiled programs outlive the process, unless the user has chosen a cache of their own."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        folder = platformdirs.user_cache_path("replicax") / "compiled"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
