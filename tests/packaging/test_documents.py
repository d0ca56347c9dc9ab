"""The documents name what exists: commands, functions, messages."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pkgutil import resolve_name

import pytest
import typer

from tests.packaging.pages import ROOT, blocks
from tvmconv.cli.main import app

# the click that typer brings is not always the package of that name
USAGE_ERROR = typer.BadParameter.__base__
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
COMMANDS = sorted(
    {
        line.strip()
        for page in PAGES
        for block in blocks(page)
        if block.language == "sh"
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("tvmconv ")
    }
)
# other programs write these messages
FOREIGN = {"wrong ELF class: ELFCLASS64"}


def _parse(command: str) -> None:
    """Parse only. Tests of each subcommand cover the effect of its options."""
    words = shlex.split(command, comments=True)[1:]
    group = typer.main.get_command(app)
    # --version ends here
    with suppress(typer.Exit), group.make_context("tvmconv", words) as context:
        while hasattr(group, "commands") and (words or not group.invoke_without_command):
            _, group, words = group.resolve_command(context, words)
            context = group.make_context(group.name, words, parent=context)
            words = [*context._protected_args, *context.args]
        assert not words, f"left over: {words}"


def test_the_python_reference_names_what_exists():
    page = (ROOT / "docs/reference/python.md").read_text()
    listed = re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)
    assert {f"tvmconv.{name}" for name in ("build", "load", "CompiledModel")} <= set(listed)
    assert [name for name in listed if resolve_name(name) is None] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command):
    _parse(command)


@pytest.mark.parametrize("command", ["tvmconv bench --nosuch", "tvmconv nosuch", "tvmconv run a b"])
def test_other_commands_are_not(command):
    with pytest.raises(USAGE_ERROR):
        _parse(command)


def _strings(tree: ast.AST) -> Iterator[str]:
    """The literal texts of a program, those with values as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "" for part in node.values)
            yield " ".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def _messages() -> str:
    """All texts that the programs can print."""
    python = ROOT.glob("tvmconv/**/*.py")
    texts = [text for path in python for text in _strings(ast.parse(path.read_text()))]
    for path in (*ROOT.glob("tvmconv/**/*.c"), ROOT / "examples/environment.sh"):
        texts.append(re.sub(r'"\s*"', "", path.read_text()))
    return "\n".join(texts)


def _quoted() -> Iterator[tuple[str, str]]:
    """The messages in tables whose first column holds messages, by page."""
    for page in PAGES:
        is_open = False
        for line in page.read_text().splitlines():
            is_open = line.startswith("|") and (is_open or line.startswith("| message"))
            cell = line.split(" | ")[0]
            if is_open:
                yield from ((page.name, quote) for quote in re.findall(r"`([^`]+)`", cell))


QUOTED = sorted(set(_quoted()) - {(page.name, text) for page in PAGES for text in FOREIGN})


def test_pages_quote_messages():
    assert {"troubleshooting.md", "deploy-arm.md", "deploy-c-cpp.md"} <= {
        page for page, _ in QUOTED
    }


@pytest.mark.parametrize(("page", "quote"), QUOTED)
def test_quoted_messages_exist(page, quote):
    missing = [part for part in quote.split("...") if part.strip() not in _messages()]
    assert missing == []
