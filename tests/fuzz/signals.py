"""Interrupts at any moment: KeyboardInterrupt comes out, and the process stays usable."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.corpus import networks
from tests.fuzz.runner import Note, Wrong

# the longest wait before the interrupt of each action, in seconds
_LONGEST = {"first": 6.0, "build": 0.6, "run": 0.01, "save": 0.3, "load": 0.05}

Case = tuple[str, float]


class Signals:
    """One action, interrupted once, and then repeated to its end.

    Children begin without TVM; some are interrupted while they import it.
    """

    batch = 12

    def __init__(self) -> None:
        os.environ.setdefault("TVMCONV_TUNING_LOGS", "none")
        self.proto = networks()[4]
        self.model: Any = None

    def make(self, generator: random.Random) -> Case:
        action = generator.choice(("build", "run", "save", "load"))
        return action, generator.random()

    def files(self, case: Case) -> dict[str, bytes]:
        return {"case.txt": f"{case}\n".encode()}

    def judge(self, case: Case, note: Note) -> bool:
        action, fraction = case
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.so"
            if self.model is None and action == "build":
                action = "first"
            elif self.model is None:
                self.model = self._act("build", path)
            if action == "load":
                self.model.save(path)
            pid = _interrupt_after(fraction * _LONGEST[action])
            try:
                with suppress(KeyboardInterrupt):
                    self._act(action, path)
            finally:
                _finished(pid)
            outcome = self._act(action, path)
            if action in ("first", "build"):
                self.model = outcome
            _check(self.model if action in ("run", "save") else outcome)
            if action == "save":
                import tvmconv

                _check(tvmconv.load(path))
            left = [file.name for file in Path(folder).iterdir() if file.name.startswith(".")]
            if left:
                raise Wrong(f"left over: {', '.join(left)}")
        return True

    def _act(self, action: str, path: Path) -> Any:
        import tvmconv

        if action in ("first", "build"):
            return tvmconv.build(self.proto, threads=1)
        if action == "run":
            return [_check(self.model) for _ in range(20)]
        if action == "save":
            return self.model.save(path)
        return tvmconv.load(path)


def _interrupt_after(seconds: float) -> int:
    """A process that sends this one an interrupt."""
    receiver = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            time.sleep(seconds)
            os.kill(receiver, signal.SIGINT)
        finally:
            os._exit(0)
    return pid


def _finished(pid: int) -> None:
    """Wait until the interrupt was sent, and let one that comes late pass."""
    waiting = True
    while waiting:
        # an interrupt may come between the call's end and its return
        try:
            os.waitpid(pid, 0)
            waiting = False
        except ChildProcessError:
            waiting = False
        except KeyboardInterrupt:
            continue
    with suppress(KeyboardInterrupt):
        time.sleep(0.001)


def _check(model: Any) -> None:
    inputs = [np.full(info.shape, 0.5, info.dtype) for info in model.inputs]
    sums = [float(value.sum()) for value in model.run(inputs)]
    # the network ends in a softmax of 5 rows
    if not np.allclose(sums, 5.0, atol=1e-4):
        raise Wrong(f"the outputs' sums are {sums}")
