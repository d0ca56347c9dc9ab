"""Networks from ONNX to a shared object, against onnxruntime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from examples.networks import NETWORKS
from tests.compile.c_model import TYPES, CModel, at_offset, shape
from tests.small_network import small_network
from tvmconv.compile import objects as compiling
from tvmconv.compile.network import CompiledProgram, compile_program, scheduled
from tvmconv.compile.objects import compile_objects, unaligned_parameters
from tvmconv.frontend import read_model, to_relax
from tvmconv.graph.lower import lower
from tvmconv.machines.targets import resolve_machine
from tvmconv.program.collect import collect

MACHINE = resolve_machine("native", 2)


def compiled(model, machine=MACHINE) -> CompiledProgram:
    loaded = read_model(model.SerializeToString(), None, None)
    lowered = lower(to_relax(loaded), machine)
    return compile_program(lowered, machine, loaded.inputs, loaded.outputs, name=loaded.name)


def opened(built: CompiledProgram, **options) -> CModel:
    data = built.weights
    return CModel.of(built.library(), weights=data.ctypes.data, weight_bytes=data.nbytes, **options)


def check(model, built: CompiledProgram, tolerance: float = 2e-5) -> None:
    """Aligned and at odd addresses, by one thread and by two."""
    reference = onnxruntime.InferenceSession(model.SerializeToString())
    generator = np.random.default_rng(5)
    for threads in (1, 2):
        state = opened(built, threads=threads)
        feeds = [
            np.asarray(generator.standard_normal(shape(t)) * 3, TYPES[t.dtype])
            for t in state.inputs
        ]
        names = [value.name for value in reference.get_inputs()]
        expected = reference.run(None, dict(zip(names, feeds, strict=True)))
        for offset in (0, 8, 40):
            actual = state.run(*(at_offset(feed, offset) for feed in feeds), offset=offset)
            for got, wanted in zip(actual, expected, strict=True):
                scale = max(float(np.abs(wanted).max()), 1e-30)
                np.testing.assert_allclose(got / scale, wanted / scale, rtol=0, atol=tolerance)
        state.close()


@pytest.fixture(scope="module")
def small():
    model = small_network()
    return model, compiled(model)


def test_small_network(small):
    check(*small)


def test_the_complete_file_gives_the_same_bits(small):
    _, built = small
    (image,) = [np.ones(t.shape, t.dtype) for t in built.program.inputs]
    apart, whole = opened(built), CModel.of(built.file())
    np.testing.assert_array_equal(apart.run(image)[0], whole.run(image)[0])
    apart.close()
    whole.close()


def test_weights_of_this_process_are_one_copy(small):
    _, built = small
    assert built.weights.ctypes.data % 64 == 0
    start = built.weights.ctypes.data + 64
    for constant in built.program.constants:
        assert constant.data.ctypes.data == start + constant.offset


def node_model(nodes, inputs, outputs):
    def tensor(name, extents, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, extents)

    graph = helper.make_graph(
        [helper.make_node(*node[:3], **node[3]) for node in nodes],
        "graph",
        [tensor(*value) for value in inputs],
        [tensor(*value) for value in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "model",
    [
        node_model([("Identity", ["x"], ["y"], {})], [("x", [3, 5])], [("y", [3, 5])]),
        node_model([("Relu", ["x"], ["y"], {})], [("x", [])], [("y", [])]),
        node_model(
            [("Exp", ["x"], ["a"], {}), ("Identity", ["a"], ["b"], {})],
            [("x", [2, 7])],
            [("a", [2, 7]), ("b", [2, 7])],
        ),
        node_model([("Erf", ["x"], ["y"], {})], [("x", [1, 33])], [("y", [1, 33])]),
    ],
    ids=["identity", "rank 0", "one value as two outputs", "a function of libm"],
)
def test_odd_graphs(model):
    check(model, compiled(model))


def test_code_depends_on_neither_threads_nor_other_layers(monkeypatch):
    loaded = read_model(small_network().SerializeToString(), None, None)
    lowered = lower(to_relax(loaded), MACHINE)
    module = scheduled(lowered.mod, MACHINE)
    program, functions = collect(module, loaded.inputs, loaded.outputs, lowered.calls)
    results = []
    for cpus in (1, 4):
        monkeypatch.setattr(compiling, "host_cores", lambda cpus=cpus: cpus)
        results.append(compile_objects(functions, MACHINE, program))
    assert results[0].workspace == results[1].workspace
    assert list(results[0].code) == list(results[1].code)
    assert results[0].code == results[1].code


def test_callers_memory_is_of_natural_alignment(small):
    _, built = small
    program = built.program
    first, last = program.calls[0], program.calls[-1]
    found = unaligned_parameters(program)
    assert found[first.record.kernel] == (0,)
    assert len(last.operands) - 1 in found[last.record.kernel]
    inner = replace(program, calls=program.calls[1:-1])
    assert unaligned_parameters(inner) == {}


def test_a_failing_function_ends_the_build(monkeypatch):
    loaded = read_model(small_network().SerializeToString(), None, None)
    lowered = lower(to_relax(loaded), MACHINE)
    asked = []

    def fail(function, *_, **__):
        asked.append(function)
        raise RuntimeError("no code")

    monkeypatch.setattr(compiling, "compile_function", fail)
    monkeypatch.setattr(compiling, "host_cores", lambda: 1)
    with pytest.raises(RuntimeError, match="no code"):
        compile_program(lowered, MACHINE, loaded.inputs, loaded.outputs)
    assert len(asked) < len(lowered.calls)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1", "mobilenet_v2"])
def test_networks(name):
    model = NETWORKS[name]()
    check(model, compiled(model), 1e-4)
