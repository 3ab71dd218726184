"""The docs say what is true: links lead somewhere, commands and options exist, examples run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from replicax.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_command(app).commands


def options(command):
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    local = [link for link in links if not link.startswith("https://")]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert missing == []


def test_readme_names_every_option_of_study():
    named = set(re.findall(r"--[a-z][a-z-]+", README))
    asked = {o for o in options(COMMANDS["study"]) if o.startswith("--")} - {"--help", "--widen"}
    assert asked - named == set()
    known = asked | {"--widen"} | {o for c in COMMANDS.values() for o in options(c)}
    assert named - known == set()


def test_commands_of_the_readme_exist():
    blocks = re.findall(r"```\n(.*?)```", README, re.DOTALL)
    calls = [
        c.split() for b in blocks for c in re.split(r"&&|\n", b) if c.strip().startswith("replicax")
    ]
    assert len(calls) >= 5
    for _, name, *arguments in calls:
        command = COMMANDS[name]
        if name == "data":
            command = command.commands[arguments[0]]
        used = {a for a in arguments if a.startswith("--")}
        assert used <= options(command)


def test_example_of_an_analysis_alone():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "steps_from_elsewhere.py"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "steps = 613 (1 + 324 / batch size)" in done.stdout  # section D.1: a = 614, b/a = 324


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train.py", r"^accuracy 0\.9\d+ over 299 test examples$"),
        ("batch_norm.py", r"^loss 0\.0\d+, accuracy 0\.9\d+ over 299 examples$"),
        ("gan.py", r"^generator loss \d\.\d+$"),
        ("queue_learner.py", r"^reward 0\.[6-9]\d, of at most 0\.8 on average$"),
    ],
)
def test_examples_of_replicas(name, said):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert re.search(said, done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
def test_example_of_an_own_model(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "own_model.py", tmp_path / "study"],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    assert re.search(r"^end of perfect scaling, in examples per step: \d+$", done.stdout, re.M)
