"""The convolution problem: one frozen record, one text form, one JSON form.

The text form follows benchdnn's problem strings and is what errors, test names, log
records and the command line show:

``mb1ic64ih56iw56oc64oh56ow56kh3kw3ph1pw1+bias+add+relu``

Marks of plain input and of types other than FP32 follow the sizes: ``:nchw:u8s8s32u8``. A fully
connected layer is a convolution of images of one pixel, one for each row: ``mb8ic64ih1oc10kh1:nc``.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from math import prod
from typing import Any

from .datatypes import FLOAT32, DataTypes
from .epilogue_op import QUANTISE, EpilogueOp, parse_step
from .errors import WorkloadError

# layouts of inputs without channel blocks
PLAIN = ("NCHW", "NHWC")
# layout of a fully connected layer, whose output has no channel blocks either
MATRIX = "NC"


@dataclass(frozen=True)
class Conv2dWorkload:
    """A convolution of images with its fused epilogue.

    Logical shapes are NCHW and OIHW; sizes in elements. ``dilation`` 1 means dense.
    ``data_layout`` is the layout in which the kernel reads its input. It is ``"NCHWc"`` (channel
    blocks of the machine's block size), or for first layers plain, ``"NCHW"`` or ``"NHWC"``. The
    output is ``NCHWc``. Fully connected layers have ``"NC"``: input ``(batch, in_channels)`` and
    output ``(batch, out_channels)`` are plain matrices. ``types`` are the tensors' types, with
    the kind of quantization. ``epilogue`` steps run in order on the accumulator.

    A 3-D convolution sums 2-D convolutions of adjacent planes. ``in_depth`` consecutive images of
    the batch are the planes of one volume, and ``batch`` counts volumes. :attr:`data_shape` and
    the properties after it are the shapes of such arrays.
    """

    batch: int
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    kernel_h: int
    kernel_w: int
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    pad_bottom: int = 0
    pad_right: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    groups: int = 1
    types: DataTypes = FLOAT32
    data_layout: str = "NCHWc"
    epilogue: tuple[EpilogueOp, ...] = ()
    in_depth: int = 1
    kernel_d: int = 1
    stride_d: int = 1
    pad_front: int = 0
    pad_back: int = 0
    dilation_d: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type != "int":
                continue
            low = 0 if field.name.startswith("pad_") else 1
            if not isinstance(value, int) or not low <= value < 2**31:
                raise WorkloadError(f"{field.name}={value!r} must be an integer of {low} or more")
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise WorkloadError(
                f"groups={self.groups} must divide in_channels={self.in_channels} "
                f"and out_channels={self.out_channels}"
            )
        if self.data_layout not in ("NCHWc", *PLAIN, MATRIX):
            known = ", ".join(("NCHWc", *PLAIN, MATRIX))
            raise WorkloadError(f"data_layout={self.data_layout!r} must be one of {known}")
        if min(self.out_depth, self.out_height, self.out_width) < 1:
            depth = f"{self.out_depth}x" if self.is_volume else ""
            raise WorkloadError(
                f"the output of {self} would be {depth}{self.out_height}x{self.out_width}; "
                "the kernel does not fit the padded input"
            )
        if self.is_matrix and (self.taps, self.data_shape[2:]) != (self.in_channels, (1, 1)):
            raise WorkloadError(
                f"{self} is not a fully connected layer. Expected ih1iw1, kh1kw1 and one group for "
                ":nc."
            )
        kinds = [op.kind for op in self.epilogue]
        if kinds.count("bias") > 1 or kinds.count("add") > 1:
            raise WorkloadError("an epilogue holds at most one 'bias' and one 'add'")
        self._check_steps(kinds)

    def _check_steps(self, kinds: list[str]) -> None:
        """Check that integer sums have their bias first, and round to 8 bits only."""
        types = self.types
        if types.data == "int16":
            raise WorkloadError(
                f"unsupported types {types} of a convolution: 16-bit data. Expected 8-bit data, "
                "such as u8s8s32u8. Use a matrix product for 16-bit data."
            )
        if QUANTISE in kinds and not types.is_requantised:
            raise WorkloadError(f"a {QUANTISE!r} step needs 8-bit output; the types are {types}")
        if types.is_integer and "bias" in kinds[1:]:
            raise WorkloadError(f"'bias' is the first step of integer sums, unlike in {kinds}")

    @property
    def is_matrix(self) -> bool:
        """Whether it is a fully connected layer, a matrix times constant weights."""
        return self.data_layout == MATRIX

    @property
    def is_volume(self) -> bool:
        """Whether planes depend on each other: a 3-D convolution."""
        own = (self.in_depth, self.kernel_d, self.stride_d, self.dilation_d)
        return own != (1, 1, 1, 1) or bool(self.pad_front or self.pad_back)

    @property
    def out_depth(self) -> int:
        """Planes of one output volume; 1 for images."""
        span = (self.kernel_d - 1) * self.dilation_d + 1
        return (self.in_depth + self.pad_front + self.pad_back - span) // self.stride_d + 1

    @property
    def out_planes(self) -> int:
        """Images of the output, in all volumes of the batch."""
        return self.batch * self.out_depth

    @property
    def data_shape(self) -> tuple[int, int, int, int]:
        """``(N * D, C, H, W)`` of the plain input."""
        return (self.batch * self.in_depth, self.in_channels, self.in_height, self.in_width)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """``(K, C / groups, T * R, S)`` of the plain weight, ``T`` taps along the depth."""
        rows = self.kernel_d * self.kernel_h
        return (self.out_channels, self.in_channels // self.groups, rows, self.kernel_w)

    @property
    def result_shape(self) -> tuple[int, int, int, int]:
        """``(N * OD, K, OH, OW)`` of the plain output and of a residual."""
        return (self.out_planes, self.out_channels, self.out_height, self.out_width)

    @property
    def taps(self) -> int:
        """Products that each output value sums, those in the padding counted."""
        rows = self.kernel_d * self.kernel_h
        return self.in_channels // self.groups * rows * self.kernel_w

    @property
    def out_height(self) -> int:
        """Rows of the output."""
        span = (self.kernel_h - 1) * self.dilation_h + 1
        return (self.in_height + self.pad_top + self.pad_bottom - span) // self.stride_h + 1

    @property
    def out_width(self) -> int:
        """Columns of the output."""
        span = (self.kernel_w - 1) * self.dilation_w + 1
        return (self.in_width + self.pad_left + self.pad_right - span) // self.stride_w + 1

    @property
    def is_depthwise(self) -> bool:
        """One input and one output channel per group."""
        return self.groups == self.in_channels == self.out_channels and self.groups > 1

    @property
    def has_padding(self) -> bool:
        """Any of a plane's four paddings is non-zero."""
        return bool(self.pad_top or self.pad_left or self.pad_bottom or self.pad_right)

    @property
    def reads_padding(self) -> bool:
        """Any padding at all, also before or after a volume."""
        return self.has_padding or bool(self.pad_front or self.pad_back)

    @property
    def macs(self) -> int:
        """MACs of the direct algorithm, including kernel elements in the padding."""
        return prod(self.result_shape) * self.taps

    @property
    def flops(self) -> int:
        """Nominal operations: two per MAC."""
        return 2 * self.macs

    def has(self, kind: str) -> bool:
        """Whether the epilogue holds a step of this kind."""
        return any(op.kind == kind for op in self.epilogue)

    def with_epilogue(self, *ops: EpilogueOp) -> Conv2dWorkload:
        """The same convolution with another epilogue."""
        return replace(self, epilogue=tuple(ops))

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` restores an equal workload."""
        data = asdict(self)
        if not self.is_volume:
            data = {key: value for key, value in data.items() if key not in _DEPTH_FIELDS}
        data["epilogue"] = [str(op) for op in self.epilogue]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Conv2dWorkload:
        """Inverse of :meth:`to_json`."""
        data = dict(data)
        # workloads of older versions had no other type
        if data.get("dtype") == "float32":
            del data["dtype"]
        known = {f.name for f in fields(cls)}
        if unknown := set(data) - known:
            raise WorkloadError(f"unknown workload field(s): {', '.join(sorted(unknown))}")
        steps = tuple(parse_step(text) for text in data.get("epilogue", ()))
        types = DataTypes.from_json(data.get("types", {}))
        return cls(**{**data, "epilogue": steps, "types": types})

    def __str__(self) -> str:
        parts = [f"g{self.groups}"] if self.groups > 1 else []
        deep = self.is_volume
        parts += [
            f"mb{self.batch}ic{self.in_channels}",
            f"id{self.in_depth}" if deep else "",
            f"ih{self.in_height}iw{self.in_width}oc{self.out_channels}",
            f"od{self.out_depth}" if deep else "",
            f"oh{self.out_height}ow{self.out_width}",
            f"kd{self.kernel_d}" if deep else "",
            f"kh{self.kernel_h}kw{self.kernel_w}",
        ]
        if self.stride_d != 1:
            parts.append(f"sd{self.stride_d}")
        if (self.stride_h, self.stride_w) != (1, 1):
            parts.append(f"sh{self.stride_h}sw{self.stride_w}")
        if self.pad_front == self.pad_back != 0:
            parts.append(f"pd{self.pad_front}")
        elif self.pad_front != self.pad_back:
            parts.append(f"pf{self.pad_front}pk{self.pad_back}")
        if self.has_padding:
            if (self.pad_top, self.pad_left) == (self.pad_bottom, self.pad_right):
                parts.append(f"ph{self.pad_top}pw{self.pad_left}")
            else:
                parts.append(
                    f"pt{self.pad_top}pl{self.pad_left}pb{self.pad_bottom}pr{self.pad_right}"
                )
        if self.dilation_d != 1:
            parts.append(f"dd{self.dilation_d - 1}")
        if (self.dilation_h, self.dilation_w) != (1, 1):
            parts.append(f"dh{self.dilation_h - 1}dw{self.dilation_w - 1}")
        if self.data_layout != "NCHWc":
            parts.append(f":{self.data_layout.lower()}")
        parts.append(self.types.text)
        return "".join(parts) + "".join(f"+{op}" for op in self.epilogue)

    @classmethod
    def parse(cls, text: str) -> Conv2dWorkload:
        """Read the text form.

        ``iw``, ``kw``, ``sw``, ``pw`` and ``dw`` default to the vertical values, ``mb``, ``g``
        and strides to 1, and paddings to 0. ``dh`` and ``dw`` default to 0: they are the extra
        distance between kernel elements, as in benchdnn. ``id``, ``kd``, ``sd``, ``pd`` (or ``pf``
        and ``pk`` for front and back) and ``dd`` describe the depth of a 3-D convolution. Given
        values of ``od``, ``oh`` and ``ow`` are checked.
        """
        match = _TEXT.fullmatch(text)
        # twelve digits already exceed every limit, and int() refuses thousands of them
        tokens = re.findall(r"([a-z]+)(\d{1,12})", match["dims"]) if match else []
        if not match or "".join(k + v for k, v in tokens) != match["dims"]:
            raise WorkloadError(f"cannot read the problem string {text!r}; {_EXAMPLE}")
        values = {key: int(value) for key, value in tokens}
        if unknown := set(values) - _TOKENS:
            raise WorkloadError(f"unknown token(s) {sorted(unknown)} in {text!r}; {_EXAMPLE}")
        if missing := {"ic", "ih", "oc", "kh"} - set(values):
            raise WorkloadError(f"{text!r} lacks {sorted(missing)}; {_EXAMPLE}")
        marks = match["marks"].split(":")[1:]
        plain = [layout for layout in (*PLAIN, MATRIX) if marks[:1] == [layout.lower()]]
        ph = values.get("ph", 0)
        pw = values.get("pw", ph)
        dh = values.get("dh", 0)
        workload = cls(
            batch=values.get("mb", 1),
            in_channels=values["ic"],
            in_height=values["ih"],
            in_width=values.get("iw", values["ih"]),
            out_channels=values["oc"],
            kernel_h=values["kh"],
            kernel_w=values.get("kw", values["kh"]),
            stride_h=values.get("sh", 1),
            stride_w=values.get("sw", values.get("sh", 1)),
            pad_top=values.get("pt", ph),
            pad_left=values.get("pl", pw),
            pad_bottom=values.get("pb", ph),
            pad_right=values.get("pr", pw),
            dilation_h=dh + 1,
            dilation_w=values.get("dw", dh) + 1,
            groups=values.get("g", 1),
            types=DataTypes.parse(marks[len(plain) :]),
            data_layout=plain[0] if plain else "NCHWc",
            epilogue=tuple(parse_step(s) for s in match["epi"].split("+")[1:]),
            in_depth=values.get("id", 1),
            kernel_d=values.get("kd", 1),
            stride_d=values.get("sd", 1),
            pad_front=values.get("pf", values.get("pd", 0)),
            pad_back=values.get("pk", values.get("pd", 0)),
            dilation_d=values.get("dd", 0) + 1,
        )
        for token in ("od", "oh", "ow"):
            actual = getattr(workload, f"out_{_AXES[token[1]]}")
            if values.get(token, actual) != actual:
                raise WorkloadError(f"{text!r}: {token} should be {actual}, not {values[token]}")
        return workload


_TOKENS = {
    *("g", "mb", "ic", "ih", "iw", "oc", "oh", "ow", "kh", "kw", "sh", "sw"),
    *("ph", "pw", "pt", "pl", "pb", "pr", "dh", "dw"),
    *("id", "od", "kd", "sd", "pd", "pf", "pk", "dd"),
}
_AXES = {"d": "depth", "h": "height", "w": "width"}
_DEPTH_FIELDS = ("in_depth", "kernel_d", "stride_d", "pad_front", "pad_back", "dilation_d")
_TEXT = re.compile(r"(?P<dims>[a-z0-9]+)(?P<marks>(:[a-z0-9]+)*)(?P<epi>(\+[^+]+)*)")
_EXAMPLE = "an example is 'mb1ic64ih56oc64kh3ph1+bias+relu'"
