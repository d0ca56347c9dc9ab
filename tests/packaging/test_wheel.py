"""The wheel: what is in it, and that it works where the repository is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import tvmconv

pytestmark = pytest.mark.any_processor
ROOT = Path(__file__).parents[2]
SOURCES = ("tvmconv", "schedules", "tuning_logs", "pyproject.toml", "README.md")
BUILD_AND_RUN = """
import sys
import numpy as np, onnx, tvmconv
model = onnx.load(sys.argv[1])
compiled = tvmconv.build(model, threads=1)
shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
outputs = compiled.run({"input": np.ones(shape, np.float32)})
assert all(np.isfinite(value).all() for value in outputs.values())
print(tvmconv.__file__)
"""


def _run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy of the sources, so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(origin, source / name)
    options = ("--no-deps", "--quiet", "--disable-pip-version-check", "-w", folder)
    _run(sys.executable, "-m", "pip", "wheel", source, *options, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """``bin`` of an environment holding the wheel; dependencies come from this one."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    _run(python, "-m", "pip", "install", *options, wheel, cwd=folder)
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(_run(python, "-c", purelib, cwd=folder).strip())
    # a path line does not run that folder's own .pth files, so that an editable
    # installation of tvmconv over there stays invisible
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_wheel_owns_one_top_level_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "tvmconv",
        f"tvmconv-{tvmconv.__version__}.dist-info",
    }


def test_wheel_holds_every_module_and_data_file(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
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
                # of the package tvmconv-runtime
                if not {"package", "build", "tvmconv_runtime.egg-info"} & set(path.parts)
            }
    assert expected - names == set()


def test_version_is_told_from_another_folder(installed, tmp_path):
    told = _run(installed / "tvmconv", "--version", cwd=tmp_path)
    assert told.startswith(f"tvmconv {tvmconv.__version__} ")
    assert "tvm 0.27" in told.lower()
    assert "llvm" in told.lower()


def test_installed_package_compiles_a_network(installed, tmp_path):
    import onnx

    from examples.networks import NETWORKS

    onnx.save(NETWORKS["squeezenet1_1"](image=33, width=0.2), tmp_path / "net.onnx")
    told = _run(installed / "python", "-c", BUILD_AND_RUN, tmp_path / "net.onnx", cwd=tmp_path)
    assert Path(told.strip()).is_relative_to(installed.parent)


@pytest.mark.slow
def test_declared_dependencies_suffice(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    _run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    _run(python, "-m", "pip", "check", cwd=tmp_path)
    assert "tvm" in _run(tmp_path / "venv/bin/tvmconv", "--version", cwd=tmp_path)
