"""Calls of models for GPUs on the emulated driver: tensors, streams, graphs, failures.

The driver does what streams are given as late as it may, and refuses handles that are not valid.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.emulated_gpu import ROOT, needs_emulator, needs_nvcc
from tvmconv.compile.nvcc import find_nvcc

pytestmark = [needs_nvcc, needs_emulator]

# what every program of this file begins with
START = """
import numpy as np, tvmconv
from tests.device_tensor import DeviceTensor, View, count, enter, new_stream, wait
from tvmconv.core.errors import ArtifactError, InputError
model = tvmconv.load(path)
(name,) = [tensor.name for tensor in model.inputs]
x = np.random.default_rng(0).standard_normal(model.inputs[0].shape, "float32")
right = np.load("right.npy")
kernels = sum(len(call.launches) for call in model.calls)
enter()

def close(result, expected=right):
    return np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()

def refused(text, kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"nobody said {text!r}")
"""


@pytest.fixture(scope="module")
def check(single):
    """Runs lines behind the above, in a process with the emulated driver."""
    (info,) = single.model.inputs
    x = np.random.default_rng(0).standard_normal(info.shape, "float32")
    (right,) = single.expected({info.name: x})
    np.save(single.path.parent / "right.npy", right)

    def run(lines: str, **variables: str) -> None:
        single.check_python(START + lines, **variables)

    return run


def test_tensors_on_the_gpu_are_used_in_place(check):
    check("""
given = DeviceTensor(x)
model.run(given)
before = count("host copies"), count("copies")
(result,) = model.run({name: given})
assert (count("host copies"), count("copies")) == before
# the default stream, by DLPack's number of it
assert given.asked == [1, 1]
assert result.shape == right.shape and result.dtype == np.float32
taken = np.from_dlpack(View(result))
assert close(taken), taken
assert close(np.asarray(result)) and close(result.numpy())
assert result.__dlpack_device__() == (2, 0)
# a tensor of ours goes in as it is
assert model.run([given])[0].address != result.address
""")


def test_what_is_lent_lives_until_nobody_has_it(check):
    check("""
import gc
given = DeviceTensor(x)
model.run(given)
gc.collect()
before = count("bytes")
(result,) = model.run(given)
held = count("bytes")
assert held > before
result.__dlpack__()  # a capsule that nobody takes
taken = np.from_dlpack(View(result))
address = taken.ctypes.data
assert address == result.address
del result
gc.collect()
assert count("bytes") == held
assert close(taken)
del taken
gc.collect()
assert count("bytes") == before
""")


def test_a_call_goes_behind_what_computes_its_inputs_and_before_who_reads_its_outputs(check):
    check("""
class Torch:
    cuda_stream = handle = new_stream()

class Cupy:
    ptr = handle = new_stream()

class Core:
    handle = new_stream()
    def __cuda_stream__(self):
        return 0, self.handle

maker, reader, kept = new_stream(), new_stream(), []
for stream in (Torch.cuda_stream, Torch(), Cupy(), Core(), 0):
    given = DeviceTensor(x, stream=maker)
    ran = count("kernels")
    (result,) = model.run(given, stream=stream)
    assert count("kernels") == ran  # nobody waited
    kept.append(result)  # freeing it would
    assert given.asked == [getattr(stream, "handle", stream) or 1]
    # a reader in another stream waits for the call's
    taken = View(result, stream=reader)
    wait(reader)
    assert close(np.from_dlpack(taken))
    assert count("kernels") == ran + kernels
(result,) = model.run(x, stream=reader)
assert close(result.numpy())
""")


def test_calls_in_several_streams_share_a_state_in_turn(check):
    check("""
streams = [new_stream() for _ in range(3)]
inputs = [x * (n + 1) for n in range(6)]
expected = [model.run(value)[0] for value in inputs]
given = list(map(DeviceTensor, inputs))
ran = count("kernels")
results = [model.run(value, stream=streams[n % 3])[0] for n, value in enumerate(given)]
assert count("kernels") == ran
# the last is read first, and waits for all before it, whose arena it has
for n in reversed(range(6)):
    assert close(results[n].numpy(), expected[n]), n
    assert count("kernels") == ran + 6 * kernels
""")


def test_results_go_into_tensors_that_exist(check):
    check("""
