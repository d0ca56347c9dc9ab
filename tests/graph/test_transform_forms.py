"""``SubstituteConv2d`` on layouts and modes that no ONNX model has; the reference is TVM."""

from __future__ import annotations

import tvm
from tvm import relax

from tests.graph.passed import assert_same, tensor, weight
from tvmconv.transform import SubstituteConv2d

op = relax.op


def check_pass(build, *inputs):
    """Compare the results of a dataflow block, which ``build`` emits, with and without the pass."""
    builder = relax.BlockBuilder()
    variables = [tensor(f"x{i}", *shape) for i, shape in enumerate(inputs)]
    with builder.function("main", variables):
        with builder.dataflow():
            results = [builder.emit_output(result) for result in build(builder.emit, *variables)]
        builder.emit_func_output(relax.Tuple(results))
    mod: tvm.IRModule = builder.get()
    assert_same(mod, SubstituteConv2d("native", threads=1)(mod), "main", *inputs)


def test_channels_last_stay_as_they_are():
    def build(emit, x, image, map_):
        # one layer that is replaced
        yield op.nn.conv2d(x, weight(16, 16, 3, 3), padding=1)
        layouts = {"data_layout": "NHWC", "kernel_layout": "OIHW"}
        # 4 rows of one pixel: no column of the kernel reads padding only
        column = emit(op.nn.conv2d(image, weight(16, 16, 3, 3), padding=1, **layouts))
        # numbers of rows are not numbers of channels
        yield op.add(column, weight(1, 4, 1, 1))
        wide = emit(op.nn.pad(image, [0, 0, 0, 0, 1, 2, 0, 0]))
        yield op.nn.conv2d(wide, weight(16, 16, 1, 3), **layouts)
        rows = emit(op.nn.pad(emit(op.nn.relu(image)), [0, 0, 0, 0, 1, 1, 0, 0]))
        yield op.nn.max_pool2d(rows, (1, 2), (1, 1), layout="NHWC")
        # as many rows before the resize as channels
        large = emit(op.image.resize2d(map_, (8, 8), layout="NHWC"))
        yield op.nn.conv2d(large, weight(16, 64, 1, 1), **layouts)

    check_pass(build, (1, 16, 6, 6), (1, 4, 1, 16), (1, 4, 4, 64))


def test_other_resizes_before_a_1x1_layer():
    def build(emit, x):
        for attrs in (
            {"method": "cubic"},
            {"method": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
            {"method": "nearest_neighbor", "rounding_method": "ceil"},
        ):
            large = emit(op.image.resize2d(x, (12, 12), roi=(0.0, 0.0, 1.0, 1.0), **attrs))
            # three outputs are a plain image
            yield op.nn.conv2d(large, weight(3, 64, 1, 1))

    check_pass(build, (1, 64, 6, 6))


def test_signals_padded_by_reflection():
    def build(emit, x):
        y = emit(op.nn.conv1d(x, weight(16, 16, 5), padding=2))
        y = emit(op.nn.pad(emit(op.nn.relu(y)), [0, 0, 0, 0, 3, 3], "reflect"))
        yield op.nn.conv1d(y, weight(16, 16, 7))

    check_pass(build, (2, 16, 20))
