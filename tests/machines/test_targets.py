"""Targets in every form a user may write, and the messages for targets without schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm.target import Target

from tvmconv.core.errors import ArtifactError, TargetError
from tvmconv.machines import targets
from tvmconv.machines.architectures import ARCHITECTURES, Architecture
from tvmconv.machines.features import required_features
from tvmconv.machines.gate import ensure_machine, lacks
from tvmconv.machines.host import host_cores, host_features
from tvmconv.machines.multiply import multiply_of_bytes
from tvmconv.machines.record import Vector
from tvmconv.machines.targets import resolve_machine
from tvmconv.machines.tile_unit import TILE_FEATURES
from tvmconv.machines.x86 import MACHINES, as_processor


@pytest.mark.parametrize("name", MACHINES)
def test_presets(name):
    machine = resolve_machine(name, threads=3)
    assert machine == MACHINES[name].with_cores(3)


def test_native_is_the_default_and_names_the_processor():
    if not {"avx2", "fma"} <= host_features():
        pytest.skip("this processor has no AVX2")
    machine = resolve_machine()
    assert machine == resolve_machine("native")
    assert machine.cores == host_cores()
    detected = replace(machine, mcpu=str(Target.from_device("cpu").attrs["mcpu"]))
    # by its generic name where some of its features are hidden
    generic = {m.isa: m.mcpu for m in MACHINES.values()}[machine.isa]
    assert machine.mcpu == (generic if lacks(detected) else detected.mcpu)


@pytest.mark.parametrize(
    ("target", "isa", "mcpu"),
    [
        ("llvm -mcpu=cascadelake", "avx512", "cascadelake"),
        ("llvm -mcpu=znver4", "avx512", "znver4"),
        ("llvm -mcpu=haswell", "avx2", "haswell"),
        ("llvm -mattr=+avx2,+fma", "avx2", "x86-64-v3"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver2", "avx2", "znver2"),
        ({"kind": "llvm", "mcpu": "skylake-avx512"}, "avx512", "skylake-avx512"),
        ("llvm -mcpu=cascadelake -mattr=-avx512f", "avx2", "cascadelake"),
    ],
    ids=str,
)
def test_classic_strings_and_dictionaries(target, isa, mcpu):
    machine = resolve_machine(target)
    assert (machine.isa, machine.mcpu) == (isa, mcpu)


@pytest.mark.parametrize(
    ("target", "has_tiles"),
    [
        ("llvm -mcpu=sapphirerapids", True),
        ("llvm -mcpu=graniterapids", True),
        ("llvm -mcpu=icelake-server -mattr=+amx-tile,+amx-int8", True),
        ("llvm -mcpu=sapphirerapids -mattr=-amx-int8", False),
        # tiles of bfloat16 alone
        ("llvm -mcpu=icelake-server -mattr=+amx-tile,+amx-bf16", False),
        ("llvm -mcpu=haswell -mattr=+amx-tile,+amx-int8", False),
        ("llvm -mcpu=icelake-server", False),
    ],
)
def test_products_of_tiles_are_of_processors_that_have_them(target, has_tiles):
    machine = resolve_machine(target)
    assert (machine.tiles is not None) == has_tiles
    assert (set(TILE_FEATURES) <= set(required_features(machine))) == has_tiles
    assert ("mattr" in machine.tvm_target()) == has_tiles


def test_tvm_target_objects():
    assert resolve_machine(Target({"kind": "llvm", "mcpu": "znver3"})).isa == "avx2"


def test_an_architecture_is_one_record(monkeypatch):
    """Target strings take the longest vectors whose features LLVM enables."""
    toy = Architecture(
        name="riscv64",
        described="a toy CPU",
        marker="v",
        features={"v": "v", "zvl256b": "zvl256b"},
        switches=("v", "zvl256b"),
        options={"mabi": "lp64d"},
    )
    short = replace(
        MACHINES["x86-64-v3"],
        name="toy128",
        triple="riscv64-linux-gnu",
        mcpu="generic-rv64",
        features=("v",),
        vector=Vector(bits=128, registers=32),
    )
    long = replace(short, name="toy256", features=("v", "zvl256b"), vector=Vector(256, 32))
    monkeypatch.setattr(targets, "MACHINES", {m.name: m for m in (short, long)})
    monkeypatch.setitem(ARCHITECTURES, "riscv64", toy)
    string = "llvm -mtriple=riscv64-linux-gnu -mattr=+v"
    assert resolve_machine(string, 1) == short.with_cores(1)
    assert resolve_machine(f"{string},+zvl256b", 1) == long.with_cores(1)
    assert short.tvm_target()["mattr"] == ["+v", "-zvl256b"]
    assert set(long.features) <= set(required_features(long))
    assert multiply_of_bytes(long).name == "plain_pairs"
    with pytest.raises(TargetError, match=r"missing CPU features: v\. Add -mattr=\+v or name"):
        resolve_machine("llvm -mtriple=riscv64-linux-gnu")
    with pytest.raises(ArtifactError, match="needs a toy CPU; this host is"):
        ensure_machine(long, "net.so")


def test_a_machine_is_its_own_target():
    machine = MACHINES["x86-64-v4"]
    assert resolve_machine(machine, threads=1) == machine.with_cores(1)


@pytest.mark.parametrize("name", MACHINES)
def test_llvm_accepts_the_target_of_each_machine(name):
    assert Target(MACHINES[name].tvm_target()).attrs["mcpu"] == name


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "unsupported target ''"),
        ("sparc", "unsupported target 'sparc'; .* a preset: native"),
        ("cuda:sm_80,sm_70", "unsupported target 'cuda:sm_70'. Supported GPU targets: cuda:sm_80"),
        ("cuda:sm_90,x86-64-v4", "has the CPU x86-64-v4. Expected GPUs only"),
        ("cuda:sm_70", "unsupported target 'cuda:sm_70'. Supported GPU targets: cuda:sm_80"),
        ("cuda:sm_90", r"CPU target is required, got cuda:sm_90 \(H100 SXM5\)"),
        ("llvm cascadelake", "cannot read 'cascadelake'; write options as -name=value"),
        ("llvm -mcp=haswell", "mcp would change nothing; options are mcpu, mattr and mtriple"),
        ("llvm -mcpu=haswell -num-cores=4", "num-cores would change nothing; .* threads="),
        ({"kind": "llvm", "mcup": "haswell"}, "mcup would change nothing"),
        ("llvm -mcpu=quantum9", "LLVM does not know -mcpu=quantum9"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-z1", "LLVM does not know -mcpu=cortex-z1"),
        ("llvm -mcpu=x86-64-v2", "without AVX2 and FMA is not supported"),
        ("llvm -mtriple=mips64-linux-gnu", "unsupported architecture mips64-linux-gnu"),
        (7, "unsupported type of target 7"),
    ],
    ids=str,
)
def test_targets_without_schedules_say_what_to_use(target, message, capfd):
    with pytest.raises(TargetError, match=message):
        resolve_machine(target)
    assert capfd.readouterr() == ("", "")  # nor does TVM write lines of its own


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_features_that_llvm_would_pass_over(triple):
    for feature, message in (
        ("avx2", r"no sign\. Write \+avx2"),
        ("+fooo", "does not enable fooo. Correct its name"),
    ):
        with pytest.raises(TargetError, match=message):
            resolve_machine(f"llvm -mtriple={triple} -mattr={feature}")


def test_thread_counts_below_one_are_refused():
    with pytest.raises(TargetError, match="threads=0 must be a whole number"):
        resolve_machine("x86-64-v3", threads=0)


def test_processors_that_halve_the_longest_vectors():
    halved, whole = (resolve_machine(f"llvm -mcpu={name}") for name in ("znver4", "znver5"))
    assert halved.isa == whole.isa == "avx512"
    assert (halved.fma_units, halved.rates.multiply_adds) == (1, 1.0)
    assert (whole.fma_units, whole.rates.multiply_adds) == (2, 2.0)
    # Zen 5 has measured bandwidths, for vectors of any length
    assert halved.rates.l3 == MACHINES["x86-64-v4"].rates.l3 < whole.rates.l3 < whole.rates.l2
    assert as_processor(MACHINES["x86-64-v3"], "znver5").rates.l3 == whole.rates.l3
    shorter = as_processor(MACHINES["x86-64-v3"], "znver4")
    assert shorter.rates.multiply_adds == MACHINES["x86-64-v3"].rates.multiply_adds
