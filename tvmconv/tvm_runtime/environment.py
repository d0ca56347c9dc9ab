"""Environment variables that TVM's thread pool reads when it starts."""

from __future__ import annotations

import os

# Workers poll between the kernels of one call, which are some microseconds apart. TVM's default
# of 300 000 polls keeps a CPU busy for a tenth of a second after every call.
_SPIN_COUNT = "10000"


def set_environment_defaults() -> None:
    """Choose unbound workers and short polling unless the user chose otherwise."""
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", _SPIN_COUNT)
