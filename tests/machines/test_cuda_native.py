"""The target ``cuda``: this machine's GPU, here one of an emulated driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tvmconv.lab.emulation.driver import write_driver
from tvmconv.machines.cuda import MACHINES, read_cuda_machine
from tvmconv.machines.targets import resolve_device

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
LINES = """
import json
from tvmconv.machines.targets import resolve_device
from tvmconv.core.errors import TargetError
try:
    print(json.dumps(resolve_device("cuda").to_json()))
except TargetError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def resolved(tmp_path_factory):
    """The record, or what is said, on a machine with such a GPU."""
    found = write_driver((), tmp_path_factory.mktemp("driver"))

    def resolve(**variables: str):
        environment = {**os.environ, **found, **variables}
        command = [sys.executable, "-c", LINES]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return resolve


def test_the_record_has_the_figures_of_the_driver(resolved):
    machine, known = resolved(), MACHINES["cuda:sm_90"]
    assert (machine["name"], machine["isa"]) == ("cuda:sm_90", "sm_90")
    assert machine["model"] == "emulated on the processor"
    assert machine["multiprocessors"] == 6
    assert machine["clock_hertz"] == 1.5e9
    assert machine["memory_bytes"] == 1 << 30
    # 2 GHz, two edges, 128 bytes; in bytes a cycle
    assert machine["memory_rate"] == pytest.approx(512e9 / 1.5e9)
    assert machine["l2_bytes"] == 1 << 20
    assert "NVIDIA's driver" in machine["origins"]["multiprocessors"]
    assert machine["lanes"] == known.lanes
    assert machine["origins"]["lanes"] == dict(known.origins)["lanes"]


@pytest.mark.parametrize(
    ("capability", "isa"), [("80", "sm_80"), ("87", "sm_86"), ("89", "sm_89"), ("120", "sm_90")]
)
def test_a_gpu_without_a_record_has_that_of_the_last_architecture_before_it(
    resolved, capability, isa
):
    machine = resolved(TVMCONV_EMULATED_CAPABILITY=capability)
    assert (machine["isa"], machine["multiprocessors"]) == (isa, 6)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"LD_LIBRARY_PATH": ""}, "no driver for NVIDIA GPUs: libcuda.so.1 is not found. Expected"),
        ({"TVMCONV_EMULATED_GPUS": "0"}, "no CUDA-capable device is detected. Expected a GPU"),
        ({"TVMCONV_EMULATED_CAPABILITY": "75"}, "of sm_75. Expected sm_"),
    ],
    ids=str,
)
def test_where_there_is_none_a_sentence_has_the_choices(resolved, variables, sentence):
    said = resolved(**variables)
    if "LD_LIBRARY_PATH" in variables and not isinstance(said, str):
        pytest.skip("this machine has a GPU")
    assert "target 'cuda'" in said
    assert sentence in said


def test_a_gpu_of_a_known_architecture_has_a_record_of_its_own():
    """H200 is an H100 with other memory: the same machine code, scheduled by other rates."""
    h100, h200 = MACHINES["cuda:sm_90"], resolve_device("cuda:h200")
    assert (h200.isa, h200.architectures, h200.described) == (
        *("sm_90", ("sm_90",)),
        "cuda:h200 (H200 SXM)",
    )
    assert h200.memory_rate * h200.clock_hertz == pytest.approx(4.8e12)
    assert (h200.multiprocessors, h200.lanes) == (h100.multiprocessors, h100.lanes)
    assert {name for name, _ in h200.origins} == {name for name, _ in h100.origins}
    assert read_cuda_machine(h200.to_json()) == h200
    both = resolve_device("cuda:h200,sm_80")
    assert (both.name, both.architectures) == ("cuda:h200,sm_80", ("sm_80", "sm_90"))
    assert resolve_device("cuda:h200,sm_90") == h200
