"""Who may import whom, what a package's front door holds, and what stays quick to import."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import replicax
from replicax.study.configuration import Configuration
from replicax.study.ledger import Ledger
from replicax.study.trials import TrialRow

ROOT = Path(__file__).parents[1] / "replicax"

# From the top. Each may import itself and what stands before it.
LAYERS = ["errors", "options", "replicate"]
LAYERS += ["data", "models", "tasks", "train", "analysis", "study", "views", "cli", "replicax"]

HEAVY = {"jax", "optax", "scipy", "numpy", "polars", "matplotlib"}


def module_name(path):
    name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = {module_name(path): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


def imports(module):
    """Every module that one imports, wherever in its text."""
    found = set()
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by a relative name"
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= named & set(MODULES) or {node.module}
    return found


def own(names):
    return {name for name in names if name.split(".")[0] == "replicax"}


def layer(module):
    return module.split(".")[1] if "." in module else module


def imports_of_layer(name):
    return {found for module in MODULES if layer(module) == name for found in imports(module)}


def test_a_package_imports_only_from_those_above_it():
    place = {name: i for i, name in enumerate(LAYERS)}
    edges = [(m, found) for m in MODULES for found in own(imports(m))]
    assert len(edges) > len(MODULES)
    assert [e for e in edges if place[layer(e[1])] > place[layer(e[0])]] == []


def test_no_import_comes_back_to_where_it_began():
    TopologicalSorter({m: own(imports(m)) for m in MODULES}).prepare()  # raises CycleError


def test_analysis_knows_nothing_of_learning_or_drawing():
    found = imports_of_layer("analysis")
    assert {layer(m) for m in own(found)} <= {"errors", "analysis"}
    assert {"polars"} <= found
    assert {m.split(".")[0] for m in found} & {"jax", "optax", "matplotlib", "rich"} == set()


def test_views_see_records_and_progress_only():
    found = imports_of_layer("views")
    others = {m for m in own(found) if layer(m) != "views"}
    assert others <= {"replicax.analysis.records", "replicax.study.progress", "replicax.errors"}
    assert {m.split(".")[0] for m in found} & {"jax", "optax", "polars"} == set()


def test_only_views_draw():
    drawing = {m for m in MODULES if any(i.split(".")[0] == "matplotlib" for i in imports(m))}
    assert {layer(m) for m in drawing} == {"views"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/__init__.py")), ids=module_name)
def test_the_front_door_holds_no_logic(path):
    docstring, *rest = ast.parse(path.read_text()).body
    assert isinstance(docstring.value.value, str)
    for node in rest:
        if isinstance(node, ast.Assign):
            assert [target.id for target in node.targets] == ["__all__"]
        else:
            assert isinstance(node, ast.ImportFrom)


def test_the_main_door_opens_on_what_replicates():
    assert replicax.__all__ == replicax.replicate.__all__
    for name in replicax.__all__:
        assert getattr(replicax, name) is getattr(replicax.replicate, name)
    with pytest.raises(AttributeError, match="no attribute 'replicator'"):
        _ = replicax.replicator


def test_names_say_what_is_inside():
    parts = {part for module in MODULES for part in module.split(".")}
    assert parts & {"utils", "util", "helpers", "helper", "common", "misc", "tools"} == set()


def test_what_is_public_has_a_docstring():
    """Plain records whose fields say everything are the exception."""
    bare = [module for module, tree in MODULES.items() if not ast.get_docstring(tree)]
    for module, tree in MODULES.items():
        for node in tree.body:
            does = isinstance(node, ast.FunctionDef) or (
                isinstance(node, ast.ClassDef)
                and any(isinstance(part, ast.FunctionDef) for part in node.body)
            )
            if does and not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{module}.{node.name}")
    assert bare == []


# What a command loads.


def loaded(program):
    """The packages that a fresh interpreter holds when a program has ended."""
    probe = f"import atexit, sys; atexit.register(lambda: print('', *sys.modules)); {program}"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def loaded_by_command(*arguments):
    return loaded(f"sys.argv[1:] = {arguments}; from replicax.cli import main; main()")


@pytest.fixture
def study_folder(tmp_path):
    """A finished study: one batch size, three trials, two of them at the goal."""
    metric = "val/classification_error"
    configuration = Configuration(
        task="digits/fc_64",
        optimizer="sgd",
        schedule="constant",
        metric=metric,
        maximize=False,
        goal=0.1,
        batch_sizes=(64,),
        trials=3,
        count_feasible=False,
        max_steps=20,
        max_examples=10_000,
        exhaustive=True,
        widen=True,
        seed=0,
    )
    rates, errors = (0.1, 0.2, 0.4), (0.2, 0.05, 0.07)
    trials = [
        TrialRow(
            trial=i,
            wave="initial",
            hyperparameters={"learning_rate": rate},
            status="complete",
            last_step=20,
        )
        for i, rate in enumerate(rates)
    ]
    with Ledger.create_or_resume(tmp_path, configuration) as ledger:
        ledger.commit(
            64,
            step=20,
            facts={
                "space": [{"name": "learning_rate", "scale": "log", "low": 0.01, "high": 1.0}],
                "edges": [],
            },
            trials=trials,
            measurements=[
                {"batch_size": 64, "trial": i, "step": 20, metric: error}
                for i, error in enumerate(errors)
            ],
            snapshot=None,
            done=True,
        )
    return tmp_path


@pytest.mark.parametrize("module", ["replicax", "replicax.cli"])
def test_importing_is_cheap(module):
    found = loaded(f"import {module}")
    assert "replicax" in found
    assert found & HEAVY == set()


def test_help_is_quick():
    found = loaded_by_command("--help")
    assert "typer" in found
    assert found & HEAVY == set()


@pytest.mark.parametrize("options", [(), ("--json",)], ids=" ".join)
def test_showing_a_study_needs_no_jax(study_folder, options):
    found = loaded_by_command("show", str(study_folder), *options)
    assert "polars" in found
    assert found & {"jax", "optax", "matplotlib"} == set()
