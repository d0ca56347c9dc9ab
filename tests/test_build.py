"""The public ``tvmconv.build``."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvmconv
from tests.graph.network import Net
from tvmconv.core.errors import ConfigError, ModelError, TargetError


def tiny() -> Net:
    return Net(1, 16, 6, 6)


def test_path_bytes_and_proto_build_the_same(tmp_path):
    net = tiny()
    model = net.model(net.op("Relu", net.conv("x", 16, 16)))
    path = tmp_path / "tiny.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).standard_normal((1, 16, 6, 6), dtype=np.float32)
    results = [
        next(iter(tvmconv.build(source, threads=1).run({"x": x}).values()))
        for source in (path, str(path), path.read_bytes(), model)
    ]
    assert results[0].max() > 0
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


def test_stages_of_progress_come_in_order_and_finish():
    net = tiny()
    seen: list[tuple[str, int, int]] = []
    tvmconv.build(
        net.model(net.conv("x", 16, 16)), threads=1, progress=lambda *step: seen.append(step)
    )
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert stages == [
        "read the model",
        "import",
        "choose algorithms",
        "schedule kernels",
        "generate code",
    ]
    last = {stage: (done, total) for stage, done, total in seen}
    assert all(done == total for done, total in last.values())


def test_algorithms_allow_list_names_the_layer_it_cannot_compute():
    net = tiny()
    model = net.model(net.conv("x", 16, 16))
    with pytest.raises(ConfigError, match=r"conv0_0.*no allowed algorithm computes mb1ic16"):
        tvmconv.build(model, threads=1, algorithms=["depthwise"])
    with pytest.raises(ConfigError, match="unknown"):
        tvmconv.build(model, threads=1, algorithms=["fft"])


def test_errors_of_model_and_target():
    with pytest.raises(ModelError):
        tvmconv.build(b"no model")
    with pytest.raises(TargetError):
        tvmconv.build(b"no model", "z80")


def test_build_stays_a_function():
    code = "import tvmconv.building, tvmconv; assert callable(tvmconv.build)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_second_build_reuses_scheduled_kernels():
    from tvmconv.graph.emit.emitter import scheduled

    net = Net(1, 16, 6, 7)
    model = net.model(net.conv("x", 16, 48))
    tvmconv.build(model, threads=1)
    before = scheduled.cache_info()
    tvmconv.build(model, threads=1)
    after = scheduled.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 1)


def test_schedule_that_fails_names_the_layer(monkeypatch):
    import tvmconv.graph.emit.emitter as emitter

    def broken(kernel):
        raise RuntimeError("loop is not there")

    monkeypatch.setattr(emitter, "scheduled", broken)
    net = tiny()
    with pytest.raises(ConfigError, match=r"'conv0_0': direct .*mb1ic16.*loop is not there"):
        tvmconv.build(net.model(net.conv("x", 16, 16)), threads=1, algorithms=["direct"])
