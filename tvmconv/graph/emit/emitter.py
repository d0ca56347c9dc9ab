"""Writes a planned graph as Relax calls of tensor-expression functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tvmconv.core.datatypes import itemsize
from tvmconv.graph.ir import Arg, Array, Node, Value
from tvmconv.graph.layout import LayoutPlan
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.device import Device
from tvmconv.machines.record import processor
from tvmconv.operators.layout import from_blocked, to_blocked
from tvmconv.tir.annotations import ORIGIN
from tvmconv.tvm_api import relax, topi
from tvmconv.tvm_api.ir import Call, Constant
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import BlockBuilder, GlobalVar, PrimFunc, RelaxExpr, Tensor


@dataclass(frozen=True)
class CallRecord:
    """Describes the call bound to one variable; ``note`` is a remark for reports."""

    layer: str
    operator: str
    workload: str = ""
    flops: int = 0
    note: str = ""


class Emitter:
    """State while one graph is written; rules in the modules of this folder add the calls.

    The builder is inside a dataflow block. ``kernels`` are functions in its module, by kernel, and
    ``records`` describe calls, by variable; new ones are added. ``shares`` is whether
    :mod:`tvmconv.program` plans the memory. It lets concatenations and slices share buffers, so
    these are not merged with other operators.
    """

    def __init__(
        self,
        builder: BlockBuilder,
        machine: Device,
        plan: LayoutPlan,
        kernels: dict[Kernel, GlobalVar] | None = None,
        records: dict[str, CallRecord] | None = None,
        *,
        shares: bool = False,
    ) -> None:
        self.builder = builder
        self.machine = machine
        self.plan = plan
        self.shares = shares
        self.plain: dict[Value, RelaxExpr] = {}
        self.blocked: dict[Value, RelaxExpr] = {}
        self.records = {} if records is None else records
        self.kernels = {} if kernels is None else kernels
        self.reorders = 0
        self.padding_bytes = 0

    @property
    def lanes(self) -> int:
        """Channels in one block."""
        return self.machine.channel_block

    @property
    def row_lanes(self) -> int:
        """Values in a vector along an axis of any length; 0 if vectors have no known length."""
        machine = self.machine
        if not machine.runs_along_axes or processor(machine).vector.scalable:
            return 0
        return processor(machine).lanes

    def bind(self, expr: RelaxExpr, record: CallRecord) -> RelaxExpr:
        """Bind an expression to a new variable and remember what it computes."""
        name = f"{record.operator.replace('.', '_')}_{len(self.records)}"
        self.records[name] = record
        return self.builder.emit(expr, name_hint=name)

    def call(
        self,
        expression: Callable[..., Tensor | list[Tensor]],
        args: list[RelaxExpr],
        record: CallRecord,
        *,
        opaque: bool = False,
        name: str = "",
        attrs: Mapping[str, int] | None = None,
    ) -> RelaxExpr:
        """Call a function given as a tensor expression of its arguments."""
        hint = name or record.operator.replace(".", "_")
        attrs = {**(attrs or {}), **({"op_pattern": OPAQUE} if opaque else {})}
        call = self.builder.call_te(
            expression, *args, primfunc_name_hint=hint, primfunc_attrs=attrs
        )
        return self.bind(call, record)

    def parts(self, results: RelaxExpr, count: int, record: CallRecord) -> list[RelaxExpr]:
        """The first elements of a tuple, each bound to a variable."""
        return [self.bind(relax.TupleGetItem(results, index), record) for index in range(count)]

    def give(self, node: Node, result: RelaxExpr, record: CallRecord) -> None:
        """Give the only output of a node its result, or each output its element of a tuple."""
        count = len(node.outputs)
        parts = [result] if count == 1 else self.parts(result, count, record)
        self.plain.update(zip(node.outputs, parts, strict=True))

    def reshape(self, expr: RelaxExpr, shape: tuple[int, ...], layer: str = "") -> RelaxExpr:
        """A view of the same memory with another shape."""
        # opaque: functions that are not merged are later recognized as views
        return self.call(
            lambda x: topi.reshape(x, shape), [expr], CallRecord(layer, "reshape"), opaque=True
        )

    def as_plain(self, value: Value) -> RelaxExpr:
        """The value in its logical shape."""
        if value not in self.plain:
            self.plain[value] = self._make_plain(value)
        return self.plain[value]

    def operand(self, value: Value, blocked: bool) -> RelaxExpr:
        """The value in one of both layouts."""
        return self.as_blocked(value) if blocked else self.as_plain(value)

    def define(self, value: Value, expr: RelaxExpr, blocked: bool) -> None:
        """Record a result in one of both layouts."""
        if blocked:
            self.set_blocked(value, expr)
        else:
            self.plain[value] = expr

    def has_blocks_only(self, value: Value) -> bool:
        """Whether a value is blocked and was not converted."""
        return value in self.blocked and value not in self.plain

    def _make_plain(self, value: Value) -> RelaxExpr:
        if value.data is not None:
            return constant_of(value.data, value.dtype)
        if value in self.blocked:
            shape, record = value.dims, CallRecord("", "reorder")
            if _is_vector(shape) and shape[1] % self.lanes == 0:
                return self.reshape(self.blocked[value], shape)
            self.reorders += 1
            return self.call(
                lambda x: from_blocked(x, shape[1]), [self.blocked[value]], record, opaque=True
            )
        made = value.producer
        assert made is not None and made.op == "reshape", f"{value.name} was never computed"
        return self._reshaped(made)

    def _reshaped(self, node: Node) -> RelaxExpr:
        """A reshape, emitted before the first use of its result in the plain layout."""
        source, shape = node.args[0], node.output.dims
        unpadded = source in self.blocked and _is_vector(source.dims)
        if unpadded and source not in self.plain and source.dims[1] % self.lanes == 0:
            return self.reshape(self.blocked[source], shape, node.layer)
        return self.reshape(self.as_plain(source), shape, node.layer)

    def as_blocked(self, value: Value) -> RelaxExpr:
        """The value as (N, ceil(C/c), H, W, c)."""
        if value not in self.blocked:
            self.blocked[value] = self._make_blocked(value)
        return self.blocked[value]

    def _make_blocked(self, value: Value) -> RelaxExpr:
        if value.data is not None:
            return constant_of(block_channels(value.data, self.lanes), value.dtype)
        n, channels, height, width = value.dims
        self.count_padding(value)
        if _is_vector(value.dims) and channels % self.lanes == 0:
            shape = (n, channels // self.lanes, height, width, self.lanes)
            return self.reshape(self.as_plain(value), shape)
        self.reorders += 1
        record = CallRecord("", "reorder")
        return self.call(
            lambda x: to_blocked(x, self.lanes), [self.as_plain(value)], record, opaque=True
        )

    def count_padding(self, value: Value) -> None:
        """Add the unused lanes of a blocked value to the reported overhead."""
        n, channels, height, width = value.dims
        surplus = self.machine.blocks(channels) * self.lanes - channels
        self.padding_bytes += itemsize(value.dtype) * n * surplus * height * width

    def set_blocked(self, value: Value, expr: RelaxExpr) -> None:
        """Record a result in the blocked layout."""
        self.blocked[value] = expr
        self.count_padding(value)

    def expression_of(self, arg: Arg) -> RelaxExpr:
        """A Relax expression for an argument in the plain layout."""
        if isinstance(arg, Value):
            return self.as_plain(arg)
        if isinstance(arg, list):
            return relax.Tuple([self.expression_of(item) for item in arg])
        return arg

    def kernel_function(self, kernel: Kernel) -> GlobalVar:
        """The ``GlobalVar`` of a layer's kernel, added to the module on first use."""
        if kernel not in self.kernels:
            kind = "depthwise_" if kernel.workload.is_depthwise else "conv2d_"
            kind = "" if kernel.workload.is_matrix else kind
            symbol = f"{kind}{kernel.algorithm}_{len(self.kernels)}"
            self.kernels[kernel] = self.builder.add_func(scheduled(kernel), symbol)
        return self.kernels[kernel]

    def original(self, node: Node) -> RelaxExpr:
        """The Relax call of a node, with the present arguments."""
        call = node.call
        args = [self.expression_of(arg) for arg in node.args]
        if isinstance(call, Call):
            return Call(call.op, args, call.attrs, call.ty_args)
        if isinstance(call, relax.TupleGetItem):
            return relax.TupleGetItem(args[0], call.index)
        return call


