"""A Relax function of ``call_tir`` s -> :class:`Program` and the functions that it calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tvmconv.core.decision import Decision, KernelCall
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.arena import ArenaPlan
from tvmconv.program.joins import COPY, JOIN, PART, share_buffers
from tvmconv.program.kernels import Kernels, check_self_contained
from tvmconv.program.names import Names
from tvmconv.program.nesting import form_of, nested_symbols
from tvmconv.program.places import (
    Buffer,
    ConstantPool,
    NestedSteps,
    Step,
    place_in_arena,
    place_outputs,
)
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

    Takes the arguments of :meth:`Collection.add`. The program comes with a ``tvm.IRModule`` of the
    functions that it calls, each with its symbol.
    """
    collection = Collection()
    collection.add(mod, inputs, outputs, calls, decisions)
    return collection.program(), collection.functions()


class Collection:
    """Programs of one network for several shapes, which share constants and functions.

    The collection of another target shares the constants of a ``first`` one. Symbols of its
    functions differ from all others.
    """

    def __init__(self, first: Collection | None = None) -> None:
        self._kernels: Kernels = Kernels(first._kernels if first else None)
        self._pool: ConstantPool = first._pool if first else ConstantPool()
        self._programs: list[Program] = []

    def add(
        self,
        mod: Any,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        calls: Iterable[KernelCall] = (),
        decisions: Iterable[Decision] = (),
    ) -> tuple[Decision, ...]:
        """Add the program of a module; returns the decisions with the symbols of their kernels.

        Raises ``ModelError`` if an operator has no function, or its function needs TVM at run time.

        ``mod`` is as :func:`tvmconv.compile.network.scheduled` makes it. ``inputs`` and ``outputs``
        are the parameters and results of ``main``. ``calls`` describe the calls; descriptions of
        one function are in the order of its calls. ``decisions`` give the algorithms of calls.
        """
        main = _Source(mod, calls).read("main")
        # the sizes of outputs that vary follow the outputs
        sizes = sum(output.varying is not None for output in outputs)
        if (len(main.inputs), len(main.results)) != (len(inputs), len(outputs) + sizes):
            raise ValueError(f"main does not have {len(inputs)} inputs and {len(outputs)} outputs")
        steps, arena = _placed(main)
        every = [each for step in steps for each in step.all_steps()]
        decisions = tuple(decisions)
        algorithms = {decision.kernel: decision.chosen.algorithm for decision in decisions}
        symbols: dict[Any, str] = {}
        for step in every:
            if step.function is not None and step.function not in symbols:
                func = mod[step.function]
                check_self_contained(func, step.record)
                symbols[step.function] = self._kernels.add(step.function, func, algorithms)
        self._pool.place(every)
        finished = NestedSteps(tuple(inputs), tuple(outputs), steps, arena)
        self._programs.append(Names(symbols, algorithms).program(finished))
        named = {str(var.name_hint): symbol for var, symbol in symbols.items()}
        return tuple(replace(d, kernel=named.get(d.kernel, d.kernel)) for d in decisions)

    def program(self, order: Sequence[int] = (0,)) -> Program:
        """The programs in this order of their additions; ``workspace_bytes`` is still 0."""
        first, *others = (self._programs[index] for index in order)
        return replace(
            first,
            constants=tuple(self._pool.constants),
            constant_bytes=self._pool.bytes,
            others=tuple(others),
        )

    def functions(self) -> Any:
        """A ``tvm.IRModule`` of the functions that the programs call, each with its symbol."""
        functions = self._kernels.functions
        return ir.IRModule({ir.GlobalVar(symbol): func for symbol, func in functions.items()})


def _placed(reader: _BufferReader) -> tuple[list[Step], ArenaPlan]:
    """The steps of a function that was read, with places in the arena, and the arena."""
    copies = place_outputs(reader.results)
    steps = share_buffers(_needed(reader.steps, reader.results)) + copies
    return steps, place_in_arena(steps)


