"""The text that the example reads in a drawn picture is the same in both libraries."""

from __future__ import annotations

import pytest

# a system without OpenCV's libraries skips it too
pytest.importorskip("rapidocr_onnxruntime", exc_type=ImportError)

from examples.ocr.networks import LIBRARIES, Reader
from examples.ocr.picture import draw_page


@pytest.mark.slow
def test_both_libraries_read_the_drawn_text(tmp_path):
    page = draw_page(tmp_path / "page.png", ("Convolution engine",))
    found = {name: Reader(name, threads=1).read(page) for name in LIBRARIES}
    texts = {name: [text for _, text, _ in lines] for name, lines in found.items()}
    assert texts["tvmconv"] == texts["onnxruntime"] == ["Convolution engine"]
