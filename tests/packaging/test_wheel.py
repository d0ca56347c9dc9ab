"""The sdists and wheels of a release: their contents, and that they work without the repository.

All are marked slow, as they build and install for a minute; ``.ci/run`` runs them once.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import tvmconv
from tests.emulating import ARM_PYTHON, needs_arm, needs_arm_python
from tests.small_network import small_network

pytestmark = [pytest.mark.any_processor, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
SOURCES = ("tvmconv", "schedules", "tuning_logs", "packages", "pyproject.toml", "README.md")
SOURCES += ("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in")
BUILD_AND_SAVE = """
import sys
import tvmconv
tvmconv.build(sys.argv[1], threads=1).save(sys.argv[2])
print(tvmconv.__file__)
"""
LOAD_AND_RUN = """
import importlib, json, sys
import numpy as np
package = importlib.import_module(sys.argv[1])
model = package.load(sys.argv[2])
outputs = model.run({"input": np.load(sys.argv[3])})
np.save(sys.argv[4], next(iter(outputs.values())))
print(json.dumps({
    "file": package.__file__,
    "version": package.__version__,
    "modules": sorted({name.split(".")[0] for name in sys.modules} & {"tvm", "tvm_ffi", "tvmconv"}),
    "layers": len(model.profile(repeat=1)),
    "explained": str(model.explain()),
}))
"""


def _run(*command: object, cwd: Path) -> str:
    # with PYTHONPATH, a checkout would answer in place of the wheel
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(part) for part in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    """A folder of the sdists and wheels, built from a copy so that the checkout stays clean."""
    pytest.importorskip("build", reason="needs the package build, of the extra dev")
    folder = tmp_path_factory.mktemp("release")
    source = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in SOURCES:
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(origin, source / name)
    for project in (source, source / "packages/tvmconv-runtime"):
        _run(sys.executable, "-m", "build", "--outdir", folder, project, cwd=source)
    return folder


def _only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def _names(release: Path, package: str) -> set[str]:
    """The entries of a package's wheel."""
    return set(zipfile.ZipFile(_only(release, f"{package}-*.whl")).namelist())


def _environment(folder: Path, wheel: Path) -> Path:
    """``bin`` of an empty environment with a wheel and what the wheel requires."""
    venv.create(folder, with_pip=True)
    options = ("--quiet", "--disable-pip-version-check")
    _run(folder / "bin/python", "-m", "pip", "install", *options, wheel, cwd=folder)
    _run(folder / "bin/python", "-m", "pip", "check", cwd=folder)
    return folder / "bin"


@pytest.mark.parametrize("name", ["tvmconv", "tvmconv_runtime"])
def test_version_and_top_level_name(release, name):
    names = _names(release, name)
    info = f"{name}-{tvmconv.__version__}.dist-info"
    assert {entry.split("/")[0] for entry in names} == {name, info}
    assert f"{info}/licenses/LICENSE" in names


@pytest.mark.parametrize("name", ["tvmconv", "tvmconv_runtime"])
def test_sdist_makes_the_wheel(release, name):
    """Every file of the wheel is in the sdist, as ``python -m build`` makes one from the other."""
    wheel = {
        entry
        for entry in _names(release, name)
        if not entry.endswith("/") and ".dist-info/" not in entry
    }
    with tarfile.open(_only(release, f"{name}-*.tar.gz")) as archive:
        files = [member for member in archive.getmembers() if not member.isdir()]
        assert all(member.isfile() or member.islnk() for member in files)
    assert wheel - {member.name.partition("/")[2] for member in files} == set()


def test_wheel_holds_every_module_and_data_file(release):
    expected = {"tvmconv/py.typed"}
    for folder, prefix in (
        ("tvmconv", "tvmconv"),
        ("schedules", "tvmconv/schedules"),
        ("tuning_logs", "tvmconv/tuning_logs"),
    ):
        for pattern in ("*.py", "*.txt", "*.jsonl", "runtime/c/*", "estimation/c/*"):
            expected |= {
                f"{prefix}/{path.relative_to(ROOT / folder).as_posix()}"
                for path in (ROOT / folder).rglob(pattern)
            }
    assert expected - _names(release, "tvmconv") == set()


