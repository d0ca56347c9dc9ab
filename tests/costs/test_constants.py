"""Constants of the cost models: one table a wing, each with its unit and its origin."""

import ast
import pickle
from pathlib import Path

import pytest

from tests.kernels import V4
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.constant import constants_of, replaced
from tvmconv.costs.cpu import constants as cpu
from tvmconv.costs.cuda import constants as cuda
from tvmconv.costs.scalable import constants as scalable
from tvmconv.kernels.kernel import make_kernel

FOLDER = Path(cpu.__file__).parents[1]
TABLES = (cpu, scalable, cuda)


def _floats(path: Path) -> list[str]:
    """Assignments at module level whose value has a float, or a quotient, outside a call."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for part in ast.walk(node.value):
            literal = isinstance(part, ast.Constant) and isinstance(part.value, float)
            quotient = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div)
            if literal or quotient:
                found.append(f"{path.relative_to(FOLDER)}:{node.lineno}")
    return found


def test_floats_are_in_the_tables_alone():
    others = [path for path in FOLDER.rglob("*.py") if path.name != "constants.py"]
    assert [place for path in others for place in _floats(path)] == []
    assert all(_floats(Path(table.__file__)) for table in TABLES)


def _read_by_import(node: ast.AST) -> list[int]:
    """Lines whose ``constants.NAME`` an import of the module reads, in defaults for example."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute) and ast.unparse(child.value) == "constants":
            found.append(child.lineno)
        if isinstance(child, ast.Lambda):
            found += _read_by_import(child.args)
        elif isinstance(child, ast.FunctionDef):
            found += [
                line
                for part in (child.args, *child.decorator_list)
                for line in _read_by_import(part)
            ]
        else:
            found += _read_by_import(child)
    return found


def test_no_import_reads_a_constant_that_a_fit_may_replace():
    models = [path for path in FOLDER.rglob("*.py") if path.name != "constants.py"]
    read = {path.name: _read_by_import(ast.parse(path.read_text())) for path in models}
    assert {name: lines for name, lines in read.items() if lines} == {}


@pytest.mark.parametrize("table", TABLES, ids=["cpu", "scalable", "cuda"])
def test_each_constant_has_a_unit_and_an_origin(table):
    rows = constants_of(table)
    for name, row in rows.items():
        assert row > 0, name
        assert all((row.unit, row.meaning, row.fit.model, row.fit.data, row.fit.command)), name
    floats = {name for name, value in vars(table).items() if isinstance(value, float)}
    assert floats == set(rows)
    # each constant is read by a model of some wing
    text = "".join(p.read_text() for p in FOLDER.rglob("*.py") if p.name != "constants.py")
    assert [name for name in rows if f"constants.{name}" not in text] == []


def test_a_constant_is_a_number_that_knows_its_unit():
    copy = pickle.loads(pickle.dumps(cpu.TILE_CYCLES))
    assert (copy, copy.unit, copy.fit) == (40.0, "cycles per tile", cpu.TILE_CYCLES.fit)
    assert type(2 * cpu.TILE_CYCLES) is float


def test_another_value_is_read_until_the_context_ends():
    kernel = make_kernel(Conv2dWorkload.parse("ic32ih14oc32kh3ph1"), V4, "direct")
    before = kernel.predicted_cycles
    with replaced(cpu, {"TILE_CYCLES": 2 * cpu.TILE_CYCLES}):
        assert kernel.predicted_cycles > before
        assert cpu.TILE_CYCLES.unit == "cycles per tile"
    assert kernel.predicted_cycles == before
