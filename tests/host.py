"""The machine of this host, for tests that need one only: they differ from host to host."""

from __future__ import annotations

from tests.kernels import V3, V4, widest

HOST = widest([V3, V4])
