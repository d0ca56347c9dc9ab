"""Building and timing cases: several to a model first, those over a limit again by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplemented_

import tvmconv
from tests.sweeps.bounds import bound_of, results_of
from tests.sweeps.draws import Case, Given, model_of
from tvmconv.core.errors import TvmconvError
from tvmconv.machines.targets import resolve_machine
from tvmconv.runtime.timing import BoundCall

# time of a kernel's call and two looks at the clock, for any kernel
CALL = 3e-7
# cases of one model, and their bytes: a case may find another one's data in the caches
_CASES, _BYTES = 12, 1 << 19
# rounds of the two libraries in turn, seconds of one, and calls of it
_ROUNDS, _SLICE, _CALLS = 6, 0.01, 40
_TOLERANCE = 2e-4
# float16 is rounded once by us, and after each step by some kernels of the baseline
_HALF = 2.0**-9
# one step of 8-bit results, for values so near to a half that the order of products decides
_STEP = 0.01
# positions of Resize are float32 in the baseline: how much weights err for each element of an axis
_POSITION = 2.0**-22


@dataclass(frozen=True)
class Limits:
    """Limits of a report: times over the bound or the baseline, and the shortest time.

    A kernel that is slower than the baseline counts if it is over its bound by ``within`` times.
    """

    over: float = 4.0
    slower: float = 1.2
    above: float = 20e-6
    within: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """One case, and what came of it.

    Parameters
    ----------
    case
        The case.
    bound
        Its bound in seconds.
    kernels
        Seconds inside of its kernels.
    seconds
        Seconds of a whole call, or 0 where it was not timed alone.
    baseline
        Seconds of a call of the baseline, if any.
    error
        Error of the build.
    wrong
        The largest difference from the baseline over its largest value.
    """

    case: Case
    bound: float
    kernels: float
    seconds: float = 0.0
    baseline: float | None = None
    error: str = ""
    wrong: float = 0.0

    @property
    def over(self) -> float:
        """Times over the bound."""
        return max(self.kernels - CALL, 0.0) / self.bound

    @property
    def slower(self) -> float:
        """Seconds over the baseline's; 0 without one."""
        return self.seconds / self.baseline if self.baseline else 0.0

    @property
    def is_wrong(self) -> bool:
        """Whether the case was not built, or differs from the baseline."""
        length = max(self.case.inputs[0]) if self.case.operator == "Resize" else 0
        rounding = _HALF if self.case.dtype == "float16" else 0.0
        rounding += _STEP if self.case.operator.startswith("QLinear") else 0.0
        return bool(self.error) or self.wrong > _TOLERANCE + rounding + _POSITION * length

    def is_late(self, limits: Limits) -> bool:
        """Whether a call takes longer than the baseline's, and long enough to count."""
        counts = self.seconds > limits.above and self.over > limits.within
        return self.slower > limits.slower and counts

    def exceeds(self, limits: Limits) -> bool:
        """Whether the case is to be listed."""
        return self.is_wrong or self.over > limits.over or self.is_late(limits)


def batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases that are built together: small ones, so that they stay in the caches."""
    found: list[Case] = []
    total = 0
    for case in cases:
        size = 8 * sum(int(np.prod(shape)) for shape in case.inputs)
        if found and (len(found) == _CASES or total + size > _BYTES):
            yield found
            found, total = [], 0
        found.append(case)
        total += size
    if found:
        yield found


def measure(cases: Sequence[Case], limits: Limits, baseline: bool) -> list[Outcome]:
    """Outcomes of cases: all together, and again alone where one exceeds a limit.

    With a baseline, all results are compared, and times where they are long enough to count.
    """
    together = _screened(cases, baseline)
    outcomes = []
    for case, outcome in zip(cases, together, strict=True):
        if outcome is None:
            outcomes.append(_alone(case, baseline))
            continue
        counts = baseline and outcome.kernels > limits.above / 2
        if counts or outcome.exceeds(limits):
            alone = _alone(case, baseline)
            # its neighbors may matter
            outcome = replace(alone, wrong=max(alone.wrong, outcome.wrong))
        outcomes.append(outcome)
    return outcomes


def _bounds(model: onnx.ModelProto, cases: Sequence[Case]) -> list[float]:
    machine = resolve_machine("native", threads=1)
    results = results_of(model)
    bounds = []
    for case in cases:
        own, results = results[: case.outputs], results[case.outputs :]
        bounds.append(bound_of(case, [shape for _, shape, _ in own], own[0][2], machine))
    return bounds


def _screened(cases: Sequence[Case], baseline: bool) -> list[Outcome | None]:
    """Outcomes inside of one model of all cases; None where kernels cannot be distinguished."""
    model = model_of(cases)
    try:
        built = tvmconv.build(model, threads=1)
    except TvmconvError:
        return [None] * len(cases)
    names = [record.operator for record in built.calls]
    count, rest = divmod(len(names), len(cases))
    # kernels come in the order of the nodes, and carry no node's name where it is decomposed
    if rest or any(names[i] != names[i % count] for i in range(len(names))):
        return [None] * len(cases)
    feed = _feed(cases)
    call = built.bind(feed)
    rows = _clocked(call, _SLICE * len(cases))
    best = [min(sum(row[i * count : (i + 1) * count]) for row in rows) for i in range(len(cases))]
    other = _session(model) if baseline else None
    expected = call.outputs() if other is None else other.run(None, feed)
    errors = [error_of(*pair) for pair in zip(call.outputs(), expected, strict=True)]
    outcomes: list[Outcome | None] = []
    for case, bound, seconds in zip(cases, _bounds(model, cases), best, strict=True):
        own, errors = errors[: case.outputs], errors[case.outputs :]
        outcomes.append(Outcome(case, bound, seconds, wrong=max(own)))
    return outcomes


def _alone(case: Case, baseline: bool) -> Outcome:
    """One case compared with the baseline, in interleaved rounds."""
    model = model_of([case])
    (bound,) = _bounds(model, [case])
    try:
        built = tvmconv.build(model, threads=1)
    except TvmconvError as error:
        return Outcome(case, bound, 0.0, error=f"{type(error).__name__}: {error}")
    feed = _feed([case])
    call = built.bind(feed)
    kernels = min(map(sum, _clocked(call, _SLICE)))
    other = _session(model) if baseline else None
    if other is None:
        return Outcome(case, bound, kernels, _best(call))
    binding = other.io_binding()
    for name, value in feed.items():
        binding.bind_cpu_input(name, value)
    for result in other.get_outputs():
        binding.bind_output(result.name)
    ours = theirs = np.inf
    for _ in range(_ROUNDS):
        ours = min(ours, _best(call))
        theirs = min(theirs, _best(lambda: other.run_with_iobinding(binding)))
        kernels = min(kernels, *map(sum, _clocked(call, _SLICE)))
    pairs = zip(call.outputs(), binding.copy_outputs_to_cpu(), strict=True)
    wrong = max(error_of(actual, expected) for actual, expected in pairs)
    return Outcome(case, bound, kernels, ours, theirs, wrong=wrong)


def _clocked(call: BoundCall, seconds: float) -> list[list[float]]:
    """Seconds of each kernel, of as many calls as fit."""
    stop = time.perf_counter() + seconds
    call()
    rows: list[list[float]] = []
    while len(rows) < 3 or (len(rows) < _CALLS and time.perf_counter() < stop):
        rows.append([nanoseconds / 1e9 for nanoseconds in call.profile()])
    return rows


def error_of(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest error over the largest value, of the elements that are finite.

    Infinity where shapes, types or the other elements differ, or integers of more than 8 bits.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return np.inf
    if expected.dtype.kind != "f" and expected.dtype.itemsize > 1:
        # indices are far apart, however near they are to the largest one
        return 0.0 if np.array_equal(actual, expected) else np.inf
    a, b = (x.astype(np.float64) for x in (actual, expected))
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or np.isnan(a[finite]).any():
        return np.inf
    scale = max(float(np.abs(b[finite]).max(initial=0)), 1e-30)
    return float(np.abs(a[finite] - b[finite]).max(initial=0)) / scale


def _feed(cases: Sequence[Case]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    feed = {}
    for number, case in enumerate(cases):
        for place, operand in enumerate(case.operands):
            if isinstance(operand, Given):
                feed[f"c{number}_{place}"] = operand.values
            elif isinstance(operand, tuple):
                values = generator.standard_normal(operand) * (1 if case.dtype[0] == "f" else 50)
                feed[f"c{number}_{place}"] = values.astype(case.dtype)
    return feed


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession | None:
    """A session; None where onnxruntime has no kernel for the operator or its types."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(data, options, providers=providers)
    except (NotImplemented_, Fail, InvalidGraph):
        return None


def _best(function: Callable[[], object]) -> float:
    """The fastest of several calls."""
    best = np.inf
    stop = time.perf_counter() + _SLICE
    for _ in range(_CALLS):
        start = time.perf_counter()
        function()
        end = time.perf_counter()
        best = min(best, end - start)
        if end > stop:
            break
    return float(best)
