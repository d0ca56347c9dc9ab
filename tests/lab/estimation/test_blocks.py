"""Stretches of code from what was counted."""

from __future__ import annotations

from tvmconv.lab.estimation.assembly import Instruction
from tvmconv.lab.estimation.blocks import Stretch, stretches
from tvmconv.lab.estimation.counting import parse

KNOWN = {
    "aaaaaaaa": Instruction("a", 4),
    "bbbbbbbb": Instruction("b", 4),
    "cccccccc": Instruction("b.ne #-4", 4, target=-4),
    "dddddddd": Instruction("b.eq #64", 4, target=64),
    "eeeeeeee": Instruction("bl #64", 4, ends=True),
    "99999999": Instruction("b.ne #-12", 4, target=-12),
}


def cut(text: str) -> list[Stretch]:
    return stretches(parse(text.splitlines())[1], KNOWN)


def test_a_loop_is_apart_from_the_code_around_it():
    # the prologue was translated together with the first round
    found = cut(
        "section 1\nblock 0 1000 aaaaaaaa.bbbbbbbb.cccccccc\nruns 0 1\n"
        "block 1 1004 bbbbbbbb.cccccccc\nruns 1 9\nblock 2 100c aaaaaaaa\nruns 2 1"
    )
    assert found == [
        Stretch(("aaaaaaaa",), 1),
        Stretch(("bbbbbbbb", "cccccccc"), 10, loop=True),
        Stretch(("aaaaaaaa",), 1),
    ]


def test_blocks_that_follow_each_other_are_one():
    # a page ends between, and a branch that is never taken
    found = cut(
        "section 1\nblock 0 1000 aaaaaaaa.dddddddd\nruns 0 6\n"
        "block 1 1008 bbbbbbbb\nruns 1 6\nblock 2 100c 99999999\nruns 2 6"
    )
    assert found == [Stretch(("aaaaaaaa", "dddddddd", "bbbbbbbb", "99999999"), 6, loop=True)]


def test_calls_and_gaps_end_a_stretch():
    found = cut(
        "section 1\nblock 0 1000 aaaaaaaa.eeeeeeee\nruns 0 2\nblock 1 1008 bbbbbbbb\nruns 1 2\n"
        "block 2 2000 bbbbbbbb\nruns 2 2"
    )
    assert [part.codes for part in found] == [
        ("aaaaaaaa", "eeeeeeee"),
        ("bbbbbbbb",),
        ("bbbbbbbb",),
    ]


def test_two_loops_that_run_equally_often_are_two():
    found = cut(
        "section 1\nblock 0 1000 bbbbbbbb.cccccccc\nruns 0 8\n"
        "block 1 1008 bbbbbbbb.cccccccc\nruns 1 8"
    )
    assert found == [Stretch(("bbbbbbbb", "cccccccc"), 8, loop=True)] * 2
