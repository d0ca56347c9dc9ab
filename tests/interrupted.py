"""Interrupt builds at given moments in this process, and check that it is as good as new.

``python interrupted.py SECONDS...`` builds once for each moment, the first time with every import
still to be done. Each build must end in ``KeyboardInterrupt``; then one is left alone and its
result compared with onnxruntime's. Prints where each build was when the signal came.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import onnxruntime as ort

import tvmconv
from tests.small_network import small_network

MODEL = small_network().SerializeToString()
VALUE = np.random.default_rng(0).standard_normal((1, 3, 21, 20)).astype("float32")


def interrupted_build(seconds: float) -> str:
    """Build until a signal comes; the stage that was reached."""
    stages = ["import"]
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        # held until the signal comes: Python loses exceptions in finalisers, as of a model
        model = tvmconv.build(MODEL, threads=1, progress=lambda stage, *_: stages.append(stage))
        model.run(VALUE)
        stages.append("done")
        time.sleep(10)
    except KeyboardInterrupt:
        return stages[-1]
    raise RuntimeError("the signal was lost")


def main(moments: list[float]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    places = [interrupted_build(seconds) for seconds in moments]
    assert signal.getsignal(signal.SIGINT) is handler
    outputs = tvmconv.build(MODEL, threads=1).run(VALUE)
    session = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(outputs[0], session.run(None, {"input": VALUE})[0], rtol=1e-4)
    print(",".join(places))


if __name__ == "__main__":
    main([float(word) for word in sys.argv[1:]])
