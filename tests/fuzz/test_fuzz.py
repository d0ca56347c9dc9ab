"""A short run of every kind of fuzzing; ``python -m tests.fuzz KIND --seconds N`` does more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        ("models", 15),
        ("drawn integers", 5),
        ("reading damaged", 30),
        *(
            # these are about files and calls, not about code
            pytest.param(kinds, count, marks=pytest.mark.any_processor)
            for kinds, count in (("artifacts manifests logs", 40), ("api", 100), ("signals", 4))
        ),
    ],
)
def test_nothing_but_results_and_refusals(kinds: str, count: int) -> None:
    """A process imports as much for several kinds as for one."""
    words = [*kinds.split(), "--seed", "0", "--count", str(count)]
    command = [sys.executable, "-m", "tests.fuzz", *words]
    result = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(f"{count} attempts") == len(kinds.split())
    # a run in which everything is refused says nothing
    assert ": 0 ok" not in result.stdout


@pytest.mark.parametrize("kind", ["mutated", "drawn"])
def test_an_attempt_repeats_from_seed_and_number(kind: str) -> None:
    from tests.fuzz.corpus import networks
    from tests.fuzz.drawn import draw
    from tests.fuzz.model_mutations import mutate
    from tests.fuzz.runner import generator_of

    models = networks()
    make = (lambda generator: mutate(models, generator)) if kind == "mutated" else draw
    first = [make(generator_of(3, index)) for index in range(20)]
    again = [make(generator_of(3, index)) for index in range(20)]
    assert first == again
    assert len(set(first)) > 15


# operators that the draws leave out, and why
LEFT_OUT = {
    ("com.microsoft", op): "onnxruntime writes it in the default operator set, where it is drawn"
    for op in ("LayerNormalization", "SimplifiedLayerNormalization")
}
_QUIET = 150
_OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)


def test_every_operator_that_can_be_imported_is_drawn() -> None:
    from tests.fuzz.draft import Draft
    from tests.fuzz.drawn import FAMILIES
    from tests.fuzz.runner import generator_of
    from tvmconv.frontend.operators import FOREIGN, IMPORTED
    from tvmconv.frontend.structure import all_nodes

    missing = {("", op) for op in IMPORTED if onnx.defs.has(op)}
    missing |= {(domain, op) for domain, ops in FOREIGN.items() for op in ops} - set(LEFT_OUT)
    steps = list(dict.fromkeys(step for family in FAMILIES for step in family))
    last = dict.fromkeys(steps, 0)
    for index in range(600):
        for number, step in enumerate(steps):
            # a step that finds nothing new for long has drawn all that it can
            if not missing or index - last[step] > _QUIET:
                continue
            draft = Draft(generator_of(number, index), _OPSETS[index % len(_OPSETS)])
            draft.attempt(step)
            nodes = all_nodes(onnx.GraphProto(node=draft.nodes))
            found = missing & {(node.domain, node.op_type) for node in nodes}
            last[step] = index if found else last[step]
            missing -= found
    assert not missing


def test_a_tensor_of_an_unknown_type_mutates_further() -> None:
    from tests.fuzz.corpus import networks
    from tests.fuzz.model_mutations import mutate
    from tests.fuzz.runner import generator_of

    model = networks()[0]
    for tensor in model.graph.initializer:
        tensor.data_type = 99
    assert len({mutate([model], generator_of(0, index)) for index in range(300)}) > 100


def test_one_wrong_integer_of_a_layer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz import integers
    from tests.fuzz.runner import Wrong, generator_of

    def exact_but_one(*arguments: Any) -> Any:
        result = exact_output(*arguments)
        result.flat[-1] += 1
        return result

    attempts = integers.Integers()
    case = attempts.make(generator_of(0, 0))
    assert attempts.judge(case, lambda stage: None)
    exact_output = integers.exact_output
    monkeypatch.setattr(integers, "exact_output", exact_but_one)
    with pytest.raises(Wrong, match=r"set 0: 1 of .* differ"):
        attempts.judge(case, lambda stage: None)