stream = new_stream()
given, there = DeviceTensor(x), DeviceTensor(np.zeros_like(right))
before = count("bytes"), count("host copies")
model.run_into([given], [there], stream=stream)
assert close(there.numpy(stream))
model.run_into({name: given}, {"output": there})
assert close(there.numpy())
# what is not aligned to vectors is copied within the GPU
odd, copies = DeviceTensor(np.zeros_like(right), offset=4), count("copies")
model.run_into([DeviceTensor(x, offset=8)], [odd])
assert count("copies") == copies + 2
assert close(odd.numpy())
array = np.zeros_like(right)
model.run_into([given], [array])
assert close(array)
refused("output 'output' must be float32 (1, 10)", InputError, model.run_into, [given], [given])
refused("with a stream", InputError, model.run_into, [given], [array], stream=stream)
""")


def test_tensors_that_do_not_fit_are_refused(check):
    check("""
wide = DeviceTensor(np.zeros((1, 3, 21, 40), np.float32))
wide.form = wide.form[:, :, :, ::2]
refused("'input' is not C-contiguous", InputError, model.run, wide)
refused("'input' must be float32 (1, 3, 21, 20), got float32 (2,)", InputError, model.run,
        DeviceTensor(np.zeros(2, np.float32)))
refused("got float64 (1, 3", InputError, model.run, DeviceTensor(x.astype(np.float64)))
refused("is no CUDA stream", InputError, model.run, x, stream="one")
refused("the stream cannot be used: invalid resource handle", ArtifactError, model.run,
        DeviceTensor(x), stream=4096)
enter(1)
refused("is on GPU 1; models run on the first", InputError, model.run, DeviceTensor(x, device=1))
""", TVMCONV_EMULATED_GPUS="2")  # fmt: skip


def test_a_model_for_the_processor_says_that_it_has_no_gpu(check, small):
    check("""
from tests.small_network import small_network
here = tvmconv.build(small_network(1), "x86-64-v3")
for options in ({"stream": 0}, {}):
    given = x if options else DeviceTensor(x)
    refused("this model runs on the processor", InputError, here.run, given, **options)
refused("this model runs on the processor", InputError, here.run_into, [x], [DeviceTensor(right)])
""")


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
assert count("graph launches") == graphs + 2
assert np.array_equal(model.run(x)[0], results[0])
assert count("graph launches") == graphs + 2
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
    )


@pytest.mark.parametrize(("asked", "graphs"), [(-1, 0), (0, 2), (1, 2), (2, None)])
def test_the_option_of_a_state_goes_before_the_environment(single, asked, graphs):
    lines = f"""
import ctypes, numpy as np
from ctypes import byref, c_void_p
from tests.compile.test_cuda_calls import Options
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
    x = np.zeros(code.inputs[0].shape, np.float32)
    y = np.zeros(code.outputs[0].shape, np.float32)
    for _ in range(3):
        assert not code._model.run(state, pointers([x.ctypes.data]), pointers([y.ctypes.data]))
    assert count("graph launches") == {graphs}
    code._model.destroy(state)
    assert count("bytes") == 0
"""
    single.check_python(lines, **({"TVMCONV_CUDA_GRAPH": "1"} if asked < 0 else {}))


def test_tvms_loader_takes_tensors_of_either_kind(check):
    check("""
import tvm_ffi
module = tvm_ffi.load_module(path)
def tensor(value):
    return tvm_ffi.from_dlpack(value)
array, there, given = np.zeros_like(right), DeviceTensor(np.zeros_like(right)), DeviceTensor(x)
module.main(tensor(x), tensor(array))
assert close(array)
stream, copies = new_stream(), count("host copies")
with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), stream):
    ran = count("kernels")
    module.main(tensor(given), tensor(there))
    assert (count("kernels"), count("host copies")) == (ran, copies)
assert close(there.numpy(stream))
refused("tensors are all on the GPU, or all on the CPU", ValueError,
        module.main, tensor(x), tensor(there))
times = np.zeros(len(model.calls), np.int64)
refused("is not on the CPU", ValueError,
        module.profile, tensor(given), tensor(array), tensor(times))
module.profile(tensor(x), tensor(array), tensor(times))
assert close(array) and (times >= 0).all()
""")


@pytest.mark.parametrize("lost", [1, 30])
def test_a_gpu_that_is_lost_is_told_in_a_sentence(check, lost):
    check(f"""
for call in range(20):
    try:
        model.run(x)
    except ArtifactError as error:
        said = str(error)
        break
