"""Arm Compute Library and NNPACK: the kernels that their adapters run for a case."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from tests.estimating import PEER_PYTHON, answers, needs_estimation, needs_peers
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines import BASELINES, acl, nnpack
from tvmconv.lab.baselines.case import (
    Session,
    Unsupported,
    read_case,
    read_reference,
    relative_error,
)
from tvmconv.lab.bench.cases import write_layer_case
from tvmconv.lab.bench.emulated_baselines import BaselineCount, EmulatedBaseline, _counted
from tvmconv.lab.bench.emulated_python import EmulatedPython
from tvmconv.lab.estimation.counting import Section
from tvmconv.machines.targets import resolve_machine


def prepared(folder: Path, text: str) -> Session:
    """NNPACK on a layer, on this processor."""
    try:
        nnpack.version()
    except ImportError as error:
        pytest.skip(str(error))
    write_layer_case(folder, Conv2dWorkload.parse(text))
    return nnpack.prepare(read_case(folder, {}), 1)


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("ic16ih14oc32kh3ph1", "Winograd F(6x6)"),
        ("ic5ih13iw10oc7kh3pt0pl1pb2pr1+bias+relu", "Winograd F(6x6)"),
        # its bias is long enough to be freed where nothing keeps it
        ("ic256ih14oc256kh3ph1", "Winograd F(6x6)"),
        ("ic8ih15oc16kh3sh2ph1+bias", "NNPACK's choice"),
        ("ic8ih9oc16kh5ph2", "NNPACK's choice"),
        ("ic8ih9oc16kh1", "NNPACK's choice"),
    ],
)
def test_nnpack_takes_winograd_for_3x3(tmp_path: Path, text: str, algorithm: str) -> None:
    session = prepared(tmp_path, text)
    assert session.info == algorithm
    # a second call finds its weights and workspace as the first did
    for _ in range(2):
        session.run()
        assert relative_error(session.outputs(), read_reference(tmp_path)) < 2e-5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ic8ih9oc8kh3ph1+clip(0,6)", "one convolution only"),
        ("ic8ih9oc8kh3ph1+add", "one convolution only"),
        ("mb2ic8ih9oc8kh3ph1", "one image"),
        ("g2ic8ih9oc8kh3ph1", "no groups"),
        ("ic8ih9oc8kh3dh1dw1ph2", "no dilation"),
    ],
)
def test_nnpack_says_what_it_cannot_compute(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        prepared(tmp_path, text)


def test_nnpack_is_called_with_one_thread(tmp_path: Path) -> None:
    write_layer_case(tmp_path, Conv2dWorkload.parse("ic8ih9oc8kh3ph1"))
    with pytest.raises(Unsupported, match="2 threads"):
        nnpack.prepare(read_case(tmp_path, {}), 2)


def test_torch_without_nnpack_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(nnpack, "find_spec", lambda name: spec)
    nnpack._library.cache_clear()
    with pytest.raises(ImportError, match="torch's library has no NNPACK"):
        nnpack.version()
    monkeypatch.setattr(nnpack, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="No module named 'torch'"):
        nnpack.version()
    nnpack._library.cache_clear()


def test_absent_arm_nn_says_so(tmp_path: Path) -> None:
    (head,) = answers("acl", [tmp_path], tmp_path / "result")
    assert head["absent"] == "No module named 'pyarmnn'"


def test_kernels_are_those_of_the_library_in_a_profile() -> None:
    times = {"type": "Measurement", "raw": [1.0], "unit": "us"}
    layer = {
        "type": "Event",
        "NeonKernelTimer/0: NEIm2ColKernel_#8": times,
        "NeonKernelTimer/1: NEGEMMAssemblyWrapperKernel/sgemm_12x8_2d_#8": times,
        "Wall clock time_#8": times,
    }
    execution = {"CopyMemGeneric_Execute_#6": {"Wall clock time_#6": times}, "Layer_#8": layer}
    profile = {"ArmNN": {"inference_measurements_#1": {"Execute_#4": execution}}}
    assert acl.kernels(profile) == [
        "NEIm2ColKernel",
        "NEGEMMAssemblyWrapperKernel/sgemm_12x8_2d",
    ]


def test_counts_say_what_the_library_chose() -> None:
    answer = {"error": 1e-6, "facts": {}, "info": "Winograd F(6x6)"}
    assert _counted(answer, "1.0", Section(), False).info == "Winograd F(6x6)"


def test_values_of_four_dimensions_are_stored_in_nhwc() -> None:
    value = np.arange(24, dtype="float32").reshape(1, 2, 3, 4)
    stored = acl._Graph.stored(value)
    assert stored.shape == (1, 3, 4, 2) and stored[0, 2, 3, 1] == value[0, 1, 2, 3]
    assert (acl._Graph.plain(stored) == value).all()


@pytest.mark.slow
@needs_estimation
@needs_peers
@pytest.mark.parametrize(
    ("name", "text", "info", "least"),
    [
        # F(4x4): 49 tiles of 36 products for 7x7 of them; F(6x6): 25 of 64
        ("acl", "ic64ih28oc64kh3ph1", "NEWinogradLayerTransformInputKernel", 49 * 36),
        ("nnpack", "ic64ih28oc64kh3ph1", "Winograd F(6x6)", 25 * 64),
        ("acl", "ic64ih14oc64kh1", "NEGEMMAssemblyWrapperKernel", 196),
    ],
)
def test_a_layer_is_counted(tmp_path: Path, name: str, text: str, info: str, least: int) -> None:
    machine = resolve_machine("ft2000plus")
    write_layer_case(tmp_path, Conv2dWorkload.parse(text))
    python = EmulatedPython.find(Path(PEER_PYTHON))
    found: BaselineCount = EmulatedBaseline(BASELINES[name], python, machine).count(tmp_path)
    if found.status == "absent":
        pytest.skip(f"{PEER_PYTHON} has no {name}: {found.message}")
    assert found.status == "ok" and found.error is not None and found.error < 1e-5
    assert found.info.startswith(info)
    assert found.section is not None
    # a vector FMA for four products, transforms and the code around them
    assert 1.0 < found.section.instructions / (least * 64 * 64 / 4) < 4.0
