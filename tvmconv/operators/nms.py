"""Non-maximum suppression: the best boxes of each class that overlap no better one.

A class is one unit of work. Scores above the threshold become a heap of numbers, from which boxes
are taken in order until enough are kept. So few of many boxes need no sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmconv.operators.entries import number_entry, position_of
from tvmconv.operators.vector_loops import blocks, one_task, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# scores that are compared together: most blocks of a class have none above the threshold
_BLOCK = 64
# scores of such a block that are compared again together
_PART = 16
# kept boxes that are compared with a box together
_LANES = 16


def suppressed(
    boxes: Tensor,
    scores: Tensor,
    limits: Sequence[Tensor],
    most: int,
    *,
    thresholded: bool,
    centered: bool,
) -> list[Tensor]:
    """Indices of the boxes that each class keeps, best first, and how many these are.

    ``boxes`` is ``(batch, count, 4)`` and ``scores`` ``(batch, classes, count)``. ``limits`` are
    tensors of one element: the boxes to keep, the largest overlap, the score to exceed, and the
    existing boxes. The last one is absent if all boxes exist. At most ``most`` boxes are kept.
    Without ``thresholded``, every score is enough. ``centered`` boxes are centers and sizes, others
    two corners. The comparisons are onnxruntime's.
    """
    batch, classes, count = (int(size) for size in scores.shape)
    room = -(-most // _LANES) * _LANES

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            corners, confidences, wanted, overlap, threshold, *existing = map(T.buffer_proxy, ins)
            picked, counts = map(T.buffer_proxy, outs)
            with shared(batch * classes) as unit:
                image, number = unit // classes, unit % classes
                if existing:
                    # positions are compared as vectors of 32 bits
                    end = scratch(1, "int32")
                    end[0] = tirx.Cast("int32", existing[0][0])

                def score(place: Any) -> Any:
                    return confidences[image, number, place]

                def passes(place: Any) -> Any:
                    tests = [place < end[0]] if existing else []
                    tests += [score(place) > threshold[0]] if thresholded else []
                    return tirx.all(*tests) if tests else tirx.const(True, "bool")

                heap = _Heap(count)
                heap.collect(score, passes)
                kept = _Kept(room, overlap[0])
                target = tirx.Cast("int32", tirx.min(tirx.max(wanted[0], 0), most))
                with T.While(tirx.all(heap.size[0] > 0, kept.count[0] < target)):
                    heap.pop()
                    place = heap.top()
                    kept.compare(_box([corners[image, place, i] for i in range(4)], centered))
                    with T.If(kept.hit[0] == 0), T.Then():
                        picked[image, number, kept.count[0]] = place
                        kept.add()
                counts[image, number] = kept.count[0]
            return builder.get()

    shapes = [[batch, classes, most], [batch, classes]]
    return te.extern(
        shapes, [boxes, scores, *limits], write, dtype=["int32", "int32"], name="suppress_boxes"
    )


class _Heap:
    """A binary heap of numbers that begins at place 1; the largest number is the best box.

    Place 0 holds the largest number, and the place after the last one 0, so that no comparison
    needs a bound.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._items = scratch(count + 3, "uint64")
        self._item, self._pair = scratch(2, "uint64"), scratch(2, "uint64")
        self._hole = scratch(1, "int32")
        self.size = scratch(1, "int32")

    def collect(self, score: Callable[[Any], Any], passes: Callable[[Any], Any]) -> None:
        """Fill the heap with the elements that pass."""
        found, numbers = scratch(1, "int32"), scratch(_PART, "uint64")
        self.size[0] = tirx.const(0, "int32")
        self._items[0] = tirx.const(2**64 - 1, "uint64")

        def part(first: Any, count: int) -> None:
            with T.serial(0, count) as place:
                number = number_entry(score(first + place), first + place)
                none = tirx.const(0, "uint64")
                numbers[place] = tirx.Select(passes(first + place), number, none)
            with T.serial(0, count) as place:
                # written without a branch; the next element replaces what does not pass
                self._items[self.size[0] + 1] = numbers[place]
                self.size[0] = self.size[0] + tirx.Cast("int32", numbers[place] > 0)

        def tested(first: Any, count: int) -> None:
            found[0] = tirx.const(0, "int32")
            with T.serial(0, count) as place:
                found[0] = found[0] + tirx.Cast("int32", passes(first + place))
            with T.If(found[0] > 0), T.Then():
                if count == _PART:
                    part(first, count)
                else:
                    blocks(count, _PART, lambda start, size: tested(first + start, size))

        whole = self._count // _PART * _PART
        blocks(whole, _BLOCK, tested)
        if whole < self._count:
            part(whole, self._count - whole)
        self._items[self.size[0] + 1] = tirx.const(0, "uint64")
        half = scratch(1, "int32")
        half[0] = self.size[0] // 2
        with T.serial(0, half[0]) as back:
            self._item[0] = self._items[half[0] - back]
            self._sink(half[0] - back)

    def pop(self) -> None:
        """Take the best item."""
        self._item[1] = self._items[1]
        self._item[0] = self._items[self.size[0]]
        self._items[self.size[0]] = tirx.const(0, "uint64")
        self.size[0] = self.size[0] - 1
        self._sink(tirx.const(1, "int32"))

    def top(self) -> Any:
        """The position of the item that was taken last."""
        return position_of(self._item[1])

    def _sink(self, root: Any) -> None:
        """Put an item in place of a root: a path of larger children moves up, then the item."""
        items, hole, pair = self._items, self._hole, self._pair
        hole[0] = root
        with T.While(hole[0] * 2 <= self.size[0]):
            child = hole[0] * 2
            pair[0], pair[1] = items[child], items[child + 1]
            items[hole[0]] = tirx.max(pair[0], pair[1])
            hole[0] = child + tirx.Cast("int32", pair[1] > pair[0])
        with T.While(tirx.all(hole[0] > root, items[hole[0] // 2] < self._item[0])):
            items[hole[0]] = items[hole[0] // 2]
            hole[0] = hole[0] // 2
        items[hole[0]] = self._item[0]


class _Kept:
    """The boxes that a class keeps, by coordinate, and one box that is compared with them."""

    def __init__(self, room: int, overlap: Any) -> None:
        self._overlap = overlap
        self._boxes = [scratch(room, "float32") for _ in range(5)]
        self._box = scratch(5, "float32")
        self._block = scratch(1, "int32")
        self.count, self.hit = scratch(1, "int32"), scratch(1, "int32")
        self.count[0] = tirx.const(0, "int32")
        with T.serial(0, room) as place:
            # a box without area overlaps none
            self._boxes[4][place] = tirx.const(0.0, "float32")

    def compare(self, box: tuple[Any, ...]) -> None:
        """Set ``hit`` if the box overlaps a kept one too much."""
        y1, x1, y2, x2 = box
        for place, value in enumerate((y1, x1, y2, x2)):
            self._box[place] = value
        height, width = self._box[2] - self._box[0], self._box[3] - self._box[1]
        self._box[4] = height * width
        self.hit[0] = tirx.const(0, "int32")
        self._block[0] = tirx.const(0, "int32")
        with T.While(tirx.all(self._block[0] < self.count[0], self.hit[0] == 0)):
            with T.serial(0, _LANES) as lane:
                hits = self._overlaps(self._block[0] + lane)
                self.hit[0] = tirx.bitwise_or(self.hit[0], tirx.Cast("int32", hits))
            self._block[0] = self._block[0] + _LANES

    def _overlaps(self, place: Any) -> Any:
        box, zero = self._box, tirx.const(0.0, "float32")
        y1, x1, y2, x2, area = (column[place] for column in self._boxes)
        height = tirx.min(y2, box[2]) - tirx.max(y1, box[0])
        width = tirx.min(x2, box[3]) - tirx.max(x1, box[1])
        common = height * width
        union = box[4] + area - common
        conditions = (height, width, common, area, box[4], union)
        positive = tirx.all(*(value > zero for value in conditions))
        return tirx.all(positive, common / union > self._overlap)

    def add(self) -> None:
        """Keep the box that was compared."""
        for place, column in enumerate(self._boxes):
            column[self.count[0]] = self._box[place]
        self.count[0] = self.count[0] + 1


def _box(values: Sequence[Any], centered: bool) -> tuple[Any, ...]:
    """The smaller and the larger corner of a box: y, x, y, x."""
    if centered:
        x, y, half_width, half_height = *values[:2], values[2] / 2.0, values[3] / 2.0
        return y - half_height, x - half_width, y + half_height, x + half_width
    y1, x1, y2, x2 = values
    return tirx.min(y1, y2), tirx.min(x1, x2), tirx.max(y1, y2), tirx.max(x1, x2)


def box_rows(picked: Tensor, counts: Tensor) -> list[Tensor]:
    """Rows of batch, class and box, and their number; later rows are not written."""
    batch, classes, most = (int(size) for size in picked.shape)
    largest = batch * classes * most

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, numbers, rows, extent = map(T.buffer_proxy, (*ins, *outs))
            with one_task():
                count = scratch(1, "int32")
                count[0] = tirx.const(0, "int32")
                with T.grid(batch, classes) as (image, number):
                    with T.serial(0, numbers[image, number]) as place:
                        values = image, number, source[image, number, place]
                        for column, value in enumerate(values):
                            rows[count[0] + place, column] = tirx.Cast("int64", value)
                    count[0] = count[0] + numbers[image, number]
                extent[0] = tirx.Cast("int64", count[0])
            return builder.get()

    shapes = [[largest, 3], [1]]
    return te.extern(shapes, [picked, counts], write, dtype=["int64", "int64"], name="box_rows")
