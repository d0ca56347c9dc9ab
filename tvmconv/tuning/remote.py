"""Measuring on the devices of TVM's RPC tracker, all in parallel, even if some of them fail."""

from __future__ import annotations

import logging
import math
import queue
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tvmconv.core.errors import TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.remote import devices_of
from tvmconv.tuning.anchor import Anchor
from tvmconv.tuning.journal import Trial
from tvmconv.tuning.measure import (
    TIMES,
    WEIGHTS,
    Final,
    GpuMeasurer,
    LocalMeasurer,
    Measurer,
    Quick,
    checked,
    quick_trial,
)
from tvmconv.tuning.pool import Choice, Failure, Pool, Running
from tvmconv.tuning.results import MeasuredChoice

LOGGER = logging.getLogger("tvmconv.tuning")
_HANGS = 2
_DEVICE_FAULTS = ("hung", "crashed", "error")


def make_measurer(
    pool: Pool, on_gpu: bool, address: tuple[str, int] | None = None, keys: Sequence[str] = ()
) -> Measurer:
    """This machine, its GPU, or the devices of a tracker at an ``address`` under ``keys``.

    Raises :class:`TvmconvError` if the tracker has no device under one of the keys.
    """
    if address is not None:
        return RemoteMeasurer(pool, *address, keys)
    return GpuMeasurer(pool) if on_gpu else LocalMeasurer(pool)


class RemoteMeasurer:
    """Devices of a tracker under one or several keys; devices of all keys must be alike.

    A device that disappears, or hangs twice in a row, gets no more candidates, and its candidate
    goes to another device. TVM's RPC is neither encrypted nor authenticated: use it in trusted
    networks.
    """

    weights, times = WEIGHTS, TIMES

    def __init__(
        self, pool: Pool, host: str, port: int, keys: Sequence[str], quick: Quick | None = None
    ) -> None:
        self.pool = pool
        self.address = (host, port)
        self.keys = list(dict.fromkeys(keys))
        self.quick = quick or Quick()
        self.lost: list[str] = []
        self.measured: Counter[str] = Counter()
        self._hangs: Counter[str] = Counter()
        self._last = ""
        counts = self._devices()
        if missing := [key for key in self.keys if not counts.get(key)]:
            raise TvmconvError(
                f"the tracker {host}:{port} has no device under {', '.join(missing)}; "
                f"it has {', '.join(sorted(counts)) or 'none'}"
            )
        self._slots: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._count = 0
        for key in self.keys:
            for _ in range(counts[key]):
                self._slots.put(key)
                self._count += 1

    @property
    def tracker(self) -> dict[str, Any]:
        """The devices of the first key."""
        return self._remote(self.keys[0])

    def identity(self) -> dict[str, str]:
        """The key of the device that measured last."""
        return {"cpu": "remote", "key": self._last}

    def trials(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        best: float = math.inf,
        anchor: Anchor | None = None,
    ) -> Iterator[Trial]:
        """See :class:`~tvmconv.tuning.measure.Measurer`; as many at a time as there are devices.

        Nothing is interleaved: the ``anchor`` only names the choice that may spill registers.
        Raises :class:`TvmconvError` if no device is left.
        """
        spared = anchor.choice if anchor is not None else None
        with ThreadPoolExecutor(max(self._count, 1)) as threads:
            yield from threads.map(
                lambda choice: self._one(workload, machine, choice, best, spared), choices
            )

    def interleaved(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        final: Final,
    ) -> list[MeasuredChoice | Failure]:
        """See :class:`~tvmconv.tuning.measure.Measurer`; all of them on one device."""
        while True:
            key = self._take()
            try:
                running = self._build(workload, machine, choices, key)
                answer = running.order("interleave", rounds=final.rounds, seconds=final.seconds)
                running.close()
            except Failure as failure:
                if not self._release(key, failure.kind):
                    continue
                return [failure for _ in choices]
            self._release(key, "")
            self._last = key
            return [
                checked(*each)
                for each in zip(choices, answer["checks"], answer["samples"], strict=True)
            ]

    def _one(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choice: Choice,
        best: float,
        spared: Choice | None,
    ) -> Trial:
        """One candidate on the next free device, and on another device if the first one is lost."""
        while True:
            key = self._take()
            built: Running | Failure
            try:
                try:
                    built = self._build(workload, machine, [choice], key)
                except Failure as failure:
                    built = failure
                built_here = isinstance(built, Running)
                trial = quick_trial(choice, built, best, self.quick, spared)
            except BaseException:
                # other candidates wait for this device; the error is shown after them
                self._slots.put(key)
                raise
            # a candidate that cannot be built says nothing about the device
            fault = trial.status if built_here and trial.status in _DEVICE_FAULTS else ""
            if self._release(key, fault):
                self.measured[key] += 1
                return trial

    def _build(
        self, workload: Conv2dWorkload, machine: Device, choices: Sequence[Choice], key: str
    ) -> Running:
        limits = self.pool.limits
        running = self.pool.start(workload, machine, choices, self._remote(key))
        running.answer(limits.build_seconds * len(choices) + limits.run_seconds, "build")
        return running

    def _remote(self, key: str) -> dict[str, Any]:
        host, port = self.address
        seconds = 2 * self.pool.limits.run_seconds
        return {"host": host, "port": port, "key": key, "session_seconds": seconds}

    def _take(self) -> str:
        """The key of a free device; waits for one, and fails as :meth:`trials`."""
        while True:
            try:
                key = self._slots.get(timeout=0.2)
                if self._devices().get(key):
                    return key
                self._lose(key, "the tracker no longer knows it")
            except queue.Empty:
                if self._count == 0:
                    raise TvmconvError(
                        f"no device is left; lost: {', '.join(self.lost)}. "
                        "Start one, and repeat the same command."
                    ) from None

    def _release(self, key: str, fault: str) -> bool:
        """Free a device; False if it is lost, and its candidate has no result."""
        if not fault:
            self._hangs[key] = 0
            self._slots.put(key)
            return True
        self._hangs[key] += fault == "hung"
        if self._hangs[key] < _HANGS and self._devices().get(key):
            self._slots.put(key)
            return fault != "hung"
        self._lose(key, fault)
        return False

    def _lose(self, key: str, why: str) -> None:
        self._count -= 1
        self.lost.append(key)
        LOGGER.warning("device %s is lost (%s); going on with %d", key, why, self._count)

    def _devices(self) -> dict[str, int]:
        """Devices that the tracker knows, by key."""
        return devices_of(*self.address)
