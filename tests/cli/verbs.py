"""Calling a subcommand in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from tvmconv.cli.main import app


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def data_of(*words: object) -> Any:
    """The JSON that a subcommand prints."""
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
