"""Calls: values, argument forms, ownership of results, errors."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import programs
import pytest

from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.model import CompiledModel
from tvmconv.runtime.memory import address_of, empty_aligned, in_memory


def assert_matches(outputs: object, inputs: dict[str, np.ndarray]) -> None:
    expected = programs.dense_reference(inputs)
    np.testing.assert_allclose(outputs["hidden"], expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(outputs["total"], expected.sum(axis=1), rtol=2e-5, atol=2e-4)


def test_argument_forms_agree(dense: CompiledModel) -> None:
    inputs = programs.dense_inputs()
    x, y = inputs["x"], inputs["y"]
    for outputs in (
        dense.run(inputs),
        dense.run({"y": y, "x": x}),
        dense.run(x, y),
        dense.run([x, y]),
        dense.run((x, y)),
    ):
        assert_matches(outputs, inputs)


@pytest.mark.parametrize("field", ["inputs", "outputs"])
def test_a_manifest_of_other_tensors_is_refused(dense: CompiledModel, field: str) -> None:
    """The code writes its own sizes, beyond the arrays that the manifest would allocate."""
    tensors = getattr(dense.manifest, field)
    for others in ((replace(tensors[0], shape=(1,)), *tensors[1:]), tensors[:1]):
        model = CompiledModel(replace(dense.manifest, **{field: others}), dense._library)
        with pytest.raises(ArtifactError, match=f"the manifest has {field} .*Save the model again"):
            model.prepare()


def test_nested_lists_are_an_array() -> None:
    from tvm import relax

    model = programs.unary_model(lambda _, x: relax.op.add(x, x), (1, 3))
    value = np.array([[1, 2, 3]], "float32")
    for arguments in ((value,), ([value],), ({"x": value},)):
        np.testing.assert_array_equal(2 * value, model.run(*arguments)[0])


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1].copy()[::-1],
        lambda a: np.frombuffer(b"\0" * 4 + a.tobytes(), "float32", offset=4).reshape(a.shape),
        _read_only,
    ],
    ids=["fortran", "strided", "reversed", "misaligned", "read-only"],
)
def test_any_memory_layout(dense: CompiledModel, change: object) -> None:
    inputs = programs.dense_inputs(1)
    assert_matches(dense.run({"x": change(inputs["x"]), "y": inputs["y"]}), inputs)


def test_contiguous_inputs_are_read_in_place(dense: CompiledModel) -> None:
    inputs = programs.dense_inputs(2)
    for array in inputs.values():
        (held,), (address,) = in_memory([array])
        assert held is array and address == array.ctypes.data
        (copy_of,), (address,) = in_memory([array.T])
        assert address == copy_of.ctypes.data != array.ctypes.data
    # at any multiple of the element's size
    shifted = np.zeros(array.size + 1, "float32")[1:].reshape(array.shape)
    shifted[:] = inputs["x"]
    assert in_memory([shifted])[0][0] is shifted
    assert_matches(dense.run({**inputs, "x": shifted}), inputs)


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "int4"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 1), (100, 100)])
def test_addresses(shape: tuple[int, ...], dtype: str) -> None:
    array = empty_aligned(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert address_of(array) == array.ctypes.data
    assert array.ctypes.data % 64 == 0 and array.flags.carray
    array.flags.writeable = False
    assert address_of(array) == array.ctypes.data


class Exchanged:
    """An array of another library: not numpy's, but DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_tensors_of_other_libraries(dense: CompiledModel) -> None:
    inputs = programs.dense_inputs(2)
    assert_matches(dense.run({k: Exchanged(v) for k, v in inputs.items()}), inputs)


def test_outputs_by_position_and_name(dense: CompiledModel) -> None:
    outputs = dense.run(programs.dense_inputs())
    hidden, total = outputs
    assert outputs[0] is hidden is outputs["hidden"]
    assert list(outputs.keys()) == ["hidden", "total"] == list(outputs.names)
    assert dict(outputs.items())["total"] is total
    assert dict(outputs)["total"] is total
    assert "total" in outputs and "x" not in outputs and hidden in outputs
    restored = pickle.loads(pickle.dumps(outputs))
    np.testing.assert_array_equal(restored["hidden"], hidden)
    with pytest.raises(KeyError, match="the outputs are hidden, total"):
        outputs["hiden"]
    with pytest.raises(IndexError, match="output 3; the outputs are hidden, total"):
        outputs[3]
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(
            TypeError, match=r"cannot be pickled or copied: .* Save it, and load it"
        ):
            copied(dense)


def test_results_belong_to_the_caller(dense: CompiledModel) -> None:
    first = dense.run(programs.dense_inputs(3))
    kept = [array.copy() for array in first]
    second = dense.run(programs.dense_inputs(4))
    for array in second:
        array[:] = np.nan
    for expected, actual in zip(kept, first, strict=True):
        np.testing.assert_array_equal(expected, actual)
        assert actual.flags.writeable
    assert_matches(dense.run(programs.dense_inputs(3)), programs.dense_inputs(3))


LARGE = (64, 1024)  # more than what is copied as a matter of course


