"""The language of comments, docstrings, messages and documents gets no worse."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

import tvmconv
from tests.packaging import words
from tvmconv.cli.main import app

SOURCES = [path for path in words.files() if path.suffix == ".py"]
# folders of the documents that users read first
FOLDERS = ("getting-started", "how-to", "reference")
MESSAGES = [p for p in SOURCES if p.relative_to(words.ROOT).parts[0] in ("tvmconv", "schedules")]


def test_counts_only_fall():
    """``python -m tests.packaging.words show PATH`` says which; ``update`` keeps what fell."""
    assert words.risen(words.allowed(), words.counted()) == []


def test_what_is_counted(tmp_path):
    (tmp_path / "page.md").write_text(
        "# Peers\n\nThis is no page. `peers` is a name.\n\n```\npeer\n```\n\n| told | a b |\n"
    )
    (tmp_path / "code.py").write_text(
        '"""Stands here."""\n\n# the least\n# size\npeer = "beside"\n'
        'raise ValueError(f"{peer} is mended; at least")\n'
    )
    banned, _ = words._banned()
    found = {
        path.name: [m for line in words.sentences(path) for m in banned.findall(line)]
        for path in tmp_path.iterdir()
    }
    assert found == {
        "page.md": ["Peers", "is no", "told"],
        "code.py": ["least", "Stands", "mended", "beside"],
    }
    (tmp_path / "long.md").write_text("word " * 25 + "\n\n" + "word " * 26 + "\n")
    assert [words._is_long(line) for line in words.sentences(tmp_path / "long.md")] == [False, True]


def test_a_new_file_takes_the_counts_of_one_that_is_gone():
    allowed = {"a.py": (2, 1), "b.py": (3, 0)}
    assert words.risen(allowed, {"b.py": (3, 0), "moved/a.py": (2, 1)}) == []
    assert words.risen(allowed, {"a.py": (2, 1), "b.py": (3, 0), "new.py": (1, 0)}) != []
    assert words.risen(allowed, {"a.py": (3, 0), "b.py": (0, 0)}) != []


def test_messages_are_plain():
    """Errors, warnings, notes and help texts of the whole package."""
    found = [
        f"{path.relative_to(words.ROOT)}: {fault}"
        for path in MESSAGES
        for text in words.messages(ast.parse(path.read_text()))
        for fault in words.faults(text)
    ]
    assert found == []


def test_schedules_are_plain():
    """Also their comments and docstrings."""
    folder = words.ROOT / "schedules"
    found = [
        f"{path.relative_to(words.ROOT)}: {line}"
        for path in SOURCES
        if folder in path.parents
        for line in words.sentences(path)
        if words.faults(line)
    ]
    assert found == []


PAGES = [
    words.ROOT / "README.md",
    *(p for folder in FOLDERS for p in sorted((words.ROOT / "docs" / folder).glob("*.md"))),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page):
    """Also their paragraphs and tables are of a size that people read."""
    assert [line for line in words.sentences(page) if words.faults(line)] == []
    assert words.shape_faults(page.read_text()) == []


def test_shapes_of_pages():
    wide = f"| {'a | ' * 7}\n"
    assert words.shape_faults(f"# 1 2 3 4\n\n{wide}| {'a' * 200} |\n") != []
    assert words.shape_faults(f"{wide[4:]}\n```\n1 2 3 4 | | | | | | | |\n```\n") == []
    assert words.shape_faults("1, 2 and 3 with INT8, F(4x4) and 3x3\n\n1. 2\n2. 3\n3. 4\n") == []
    assert words.shape_faults("1, 2.5, 3\nand 4e-5") == ["1, 2.5, 3 and 4e-5"]


def public() -> Iterator[tuple[str, Any]]:
    """The objects on the pages of the API and in ``import tvmconv``, with their members."""
    pages = "".join(page.read_text() for page in sorted((words.ROOT / "docs").rglob("*.md")))
    names = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    assert "tvmconv.build" in names
    names += [f"tvmconv.{name}" for name in tvmconv.__all__ if name != "__version__"]
    for name in dict.fromkeys(names):
        parts = name.split(".")
        try:
            value = importlib.import_module(name)
        except ImportError:
            value = getattr(importlib.import_module(".".join(parts[:-1])), parts[-1])
        yield name, value
        if inspect.isclass(value) or inspect.ismodule(value):
            offered = getattr(value, "__all__", None)
            for member, each in inspect.getmembers(value):
                if not member.startswith("_") and (offered is None or member in offered):
                    yield f"{name}.{member}", each


def test_public_docstrings_are_plain():
    found = [
        f"{name}: {fault}"
        for name, value in public()
        if callable(value) or inspect.isdatadescriptor(value) or inspect.ismodule(value)
        for fault in words.faults(inspect.getdoc(value) or "")
    ]
    assert found == []


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for key, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{name} {key}")


COMMANDS = dict(commands(typer.main.get_command(app), "tvmconv"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_texts_are_plain(name):
    command = COMMANDS[name]
    texts = [words.without_examples(command.help or ""), command.epilog or ""]
    for each in command.params:
        texts += [getattr(each, "help", "") or "", str(getattr(each, "show_default", ""))]
    assert [fault for text in texts for fault in words.faults(text)] == []
