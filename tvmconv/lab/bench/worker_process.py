"""The bench's side of a worker: start, ask, pause, and survive its crash or hang."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvmconv.lab.baselines
from tvmconv.lab.baselines import OWN_ADAPTERS
from tvmconv.measuring.processes import package_path

_WORKER = Path(tvmconv.lab.baselines.__file__).with_name("worker.py")
_THREAD_VARIABLES = tuple(f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "TVM", "OPENBLAS"))


class WorkerError(Exception):
    """A worker died, hung, or its answer could not be read."""


@dataclass(frozen=True)
class Implementation:
    """One column of a bench: an adapter, the interpreter that runs it, and its options.

    Implementations of one ``group`` share a process; without a group it has one of its own.
    """

    label: str
    adapter: str
    python: str
    options: tuple[tuple[str, Any], ...] = ()
    group: str = ""


class WorkerProcess:
    """One implementation in its own process, stopped between its rounds.

    Spinning threads of one library would otherwise disturb the measurement of another one.
    """

    def __init__(
        self,
        implementation: Implementation,
        threads: int,
        cpus: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.implementation = implementation
        self.environment = environment or {}
        self.threads = threads
        self.cpus = cpus
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer; the worker is stopped afterwards.

        Raises :class:`WorkerError` if no answer comes within ``timeout`` seconds, or the process
        ended. The next call starts a new process.
        """
        process = self.process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.send_signal(signal.SIGCONT)
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process, timeout)
        except BrokenPipeError:
            line = b""
        if not line:
            raise WorkerError(self._ended())
        process.send_signal(signal.SIGSTOP)
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            raise WorkerError(f"answered {line[:100]!r}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(self.threads))}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", **self.environment}
        if self.implementation.adapter in OWN_ADAPTERS:
            # not for baselines: their interpreter must not see the packages of this one
            environment["PYTHONPATH"] = package_path()
        self.process = subprocess.Popen(
            [
                self.implementation.python,
                str(_WORKER),
                self.implementation.adapter,
                str(self.threads),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            start_new_session=True,
        )
        if self.cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self.process.pid, self.cpus)
        return self.process

    def _read_line(self, process: subprocess.Popen[bytes], timeout: float) -> bytes:
        """A whole line, however long; empty at the end of the stream."""
        from time import monotonic

        assert process.stdout is not None
        end, parts = monotonic() + timeout, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not parts.endswith(b"\n"):
                if not selector.select(max(end - monotonic(), 0)):
                    self.close()
                    raise WorkerError(f"no answer within {timeout:g} s")
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return b""
                parts += chunk
        return bytes(parts)

    def _ended(self) -> str:
        process = self.process
        self.close()
        code = process.returncode if process else None
        self.errors.seek(0)
        tail = self.errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        last = f": {tail[-1][:200]}" if tail else ""
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"the process ended ({how}){last}"

    def close(self) -> None:
        """End the process and everything it started."""
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # the worker leads its own session, so its number names its process group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