def test_runtime_wheel_is_small(release):
    assert _only(release, "tvmconv_runtime-*.whl").stat().st_size < 200_000
    expected = {
        f"tvmconv_runtime/{part}/{path.name}"
        for part in ("core", "runtime")
        for path in (ROOT / "tvmconv" / part).glob("*.py")
    }
    assert expected - _names(release, "tvmconv_runtime") == set()


def test_one_runtime_wheel_serves_every_system(release):
    """A model has all machine code, so that Python needs none of its own."""
    for name in ("tvmconv", "tvmconv_runtime"):
        assert _only(release, f"{name}-*.whl").name.endswith("-py3-none-any.whl")
        assert [n for n in _names(release, name) if n.endswith((".so", ".a", ".o", ".pyd"))] == []


@needs_arm
@needs_arm_python
def test_runtime_wheel_on_arm(release, tmp_path):
    zipfile.ZipFile(_only(release, "tvmconv_runtime-*.whl")).extractall(tmp_path)
    model = small_network()
    onnx.save(model, tmp_path / "net.onnx")
    x = np.random.default_rng(0).random((1, 3, 21, 20), np.float32)
    np.save(tmp_path / "in.npy", x)
    tvmconv.build(model, "aarch64", threads=1).save(tmp_path / "net.so")
    script = ("-c", LOAD_AND_RUN, "tvmconv_runtime", "net.so", "in.npy", "out.npy")
    facts = json.loads(_run(*shlex.split(ARM_PYTHON), *script, cwd=tmp_path))
    assert facts["modules"] == []
    (expected,) = ReferenceEvaluator(model).run(None, {"input": x})
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("musl-gcc") is None,
    reason="needs musl-gcc (Debian: musl-tools)",
)
def test_a_bundle_runs_with_musl(tmp_path):
    model = small_network()
    target = "llvm -mtriple=x86_64-linux-musl -mcpu=x86-64-v3"
    built = tvmconv.build(model, target, threads=2, cc="musl-gcc")
    needed = subprocess.run(
        ["readelf", "-d", built.bundle(tmp_path / "bundle")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so"]
    x = np.random.default_rng(0).random((1, 3, 21, 20), np.float32)
    x.tofile(tmp_path / "x.bin")
    command = ["sh", "bundle/run.sh", "-o", tmp_path, tmp_path / "x.bin"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "CC": "musl-gcc"}, check=True)
    (expected,) = ReferenceEvaluator(model).run(None, {"input": x})
    result = np.fromfile(tmp_path / "0.out", np.float32).reshape(1, 10)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_installed_wheels_build_save_load_and_run(release, tmp_path):
    from examples.networks import NETWORKS

    network = NETWORKS["squeezenet1_1"](image=33, width=0.2)
    onnx.save(network, tmp_path / "net.onnx")
    dims = network.graph.input[0].type.tensor_type.shape.dim
    image = np.random.default_rng(0).random([d.dim_value for d in dims], np.float32)
    np.save(tmp_path / "in.npy", image)
    (expected,) = ReferenceEvaluator(network).run(None, {"input": image})

    full = _environment(tmp_path / "full", _only(release, "tvmconv-*.whl"))
    shown = _run(full / "tvmconv", "--version", cwd=tmp_path).lower()
    assert shown.startswith(f"tvmconv {tvmconv.__version__} ")
    assert "tvm 0.27" in shown and "llvm" in shown
    shown = _run(full / "python", "-c", BUILD_AND_SAVE, "net.onnx", "net.so", cwd=tmp_path)
    assert Path(shown.strip()).is_relative_to(tmp_path)

    small = _environment(tmp_path / "small", _only(release, "tvmconv_runtime-*.whl"))
    for package, binaries in (("tvmconv", full), ("tvmconv_runtime", small)):
        script = (binaries / "python", "-c", LOAD_AND_RUN, package)
        facts = json.loads(_run(*script, "net.so", "in.npy", "out.npy", cwd=tmp_path))
        assert Path(facts["file"]).is_relative_to(binaries.parent)
        assert facts["version"] == tvmconv.__version__
        assert facts["layers"] > 10
        assert "conv" in facts["explained"]
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-4, atol=1e-5)
    assert facts["modules"] == []
