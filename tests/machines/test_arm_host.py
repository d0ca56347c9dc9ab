"""tvmconv itself on a 64-bit Arm processor, emulated or real."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tvmconv
from tests.emulating import ARM_PYTHON, needs_arm_python
from tests.networks.compare import onnxruntime_outputs, random_inputs
from tests.small_network import small_network

pytestmark = [pytest.mark.slow, needs_arm_python]
ROOT = Path(__file__).parents[2]
SCRIPT = Path(ARM_PYTHON)
EMULATED = SCRIPT.is_file() and "qemu" in SCRIPT.read_text(errors="ignore")

_FEATURES = """
import json
from tvmconv.machines.host import host_cores, host_features
print(json.dumps({"features": sorted(host_features()), "cores": host_cores()}))
"""
_LOAD = """
import json, sys
import numpy as np
from tvmconv.runtime.portable import load
model = load(sys.argv[1])
(output,) = model.run(dict(np.load(sys.argv[2]))).values()
np.save(sys.argv[3], output)
print(json.dumps({"layers": len(list(model.profile(repeat=1))),
                  "tvm": "tvm" in sys.modules}))
"""
# where the system is emulated its cross compiler is what there is
_BUILD = """
import json, shutil, sys
import numpy as np
import tvmconv
cc = shutil.which("aarch64-linux-gnu-gcc") or ""
model = tvmconv.build(sys.argv[1], threads=1, log="none", cc=cc)
(output,) = model.run(dict(np.load(sys.argv[2]))).values()
np.save(sys.argv[3], output)
print(json.dumps({"isa": model.machine.isa, "triple": model.machine.triple}))
"""


def on_arm(code: str, *words: object, cpu: str = "") -> dict[str, Any]:
    """The output of a Python program there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TVMCONV_MACHINES": "none"}
    environment |= {"QEMU_CPU": cpu} if cpu else {}
    environment.pop("TVMCONV_HIDE_FEATURES", None)
    done = subprocess.run(
        [ARM_PYTHON, "-c", code, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A folder with a model and its input, and the right output."""
    folder = tmp_path_factory.mktemp("arm")
    network = small_network()
    inputs = random_inputs(network)
    onnx.save(network, folder / "small.onnx")
    np.savez(folder / "x.npz", **inputs)
    (expected,) = onnxruntime_outputs(network, inputs).values()
    return folder, expected


@pytest.mark.skipif(not EMULATED, reason="chooses qemu's processors")
def test_features_are_those_of_the_emulated_processor() -> None:
    found = {cpu: on_arm(_FEATURES, cpu=cpu) for cpu in ("cortex-a53", "neoverse-n1", "a64fx")}
    features = {cpu: set(facts["features"]) for cpu, facts in found.items()}
    assert features["cortex-a53"] >= {"fp", "asimd", "crc32"}
    assert features["neoverse-n1"] - features["cortex-a53"] >= {"atomics", "asimddp", "asimdhp"}
    assert {cpu for cpu in features if "sve" in features[cpu]} == {"a64fx"}
    assert {facts["cores"] for facts in found.values()} == {len(os.sched_getaffinity(0))}


def test_the_small_package_runs_a_model(case: tuple[Path, np.ndarray]) -> None:
    folder, expected = case
    path = tvmconv.build(folder / "small.onnx", "aarch64", threads=2).save(folder / "small.so")
    facts = on_arm(_LOAD, path, folder / "x.npz", folder / "y.npy")
    assert not facts["tvm"]
    assert facts["layers"] > 5
    np.testing.assert_allclose(np.load(folder / "y.npy"), expected, atol=1e-6)


@pytest.mark.timeout(1800)
def test_native_builds_and_runs(case: tuple[Path, np.ndarray]) -> None:
    folder, expected = case
    facts = on_arm(_BUILD, folder / "small.onnx", folder / "x.npz", folder / "native.npy")
    assert facts == {"isa": "neon", "triple": "aarch64-linux-gnu"}
    np.testing.assert_allclose(np.load(folder / "native.npy"), expected, atol=1e-6)