def test_large_outputs_share_nothing() -> None:
    """An input returned as it is, a result returned twice, a result of its own."""
    from tvm import relax

    def make(builder: object, x: object) -> object:
        double = builder.emit(relax.op.add(x, x))
        return relax.Tuple([x, double, double])

    model = programs.unary_model(make, LARGE, outputs=3)
    value = model.empty_inputs()["x"]
    value[:] = np.random.default_rng(0).standard_normal(LARGE)
    outputs = model.run(value)
    arrays = [value, *outputs]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[i + 1 :])
    np.testing.assert_array_equal(value, outputs[0])
    np.testing.assert_array_equal(2 * value, outputs[1])
    for array in outputs:
        array[:] = 0
    np.testing.assert_array_equal(2 * value, model.run(value)["out2"])


def test_constant_outputs_can_be_written() -> None:
    from tvm import relax

    constant = np.random.default_rng(0).standard_normal(LARGE).astype("float32")

    def make(builder: object, x: object) -> object:
        return relax.Tuple([relax.const(constant), relax.op.add(x, x)])

    model = programs.unary_model(make, LARGE, outputs=2)
    value = np.ones(LARGE, "float32")
    model.run(value)[0][:] = 0
    np.testing.assert_array_equal(constant, model.run(value)[0])


def test_run_into(dense: CompiledModel) -> None:
    inputs = programs.dense_inputs(5)
    destinations = {t.name: np.empty(t.shape, t.dtype) for t in dense.outputs}
    dense.run_into(inputs, destinations)
    assert_matches(destinations, inputs)
    dense.run_into(
        [inputs["x"], inputs["y"]], [destinations["hidden"].T.copy().T, np.empty(24, "f4")]
    )
    both = np.empty((24, 40), "f4")
    both[:] = inputs["x"]  # an input that is written over
    dense.run_into([both, inputs["y"]], [both, destinations["total"]])
    assert_matches({"hidden": both, "total": destinations["total"]}, inputs)
    # outputs that share memory with each other or with an input, in part
    memory = np.empty(24 * 40 + 24, "f4")
    for start in (0, 12):
        both = memory[start : start + 24 * 40].reshape(24, 40)
        both[:] = inputs["x"]
        results = dense.run_into(
            [both, inputs["y"]], [memory[: 24 * 40].reshape(24, 40), memory[-24:]]
        )
        assert_matches(results, inputs)
    # tensors of other libraries share their memory
    tensors = {name: Exchanged(np.zeros_like(value)) for name, value in destinations.items()}
    dense.run_into(inputs, tensors)
    assert_matches({name: tensor.array for name, tensor in tensors.items()}, inputs)
    tensors["total"].array.flags.writeable = False
    with pytest.raises(InputError, match="output 'total' must be"):
        dense.run_into(inputs, tensors)
    with pytest.raises(InputError, match=r"missing output array\(s\): total"):
        dense.run_into(inputs, {"hidden": destinations["hidden"]})
    with pytest.raises(InputError, match="2 output"):
        dense.run_into(inputs, [destinations["hidden"]])
    with pytest.raises(InputError, match=r"output 'total' must be a writable float32"):
        dense.run_into(inputs, [destinations["hidden"], np.empty(24)])


def test_bound_call(dense: CompiledModel) -> None:
    inputs = programs.dense_inputs(6)
    call = dense.bind(inputs)
    assert_matches(call.outputs(), inputs)
    expected = {name: value.copy() for name, value in inputs.items()}
    inputs["x"][:] = 0  # the call has its own copy
    call()
    assert_matches(call.outputs(), expected)
    # new values are written into this copy
    others = programs.dense_inputs(7)
    for name, array in call.inputs.items():
        array[:] = others[name]
    call()
    assert_matches(call.outputs(), others)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x, y: ({"x": x},), r"missing input\(s\): y: float32\[24, 40\]"),
        (lambda x, y: ({"x": x, "y": y, "yy": y},), "no input 'yy'; did you mean 'y'"),
        (
            lambda x, y: ({"x": x, "y": y, "image": y},),
            "no input 'image'; the inputs are x",
        ),
        (lambda x, y: (x,), r"2 input\(s\), got 1"),
        (lambda x, y: (x, y, y), r"2 input\(s\), got 3"),
        (lambda x, y: (), r"2 input\(s\), got 0"),
        (lambda x, y: (x.astype("float64"), y), r"'x' has type float64.*astype\('float32'\)"),
        (lambda x, y: (x, y.T), r"'y' has shape \(40, 24\). Expected \(24, 40\). Put its axes in"),
        (lambda x, y: (x, y[None]), r"'y' has shape \(1, 24, 40\).* Reshape it.$"),
        (lambda x, y: (x[:1], y), r"'x' has shape \(1, 40\).* Pass an array of that shape, or"),
        (lambda x, y: ("x", y), "'x' must be a numeric array, got str"),
    ],
)
def test_wrong_arguments(dense: CompiledModel, arguments: object, message: str) -> None:
    inputs = programs.dense_inputs()
    with pytest.raises(InputError, match=message):
        dense.run(*arguments(inputs["x"], inputs["y"]))
    assert_matches(dense.run(inputs), inputs)
