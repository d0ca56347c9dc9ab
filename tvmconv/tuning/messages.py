"""JSON messages over a local socket that keeps their boundaries."""

from __future__ import annotations

import json
import socket
from typing import Any

_MOST = 1 << 16


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send one message; raises :class:`OSError` if the other end is gone."""
    channel.sendall(json.dumps(message).encode())


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """The next message; None if the other end is gone, or silent until the socket's time-out."""
    try:
        data = channel.recv(_MOST)
    except OSError:
        return None
    try:
        message = json.loads(data) if data else None
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
