"""Interrupt builds at given moments in this process, and check that it can build afterwards.

``python interrupted.py SECONDS...`` builds once for each moment, the first time with every import
still to be done. Then one build is left alone and its result is compared with onnxruntime's. Prints
a line for each moment: the stage, or ``lost`` where the build went on, and the seconds from the
signal to the exception.
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


def interrupted_build(seconds: float) -> tuple[str, float]:
    """Build until a signal comes; the stage that was reached, and how long the signal took."""
    stages, sent = ["import"], [0.0]

    def send() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    try:
        timer.start()
        # held until the signal comes: Python loses exceptions in finalizers, as of a model
        model = tvmconv.build(MODEL, threads=1, progress=lambda stage, *_: stages.append(stage))
        model.run(VALUE)
        stages.append("done" if timer.is_alive() else "lost")
        timer.join()
        time.sleep(0.5)
    except KeyboardInterrupt:
        return stages[-1], time.monotonic() - sent[0]
    return "lost", 0.0


def main(moments: list[float]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    for moment in moments:
        stage, seconds = interrupted_build(moment)
        print(f"{stage},{seconds:.2f}")
    assert signal.getsignal(signal.SIGINT) is handler
    outputs = tvmconv.build(MODEL, threads=1).run(VALUE)
    session = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(outputs[0], session.run(None, {"input": VALUE})[0], rtol=1e-4)


if __name__ == "__main__":
    main([float(word) for word in sys.argv[1:]])
