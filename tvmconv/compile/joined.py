"""One call in place of consecutive calls in a Relax function.

TVM's virtual machine spends about 2.5 microseconds on each call of a kernel in a network. It makes
a tensor, checks the arguments field by field, and releases the tensor. Tensors that it allocates
one by one also start at the same offset in a page, so stores and loads of adjacent tensors alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmconv.compile.weights import pieces
from tvmconv.core.decision import KernelCall
from tvmconv.program.places import Buffer, ConstantPool, Step, place_in_arena
from tvmconv.program.program import Place
from tvmconv.tir.general.rewrite import byte_size
from tvmconv.tvm_api import ir, relax, tirx
from tvmconv.tvm_api.types import Binding, GlobalVar, IRModule, PrimFunc, RelaxExpr, RelaxVar

# raises the error that the failing function has set
_FAILED = tirx.call_intrin("int32", "tirx.tvm_throw_last_error")


@dataclass(frozen=True)
class Joined:
    """The one call that replaces a sequence of calls.

    The parameters of ``function`` are the tensors from outside, one block of all constants, the
    results, and memory for intermediate tensors. ``arguments`` and ``types`` are arguments of
    ``call_dps_packed``. ``results`` has the index of the result that replaces a variable, or of
    each part of a tuple. ``key`` is equal for functions that compute the same.
    """

    function: PrimFunc
    arguments: Sequence[RelaxExpr]
    types: Sequence[Any]
    results: Mapping[RelaxVar, int | tuple[int, ...]]
    key: str


class Line:
    """Consecutive bindings, each a call of a function of ``mod`` or a name of results.

    The functions have static shapes; ``symbols`` are their names in the object code.
    """

    def __init__(self, mod: IRModule, symbols: Mapping[GlobalVar, str]) -> None:
        self.bindings: list[Binding] = []
        self.steps: list[Step] = []
        self._mod = mod
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
        parameters = list(self._mod[function].params)
        given = list(arguments.fields)
        operands = [
            self._operand(expr, parameter)
            for expr, parameter in zip(given, parameters, strict=False)
        ]
        results = []
        (kind,) = call.ty_args
        several = isinstance(kind, relax.TupleType)
        kinds = list(kind.fields) if several else [kind]
        for parameter, each in zip(parameters[len(given) :], kinds, strict=True):
            results.append(Buffer(byte_size(parameter)))
            self._types[results[-1]], self._parameters[results[-1]] = each, parameter
        record = KernelCall("", self._symbols[function], "")
        self.steps.append(Step(function, record, operands, results))
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
        tensors = {
            buffer: tirx.decl_buffer(
                self._parameters[buffer].shape,
                str(self._parameters[buffer].dtype),
                f"{buffer.place.value}{buffer.index}",
            )
            for buffer in (*self._inputs.values(), *outputs)
        }
        arguments = list(self._inputs)
        parameters = [tensors[buffer] for buffer in self._inputs.values()]
        types = [self._types[buffer] for buffer in outputs]
        pool = ConstantPool()
        pool.place(self.steps)
        blocks = {}
        if pool.constants:
            arguments.append(relax.const(np.concatenate(list(pieces(pool.constants)))))
            blocks[Place.CONSTANT] = tirx.decl_buffer((pool.bytes,), "uint8", "constants")
            parameters.append(blocks[Place.CONSTANT])
        parameters += [tensors[buffer] for buffer in outputs]
        arena = place_in_arena(self.steps)
        if arena.bytes:
            types.append(relax.TensorType((arena.bytes,), "uint8"))
            blocks[Place.ARENA] = tirx.decl_buffer((arena.bytes,), "uint8", "arena")
            parameters.append(blocks[Place.ARENA])

        def pointer(buffer: Buffer) -> Any:
            if buffer in tensors:
                return tensors[buffer].data
            if not buffer.bytes:
                return parameters[-1].data
            return tirx.address_of(blocks[buffer.place][tirx.IntImm("int64", buffer.offset)])

        body = []
        for step in self.steps:
            pointers = map(pointer, step.buffers)
            code = tirx.call_extern("int32", step.record.kernel, *pointers)
            body.append(tirx.IfThenElse(code != 0, tirx.Evaluate(_FAILED), None))
        function = tirx.PrimFunc(parameters, tirx.SeqStmt(body) if len(body) > 1 else body[0])
        key = "\n".join(
            " ".join([step.record.kernel, *map(str, map(Buffer.as_operand, step.buffers))])
            for step in self.steps
        )
        return Joined(function, arguments, types, results, key)


def is_plain(call: Any) -> bool:
    """Whether an expression is a ``call_tir`` without symbolic arguments."""
    return (
        isinstance(call, ir.Call)
        and getattr(call.op, "name", "") == "relax.call_tir"
        and len(call.args) == 2
    )