class _Source:
    """The module, and what its functions share: constants, and the descriptions of calls."""

    def __init__(self, mod: Any, calls: Iterable[KernelCall]) -> None:
        self.mod = mod
        self.constants: dict[int, Buffer] = {}
        self._records: dict[str, deque[KernelCall]] = {}
        for call in calls:
            self._records.setdefault(call.kernel, deque()).append(call)

    def read(self, name: str) -> _BufferReader:
        """Follow the bindings of one function."""
        return _BufferReader(self, self.mod[name])

    def record(self, symbol: str) -> KernelCall:
        """The description of the next call of a function."""
        known = self._records.get(symbol)
        return known.popleft() if known else KernelCall("", symbol, symbol)


class _BufferReader:
    """Follows the bindings of one function."""

    def __init__(self, source: _Source, function: Any) -> None:
        self._source = source
        self.inputs: list[Buffer] = []
        self.steps: list[Step] = []
        self._values: dict[Any, _Value] = {}
        for index, var in enumerate(function.params):
            self.inputs.append(Buffer(tensor_bytes(var.ty), Place.INPUT, index))
            self._values[var] = self.inputs[-1]
        for block in function.body.blocks:
            for binding in block.bindings:
                self._values[binding.var] = self._bound(binding)
        self.results = _flat(self._value(function.body.body))

    def _bound(self, binding: Any) -> _Value:
        value = binding.value
        if not isinstance(value, ir.Call):
            return self._value(value)
        name = str(getattr(value.op, "name", value.op))
        if name == "relax.reshape":
            return self._value(value.args[0])
        if symbols := nested_symbols(value):
            return self._nested(value, symbols)
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
        attrs = self._source.mod[function].attrs or {}
        # TVM marks a slice of the first elements as a reshape, too
        if VIEW in attrs and operands[0].bytes == results[0].bytes:
            return operands[0]
        # GPU only: parameters after the results are workspace
        own = self._source.mod[function].params[len(operands) + len(results) :]
        workspace = [Buffer(_bytes(buffer.shape, buffer.dtype)) for buffer in own]
        record = replace(self._source.record(function.name_hint), check=str(attrs.get(CHECK, "")))
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

    def _nested(self, call: Any, symbols: Sequence[str]) -> _Value:
        """A call that runs nested programs."""
        called, arguments = call.args
        (kind,) = call.ty_args
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        results = [Buffer(tensor_bytes(each)) for each in kinds]
        record = self._source.record(str(called.global_symbol))
        functions = [self._source.mod[symbol] for symbol in symbols]
        nested = tuple(self._nested_steps(symbol) for symbol in symbols)
        form = form_of(functions[0])
        memory = [Buffer(max(program.arena.bytes for program in nested))]
        if form is not None:
            states = [Buffer(result.bytes) for result in results[: form.states]]
            memory = [*states, *([Buffer(1)] if form.ends else []), *memory]
        self.steps.append(
            Step(
                None,
                record,
                _flat(self._value(arguments)),
                [*results, *memory],
                nested=nested,
                form=form,
            )
        )
        return tuple(results) if isinstance(kind, relax.TupleType) else results[0]

    def _nested_steps(self, symbol: str) -> NestedSteps:
        function = self._source.mod[symbol]
        inputs = tuple(_tensor_info(str(var.name), var.ty) for var in function.params)
        kind = function.body.body.ty
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        outputs = tuple(_tensor_info(f"output{i}", each) for i, each in enumerate(kinds))
        return NestedSteps(inputs, outputs, *_placed(self._source.read(symbol)))

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
            constants = self._source.constants
            if key not in constants:
                constants[key] = Buffer(tensor_bytes(expr.ty), Place.CONSTANT, data=data)
            return constants[key]
        return self._values[expr]


def _flat(value: _Value) -> list[Buffer]:
    if isinstance(value, Buffer):
        return [value]
    return [buffer for item in value for buffer in _flat(item)]


def _tensor_info(name: str, kind: Any) -> TensorInfo:
    return TensorInfo(name, tuple(int(size) for size in kind.shape.values), str(kind.dtype))


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
