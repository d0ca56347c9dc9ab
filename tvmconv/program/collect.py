"""A Relax function of ``call_tir`` s -> :class:`Program` and the functions that it calls."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tvmconv.core.decision import Decision, KernelCall
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.joins import COPY, JOIN, PART, share_buffers
from tvmconv.program.places import Buffer, Step, place_constants, place_in_arena, place_outputs
from tvmconv.program.program import Place, Program
from tvmconv.tvm_api import ffi, ir, relax

# attribute of a function whose result is its operand in another shape: it is not called
VIEW = "tvmconv.view"
# attribute of a function whose last result are INT32 flags: the message of the error if one is set
CHECK = "tvmconv.check"
# operators that call a function; one result of IN_PLACE is an operand
IN_PLACE = "relax.call_tir_inplace"
CALLS = ("relax.call_tir", IN_PLACE)
# value of a variable: nested tuples of buffers
_Value = Buffer | tuple["_Value", ...]


def collect(
    mod: Any,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    calls: Iterable[KernelCall] = (),
    decisions: Iterable[Decision] = (),
) -> tuple[Program, Any]:
    """The program of a network whose operators are all calls of functions.

    Raises ``ModelError`` if an operator has no function, or its function needs TVM at run time.

    ``mod`` is as :func:`tvmconv.compile.network.scheduled` makes it. ``inputs`` and ``outputs`` are
    the parameters and results of ``main``. ``calls`` describe the calls; descriptions of one
    function are in the order of its calls. ``decisions`` give the algorithms of calls. The
    program's ``workspace_bytes`` is still 0. It comes with a ``tvm.IRModule`` of the functions that
    it calls, each with its symbol.
    """
    reader = _BufferReader(mod, calls)
    results = reader.read(mod["main"])
    if (len(reader.inputs), len(results)) != (len(inputs), len(outputs)):
        raise ValueError(f"main does not have {len(inputs)} inputs and {len(outputs)} outputs")
    copies = place_outputs(results)
    steps = share_buffers(_needed(reader.steps, results))
    algorithms = {decision.kernel: decision.chosen.algorithm for decision in decisions}
    symbols = _symbols([step.function for step in steps], algorithms)
    functions = {}
    for step in steps:
        func = mod[step.function]
        _check_self_contained(func, step.record)
        functions[step.function] = func.with_attr("global_symbol", symbols[step.function])
    steps += copies
    arena = place_in_arena(steps)
    constants, constant_bytes = place_constants(steps)
    program = Program(
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        calls=tuple(
            step.as_call(symbols.get(step.function, ""), algorithms.get(step.record.kernel, ""))
            for step in steps
        ),
        constants=constants,
        constant_bytes=constant_bytes,
        arena_bytes=arena.bytes,
        arena_bound=arena.bound,
    )
    return program, ir.IRModule(functions)


class _BufferReader:
    """Follows the bindings of one function."""

    def __init__(self, mod: Any, calls: Iterable[KernelCall]) -> None:
        self._mod = mod
        self.inputs: list[Buffer] = []
        self.steps: list[Step] = []
        self._values: dict[Any, _Value] = {}
        self._constants: dict[int, Buffer] = {}
        self._records: dict[str, deque[KernelCall]] = {}
        for call in calls:
            self._records.setdefault(call.kernel, deque()).append(call)

    def read(self, function: Any) -> list[Buffer]:
        """The buffers of the results; parameters and calls are left in the lists."""
        for index, var in enumerate(function.params):
            self.inputs.append(Buffer(tensor_bytes(var.ty), Place.INPUT, index))
            self._values[var] = self.inputs[-1]
        for block in function.body.blocks:
            for binding in block.bindings:
                self._values[binding.var] = self._bound(binding)
        return _flat(self._value(function.body.body))

    def _bound(self, binding: Any) -> _Value:
        value = binding.value
        if not isinstance(value, ir.Call):
            return self._value(value)
        name = str(getattr(value.op, "name", value.op))
        if name == "relax.reshape":
            return self._value(value.args[0])
        # with static shapes, all arguments of functions are tensors
        if name not in CALLS or len(value.args) > 2:
            called = getattr(value.args[0], "global_symbol", "") if value.args else ""
            raise ModelError(
                f"operator {str(called or name).removeprefix('relax.')!r} (value "
                f"{binding.var.name!r}) is not compiled to a function, and a saved model runs "
                "nothing else"
            )
        function, arguments = value.args
        (kind,) = value.ty_args
        operands = _flat(self._value(arguments))
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        results = [Buffer(tensor_bytes(each)) for each in kinds]
        if name == IN_PLACE:
            # the last parameter is the operand that the function changes
            results = [operands.pop()]
        attrs = self._mod[function].attrs or {}
        # TVM marks a slice of the first elements as a reshape, too
        if VIEW in attrs and operands[0].bytes == results[0].bytes:
            return operands[0]
        # GPU only: parameters after the results are workspace
        own = self._mod[function].params[len(operands) + len(results) :]
        workspace = [Buffer(_bytes(buffer.shape, buffer.dtype)) for buffer in own]
        record = replace(self._record(function.name_hint), check=str(attrs.get(CHECK, "")))
        self.steps.append(
            Step(
                function,
                record,
                operands,
                [*results, *workspace],
                joins=JOIN in attrs,
                part=int(attrs[PART]) if PART in attrs else None,
                copies=COPY in attrs,
            )
        )
        return tuple(results) if isinstance(kind, relax.TupleType) else results[0]

    def _value(self, expr: Any) -> _Value:
        if isinstance(expr, relax.Tuple):
            return tuple(self._value(item) for item in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            whole = self._value(expr.tuple_value)
            assert isinstance(whole, tuple)
            return whole[int(expr.index)]
        if isinstance(expr, ir.GenericConst):
            data = expr.value
            # the same array may be wrapped in several constants
            key = hash(data)
            if key not in self._constants:
                self._constants[key] = Buffer(tensor_bytes(expr.ty), Place.CONSTANT, data=data)
            return self._constants[key]
        return self._values[expr]

    def _record(self, symbol: str) -> KernelCall:
        known = self._records.get(symbol)
        return known.popleft() if known else KernelCall("", symbol, symbol)


def _flat(value: _Value) -> list[Buffer]:
    if isinstance(value, Buffer):
        return [value]
    return [buffer for item in value for buffer in _flat(item)]


def tensor_bytes(kind: Any) -> int:
    """Bytes of a tensor of static shape."""
    return _bytes(kind.shape.values, kind.dtype)


def _bytes(shape: Sequence[Any], dtype: Any) -> int:
    element = ffi.dtype(str(dtype))
    item = -(-int(element.bits) * int(element.lanes) // 8)
    return prod(int(size) for size in shape) * item


def _needed(steps: Iterable[Step], results: Iterable[Buffer]) -> list[Step]:
    """The steps that compute something on which a result depends, and all checks."""
    wanted = set(results)
    kept = []
    for step in reversed(list(steps)):
        # a function that reads only one place of its operand may be a view, without its index
        read = any(result.bytes and result in wanted for result in step.results)
        if read or step.record.check:
            wanted.update(step.operands)
            kept.append(step)
    return kept[::-1]


def _symbols(functions: Iterable[Any], decided: Mapping[str, str]) -> dict[Any, str]:
    """Names in the object code, by variable.

    Names such as ``exp`` get a suffix, because kernels may call the C library's function.
    """
    symbols: dict[Any, str] = {}
    given = set(decided)
    for var in functions:
        if var in symbols:
            continue
        # Python's lambdas are called <lambda>
        name = re.sub(r"\W", "_", str(var.name_hint), flags=re.ASCII)
        while name not in decided and (name in given or not name.endswith("_kernel")):
            name += "_kernel"
        given.add(name)
        symbols[var] = name
    return symbols


def _check_self_contained(func: Any, record: KernelCall) -> None:
    """Refuse code that calls functions of TVM's runtime."""
    called = []

    def look(call: Any) -> None:
        if "packed" in getattr(call.op, "name", ""):
            called.append(call.args[0])

    ffi.structural_walk(func.body, (ir.Call, look))
    if called:
        raise ModelError(
            f"layer {record.layer or record.kernel!r}: operator {record.operator!r} is computed "
            f"by {called[0]} of TVM's runtime, which a saved model does not have"
        )