assert call == ({lost} - 1) // kernels
assert "the run failed: unspecified launch failure; the GPU is lost to this process" in said, said
refused("unspecified launch failure", ArtifactError, model.run, x)
""", TVMCONV_EMULATED_LOST=str(lost))  # fmt: skip


def test_a_forked_child_is_told_so_with_tensors_of_the_gpu_too(check):
    check("""
import gc, os
given = DeviceTensor(x)
(result,) = model.run(given)
free = count("bytes")
child = os.fork()
if not child:
    said = "a forked child cannot use the GPU of its parent"
    refused(said, ArtifactError, model.run, given)
    refused(said, ArtifactError, model.run, x)
    refused(said, ArtifactError, result.numpy)
    del result
    gc.collect()
    os._exit(0 if count("bytes") == free else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert close(result.numpy()) and close(model.run(given)[0].numpy())
""")


def test_the_memory_of_all_states_counts(check):
    check("""
import os
states, calls = [], 0
model.prepare()
free = 60000
os.environ["TVMCONV_EMULATED_MEMORY"] = str(count("bytes") + free)
runner = model._ready()
try:
    for calls in range(100):
        states.append(runner.new_state())
except ArtifactError as error:
    assert "the GPU has no memory for" in str(error), error
    assert "bytes of activations and tensors" in str(error)
else:
    raise AssertionError("never")
one = model.memory.arena_bytes
assert calls <= free // one
# what failed left nothing, and what is freed is there again
before = count("bytes")
refused("has no memory", ArtifactError, runner.new_state)
assert count("bytes") == before
if states:
    states.pop()
    states.append(runner.new_state())
states.clear()
assert close(model.run(x)[0])
os.environ["TVMCONV_EMULATED_MEMORY"] = str(count("bytes") + 100)
refused("no memory for output: float32[1, 10] on the GPU", ArtifactError,
        model.run, x, stream=new_stream())
""")


@pytest.mark.parametrize(
    ("capability", "taken"),
    [("75", False), ("80", True), ("86", True), ("90", True), ("103", True)],
)
def test_the_driver_takes_of_several_architectures_what_it_runs(single, capability, taken):
    done = single.python(
        "import tvmconv\ntvmconv.load(path).prepare()", TVMCONV_EMULATED_CAPABILITY=capability
    )
    assert (done.returncode == 0) == taken, done.stderr
    if not taken:
        assert "built for cuda:sm_90,sm_80, and the GPU here" in done.stderr
        assert "is of sm_75: build it for that" in done.stderr


def test_explain_says_for_which_gpu_tiles_were_chosen(single):
    (table,) = [t for t in single.model.explain().tables if t.name == "launches"]
    assert "for sm_80, sm_90, the most of each; tiles and waves for H100 SXM5" in table.title


def cuda_include() -> str:
    """The folder of the toolkit's cuda.h."""
    folders = [Path(find_nvcc()).resolve().parents[1], *sorted(Path("/usr/local").glob("cuda*"))]
    for folder in folders:
        if (folder / "include/cuda.h").is_file():
            return str(folder / "include")
    pytest.skip("needs the CUDA toolkit's cuda.h")


@pytest.mark.parametrize("name", ["classify", "stream"])
def test_the_examples_in_c_run_on_a_gpu(single, name):
    folder = single.path.parent
    options = ["-Wall", "-Wextra", "-Werror", "-o", str(folder / name)]
    libraries = ["-ldl"]
    if name == "stream":
        options.append(f"-I{cuda_include()}")
        libraries.append(str(folder / "driver/libcuda.so.1"))
    source = str(ROOT / f"examples/deploy/{name}.c")
    subprocess.run(["cc", *options, source, *libraries], check=True)
    done = subprocess.run(
        [folder / name, single.path],
        env=single.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (info,) = single.model.inputs
    ramp = np.arange(np.prod(info.shape), dtype=np.float32).reshape(info.shape)
    (right,) = single.expected({info.name: ramp / np.float32(ramp.size)})
    if name == "stream":
        label, _, value = done.stdout.partition(": ")
        assert label == single.model.outputs[0].name
        assert float(value) == pytest.approx(right[0, 0], rel=1e-4)
    else:
        best = [int(line.split()[0]) for line in done.stdout.splitlines()[1:]]
        assert best == list(np.argsort(-right[0], kind="stable")[:5])
