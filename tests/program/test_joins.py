"""Concatenations and slices without a call: buffers inside other buffers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.graph.network import Net, check
from tvmconv.core.decision import KernelCall
from tvmconv.program.joins import share_buffers
from tvmconv.program.places import Buffer, Step, place_in_arena
from tvmconv.program.program import Place

RECORD = KernelCall("", "", "")


def made(*results: Buffer, reads: Sequence[Buffer] = ()) -> Step:
    return Step("f", RECORD, list(reads), list(results))


def join(result: Buffer, *parts: Buffer) -> Step:
    return Step("join", RECORD, list(parts), [result], joins=True)


def part(result: Buffer, whole: Buffer, offset: int) -> Step:
    return Step("part", RECORD, [whole], [result], part=offset)


def offsets(*buffers: Buffer) -> list[int]:
    return [buffer.as_operand().offset for buffer in buffers]


def test_parts_are_computed_in_their_place():
    a, b, c = Buffer(128), Buffer(64), Buffer(192)
    steps = share_buffers([made(a), made(b), join(c, a, b), made(Buffer(64), reads=[c])])
    assert [step.function for step in steps] == ["f", "f", "f"]
    place_in_arena(steps)
    start = offsets(c)[0]
    assert offsets(a, b) == [start, start + 128]


def test_earlier_concatenations_are_parts_of_later_ones():
    """A dense block joins all earlier results again before each layer."""
    parts = [Buffer(64 * (1 + i)) for i in range(4)]
    joined = [Buffer(sum(p.bytes for p in parts[: i + 2])) for i in range(3)]
    steps = [made(parts[0])]
    for index, whole in enumerate(joined):
        before = [joined[index - 1]] if index else [parts[0]]
        steps += [made(parts[index + 1], reads=before), join(whole, *parts[: index + 2])]
    steps = share_buffers([*steps, made(Buffer(64), reads=[joined[-1]])])
    assert not any(step.joins for step in steps)
    place_in_arena(steps)
    start = offsets(joined[-1])[0]
    assert offsets(*joined, *parts) == [start + n for n in (0, 0, 0, 0, 64, 192, 384)]


def test_half_a_buffer_keeps_the_whole():
    whole, left, right, other, result = (Buffer(n) for n in (256, 128, 128, 64, 320))
    steps = [made(whole), part(left, whole, 0), part(right, whole, 128)]
    steps += [made(other, reads=[right]), join(result, left, right, other)]
    left_over = share_buffers([*steps, made(Buffer(64), reads=[result])])
    assert [step.function for step in left_over] == ["f", "f", "f"]
    place_in_arena(left_over)
    start = offsets(result)[0]
    assert offsets(whole, left, right, other) == [start, start, start + 128, start + 256]


@pytest.mark.parametrize(
    "case", ["input", "twice", "half", "unaligned", "output", "taken", "order"]
)
def test_what_cannot_share_is_copied(case: str):
    a, b, result = Buffer(128), Buffer(128), Buffer(256)
    before = [made(a), made(b)]
    last = join(result, a, b)
    if case == "input":
        a.place = Place.INPUT
    elif case == "twice":
        last = join(result, a, a)
    elif case == "half":
        # the other half of the sliced buffer would be in b
        whole = Buffer(256)
        before = [made(whole), part(a, whole, 0), made(b, reads=[whole])]
    elif case == "unaligned":
        a.bytes, b.bytes = 96, 160
    elif case == "output":
        result.place = Place.OUTPUT
    elif case == "taken":
        # b is at another place of a later concatenation
        before.append(join(Buffer(256), b, a))
        before, last = [*before[:2], last], before[2]
    else:
        whole = Buffer(256)
        before = [made(whole), part(b, whole, 0), part(a, whole, 128)]
    steps = share_buffers([*before, last])
    assert sum(step.function != "f" for step in steps) == 1


def test_others_use_the_memory_of_parts_that_are_not_computed_yet():
    """A part that waits for the rest while something large is computed."""
    sizes = 64, 4096, 64, 1024, 1088
    early, large, small, late, result = map(Buffer, sizes)
    steps = [made(early), made(large, reads=[early]), made(small, reads=[large])]
    steps += [made(late, reads=[small]), join(result, early, late)]
    steps.append(made(Buffer(64), reads=[result]))
    kept = share_buffers(steps)
    assert len(kept) == len(steps) - 1
    assert place_in_arena(kept).bytes == 4096 + 2 * 64


def test_networks_compute_the_same():
    """Layers split in half, a chain after one half, and joins of joins; 16 and 8 lanes."""
    net = Net(1, 3, 10, 10)
    halves = net.op("Split", net.conv("x", 3, 32), outputs=2, axis=1)
    grown = net.conv(halves[1], 16, 16)
    joined = net.op("Concat", *halves, grown, net.conv(grown, 16, 16), axis=1)
    dense = [net.op("Relu", joined)]
    for _ in range(2):
        whole = net.op("Concat", *dense, axis=1)
        dense.append(net.conv(net.op("Relu", whole), 64 + 16 * (len(dense) - 1), 16))
    odd = net.op("Concat", dense[-1], net.conv(dense[-1], 16, 5), axis=1)
    model = net.model(net.conv(net.op("Concat", *dense, axis=1), 96, 8), net.conv(odd, 21, 8))
    for target in ("native", "x86-64-v3"):
        operators = [call.operator for call in check(model, target).manifest.calls]
        # a layer's result that two concatenations place differently is copied into one of them
        assert operators.count("concat") == 1
        assert not {"split", "strided_slice"} & set(operators)


def copy(result: Buffer, whole: Buffer) -> Step:
    return Step("copy", RECORD, [whole], [result], copies=True)


def test_a_copy_to_be_changed_is_made_if_its_operand_is_read_later() -> None:
    def is_made(*later: str, place: Place = Place.ARENA) -> bool:
        x, changed, slice_ = Buffer(256, place), Buffer(256), Buffer(64)
        reads = [{"whole": x, "slice": slice_}[name] for name in later]
        steps = [made(x), part(slice_, x, 64), copy(changed, x), made(changed)]
        kept = share_buffers([*steps, made(Buffer(64), reads=[changed, *reads])])
        return "copy" in [step.function for step in kept]

    assert not is_made()
    assert is_made("whole")
    assert is_made("slice")
    assert is_made(place=Place.OUTPUT)
