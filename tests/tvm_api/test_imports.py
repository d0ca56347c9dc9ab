"""TVM is imported in one package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOM = "tvmconv/tvm_api/"
# The rewriting of TIR is written in TVM's own terms. TVM's runtime is loaded without its compiler,
# which importing the package would bring. Both import TVM by themselves.
APART = (
    "tvmconv/tir/",
    "tvmconv/tvm_runtime/",
)


def imports(path: Path) -> Iterator[str]:
    """Modules of TVM that a file imports, for types too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        yield from (n for n in names if n.split(".")[0] in ("tvm", "tvm_ffi"))


def files() -> list[str]:
    """Every file of the package."""
    found = [*(ROOT / "tvmconv").rglob("*.py"), *(ROOT / "schedules").rglob("*.py")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


FILES = files()


def test_other_rooms_import_tvm_through_it():
    outside = [f for f in FILES if not f.startswith((ROOM, *APART))]
    assert len(outside) > 200
    assert [(f, name) for f in outside for name in imports(ROOT / f)] == []


@pytest.mark.parametrize("name", [f for f in FILES if f.startswith(ROOM)])
def test_a_module_holds_one_part_of_tvm(name):
    """No two of them import one module of TVM; its last name is mostly the file's."""
    mine = set(imports(ROOT / name))
    others = {m for f in FILES if f.startswith(ROOM) and f != name for m in imports(ROOT / f)}
    assert mine & others <= {"tvm.s_tir"}
