"""The class of an instruction, by its text."""

from __future__ import annotations

import pytest

from tests.estimating import needs_estimation
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.assembly import architecture, describe, disassembled, lone_inserts


@pytest.mark.parametrize(
    ("kind", "text", "products"),
    [
        ("aarch64", "fmla v18.4s, v16.4s, v0.s[0]", True),
        ("aarch64", "fmls v1.4s, v2.4s, v3.4s", True),
        ("aarch64", "fmla z1.s, p0/m, z2.s, z3.s", True),
        ("aarch64", "fmad z1.s, p0/m, z2.s, z3.s", True),
        ("aarch64", "fmla z1.d, p0/m, z2.d, z3.d", False),
        ("aarch64", "fmadd s0, s1, s2, s3", False),
        ("aarch64", "fmul v1.4s, v2.4s, v3.4s", False),
        ("aarch64", "fmlal v1.4s, v2.4h, v3.4h", False),
        ("x86_64", "vfmadd231ps (%rax,%rbx), %ymm0, %ymm1", True),
        ("x86_64", "vfnmadd213ps %zmm2, %zmm0, %zmm1", True),
        ("x86_64", "vfmadd231ss %xmm2, %xmm0, %xmm1", False),
        ("x86_64", "vmulps %ymm2, %ymm0, %ymm1", False),
    ],
)
def test_multiply_adds(kind, text, products):
    assert describe(text, 4, kind).multiply_add == products


@pytest.mark.parametrize(
    ("text", "wide", "narrow"),
    [
        ("ldp q0, q1, [x2, #-32]", 2, 0),
        ("ldr q3, [x1, w2, sxtw #4]", 1, 0),
        ("ldur q1, [x2, #-16]", 1, 0),
        ("ld1 { v0.4s, v1.4s, v2.4s }, [x0], #48", 3, 0),
        ("ld2 { v0.8h, v1.8h }, [x1]", 2, 0),
        ("ldr d3, [x1], #8", 0, 1),
        ("ldp s0, s1, [x1]", 0, 2),
        ("ld1 { v0.2s }, [x0]", 0, 1),
        ("ld1 { v0.s }[1], [x0]", 0, 1),
        ("ld1r { v0.4s }, [x0]", 0, 1),
        ("ldr x3, [sp]", 0, 0),
        ("ldp x1, x2, [sp]", 0, 0),
        ("str q0, [x1]", 0, 0),
        ("ld1w { z0.s }, p0/z, [x0]", 0, 0),
    ],
)
def test_loads_of_vectors(text, wide, narrow):
    instruction = describe(text, 4, "aarch64")
    assert (instruction.wide_loads, instruction.narrow_loads) == (wide, narrow)
    assert not describe("movups (%rax), %xmm1", 4, "x86_64").wide_loads


@pytest.mark.parametrize(
    ("texts", "lone"),
    [
        (["mov v1.d[1], x3"], 1),
        (["ldr d2, [x1, #8]", "mov v1.d[1], x3"], 0),
        (["ins v1.d[1], x3", "ldur d2, [x1, #-8]"], 0),
        (["mov v1.d[1], x3", "mov v2.d[1], x4"], 1),
        (["mov v1.d[1], x3", "mov v2.d[1], x4", "mov v3.d[1], x5"], 2),
        # the same vector, another vector between them, a dword that fills no half, one lane alone
        (["ldr d1, [x1]", "mov v1.d[1], x3"], 1),
        (["ldr d2, [x1]", "fmla v9.4s, v8.4s, v7.4s", "mov v1.d[1], x3"], 1),
        (["ldr d2, [x1]", "mov v1.s[1], w3"], 1),
        (["ld1 { v2.d }[0], [x1]", "mov v1.d[1], x3"], 1),
        (["ldr d1, [x1]", "ldr d2, [x1]", "mov v1.d[1], v2.d[0]", "mov x1, x2"], 0),
    ],
)
def test_insertions_into_half_vectors_next_to_others(texts, lone):
    assert lone_inserts(describe(text, 4, "aarch64") for text in texts) == lone


@pytest.mark.parametrize(
    ("kind", "text", "size", "ends", "target"),
    [
        ("aarch64", "b.ne #-8", 4, False, -8),
        ("aarch64", "cbnz x0, #-4", 4, False, -4),
        ("aarch64", "tbz w0, #3, #16", 4, False, 16),
        ("aarch64", "b #-32", 4, True, -32),
        ("aarch64", "bl #64", 4, True, None),
        ("aarch64", "blr x3", 4, True, None),
        ("aarch64", "ret", 4, True, None),
        ("aarch64", "svc #0", 4, True, None),
        ("aarch64", "bic w0, w1, w2", 4, False, None),
        ("aarch64", "add x0, x1, #16", 4, False, None),
        ("x86_64", "jne -16", 2, False, -14),
        ("x86_64", "jmp -16", 5, True, -11),
        ("x86_64", "callq 64", 5, True, None),
        ("x86_64", "retq", 1, True, None),
        ("x86_64", "jmpq *%rax", 2, True, None),
        ("x86_64", "addq $-16, %rax", 4, False, None),
    ],
)
def test_jumps(kind, text, size, ends, target):
    instruction = describe(text, size, kind)
    assert (instruction.ends, instruction.target) == (ends, target)


@pytest.mark.parametrize(
    ("text", "multiplies"),
    [
        ("fmul v0.4s, v1.4s, v2.s[1]", True),
        ("fmul z0.s, p0/m, z0.s, z2.s", True),
        ("fmul s0, s1, s2", False),
        ("fmla v0.4s, v1.4s, v2.4s", False),
    ],
)
def test_products_of_vectors_without_a_sum(text, multiplies):
    assert describe(text, 4, "aarch64").multiply == multiplies
    assert not describe(text, 4, "x86_64").multiply


def test_architectures():
    assert architecture("aarch64-linux-gnu") == "aarch64"
    assert architecture("x86_64-linux-gnu") == "x86_64"
    with pytest.raises(ArtifactError, match="architecture riscv64"):
        architecture("riscv64-linux-gnu")


@needs_estimation
def test_bytes_become_text_and_what_is_no_code_is_left_out():
    # fmla v0.4s, v1.4s, v2.4s; no instruction; b.ne #-8
    codes = ["20cc224e", "ffffffff", "c1ffff54"]
    found = disassembled(codes, "aarch64-linux-gnu")
    assert {code: found[code].text for code in found} == {
        "20cc224e": "fmla v0.4s, v1.4s, v2.4s",
        "c1ffff54": "b.ne #-8",
    }
    assert disassembled([], "aarch64-linux-gnu") == {}