EXTREMES = ("maximum", "minimum")


def extreme(builder: BlockBuilder, op: str, left: RelaxExpr, right: RelaxExpr) -> RelaxExpr:
    """``maximum`` or ``minimum`` of two Relax tensors that keeps the NaN of either.

    A constant goes first: compiled code returns the second operand where one is NaN.
    """
    function = getattr(relax.op, op)
    if _is_number(right):
        return function(right, left)
    if _is_number(left):
        return function(left, right)
    # the left operand may be a chain: if it were read twice, the merged function would double with
    # each operand
    ordered = builder.emit(function(right, left))
    return relax.op.where(builder.emit(relax.op.isnan(right)), right, ordered)


def _is_number(expr: RelaxExpr) -> bool:
    """Whether an operand is a constant without NaN."""
    return isinstance(expr, Constant) and not np.isnan(expr.value.numpy()).any()


@lru_cache(maxsize=512)
def scheduled(kernel: Kernel) -> PrimFunc:
    """A kernel's function, scheduled once per process and problem."""
    func = kernel.prim_func("kernel").without_attr("global_symbol")
    func = func.with_attr(ORIGIN, repr((kernel.workload, kernel.algorithm, kernel.config)))
    return func.with_attr("op_pattern", OPAQUE)


def constant_of(data: Array, dtype: str) -> RelaxExpr:
    """A Relax constant of an array."""
    if dtype == "float32":
        return relax.const(as_float32(data), dtype)
    return relax.const(np.asarray(data, order="C"), dtype)


