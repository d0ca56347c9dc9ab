"""Records of processors that multiply tiles of bytes, for tests that execute or only read code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import executed_on
from tvmconv.machines.targets import resolve_machine

# the features of AMX alone added to AVX-512 with VNNI, which more hosts have
TILES = resolve_machine("llvm -mcpu=icelake-server -mattr=+amx-tile,+amx-int8", 1)

each_tile_machine: Any = pytest.mark.parametrize("machine", [executed_on(TILES)])
