"""Checks of LSTM, GRU and RNN: their attributes, the shapes of their operands, and their results.

onnx's own inference looks only at the input's shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.operators.recurrent_form import (
    BIAS,
    CELL,
    GATES,
    HIDDEN,
    LENGTHS,
    PEEPHOLES,
    STATES,
    Activation,
    RecurrentForm,
)

RECURRENT = ("GRU", "LSTM", "RNN")
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_DEFAULTS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}
# activations by their names in lower case, with the alpha and beta of the operator of that name;
# None: ONNX lacks such an operator. onnxruntime's default threshold is 0, against the definition
_PARAMETERS: dict[str, tuple[float | None, ...]] = {
    "affine": (None, None),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "relu": (),
    "scaledtanh": (None, None),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (1.0,),
}
# indices of operands after the weights
OPERANDS = {BIAS: 3, LENGTHS: 4, HIDDEN: 5, CELL: 6, PEEPHOLES: 7}
_FLAGS = ("input_forget", "layout", "linear_before_reset")
_FLOATS = ("float32", "float16")


def infer_recurrent(graph: OnnxGraph, node: OnnxNode) -> list[TensorInfo]:
    """Check a recurrent layer and return its named outputs.

    Raises ``ModelError`` if an attribute or the shape of an operand is wrong.
    """
    form = recurrent_form(graph, node)
    steps, batch = _extents(graph, node)
    shapes = dict(zip(form.results, form.result_shapes(steps, batch), strict=True))
    names = dict(_named_outputs(node))
    dtype = graph.types[node.inputs[0]].dtype
    return [TensorInfo(names[result], shapes[result], dtype) for result in form.results]


def recurrent_form(graph: OnnxGraph, node: OnnxNode) -> RecurrentForm:
    """The computation of a recurrent layer. Operands that change nothing are left out."""
    for index, what in enumerate(("input", "weights W", "recurrent weights R")):
        if not node.input(index):
            raise node.error(f"its {what} (input {index}) is missing. Expected three inputs")
    dtype = graph.types[node.inputs[0]].dtype
    if dtype not in _FLOATS:
        raise node.error(
            f"it computes in {dtype}. Expected float32 or float16", "convert the model to float32"
        )
    for name in _FLAGS:
        if (flag := node.attrs.get(name, 0)) not in (0, 1):
            raise node.error(f"{name}={str(flag)[:80]}. Expected 0 or 1")
    direction = node.attrs.get("direction", "forward")
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        expected = ", ".join(DIRECTIONS)
        raise node.error(f"direction={str(direction)[:80]!r}. Expected one of {expected}")
    backward = DIRECTIONS[direction]
    hidden = _check_shapes(graph, node, len(backward))
    after = bool(node.attrs.get("linear_before_reset", 0)) and node.op == "GRU"
    present = [name for name, index in OPERANDS.items() if _is_used(graph, node, name, index)]
    if not after and BIAS in present:
        present.remove(BIAS)
    form = RecurrentForm(
        node.op.lower(),
        hidden,
        backward,
        _activations(node, len(backward)),
        tuple(present),
        tuple(result for result, _ in _named_outputs(node)),
        _clip(node),
        bool(node.attrs.get("layout", 0)),
        bool(node.attrs.get("input_forget", 0)),
        after,
    )
    return form


def lengths(graph: OnnxGraph, node: OnnxNode) -> Array | None:
    """The constant lengths of the sequences, if there are any."""
    return graph.constants.get(node.input(OPERANDS[LENGTHS]))


def _is_used(graph: OnnxGraph, node: OnnxNode, operand: str, index: int) -> bool:
    """Whether an operand is present and changes the result."""
    name = node.input(index)
    if not name:
        return False
    known = graph.constants.get(name)
    if known is None:
        return True
    if operand == LENGTHS:
        return bool((known < _extents(graph, node)[0]).any())
    return bool(np.any(known))


def _named_outputs(node: OnnxNode) -> Iterator[tuple[str, str]]:
    for result, name in zip((STATES, HIDDEN, CELL), node.outputs, strict=False):
        if name:
            yield result, name


def _extents(graph: OnnxGraph, node: OnnxNode) -> tuple[int, int]:
    """Steps and sequences."""
    first, second, _ = graph.shape(node.inputs[0])
    return (second, first) if node.attrs.get("layout", 0) else (first, second)


def _check_shapes(graph: OnnxGraph, node: OnnxNode, directions: int) -> int:
    """Check the operands' shapes; gives the number of hidden units."""
    data, weight = graph.shape(node.inputs[0]), graph.shape(node.inputs[2])
    if len(data) != 3 or 0 in data:
        raise node.misfit(f"its input has shape {data}. Expected three axes that are not empty")
    gates = GATES[node.op.lower()]
    hidden = weight[-1] if weight else 0
    given = node.attrs.get("hidden_size", hidden)
    if not hidden or given != hidden:
        raise node.misfit(
            f"its recurrent weights R have shape {weight} and hidden_size={str(given)[:80]}. "
            f"Expected R of shape ({directions}, {gates} * hidden_size, hidden_size)"
        )
    _, batch = _extents(graph, node)
    state = (directions, batch, hidden)
    if node.attrs.get("layout", 0):
        state = (batch, directions, hidden)
    expected = {
        1: (directions, gates * hidden, data[2]),
        2: (directions, gates * hidden, hidden),
        OPERANDS[BIAS]: (directions, 2 * gates * hidden),
        OPERANDS[LENGTHS]: (batch,),
        OPERANDS[HIDDEN]: state,
        OPERANDS[CELL]: state,
        OPERANDS[PEEPHOLES]: (directions, 3 * hidden),
    }
    for index, shape in expected.items():
        name = node.input(index)
        if name and graph.shape(name) != shape:
            raise node.misfit(
                f"input {index} ({name!r}) has shape {graph.shape(name)}. Expected {shape} for an "
                f"input of shape {data} and R of shape {weight}"
            )
    return hidden


