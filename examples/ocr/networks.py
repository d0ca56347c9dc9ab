"""The three networks of RapidOCR, run by one of two libraries.

RapidOCR reads pictures, finds boxes in the detector's map and decodes the recognizer's letters.
Only its sessions are replaced: objects that are called with an array and return a list of arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import rapidocr_onnxruntime

import tvmconv

Array = npt.NDArray[np.float32]
Run = Callable[[Array], Array]

MODELS = Path(rapidocr_onnxruntime.__file__).parent / "models"
DETECTOR = MODELS / "ch_PP-OCRv4_det_infer.onnx"
CLASSIFIER = MODELS / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
RECOGNIZER = MODELS / "ch_PP-OCRv4_rec_infer.onnx"
# lines of text are padded to a multiple of this, so that few shapes are built
_COLUMNS = 160


def by_tvmconv(path: Path, threads: int) -> Run:
    """Return a network that is built for each shape of its input."""
    model = tvmconv.build(path, dynamic=True, threads=threads)
    return lambda x: np.asarray(model(x)[0])


def by_onnxruntime(path: Path, threads: int) -> Run:
    """Return onnxruntime's network."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(x: Array) -> Array:
        return np.asarray(session.run(None, {"x": x})[0])

    return run


LIBRARIES = {"tvmconv": by_tvmconv, "onnxruntime": by_onnxruntime}


@dataclass
class Session:
    """A network, and the seconds of its calls.

    Parameters
    ----------
    run
        Computes the output for an input of any shape.
    pads_columns
        Whether columns of zeros are added up to the next shape, as RapidOCR itself pads lines.
    """

    run: Run
    pads_columns: bool = False
    seconds: float = 0.0

    def __call__(self, x: Array) -> list[Array]:
        """Run the network."""
        if self.pads_columns:
            missing = -x.shape[3] % _COLUMNS
            x = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, missing)))
        x = np.ascontiguousarray(x, np.float32)
        start = time.perf_counter()
        result = self.run(x)
        self.seconds += time.perf_counter() - start
        return [result]


class Reader:
    """Reads text with the networks of one library.

    Parameters
    ----------
    library
        ``"tvmconv"`` or ``"onnxruntime"``.
    threads
        Threads of each network.
    """

    def __init__(self, library: str, threads: int) -> None:
        make = LIBRARIES[library]
        # one line of text at a time: lines of a batch would share the longest one's width
        self.engine = rapidocr_onnxruntime.RapidOCR(rec_batch_num=1, cls_batch_num=1)
        self.sessions = {
            "detector": Session(make(DETECTOR, threads)),
            "classifier": Session(make(CLASSIFIER, threads)),
            "recognizer": Session(make(RECOGNIZER, threads), pads_columns=True),
        }
        self.engine.text_det.infer = self.sessions["detector"]
        self.engine.text_cls.infer = self.sessions["classifier"]
        self.engine.text_rec.session = self.sessions["recognizer"]

    def read(self, picture: Path) -> list[tuple[list[list[float]], str, float]]:
        """Return the box (four corners), the text and its score of each line."""
        for session in self.sessions.values():
            session.seconds = 0.0
        lines, _ = self.engine(str(picture))
        return [(box, text, float(score)) for box, text, score in lines or []]