def block_channels(data: Array, lanes: int, fill: float = 0.0) -> Array:
    """A constant of rank 4 or lower with its channels blocked.

    An array with one channel gets a trailing axis of size 1, so that it still broadcasts.
    """
    full = data.reshape((1,) * (4 - data.ndim) + data.shape)
    n, channels, height, width = full.shape
    if channels == 1:
        return full[..., None]
    blocks = -(-channels // lanes)
    # derived numbers are float64 until they are emitted
    dtype = np.float32 if data.dtype.kind == "f" else data.dtype
    padded = np.full((n, blocks * lanes, height, width), fill, dtype)
    padded[:, :channels] = full
    split = padded.reshape(n, blocks, lanes, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def _is_vector(shape: tuple[int, ...]) -> bool:
    """(N, C, 1, 1): blocked and plain order agree where whole blocks are filled."""
    return len(shape) == 4 and shape[2:] == (1, 1)


Rule = Callable[[Emitter, Node], None]


def record_of(node: Node, flops: int = 0) -> CallRecord:
    """The record of an operator by its short name."""
    name = node.op.removeprefix("nn.").removeprefix("image.").removeprefix("tvmconv.")
    return CallRecord(node.layer, name, "", flops)


def emit_single(
    emitter: Emitter,
    node: Node,
    expression: Callable[..., Tensor],
    *,
    flops: int = 0,
    opaque: bool = True,
) -> None:
    """Emit an expression of the first argument's blocks."""
    args = [emitter.as_blocked(node.args[0])]
    result = emitter.call(expression, args, record_of(node, flops), opaque=opaque)
    emitter.set_blocked(node.output, result)
