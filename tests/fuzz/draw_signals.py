"""Draws operators of signals, of regions, and of samples at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.draft import Draft, Undrawable


def transform(d: Draft) -> None:
    """DFT along any axis but the last one, of real or complex numbers."""
    parts = d.pick((1, 1, 2))
    shape = [*d.shape(0, 1), d.pick((1, 2, 7, 16, 24)), d.pick((1, 3)), parts]
    x = d.operand(shape, d.pick(("float32", "float32", "float64")))
    given: dict[str, Any] = {"axis": d.generator.randrange(x.rank - 1)}
    if d.opset >= 20:
        given["axis"] = np.array(given["axis"])
    if parts == 1:
        given["onesided"] = d.pick((0, 1))
    if not given.get("onesided"):
        given["inverse"] = d.pick((0, 1))
    if d.chance(0.3):
        given["dft_length"] = np.array(d.pick((4, 9, 70)))
    d.call("DFT", [x], **given)


def frames(d: Draft) -> None:
    """STFT of real signals with a constant window; onnx infers no other default of onesided."""
    length, size = d.pick((8, 16)), d.pick((16, 33, 80))
    x = d.operand((d.pick((1, 2)), size, 1), "float32")
    window = np.hanning(length).astype(np.float32)
    d.call("STFT", [x], frame_step=np.array(d.pick((1, 3, 8))), window=window,
           onesided=d.pick((0, 1)))  # fmt: skip


def table(d: Draft) -> None:
    """Windows, and the matrix of mel weights."""
    op = d.pick(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"))
    if op == "MelWeightMatrix":
        values = [np.array(n) for n in (4, 16, 8192)]
        ends = [np.array(n, np.float32) for n in (0, 4096)]
        d.call(op, [d.constant(value) for value in (*values, *ends)])
    else:
        d.call(op, [d.constant(np.array(d.pick((5, 8))))], periodic=d.pick((0, 1)))


def regions(d: Draft) -> None:
    """RoiAlign, MaxRoiPool."""
    images = d.pick((1, 2))
    x = d.operand((images, d.pick((1, 3, 20)), d.pick((5, 9)), d.pick((4, 8))), "float32")
    count = d.pick((1, 3))
    if d.chance(0.2):
        corner = d.numbers.integers(0, 4, (count, 2)).astype(np.float32)
        rois = np.concatenate([np.zeros((count, 1), np.float32), corner, corner + 3], axis=1)
        d.call("MaxRoiPool", [x, d.constant(rois)], pooled_shape=[2, 3])
        return
    if d.opset < 16:
        raise Undrawable("onnx.reference moves regions")
    given: dict[str, Any] = {"mode": d.pick(("avg", "avg", "max"))}
    if d.chance(0.5):
        given["coordinate_transformation_mode"] = "output_half_pixel"
    rois = d.operand((count, 4), "float32")
    (index,) = d.call("Mod", [d.input((count,), "int64"), d.constant(np.array(images))])
    d.call("RoiAlign", [x, rois, index], output_height=d.pick((1, 3)),
           output_width=d.pick((1, 2)), sampling_ratio=d.pick((0, 1, 2)),
           spatial_scale=d.pick((0.5, 1.0, 3.0)), **given)  # fmt: skip


def deformed(d: Draft) -> None:
    """DeformConv with groups, parts of offsets, and a mask."""
    group, parts = d.pick((1, 1, 2)), d.pick((1, 2))
    x = d.operand((d.pick((1, 2)), 4, d.pick((4, 6)), 5), "float32")
    kernel = d.pick(((1, 1), (2, 3), (3, 3)))
    pad = d.pick((0, 1))
    output = [n + 2 * pad - k + 1 for n, k in zip(x.shape[2:], kernel, strict=True)]
    count = parts * kernel[0] * kernel[1]
    operands = [
        x,
        d.operand((4, 4 // group, *kernel), "float32"),
        d.operand((x.shape[0], 2 * count, *output), "float32"),
        d.operand((4,), "float32") if d.chance(0.5) else None,
        d.operand((x.shape[0], count, *output), "float32") if d.chance(0.5) else None,
    ]
    d.call("DeformConv", operands, kernel_shape=kernel, pads=[pad] * 4, group=group,
           offset_group=parts)  # fmt: skip


STEPS = (transform, transform, frames, table, regions, regions, deformed)
