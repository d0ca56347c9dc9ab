"""One call in place of consecutive calls in a Relax function.

TVM's virtual machine spends about 2.5 microseconds on each call of a kernel in a network. It makes
a tensor, checks the arguments field by field, and releases the tensor. Tensors that it allocates
one by one also start at the same offset in a page, so stores and loads of adjacent tensors alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tvmconv.compile.weights import pieces
from tvmconv.core.decision import KernelCall
from tvmconv.program.places import Buffer, ConstantPool, Step, place_in_arena
from tvmconv.program.program import Place
from tvmconv.tir.general.rewrite import byte_size
from tvmconv.tvm_api import ir, relax, tirx
from tvmconv.tvm_api.types import Binding, GlobalVar, PrimFunc, RelaxExpr, RelaxVar

# raises the error that the failing function has set
_FAILED = tirx.call_intrin("int32", "tirx.tvm_throw_last_error")


class Pointer(NamedTuple):
    """An operand of a kernel: the index of a parameter, and the offset there in bytes."""

    parameter: int
    offset: int


class KernelStep(NamedTuple):
    """A call of a kernel by its name in the object code."""

    kernel: str
    operands: tuple[Pointer, ...]


# steps of a call, and shape and dtype of its parameters: a constant is bytes, an input is not
Key = tuple[tuple[KernelStep, ...], tuple[tuple[tuple[int, ...], str], ...]]


@dataclass(frozen=True)
class Joined:
    """The one call that replaces a sequence of calls.

    ``parameters`` are TIR buffers: the tensors from outside, one block of all constants, the
    results, and memory for intermediate tensors. ``steps`` are the calls of kernels in order.
    ``arguments`` and ``types`` are arguments of ``call_dps_packed``. ``results`` has the index of
    the result that replaces a variable, or of each part of a tuple.
    """

    parameters: Sequence[Any]
    steps: Sequence[KernelStep]
    arguments: Sequence[RelaxExpr]
    types: Sequence[Any]
    results: Mapping[RelaxVar, int | tuple[int, ...]]

    @property
    def key(self) -> Key:
        """Equal for functions that compute the same from equal parameters."""
        types = [(tuple(map(int, each.shape)), str(each.dtype)) for each in self.parameters]
        return tuple(self.steps), tuple(types)

    @cached_property
    def function(self) -> PrimFunc:
        """The call as a function for CPUs."""
        body = []
        for step in self.steps:
            pointers = [self._expression(operand) for operand in step.operands]
            code = tirx.call_extern("int32", step.kernel, *pointers)
            body.append(tirx.IfThenElse(code != 0, tirx.Evaluate(_FAILED), None))
        whole = tirx.SeqStmt(body) if len(body) > 1 else body[0]
        return tirx.PrimFunc(list(self.parameters), whole)

    def _expression(self, pointer: Pointer) -> Any:
        buffer = self.parameters[pointer.parameter]
        if not pointer.offset:
            return buffer.data
        return tirx.address_of(buffer[tirx.IntImm("int64", pointer.offset)])


class Line:
    """Consecutive bindings, each a call of one of ``functions`` or a name of results.

    The functions have static shapes; ``symbols`` are their names in the object code. Parameters
    after the results are workspace.
    """

    def __init__(
        self, functions: Mapping[GlobalVar, PrimFunc], symbols: Mapping[GlobalVar, str]
    ) -> None:
        self.bindings: list[Binding] = []
        self.steps: list[Step] = []
        self._functions = functions
        self._symbols = symbols
        self._values: dict[RelaxVar, Buffer | tuple[Buffer, ...]] = {}
        self._inputs: dict[RelaxExpr, Buffer] = {}
        self._constants: dict[int, Buffer] = {}
        # types in Relax, and buffers in TIR, of all but constants
        self._types: dict[Buffer, Any] = {}
        self._parameters: dict[Buffer, Any] = {}

    def take(self, binding: Binding) -> bool:
        """Add a binding, if it is such a call, its result, or a part of its result."""
        value = binding.value
        if not isinstance(binding, relax.VarBinding):
            return False  # a cast, which checks or names a shape
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._values:
            whole = self._values[value.tuple_value]
            assert isinstance(whole, tuple)
            self._values[binding.var] = whole[int(value.index)]
        elif isinstance(value, relax.Var) and value in self._values:
            self._values[binding.var] = self._values[value]
        elif is_plain(value) and value.args[0] in self._symbols:
            self._values[binding.var] = self._call(value)
        else:
            return False
        self.bindings.append(binding)
        return True

    def _call(self, call: Any) -> Buffer | tuple[Buffer, ...]:
        function, arguments = call.args
        parameters = list(self._functions[function].params)
        given = list(arguments.fields)
        operands = [
            self._operand(expr, parameter)
            for expr, parameter in zip(given, parameters, strict=False)
        ]
        results = []
        (kind,) = call.ty_args
        several = isinstance(kind, relax.TupleType)
        kinds = list(kind.fields) if several else [kind]
        own = parameters[len(given) :]
        for parameter, each in zip(own, kinds, strict=False):
            results.append(Buffer(byte_size(parameter)))
            self._types[results[-1]], self._parameters[results[-1]] = each, parameter
        workspace = [Buffer(byte_size(parameter)) for parameter in own[len(kinds) :]]
        record = KernelCall("", self._symbols[function], "")
        self.steps.append(Step(function, record, operands, [*results, *workspace]))
        return tuple(results) if several else results[0]

    def _operand(self, expr: RelaxExpr, parameter: Any) -> Buffer:
        known = self._values.get(expr) if isinstance(expr, relax.Var) else None
        if isinstance(known, Buffer):
            return known
        if isinstance(expr, ir.GenericConst):
            # the same array once, however often it is wrapped
            buffer = Buffer(byte_size(parameter), Place.CONSTANT, data=expr.value)
            return self._constants.setdefault(hash(expr.value), buffer)
        if expr not in self._inputs:
            buffer = Buffer(byte_size(parameter), Place.INPUT, len(self._inputs))
            self._inputs[expr], self._parameters[buffer] = buffer, parameter
        return self._inputs[expr]

    def join(self, read: Iterable[RelaxVar]) -> Joined:
        """Plan the memory and write the function; ``read`` are the variables with other readers."""
        outputs: dict[Buffer, int] = {}
        results: dict[RelaxVar, int | tuple[int, ...]] = {}
        for var in read:
            value = self._values[var]
            parts = value if isinstance(value, tuple) else (value,)
            for part in parts:
                part.place, part.index = Place.OUTPUT, outputs.setdefault(part, len(outputs))
            places = tuple(outputs[part] for part in parts)
            results[var] = places if isinstance(value, tuple) else places[0]
        arguments, types = list(self._inputs), [self._types[buffer] for buffer in outputs]
        order: list[Buffer | Place] = [*self._inputs.values(), *outputs]
        sizes: dict[Place, int] = {}
        pool = ConstantPool()
        pool.place(self.steps)
        if pool.constants:
            order.insert(len(arguments), Place.CONSTANT)
            arguments.append(relax.const(np.concatenate(list(pieces(pool.constants)))))
            sizes[Place.CONSTANT] = pool.bytes
        arena = place_in_arena(self.steps)
        if arena.bytes:
            order.append(Place.ARENA)
            types.append(relax.TensorType((arena.bytes,), "uint8"))
            sizes[Place.ARENA] = arena.bytes
        index = {key: number for number, key in enumerate(order)}

        def parameter(key: Buffer | Place) -> Any:
            if isinstance(key, Place):
                return tirx.decl_buffer((sizes[key],), "uint8", key.value)
            known = self._parameters[key]
            return tirx.decl_buffer(known.shape, str(known.dtype), f"{key.place.value}{key.index}")

        def pointer(buffer: Buffer) -> Pointer:
            if buffer in index:
                return Pointer(index[buffer], 0)
            if not buffer.bytes:
                return Pointer(len(order) - 1, 0)
            return Pointer(index[buffer.place], buffer.offset)

        steps = [
            KernelStep(step.record.kernel, tuple(map(pointer, step.buffers))) for step in self.steps
        ]
        return Joined([parameter(key) for key in order], steps, arguments, types, results)


def is_plain(call: Any) -> bool:
    """Whether an expression is a ``call_tir`` without symbolic arguments."""
    return (
        isinstance(call, ir.Call)
        and getattr(call.op, "name", "") == "relax.call_tir"
        and len(call.args) == 2
    )