def _clip(node: OnnxNode) -> float:
    clip = node.attrs.get("clip", inf)
    if not isinstance(clip, float | int) or not clip > 0:
        raise node.error(f"clip={str(clip)[:80]}. Expected a number above 0")
    return float(clip)


def _activations(node: OnnxNode, directions: int) -> tuple[tuple[Activation, ...], ...]:
    """The activations of each direction."""
    defaults = _DEFAULTS[node.op]
    names = node.attrs.get("activations") or defaults * directions
    if not isinstance(names, tuple) or len(names) != len(defaults) * directions:
        raise node.error(
            f"activations={str(names)[:120]}. Expected {len(defaults) * directions} names"
        )
    # values are consumed in order, by the functions that have them
    alphas, betas = iter(_factors(node, "alpha")), iter(_factors(node, "beta"))
    made = []
    for name in names:
        key = str(name).lower()
        if key not in _PARAMETERS:
            raise node.error(
                f"activation {str(name)[:80]!r}. Expected one of {', '.join(_PARAMETERS)}"
            )
        own = _PARAMETERS[key]
        given = [next(values, value) for values, value in zip((alphas, betas), own, strict=False)]
        parameters = [value for value in given if value is not None]
        if len(parameters) < len(own):
            raise node.error(
                f"activation {name!r} has no alpha or no beta. Expected a value in "
                "activation_alpha and in activation_beta"
            )
        made.append(Activation(key, *parameters))
    count = len(defaults)
    return tuple(tuple(made[i * count : i * count + count]) for i in range(directions))


def _factors(node: OnnxNode, name: str) -> tuple[float, ...]:
    values = node.attrs.get(f"activation_{name}", ())
    known = isinstance(values, tuple) and all(isinstance(v, float) for v in values)
    if not known or not all(isfinite(value) for value in values):
        raise node.error(f"activation_{name}={str(values)[:80]}. Expected finite numbers")
    return tuple(values)
