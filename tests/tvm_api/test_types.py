"""The static types are checked against the installed TVM: it ships none of its own."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
import tvm
from tvm import ir, relax, te, tirx
from tvm.s_tir import Schedule

from tvmconv.tvm_api import te as typed_te
from tvmconv.tvm_api import types

_DATA = te.placeholder((4, 8), "float32", name="data")


def scheduled():
    """A schedule of a row sum."""
    k = te.reduce_axis((0, 8), "k")
    sums = te.compute((4,), lambda i: te.sum(_DATA[i, k], axis=k), name="sum")
    return Schedule(te.create_prim_func([_DATA, sums]))


def samples():
    """An object of TVM for every protocol."""
    schedule = scheduled()
    block = schedule.get_sblock("sum")
    loop = schedule.get_loops(block)[0]
    var = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [var]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(relax.op.abs(var)))
        builder.emit_func_output(result)
    module = builder.get()
    dataflow = module["main"].body.blocks[0]
    function = schedule.mod["main"]
    return {
        "Binding": dataflow.bindings[0],
        "BindingBlock": dataflow,
        "BlockBuilder": builder,
        "DeviceTensor": tvm.runtime.tensor(np.zeros(4, "float32")),
        "Expr": tirx.Var("i", "int32") + 1,
        "For": schedule.get(loop),
        "Function": module["main"],
        "GlobalVar": module.get_global_vars()[0],
        "IRModule": module,
        "Module": tirx.build(ir.IRModule({"main": function}), target="llvm"),
        "PrimFunc": function,
        "RelaxExpr": relax.op.abs(var),
        "RelaxVar": var,
        "SBlock": schedule.get(block),
        "Schedule": schedule,
        "Stmt": function.body,
        "Target": tvm.target.Target("llvm"),
        "Tensor": _DATA,
    }


def protocols():
    """Every class of the module that TVM's objects have the members of."""
    classes = inspect.getmembers(types, inspect.isclass)
    own = [c for _, c in classes if c.__module__.startswith(types.__name__)]
    return {c.__name__: c for c in own if getattr(c, "_is_protocol", False)}


SAMPLES = samples()


def members(protocol):
    """Declared members, inherited ones too."""
    names = {name for base in protocol.__mro__ for name in vars(base) if base not in _EVERYWHERE}
    return sorted(n for n in names if not n.startswith("_") or n in _OPERATORS)


_EVERYWHERE = (object, *Protocol.__mro__)
_OPERATORS = {
    *("__getitem__", "__call__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__"),
    *("__rmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__mod__", "__neg__"),
    *("__and__", "__xor__", "__rshift__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__hash__"),
}


def test_every_protocol_has_a_sample():
    assert set(protocols()) == set(SAMPLES)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_tvm_has_every_member(name):
    protocol, sample = protocols()[name], SAMPLES[name]
    declared = members(protocol)
    assert declared
    assert [m for m in declared if not hasattr(sample, m)] == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (types.Schedule, Schedule),
        (types.BlockBuilder, relax.BlockBuilder),
        (types.PrimFunc, tirx.PrimFunc),
    ],
    ids=["Schedule", "BlockBuilder", "PrimFunc"],
)
def test_tvm_takes_the_arguments_that_are_declared(ours, theirs):
    """A call that mypy lets through can be made, with positions and with names."""
    methods = {n: f for n, f in vars(ours).items() if inspect.isfunction(f) and n[0] != "_"}
    assert methods
    for name, function in methods.items():
        signature = inspect.signature(getattr(theirs, name))
        parameters = inspect.signature(function).parameters.values()
        named = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
        placed = [p for p in parameters if p.name not in named]
        if any(p.kind is p.VAR_KEYWORD for p in placed):
            continue  # an overloaded one, which Python knows nothing of
        signature.bind(*(None for _ in placed), **named)
        if not any(p.kind is p.VAR_POSITIONAL for p in placed):
            signature.bind(**{p.name: None for p in placed}, **named)


def test_tensor_expressions_make_what_their_types_say():
    k = typed_te.reduce_axis((0, 8), "k")
    data = typed_te.placeholder((4, 8), "float32", name="data")
    sums = typed_te.compute((4,), lambda i: typed_te.sum(data[i, k], axis=k), name="sum", attrs={})
    assert isinstance(sums, te.Tensor)
    assert isinstance(data(0, k), ir.Expr)
    assert isinstance(typed_te.create_prim_func([data, sums]), tirx.PrimFunc)


def test_tvm_ships_no_types():
    """Once it does, mypy can read them in place of these."""
    (folder,) = find_spec("tvm").submodule_search_locations
    assert not (Path(folder) / "py.typed").exists()
