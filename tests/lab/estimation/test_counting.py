"""Counted programs: the plugin's output, and correct counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulating import ARM, needs_arm
from tests.estimating import needs_estimation
from tvmconv.compile.toolchain import Toolchain
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.counting import Section, count, counted, mark, parse

# output of count.c: a loop that qemu saw with its prologue first, and then by itself
TEXT = """section 1
block 0 1000 aaaaaaaa.bbbbbbbb.cccccccc
runs 0 1
block 1 1004 bbbbbbbb.cccccccc
runs 1 9
section 2
runs 1 5
section 1
runs 0 2
"""

PROGRAM = """
#include <unistd.h>
#define MARK 0x74760000
static void spin(long n) {
    __asm__ volatile("1: subs %0, %0, #1\\n nop\\n bne 1b" : "+r"(n) : : "cc");
}
int main(int count, char **words) {
    (void)words;
    close(MARK + 1);
    spin(1000);
    close(MARK + 7);
    spin(1000 + 10 * count);
    close(MARK);
    spin(500);
    return count > 2;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    source = folder / "spin.c"
    source.write_text(PROGRAM)
    Toolchain.find("", ARM).program(source, folder / "spin")
    return folder / "spin"


def test_sections_of_a_file():
    sections = parse(TEXT.splitlines())
    assert sections[1].runs == {
        (0x1000, "aaaaaaaa"): 3,
        (0x1004, "bbbbbbbb"): 12,
        (0x1008, "cccccccc"): 12,
    }
    assert sections[2].runs == {(0x1004, "bbbbbbbb"): 5, (0x1008, "cccccccc"): 5}
    assert sections[2].instructions == 10


def test_instructions_of_several_lengths():
    sections = parse(["section 3", "block 0 10 c3.0f1f00.90", "runs 0 2"])
    assert sections[3].runs == {(0x10, "c3"): 2, (0x11, "0f1f00"): 2, (0x14, "90"): 2}


def test_sections_are_plain_data():
    section = parse(TEXT.splitlines())[1]
    data = section.to_json()
    assert data == [[0x1000, "aaaaaaaa", 3], [0x1004, "bbbbbbbb.cccccccc", 12]]
    assert Section.from_json(data) == section


def test_a_difference_is_the_calls_that_one_run_has_more():
    one, two = (parse(f"section 1\nblock 0 8 aa\nruns 0 {n}".splitlines())[1] for n in (4, 9))
    assert (two - one).runs == {(8, "aa"): 5}
    assert (one - two).runs == {}


def test_marks_are_harmless():
    mark(1)
    mark(0)
    with pytest.raises(ValueError, match="70000"):
        mark(70000)


@needs_arm
@needs_estimation
def test_a_program_is_counted(program):
    sections = count([program], ARM)
    assert sorted(sections) == [1, 7]
    for number, rounds in ((1, 1000), (7, 1010)):
        loop = [runs for runs in sections[number].runs.values() if runs == rounds]
        assert len(loop) == 3
        # the calls between
        assert 3 * rounds < sections[number].instructions < 3 * rounds + 200
    assert count([program], ARM, whole=True)[1].instructions > sections[1].instructions


@needs_arm
@needs_estimation
def test_a_program_that_fails_or_hangs_is_reported(program, tmp_path):
    with pytest.raises(ArtifactError, match=r"spin under qemu-aarch64.*: exit status 1"):
        count([program, "one", "two"], ARM)
    source = tmp_path / "other.c"
    source.write_text(
        "int main(int count, char **words) { while (*(volatile int *)&count > 1); return 0; }"
    )
    Toolchain.find("", ARM).program(source, tmp_path / "other")
    with pytest.raises(ArtifactError, match="marked no section"):
        count([tmp_path / "other"], ARM)
    with pytest.raises(ArtifactError, match=r"took over 0\.5 seconds"):
        count([tmp_path / "other", "hang"], ARM, seconds=0.5)


@needs_arm
@needs_estimation
def test_counts_are_remembered_by_content(program, tmp_path):
    once = counted("some content", [program], ARM)
    assert counted("some content", [tmp_path / "no program"], ARM) == once
    with pytest.raises(ArtifactError, match="no program"):
        counted("other content", [tmp_path / "no program"], ARM)
