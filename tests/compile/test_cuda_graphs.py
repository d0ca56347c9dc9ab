"""Launches of models for GPUs replayed as a CUDA graph, on the emulated driver."""

from __future__ import annotations

import ctypes

import pytest

from tests.emulated_gpu import needs_emulator, needs_nvcc

pytestmark = [needs_nvcc, needs_emulator]


def test_launches_are_replayed_as_a_graph(check):
    check("""
results, made = [], []
for _ in range(5):
    before = count("launches"), count("graph launches"), count("kernels")
    results.append(model.run(x)[0])
    after = count("launches"), count("graph launches"), count("kernels")
    made.append(tuple(a - b for a, b in zip(after, before)))
# the first plainly, the second as it is captured
assert made == [(kernels, 0, kernels), (kernels, 1, kernels)] + [(0, 1, kernels)] * 3, made
assert all(np.array_equal(result, results[0]) for result in results)
assert close(results[0])
# other operands are not those of the graph
given, there = DeviceTensor(2 * x), DeviceTensor(np.zeros_like(right))
expected = tvmconv.load(path).run(2 * x)[0]
graphs = count("graph launches")
for calls in range(4):
    model.run_into([given], [there])
    assert close(there.numpy(), expected)
assert count("graph launches") == graphs + 3
assert np.array_equal(model.run(x)[0], results[0])
assert count("graph launches") == graphs + 4
# two buffers that take turns have a graph each
pair = [DeviceTensor(x), DeviceTensor(2 * x)]
graphs = count("graph launches")
for calls in range(6):
    model.run_into([pair[calls % 2]], [there])
    assert close(there.numpy(), [right, expected][calls % 2])
assert count("graph launches") == graphs + 4
# the oldest of more than four is forgotten
others, launches = [DeviceTensor(x) for _ in range(2)], count("launches")
for value in others:
    model.run_into([value], [there])
assert np.array_equal(model.run(x)[0], results[0])
assert count("launches") == launches + 3 * kernels
# a clock between the layers needs them one by one
launches = count("launches")
model.profile(repeat=1)
assert count("launches") >= launches + kernels
""")


@pytest.mark.parametrize(
    ("variables", "graphs"),
    [
        ({"TVMCONV_CUDA_GRAPH": "0"}, 0),
        ({"TVMCONV_CUDA_GRAPH": "1"}, 3),
        ({"TVMCONV_EMULATED_GRAPHS": "0"}, 0),
    ],
    ids=str,
)
def test_graphs_can_be_turned_off_and_are_where_the_driver_has_none(check, variables, graphs):
    check(f"""
for _ in range(4):
    assert close(model.run(x)[0])
assert count("graph launches") == {graphs}
""", **variables)  # fmt: skip


def test_several_images_a_call_are_not_replayed_unless_asked(small):
    lines = (
        "import numpy as np, tvmconv\n"
        "from tests.device_tensor import count\n"
        "model = tvmconv.load(path)\n"
        "x = np.zeros(model.inputs[0].shape, np.float32)\n"
        "for _ in range(3): model.run(x)\n"
        "assert count('graph launches') == "
    )
    small.check_python(lines + "0")
    small.check_python(lines + "2", TVMCONV_CUDA_GRAPH="1")


class Options(ctypes.Structure):
    """tvmconv_options, of tvmconv.h."""

    _fields_ = (
        *(("size", ctypes.c_uint32), ("threads", ctypes.c_int32)),
        *((name, ctypes.c_void_p) for name in ("parallel_for", "parallel_context", "weights")),
        *(("weight_bytes", ctypes.c_uint64), ("weights_path", ctypes.c_char_p)),
        ("cuda_graph", ctypes.c_int32),
        ("gpu", ctypes.c_int64),
    )


@pytest.mark.parametrize(("asked", "graphs"), [(-1, 0), (0, 2), (1, 2), (2, None)])
def test_the_option_of_a_state_goes_before_the_environment(single, asked, graphs):
    lines = f"""
import ctypes, numpy as np
from ctypes import byref, c_void_p
from tests.compile.test_cuda_graphs import Options
from tests.device_tensor import count
from tvmconv.runtime.binding import Code, pointers
code = Code(path)
options = Options(size=ctypes.sizeof(Options), cuda_graph={asked})
state, message = c_void_p(), ctypes.create_string_buffer(200)
create = ctypes.CFUNCTYPE(ctypes.c_int32, *[c_void_p] * 3, ctypes.c_size_t)(
    ctypes.cast(code._model.create, c_void_p).value)
status = create(ctypes.addressof(options), ctypes.addressof(state), ctypes.addressof(message), 200)
if {graphs} is None:
    assert status == 1 and b"options.cuda_graph is not -1, 0 or 1" in message.value
else:
    assert not status, message.value
    x = np.zeros(code.programs[0].inputs[0].shape, np.float32)
    y = np.zeros(code.programs[0].outputs[0].shape, np.float32)
    for _ in range(3):
        assert not code._model.run(state, pointers([x.ctypes.data]), pointers([y.ctypes.data]))
    assert count("graph launches") == {graphs}
    code._model.destroy(state)
    assert count("bytes") == 0
"""
    single.check_python(lines, **({"TVMCONV_CUDA_GRAPH": "1"} if asked < 0 else {}))
