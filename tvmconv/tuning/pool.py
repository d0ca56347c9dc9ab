"""The tuner's side of the candidates' processes: start them, time them, outlive them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.errors import TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.host import host_cores
from tvmconv.measuring.processes import package_path
from tvmconv.tuning.messages import pair, receive, send

Choice = tuple[str, Config]

_START_SECONDS = 120.0
_REFERENCE_SECONDS = 300.0
# One thread for numpy. Threads are bound because threads of a candidate that wake on one CPU may
# share it for longer than they are timed.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TVM_BIND_THREADS": "1"}


@dataclass(frozen=True)
class Limits:
    """The limits of one candidate.

    ``run_seconds`` limits one order (a verification or one round of timing), ``memory_bytes`` the
    memory that a candidate does not share with the others.
    """

    build_seconds: float = 30.0
    run_seconds: float = 20.0
    memory_bytes: int = 4 << 30


class Failure(Exception):
    """A candidate that failed; the report counts each ``kind``."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Running:
    """A candidate's process as the tuner sees it."""

    def __init__(self, channel: socket.socket, limits: Limits) -> None:
        self.channel = channel
        self.limits = limits
        self.pid = 0
        # the result of a verification that came with the build
        self.check: dict[str, Any] | None = None
        # registers that its kernels spill, according to nvcc
        self.spill_bytes = 0

    def answer(self, seconds: float, what: str) -> dict[str, Any]:
        """The next message after the process's number.

        Raises :class:`Failure` if it is late, reports an error, or the process died.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.channel.settimeout(max(deadline - time.monotonic(), 0.001))
            message = receive(self.channel)
            if message is None:
                late = time.monotonic() >= deadline
                self.close()
                kind = "hung" if late else "crashed"
                raise Failure(kind, f"no answer in {seconds:g} s" if late else f"to {what}")
            if "pid" in message:
                self.pid = int(message["pid"])
                if what == "start":
                    return message
                continue
            if message.get("status") in ("error", "refused"):
                self.close()
                raise Failure(str(message["status"]), str(message.get("reason", "")))
            self.check = message.get("check", self.check)
            self.spill_bytes = int(message.get("spill_bytes", self.spill_bytes))
            return message

    def order(self, what: str, **details: Any) -> dict[str, Any]:
        """Give an order and wait for its result; fails as :meth:`answer`."""
        try:
            send(self.channel, {"do": what, **details})
        except OSError:
            self.close()
            raise Failure("crashed", f"before it could {what}") from None
        return self.answer(self.limits.run_seconds, what)

    def close(self) -> None:
        """End the process."""
        if self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
            self.pid = 0
        self.channel.close()


class Pool:
    """Starts candidates from a warm process, with as many builds at a time as there are workers."""

    def __init__(self, workers: int = 0, limits: Limits | None = None) -> None:
        self.workers = workers or host_cores()
        self.limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False
        # remote devices are served by threads
        self._lock = threading.Lock()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process number of the warm process; 0 before it was needed."""
        return self._process.pid if self._process else 0

    def close(self) -> None:
        """End the warm process and with it every candidate."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None

    def start(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        remote: Mapping[str, Any] | None = None,
        draft: bool = False,
    ) -> Running:
        """Let a process begin to build kernels.

        ``remote`` is the device that they will run on; None for this machine. A ``draft`` uses less
        of LLVM's work: enough to find the good ones of many candidates. Raises
        :class:`TvmconvError` if the warm process cannot be started.
        """
        ours, theirs = pair()
        request = {
            "workload": str(workload),
            "lanes": machine.channel_block,
            "machine": machine.to_json(),
            "threads": machine.cores,
            "choices": [[algorithm, config.to_json()] for algorithm, config in choices],
            "remote": dict(remote) if remote else None,
            "draft": draft,
            # a GPU's driver reserves more addresses than any limit
            "memory_bytes": 0 if isinstance(machine, CudaMachine) else self.limits.memory_bytes,
            "cpu_seconds": 4 * (self.limits.build_seconds + self.limits.run_seconds),
        }
        data = json.dumps(request).encode()
        with self._lock:
            for attempt in (0, 1):
                try:
                    socket.send_fds(self._warm(), [data], [theirs.fileno()])
                    break
                except OSError as error:
                    self.close()
                    if attempt:
                        raise TvmconvError(f"the measuring process ended: {error}") from None
        theirs.close()
        return Running(ours, self.limits)

    def build(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        draft: bool = False,
    ) -> list[Running | Failure]:
        """Build and verify candidates in parallel; returns all of them in the given order.

        It waits for the last one, because a compilation would disturb times.
        """
        waiting = list(enumerate(choices))[::-1]
        building: dict[int, tuple[Running, float]] = {}
        done: dict[int, Running | Failure] = {}
        try:
            while waiting or building:
                while waiting and len(building) < self.workers:
                    number, choice = waiting.pop()
                    running = self.start(workload, machine, [choice], draft=draft)
                    building[number] = (running, time.monotonic() + _REFERENCE_SECONDS)
                self._wait(building)
                for number, (running, deadline) in list(building.items()):
                    found = self._progress(running, deadline)
                    if isinstance(found, float):
                        building[number] = (running, found)
                    else:
                        del building[number]
                        done[number] = found
        except BaseException:
            for started in (*(r for r, _ in building.values()), *done.values()):
                if isinstance(started, Running):
                    started.close()
            raise
        return [done[number] for number in range(len(choices))]

    def _wait(self, building: Mapping[int, tuple[Running, float]]) -> None:
        """Until a candidate has answered or is overdue."""
        channels = [running.channel for running, _ in building.values()]
        left = min(deadline for _, deadline in building.values()) - time.monotonic()
        select.select(channels, [], [], max(0.0, min(left, 1.0)))

    def _progress(self, running: Running, deadline: float) -> Running | Failure | float:
        """The built candidate, its failure, or its new deadline."""
        readable, _, _ = select.select([running.channel], [], [], 0)
        if not readable and time.monotonic() < deadline:
            return deadline
        try:
            message = running.answer(
                0.05 if readable else 0.001, "start" if not running.pid else "build"
            )
        except Failure as failure:
            return failure
        return running if "pid" not in message else time.monotonic() + self.limits.build_seconds

    def launch(self) -> None:
        """Let the warm process start, without waiting for it."""
        if self._process is not None:
            return
        self._control, theirs = pair()
        self._ready = False
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": package_path()}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tvmconv.tuning.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def _warm(self) -> socket.socket:
        self.launch()
        assert self._control is not None
        if not self._ready:
            self._control.settimeout(_START_SECONDS)
            if receive(self._control) is None:
                raise TvmconvError(
                    "the measuring process did not start. Check that `import tvm` works here."
                )
            self._ready = True
        return self._control
