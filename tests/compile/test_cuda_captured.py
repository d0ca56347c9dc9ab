"""Calls in streams that their caller captures, as torch.cuda.graph does; on the emulated driver."""

from __future__ import annotations

from tests.emulated_gpu import needs_emulator, needs_nvcc

pytestmark = [needs_nvcc, needs_emulator]


def test_a_call_becomes_part_of_the_callers_graph(check):
    check("""
stream = new_stream()
given, there = DeviceTensor(x), DeviceTensor(np.zeros_like(right))
# kernels are loaded by a first call, and no longer
begin_capture(stream)
refused("the model has not run on this GPU yet. Call it once before", ArtifactError,
        model.run_into, [given], [there], stream=stream)
end_capture(stream)
expected = model.run(2 * x)[0]
before = count("bytes"), count("kernels"), count("graph launches"), count("launches")
begin_capture(stream)
model.run_into([given], [there], stream=stream)
graph = end_capture(stream)
assert count("launches") == before[3] + kernels
assert (count("bytes"), count("kernels"), count("graph launches")) == before[:3]
for times, right_one in ((1, right), (2, expected), (1, right)):
    given.write(times * x)
    replay(graph, stream)
    assert close(there.numpy(stream), right_one)
assert count("kernels") == before[1] + 3 * kernels
# calls meanwhile have other memory, and order nothing with the graph
replay(graph, stream)
ran = count("kernels")
assert close(model.run(2 * x)[0], expected)
assert count("kernels") == ran + kernels
assert close(there.numpy(stream))
""")


def test_each_graph_has_a_state_and_calls_of_one_share_it(check):
    check("""
first, second = new_stream(), new_stream()
values = [DeviceTensor((n + 1) * x) for n in range(3)]
expected = [model.run((n + 1) * x)[0] for n in range(3)]
places = [DeviceTensor(np.zeros_like(right)) for _ in range(3)]
held = count("bytes")
begin_capture(first)
for n in (0, 1):
    model.run_into([values[n]], [places[n]], stream=first)
one = end_capture(first)
assert count("bytes") == held
# the only state belongs to the first graph
begin_capture(second, 1)
refused("Call the model once before each capture", ArtifactError,
        model.run_into, [values[2]], [places[2]], stream=second)
end_capture(second)
model.run(x)
begin_capture(second, 1)
model.run_into([values[2]], [places[2]], stream=second)
other = end_capture(second)
# replays at a time
for graph, stream in ((one, first), (other, second), (one, first)):
    replay(graph, stream)
for n, stream in ((2, second), (1, first), (0, first)):
    assert close(places[n].numpy(stream), expected[n]), n
""")


def test_what_cannot_be_captured_is_reported_and_keeps_the_capture(check):
    check("""
stream = new_stream()
given, there = DeviceTensor(x), DeviceTensor(np.zeros_like(right))
model.run(x)
begin_capture(stream)
refused("where results cannot be allocated. Call run_into", InputError, model.run, given,
        stream=stream)
refused("arrays in the CPU's memory cannot be copied", InputError, model.run_into,
        [x], [there], stream=stream)
model.run_into([given], [there], stream=stream)
graph = end_capture(stream)
replay(graph, stream)
assert close(there.numpy(stream))
# what somebody else spoils
model.run(x)
begin_capture(stream)
import ctypes
from tests.device_tensor import library
assert library.cuMemAlloc_v2(ctypes.byref(ctypes.c_size_t()), ctypes.c_size_t(8)) == 900
refused("the capture of the stream has failed before this call. End it", ArtifactError,
        model.run_into, [given], [there], stream=stream)
""")
