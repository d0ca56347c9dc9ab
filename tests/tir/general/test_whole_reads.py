"""Blocks that read more of a buffer than they need, so that what writes it writes all."""

from __future__ import annotations

from tvm import s_tir
from tvm.script import tirx as T

from tvmconv.tir.general.whole_reads import read_whole


@T.prim_func(private=True, s_tir=True)
def three_of_four(x: T.Buffer((8, 4), "float32"), y: T.Buffer((8, 3), "float32")):
    with T.sblock("root"):
        packed = T.sblock_alloc_buffer((8, 4), "float32")
        for i, k in T.grid(8, 4):
            with T.sblock("pack"):
                v, lane = T.axis.remap("SS", [i, k])
                packed[v, lane] = x[v, lane]
        for i, c in T.grid(8, 3):
            with T.sblock("product"):
                v, channel = T.axis.remap("SS", [i, c])
                y[v, channel] = packed[v, channel] * T.float32(2)


def lanes(whole: bool) -> int:
    """Lanes that are packed where pixels are multiplied."""
    schedule = s_tir.Schedule(three_of_four)
    pack, product = schedule.get_sblock("pack"), schedule.get_sblock("product")
    if whole:
        read_whole(schedule, product, pack)
    schedule.compute_at(pack, schedule.get_loops(product)[0])
    return int(schedule.get(schedule.get_loops(pack)[-1]).extent)


def test_what_is_packed_is_what_is_said_to_be_read():
    assert lanes(whole=False) == 3
    assert lanes(whole=True) == 4
