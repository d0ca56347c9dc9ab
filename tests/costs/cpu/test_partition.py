"""How threads share layers: bytes that cross cores, and the choice of rows or channels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import V3, V4, default_config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.direct_partition import partition_of
from tvmconv.costs.cpu.partition import Partition, best, memory_rate, spans
from tvmconv.costs.cpu.winograd import WinogradModel
from tvmconv.kernels import registry
from tvmconv.schedules.cpu.depthwise import row_bands_of


def counted(images: int, bands: int, groups: int, cores: int, rows: int) -> tuple[int, int]:
    """Input and output of the thread with most crossing, by rows and channels one by one.

    Each value is one row of one channel of a layer with as many channels as groups. The layers
    before and after it are shared by rows.
    """
    span = -(-rows // bands)
    items = [(n, b, g) for n in range(images) for b in range(bands) for g in range(groups)]
    chunk, order = -(-len(items) // cores), [(n, r) for n in range(images) for r in range(rows)]
    owner = {place: i * cores // len(order) for i, place in enumerate(order)}
    found = []
    for thread in range(cores):
        mine = items[thread * chunk : (thread + 1) * chunk]
        made = {(n, r, g) for n, b, g in mine for r in range(b * span, min(rows, (b + 1) * span))}
        needed = {(n, r) for n, r, _ in made}
        read = sum(owner[place] != thread for place in needed) * groups
        owned = [(n, r, g) for n, r in order if owner[n, r] == thread for g in range(groups)]
        found.append((read, sum(value not in made for value in owned)))
    return max(read for read, _ in found), max(out for _, out in found)


@pytest.mark.parametrize(
    ("images", "bands", "groups", "cores"),
    [(1, 1, 4, 2), (1, 2, 4, 2), (2, 1, 4, 2), (1, 1, 8, 4), (1, 2, 8, 4), (1, 4, 8, 4)],
)
def test_crossing_is_that_of_a_count(images, bands, groups, cores):
    rows = 16
    partition = Partition(replace(V4, cores=cores), images, rows, groups, rows // bands)
    values = images * rows * groups
    expected = counted(images, bands, groups, cores, rows)
    assert partition.crossing(values, 0) == pytest.approx(expected[0])
    assert partition.crossing(0, values) == pytest.approx(expected[1])


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
@pytest.mark.parametrize("span", [1, 3, 5, 13])
def test_share_is_the_work_of_the_first_thread(cores, span):
    partition = Partition(replace(V4, cores=cores), 1, 13, 6, span)
    sizes = [min(span, 13 - begin) for begin in range(0, 13, span) for _ in range(6)]
    chunk = -(-len(sizes) // cores)
    assert partition.share == pytest.approx(min(1, chunk * max(sizes) / 78))
    assert partition.share >= max(sum(sizes[i : i + chunk]) for i in range(0, 78, chunk)) / 78


def test_one_core_has_one_band_and_nothing_crosses():
    assert spans(V4, 56) == [56]
    partition = best([Partition(V4, 1, 56, 4, 56)], 1e6, 1e6, 1e6)
    assert (partition.bands, partition.share, partition.crossing(1e6, 1e6)) == (1, 1.0, 0.0)


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
def test_activations_are_shared_by_rows_and_weights_by_channels(machine):
    two = machine.with_cores(2)

    def bands(problem: str) -> int:
        workload = Conv2dWorkload.parse(problem)
        config = default_config("direct", workload, two)
        tile = (config.int(name) for name in ("oc", "oh", "ow"))
        return partition_of(TileModel(workload, two), *tile, config.int("rows")).bands

    assert bands("mb1ic16ih55oc64kh1") > 1
    assert bands("mb1ic64ih56oc64kh3ph1") == 2
    assert bands("mb1ic512ih7oc2048kh1") == 1
    assert bands("mb1ic512ih7oc512kh3ph1") == 1
    assert row_bands_of(Conv2dWorkload.parse("g32ic32ih112oc32kh3ph1"), two, 1) == 2


@pytest.mark.parametrize("problem", ["mb1ic64ih28oc64kh3ph1", "g64mb1ic64ih28oc64kh3ph1"])
def test_a_prediction_names_what_crosses(problem):
    workload = Conv2dWorkload.parse(problem)
    name = "depthwise" if workload.is_depthwise else "direct"
    for cores in (1, 2):
        machine = V4.with_cores(cores)
        config = registry.offers(name, workload, machine)[0]
        parts = registry.explain_cost(name, workload, machine, config)
        assert (parts["crossing"] > 0) == (cores > 1)


def test_cores_share_the_bytes_of_memory_where_their_sum_is_known():
    assert memory_rate(V4.with_cores(2)) == V4.rates.memory
    limited = replace(V4, rates=replace(V4.rates, memory=10.0, all_memory=12.0))
    assert [memory_rate(limited.with_cores(cores)) for cores in (1, 2, 4)] == [10.0, 6.0, 3.0]
    # a core that was measured to be faster receives its own rate
    measured = replace(limited, rates=replace(limited.rates, memory=14.0))
    assert [memory_rate(measured.with_cores(cores)) for cores in (1, 2)] == [14.0, 7.0]
    # two threads choose fewer transformed weights
    workload = Conv2dWorkload.parse("ic512ih7oc512kh3ph1")
    sizes = []
    for machine in (limited, replace(limited, rates=replace(limited.rates, all_memory=0.0))):
        found = WinogradModel(workload, machine.with_cores(2)).best()
        sizes.append(found.int("mh") * found.int("mw"))
    assert sizes[0] < sizes[1]
