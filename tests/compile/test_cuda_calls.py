"""Calls on GPUs with tensors in their memory and callers' streams, on the emulated driver.

It does what streams are given as late as it may, and refuses handles that are not valid.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.emulated_gpu import ROOT, needs_emulator, needs_nvcc
from tvmconv.compile.nvcc import find_nvcc

pytestmark = [needs_nvcc, needs_emulator]


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


def test_a_call_waits_for_its_inputs_and_readers_wait_for_its_outputs(check):
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
refused("stream= requires", InputError, model.run_into, [given], [array], stream=stream)
""")


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
