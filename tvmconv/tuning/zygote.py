"""The process that candidates are forked from: it imported TVM and made the operands once.

Run as ``python -m tvmconv.tuning.zygote FD``. Requests arrive over the socket ``FD``, one JSON
object a message, with the socket of the new candidate attached. The process of a candidate builds
its kernel, waits for its orders, and answers on its own socket. A crash ends one candidate only.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
import traceback
from typing import Any

from tvmconv.measuring.processes import die_with_parent
from tvmconv.tuning.messages import receive, send

_TEXT = 300


def serve(control: socket.socket) -> None:
    """Fork a process for every request until the other end is gone."""
    from tvmconv.tuning.candidate import SeededOperands, warm_up

    warm_up()
    operands: dict[str, SeededOperands] = {}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    send(control, {"ready": os.getpid()})
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not data:
            return
        request = json.loads(data)
        channel = socket.socket(fileno=descriptors[0])
        workload = request["workload"]
        try:
            if workload not in operands:
                operands.clear()
                operands[workload] = SeededOperands(workload, request["lanes"])
        except Exception as error:
            send(channel, {"status": "refused", "reason": str(error)[:_TEXT]})
            channel.close()
            continue
        if os.fork() == 0:
            control.close()
            _candidate(channel, operands[workload], request)
        channel.close()


def _candidate(channel: socket.socket, operands: Any, request: dict[str, Any]) -> None:
    """The life of one candidate; never returns."""
    try:
        _limit(request)
        send(channel, {"pid": os.getpid()})
        from tvmconv.tuning.candidate import CandidateKernels
        from tvmconv.tuning.runner import stay

        candidate = CandidateKernels.build(operands, request)
        if not candidate.runner.shared:
            stay(int(request["threads"]))
        send(channel, {"status": "built", **candidate.facts()})
        while (order := receive(channel)) is not None:
            send(channel, candidate.obey(order))
    except BaseException as error:
        if os.environ.get("TVMCONV_TUNING_DEBUG"):
            traceback.print_exc()
        kind = type(error).__name__
        with contextlib.suppress(OSError):
            send(channel, {"status": "error", "reason": f"{kind}: {error}"[:_TEXT]})
    finally:
        # no destructors, no exit handlers: they are the zygote's
        os._exit(0)


def _limit(request: dict[str, Any]) -> None:
    """Die with the zygote; stop at the limits even without a tuner."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cpu = int(request["cpu_seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    if not request["memory_bytes"]:
        return
    with open("/proc/self/statm") as file:  # noqa: PTH123
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    most = mapped + int(request["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])))
