"""``tvmconv-runtime``: its wheel alone, in an environment without tvmconv and TVM."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import programs
import pytest

from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.runtime import portable

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
import numpy as np
import tvmconv_runtime
model = tvmconv_runtime.load(sys.argv[1])
inputs = np.load(sys.argv[2])
np.savez(sys.argv[3], **dict(model.run(inputs["x"], inputs["y"])))
print(json.dumps({
    "modules": sorted({name.split(".")[0] for name in sys.modules} & {"tvm", "tvm_ffi", "tvmconv"}),
    "layers": [k.call.operator for k in model.profile(repeat=1)],
    "explained": model.explain(),
    "shown": repr(model),
}))
"""


def built_wheel(folder: Path) -> Path:
    # building writes beside the sources
    for room in ("core", "runtime"):
        shutil.copytree(ROOT / "tvmconv" / room, folder / "tvmconv" / room)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir"]
    subprocess.run([*command, "-w", folder, folder / "tvmconv/runtime"], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_runs_a_model(saved: Path, tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path)
    assert wheel.stat().st_size < 200_000
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    inputs = programs.dense_inputs(8)
    np.savez(tmp_path / "in.npz", **inputs)
    command = [python, "-c", SCRIPT, saved, "in.npz", "out.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["modules"] == []
    assert facts["layers"] == ["matmul", "relu", "add", "sum"]
    assert facts["explained"].startswith("dense for ")
    expected = programs.dense_reference(inputs)
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["hidden"], expected, rtol=2e-5)


def test_the_same_values(saved: Path) -> None:
    model = portable.load(saved)
    inputs = programs.dense_inputs(2)
    expected = programs.dense_reference(inputs)
    np.testing.assert_allclose(model.run(inputs)["hidden"], expected, rtol=2e-5, atol=2e-5)
    assert [str(t) for t in model.inputs] == ["x: float32[24, 40]", "y: float32[24, 40]"]
    assert (model.threads, portable.load(saved, threads=3).threads) == (1, 3)
    with pytest.raises(InputError, match="missing input"):
        model.run({"x": inputs["x"]})


def test_damaged_files(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    for name, data, message in (
        ("short", content[:-100], "holds no manifest"),
        ("flipped", content[:9000] + bytes([content[9000] ^ 1]) + content[9001:], "damaged"),
        ("empty", b"", "holds no manifest"),
    ):
        (tmp_path / f"{name}.so").write_bytes(data)
        with pytest.raises(ArtifactError, match=message):
            portable.load(tmp_path / f"{name}.so")
    with pytest.raises(ArtifactError, match="does not exist"):
        portable.load(tmp_path / "missing.so")
