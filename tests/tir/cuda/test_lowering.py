"""TVM prints CUDA kernels without compiling them."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from tests.cuda import SM_90
from tvmconv.tir.cuda import lowering

VARIABLE = "TVM_COMPILE_FORCE_FALLBACK"


def test_no_thread_lets_another_compile(monkeypatch: Any) -> None:
    """The variable is of the process: a thread that ends restores it while another prints."""

    def build(_device: Any, _target: Any) -> Any:
        time.sleep(0.02)
        found = os.environ.get(VARIABLE)
        return SimpleNamespace(inspect_source=lambda _kind: found)

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(lowering.tvm, "get_global_func", lambda _name: build)
    with ThreadPoolExecutor(3) as threads:
        printed = []
        for _ in range(3):
            printed.append(threads.submit(lowering._printed, None, SM_90))
            time.sleep(0.005)
    assert [text.result() for text in printed] == ["1"] * 3
    assert VARIABLE not in os.environ
