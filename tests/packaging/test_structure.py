"""The order of the packages: imports go one way, and no files import each other in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tvmconv.machines.multiply import MULTIPLIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
# from the ground up: a part knows itself and those before it
ROOMS = tuple(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), flags=re.MULTILINE))


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for folder in (ROOT / "tvmconv", ROOT / "schedules"):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "tvmconv" else ("tvmconv", *parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(name: str, types: bool = False) -> Iterator[str]:
    """The modules that a module imports: at its top or in a function; ``types``, for types."""
    tree = ast.parse(MODULES[name].read_text())
    typing = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in typing and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield from (m for m in (whole, source) if m in MODULES)


def room(name: str) -> str:
    """The folder below ``tvmconv`` that holds a module, or its own name."""
    return [*name.split("."), "tvmconv"][1]


@cache
def graph(types: bool = False) -> dict[str, list[str]]:
    """The imports of every module."""
    return {name: sorted(set(imports(name, types)) - {name}) for name in MODULES}


def test_every_room_has_its_place():
    assert len(ROOMS) == len(set(ROOMS))
    assert {room(name) for name in MODULES} == set(ROOMS)


@pytest.mark.parametrize("name", ROOMS)
def test_arrows_run_downwards(name):
    allowed = ROOMS[: ROOMS.index(name) + 1]
    wrong = [
        f"{module} -> {target}"
        for module, targets in graph().items()
        if room(module) == name
        for target in targets
        if room(target) not in allowed
    ]
    assert wrong == []


def test_no_files_import_each_other_in_a_circle():
    """A package's own file may import its modules, which Python reaches through it."""
    others = {
        name: [t for t in targets if not name.startswith(f"{t}.")]
        for name, targets in graph(types=True).items()
    }
    assert list(circles(others)) == []


def circles(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    """Strongly connected groups of more than one file, by removing what nothing leads back to."""
    left = {name: set(targets) for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    while free := [n for n in left if not any(n in targets for targets in left.values())]:
        for name in free:
            del left[name]
    if left:
        yield sorted(left)


def test_what_builds_and_runs_models_knows_no_laboratory():
    for name in ("lab", "measuring", "tuning"):
        assert ROOMS.index(name) > ROOMS.index("tvmconv")
    users = {m for m, found in graph().items() if any(room(t) == "lab" for t in found)}
    assert {room(name) for name in users} == {"lab", "cli"}


INSTRUCTIONS = re.compile(rf"""["'](?:{"|".join(m.name for m in MULTIPLIES if m.is_packed)})["']""")


def test_an_instruction_is_named_where_it_is_emitted_alone():
    """Others ask the attributes of :class:`tvmconv.machines.multiply.Multiply`."""
    named = {name for name, path in MODULES.items() if INSTRUCTIONS.search(path.read_text())} - {
        "tvmconv.machines.multiply"
    }
    assert all(re.match(r"tvmconv\.tir\.(x86|amx|neon|sve)\.", name) for name in named), named


def test_a_circle_would_be_seen():
    assert list(circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]})) == [["b", "c"]]
