"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys

import typer

from replicax.errors import UserError

app = typer.Typer(
    help="Measure how many training steps a goal takes at each batch size.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets: what there is, where it lies, get it.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def main() -> None:
    """Runs the command line; a user's mistake is one line on stderr and an exit code."""
    try:
        app()
    except UserError as error:
        print(f"replicax: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
