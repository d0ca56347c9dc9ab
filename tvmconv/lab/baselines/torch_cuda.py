"""torch on a GPU: cuDNN's algorithms by its own search, CUDA graphs, TF32 only on request.

The device is an option of the case, so that everything but graphs and events can be tried on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from . import torch_jit
from .case import Array, Case, Session

# as in tvmconv.measuring.gpu.timing, which baselines' environments may lack
_SAMPLE_SECONDS, _MOST_TOGETHER = 200e-6, 50
_FLUSH_TIMES, _LEAST_FLUSH = 2, 32 << 20
_WARM_UP = 3


def version() -> str:
    """Versions of torch, cuDNN and CUDA; raises :class:`ImportError` without a GPU."""
    import torch

    if not torch.cuda.is_available():
        raise ImportError(f"torch {torch.__version__} sees no GPU here")
    cudnn = torch.backends.cudnn.version()
    return f"{torch.__version__}, cuDNN {cudnn}, CUDA {torch.version.cuda}"


def prepare(case: Case, threads: int) -> Session:
    """The nodes by ``torch.nn.functional``, captured once."""
    module, values = module_on_device(case)
    return session_of(case, lambda: module(*values))


def broken() -> bool:
    """Whether the GPU refuses this process: after a fault of a kernel it does so for good."""
    import torch

    try:
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError):
        return True
    return False


def module_on_device(case: Case) -> tuple[Any, list[Any]]:
    """The case as a module, and its inputs, on the device."""

    exactly(case)
    values = [on_device(case, value) for value in case.inputs.values()]
    module = torch_jit.module_of(case).eval().to(device_of(case))
    return module.half() if precision_of(case) == "fp16" else module, values


def on_device(case: Case, value: Array) -> Any:
    """A tensor on the device, FP16 where the case asks for it."""
    import torch

    tensor = torch.from_numpy(value).to(device_of(case))
    rounded = precision_of(case) == "fp16" and tensor.is_floating_point()
    return tensor.half() if rounded else tensor


def precision_of(case: Case) -> str:
    """``float32``, or the type of operands: ``tf32``, or ``fp16``, which tensors then have, too.

    Accumulators are FP32 in all of them.
    """
    return str(case.options.get("precision", "float32"))


def device_of(case: Case) -> str:
    """``cuda``, or the device in the case's options."""
    return str(case.options.get("device", "cuda"))


def exactly(case: Case) -> None:
    """The requested precision and no lower one, and cuDNN's search among its algorithms."""
    import torch

    torch.set_grad_enabled(False)
    tf32 = precision_of(case) == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = True
    # all engines that cuDNN names; torch would try the first ten
    torch.backends.cudnn.benchmark_limit = 0


def session_of(
    case: Case,
    call: Callable[[], Any],
    info: str = "",
    stages: Sequence[tuple[str, Callable[[], Any]]] = (),
) -> Session:
    """A session that calls in a CUDA graph, timed by events; on a CPU by its clock.

    ``call`` returns the result, or a tuple of results. ``stages`` are names with calls that end
    after them, used if the case asks for stages.
    """
    import torch

    last: list[Any] = [None]

    def run() -> None:
        last[0] = call()

    def outputs() -> dict[str, Array]:
        results = last[0] if isinstance(last[0], tuple) else (last[0],)
        return {
            name: _whole(result.contiguous().cpu())
            for name, result in zip(case.outputs, results, strict=True)
        }

    named: dict[str, Callable[[], object]] = dict(stages) if case.options.get("stages") else {}
    if named:
        named[list(named)[-1]] = run
    rounded = {} if precision_of(case) == "float32" else {"precision": precision_of(case)}
    if device_of(case) != "cuda":
        return Session(
            *(run, outputs),
            info=info,
            facts=rounded,
            stages=named,
            sampler=_host_samples,
            colds=False,
        )
    with torch.no_grad():
        for _ in range(_WARM_UP):
            run()
    torch.cuda.synchronize()
    last[0] = None
    torch.cuda.reset_peak_memory_stats()
    held = int(torch.cuda.memory_allocated())
    run()
    torch.cuda.synchronize()
    most = int(torch.cuda.max_memory_allocated())
    facts = {"device_bytes": most, "call_bytes": most - held, **rounded}
    graphs = Graphs()
    if case.options.get("clock") == "host":
        replay = graphs.get(run, 1)

        def once() -> None:
            replay.replay()
            torch.cuda.synchronize()

        text = ", ".join(filter(None, [info, "CUDA graph, host's clock"]))
        return Session(once, outputs, info=text, facts=facts, colds=False)
    return Session(run, outputs, info=info, facts=facts, stages=named, sampler=graphs.samples)


def _whole(tensor: Any) -> Array:
    """An array; FP32 for FP16."""
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # type: ignore[no-any-return]


def _host_samples(run: Callable[[], object], count: int, cache_bytes: int) -> list[float]:
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return samples


class Graphs:
    """Calls in CUDA graphs, and their times by events."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[Any, int], Any] = {}
        self._together: dict[Any, int] = {}
        self._flush: Any = None

    def get(self, run: Callable[[], object], together: int) -> Any:
        """A graph of some calls."""
        import torch

        found = self._graphs.get((run, together))
        if found is None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    run()
            torch.cuda.current_stream().wait_stream(side)
            found = torch.cuda.CUDAGraph()
            with torch.cuda.graph(found):
                for _ in range(together):
                    run()
            found.replay()
            self._graphs[run, together] = found
        return found

    def samples(self, run: Callable[[], object], count: int, cache_bytes: int) -> list[float]:
        """As of :class:`~tvmconv.lab.baselines.case.Session`."""
        if cache_bytes:
            graph = self.get(run, 1)
            return [self._elapsed(graph, cache_bytes) for _ in range(count)]
        if run not in self._together:
            graph = self.get(run, 1)
            seconds = min(self._elapsed(graph) for _ in range(3))
            needed = ceil(_SAMPLE_SECONDS / max(seconds, 1e-9))
            self._together[run] = min(_MOST_TOGETHER, max(1, needed))
        together = self._together[run]
        graph = self.get(run, together)
        return [self._elapsed(graph) / together for _ in range(count)]

    def _elapsed(self, graph: Any, cache_bytes: int = 0) -> float:
        import torch

        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if cache_bytes:
            size = max(_FLUSH_TIMES * cache_bytes, _LEAST_FLUSH)
            if self._flush is None:
                self._flush = torch.empty(size, dtype=torch.uint8, device="cuda")
            self._flush.zero_()
        first.record()
        graph.replay()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) * 1e-3
