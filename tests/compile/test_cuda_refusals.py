"""A reason that keeps a model from running on a GPU is reported; on the emulated driver."""

from __future__ import annotations

import pytest

from tests.emulated_gpu import needs_emulator, needs_nvcc

pytestmark = [needs_nvcc, needs_emulator]


def test_tensors_that_do_not_fit_are_refused(check):
    check("""
wide = DeviceTensor(np.zeros((1, 3, 21, 40), np.float32))
wide.form = wide.form[:, :, :, ::2]
refused("'input' must be C-contiguous", InputError, model.run, wide)
refused("'input' must be float32 (1, 3, 21, 20), got float32 (2,)", InputError, model.run,
        DeviceTensor(np.zeros(2, np.float32)))
refused("got float64 (1, 3", InputError, model.run, DeviceTensor(x.astype(np.float64)))
refused("is not a CUDA stream", InputError, model.run, x, stream="one")
refused("the stream cannot be used: invalid resource handle", ArtifactError, model.run,
        DeviceTensor(x), stream=4096)
enter(1)
refused("is on GPU 1, and this model on GPU 0. Move the tensor, or open the model with device=1",
        InputError, model.run, DeviceTensor(x, device=1))
""", TVMCONV_EMULATED_GPUS="2")  # fmt: skip


def test_a_model_for_the_processor_says_that_it_has_no_gpu(check, small):
    check("""
from tests.small_network import small_network
here = tvmconv.build(small_network(1), "x86-64-v3")
for options in ({"stream": 0}, {}):
    given = x if options else DeviceTensor(x)
    refused("this model runs on the CPU", InputError, here.run, given, **options)
refused("this model runs on the CPU", InputError, here.run_into, [x], [DeviceTensor(right)])
here.save("here.so")
for options in ({"device": 1}, {"cuda_graph": False}):
    said = next(iter(options)) + "="
    refused(said, InputError, tvmconv.load, "here.so", **options)
    refused("and this model runs on the CPU", InputError, tvmconv.load, "here.so", **options)
    refused(said, InputError, tvmconv.build, small_network(1), "x86-64-v3", **options)
assert tvmconv.load("here.so", device=0).run(x)
for options in ({"device": -1}, {"device": "1"}, {"device": True}, {"cuda_graph": 1}):
    refused(next(iter(options)) + "=", InputError, tvmconv.load, path, **options)
""")


@pytest.mark.parametrize("lost", [1, 30])
def test_a_gpu_that_is_lost_is_reported(check, lost):
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


def test_a_forked_child_gets_an_error_with_tensors_of_the_gpu_too(check):
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


def test_a_gpu_that_cannot_be_entered_leaves_the_contexts_of_the_thread(check):
    """The emulated driver has room for 16 of them; here the thread has as many of its own."""
    check("""
import gc
from tests.device_tensor import library
model.prepare()
runner = model._ready()
states = [runner.new_state()]
for _ in range(15):
    enter()
refused("the GPU cannot be used: ", ArtifactError, runner.new_state)
refused("the GPU cannot be used: ", ArtifactError, tvmconv.load, path, device=1)
states.clear()
gc.collect()
for _ in range(16):
    assert library.cuCtxPopCurrent_v2(None) == 0
assert library.cuCtxPopCurrent_v2(None) != 0
states.append(runner.new_state())
for each in (model, tvmconv.load(path, device=1)):
    assert close(each.run(x)[0])
""", TVMCONV_EMULATED_GPUS="2")  # fmt: skip


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
        assert "has sm_75. Build it for this GPU" in done.stderr


def test_explain_says_for_which_gpu_tiles_were_chosen(single):
    (table,) = [t for t in single.model.explain().tables if t.name == "launches"]
    assert "for sm_80, sm_90, the most of each; tiles and waves for H100 SXM5" in table.title
