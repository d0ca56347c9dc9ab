"""Graphs that detectors end with: sizes that depend on the data, in branches and as shapes."""

from __future__ import annotations

import numpy as np
import pytest

import tvmconv
from tests.frontend.control_models import compare, model
from tvmconv.errors import ModelError

LARGE = 2**63 - 1


def detections(count: int, *names: str) -> dict[str, np.ndarray]:
    """Boxes that overlap, their scores and classes, or the named ones."""
    random = np.random.default_rng(count)
    corner, size = random.random((2, count, 2))
    found = {
        "boxes": np.concatenate([corner, corner + size / 2], 1).astype(np.float32),
        "scores": random.random(count).astype(np.float32),
        "classes": random.integers(0, 3, count),
    }
    return {name: found[name] for name in names or found}


def test_suppression_in_a_branch() -> None:
    """torchvision suppresses boxes in a branch, because there may be none."""
    proto = model(
        """g (float[40,4] boxes, float[40] scores, float least) => (float[n,4] y, float[n] s)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] ten = {10}, int64[1] both = {0},
         int64 none = {0}, int64[1] box = {2}, float[1] overlap = {0.4}>
        {
          mask = Greater(scores, least)
          places = NonZero(mask)
          rows = Squeeze(places, zero)
          some = Gather(boxes, rows)
          best = Gather(scores, rows)
          shape = Shape(some)
          size = ReduceProd<keepdims = 0>(shape)
          empty = Equal(size, none)
          kept = If(empty) <
            then_branch = g1 () => (nothing) { nothing = Identity(no_rows) },
            else_branch = g2 () => (numbers) {
              farthest = ReduceMax<keepdims = 0>(some)
              moved = Add(some, farthest)
              batch = Unsqueeze(moved, zero)
              class = Unsqueeze(best, both)
              all = Unsqueeze(class, zero)
              found = NonMaxSuppression(batch, all, most, overlap)
              column = Gather<axis = 1>(found, box)
              numbers = Squeeze(column, one)
            }>
          few = Slice(kept, zero, ten, zero)
          y = Gather(some, few)
          s = Gather(best, few)
        }""",
        most=np.asarray([LARGE]),
        no_rows=np.zeros(0, np.int64),
    )
    feeds = detections(40, "boxes", "scores")
    built = tvmconv.build(proto, threads=1)
    assert [(info.shape, info.varying) for info in built.outputs] == [((10, 4), 0), ((10,), 0)]
    for least in (0.2, 0.9, 2):
        compare(proto, {**feeds, "least": np.asarray(least, np.float32)}, built)


def test_branches_of_different_sizes() -> None:
    """Fixed sizes, a size of one branch, and the size of an outer value in both."""
    proto = model(
        """g (float[6] x, bool c) => (float[a] y, float[2,b] z, float[d] w)
        <int64[2] column = {-1, 1}, int64[1] zero = {0}, int64[1] two = {2}>
        {
          some = Compress<axis = 0>(x, mask)
          more = Exp(some)
          y, z, v = If(c) <
            then_branch = g1 () => (y1, z1, v1) {
              y1 = Slice(x, zero, two)
              z1 = Concat<axis = 0>(row, row)
              v1 = Neg(some)
            },
            else_branch = g2 () => (y2, z2, v2) {
              y2 = Sin(x)
              positive = Greater(x, level)
              inner = Compress<axis = 0>(x, positive)
              line = Unsqueeze(inner, zero)
              z2 = Concat<axis = 0>(line, line)
              v2 = Sin(some)
            }>
          w = Add(v, more)
        }""",
        mask=np.asarray([True, False, True, True, False, True]),
        row=np.float32([[1, 2]]),
        level=np.float32(0),
    )
    x = np.random.default_rng(1).standard_normal(6).astype(np.float32)
    built = tvmconv.build(proto, threads=1)
    for c in (True, False):
        for sign in (x, np.abs(x), -np.abs(x)):
            compare(proto, {"x": sign, "c": np.asarray(c)}, built)


def test_rows_padded_to_a_fixed_number() -> None:
    """Ultralytics pads a flat value, and torch compares each shape of an Expand with -1."""
    proto = model(
        """g (float[40,4] boxes, float[40] scores, int64[40] classes, float least)
        => (float[12,6] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}, int64 minus = {-1},
         int64[1] end = {12}, int64 first = {0}, int64 second = {1}, int64 twelve = {12},
         int64[1] six = {6}, int64[2] column = {-1, 1}, int64[1] flat = {-1}>
        {
          mask = Greater(scores, least)
          places = NonZero(mask)
          tuples = Transpose<perm = [1, 0]>(places)
          box = GatherND(boxes, tuples)
          score = GatherND(scores, tuples)
          class = GatherND(classes, tuples)
          shape = Shape(class)
          count = Gather(shape, first)
          row = Unsqueeze(count, zero)
          target = Concat<axis = 0>(row, four)
          rank = Shape(target)
          ones = ConstantOfShape<value = int64[1] {1}>(rank)
          negative = Mul(ones, minus)
          open = Equal(target, negative)
          known = Where(open, ones, target)
          lined = Reshape(class, column)
          wide = Expand(lined, known)
          offset = Cast<to = 1>(wide)
          head = Slice(box, zero, four, one)
          moved = Add(head, offset)
          tail = Slice(box, four, far, one)
          apart = Concat<axis = -1>(moved, tail)
          some = Slice(apart, zero, end, zero)
          best = Slice(score, zero, end, zero)
          number = Slice(class, zero, end, zero)
          scored = Reshape(best, column)
          numbered = Reshape(number, column)
          numbers = Cast<to = 1>(numbered)
          found = Concat<axis = -1>(some, scored, numbers)
          size = Shape(found)
          rows = Gather(size, first)
          width = Gather(size, second)
          missing = Sub(twelve, rows)
          elements = Mul(missing, width)
          after = Unsqueeze(elements, zero)
          pads = Concat<axis = 0>(zero, after)
          line = Reshape(found, flat)
          padded = Pad(line, pads)
          each = Unsqueeze(width, zero)
          fixed = Concat<axis = 0>(end, each)
          y = Reshape(padded, fixed)
        }""",
        far=np.asarray([LARGE]),
    )
    built = tvmconv.build(proto, threads=1)
    assert built.outputs[0].varying is None
    for least in (0.1, 0.8, 2):
        compare(proto, {**detections(40), "least": np.asarray(least, np.float32)}, built)


POOL = """g (float[1,3,8,8] near, float[1,3,4,4] far, float[9,4] boxes, float[9] scores,
float least) => (float[n,3,2,2] y, float[n] z)
<int64[1] zero = {0}, int64[4] column = {-1, 1, 1, 1}, int64[3] bins = {3, 2, 2},
 float half = {0.5}>
{
  mask = Greater(scores, least)
  places = NonZero(mask)
  rows = Squeeze(places, zero)
  some = Gather(boxes, rows)
  best = Gather(scores, rows)
  count = Shape(best)
  all = Concat<axis = 0>(count, bins)
  blank = ConstantOfShape(all)
  strong = Greater(best, half)
  weak = Not(strong)
"""
LEVEL = """
  {0}_places = NonZero({1})
  {0}_rows = Squeeze({0}_places, zero)
  {0}_boxes = Gather(some, {0}_rows)
  {0}_count = Shape({0}_rows)
  {0}_image = ConstantOfShape<value = int64[1] {{0}}>({0}_count)
  {0}_pooled = RoiAlign<output_height = 2, output_width = 2>({0}, {0}_boxes, {0}_image)
  {0}_column = Reshape({0}_rows, column)
  {0}_size = Shape({0}_pooled)
  {0}_index = Expand({0}_column, {0}_size)
  {0}_y = ScatterElements<axis = 0>({2}, {0}_index, {0}_pooled)
"""


def test_regions_of_two_levels() -> None:
    """Each level pools its own boxes, and a scatter brings them into one order."""
    text = POOL + LEVEL.format("near", "strong", "blank") + LEVEL.format("far", "weak", "near_y")
    text += """
      y = Identity(far_y)
      tuples = Transpose<perm = [1, 0]>(near_places)
      picked = Gather(best, near_rows)
      larger = Exp(picked)
      z = ScatterND(best, tuples, larger)
    }"""
    proto = model(text)
    random = np.random.default_rng(3)
    feeds = {
        "near": random.random((1, 3, 8, 8), np.float32),
        "far": random.random((1, 3, 4, 4), np.float32),
        **detections(9, "boxes", "scores"),
    }
    feeds["boxes"] = feeds["boxes"] * 6
    built = tvmconv.build(proto, threads=1)
    for least in (0.1, 0.6, 2):
        compare(proto, {**feeds, "least": np.asarray(least, np.float32)}, built)


def test_loops_over_a_varying_size_are_refused() -> None:
    proto = model(
        """g (float[6] x) => (float[6] y, float[a] z) <bool yes = {1}, int64 first = {0}>
        {
          mask = Greater(x, level)
          z = Compress<axis = 0>(x, mask)
          shape = Shape(z)
          count = Gather(shape, first)
          y = Loop(count, yes, x) <body = g1 (int64 i, bool go, float[6] a) => (goes, b) {
            goes = Identity(go)
            b = Sin(a)
          }>
        }""",
        level=np.float32(0),
    )
    with pytest.raises(ModelError, match=r"'y' \(Loop\): its trip count 'count'.*`tvmconv check`"):
        tvmconv.build(proto)
    assert tvmconv.check(proto).cut == ("count", "z")


def test_a_branch_with_a_refused_operator_is_refused() -> None:
    """Only a branch that cannot run with the model's shapes is left out."""
    proto = model(
        """g (float[6] x, bool c) => (float[6] y) {
          y = If(c) <then_branch = g1 () => (u) { u = Sin(x) },
                     else_branch = g2 () => (v) { v = RandomNormalLike(x) }>
        }"""
    )
    with pytest.raises(ModelError, match="RandomNormalLike"):
        tvmconv.build(proto)


SHAPES = """g (float[1,4] x, int64 k) => (float[a,4] y, float[b] z, float[c,4] w, int64[d] r)
<int64[1] four = {4}, int64 nine = {9}, int64 zero = {0}, int64 three = {3}, int64[1] one = {1},
 int64[1] first = {0}>
{
  few = Min(k, nine)
  size = Unsqueeze(few, first)
  rows = Concat<axis = 0>(size, four)
  y = Expand(x, rows)
  z = ConstantOfShape<value = float[1] {2.0}>(size)
  times = Concat<axis = 0>(size, one)
  double = Concat<axis = 0>(x, x)
  w = Tile(double, times)
  r = Range(zero, few, three)
}"""


def test_computed_sizes_with_a_bound() -> None:
    proto = model(SHAPES)
    built = tvmconv.build(proto, threads=1)
    assert [info.shape for info in built.outputs] == [(9, 4), (9,), (18, 4), (3,)]
    x = np.float32([[1, 2, 3, 4]])
    for k in (0, 1, 4, 7, 30):
        compare(proto, {"x": x, "k": np.asarray(k)}, built)


def test_computed_sizes_without_a_bound_are_refused() -> None:
    """The message names the node, the value and the cut."""
    proto = model(SHAPES.replace("few = Min(k, nine)", "few = Add(k, nine)"))
    text = r"'y' \(Expand\): its input 'rows' .* no largest shape.*--outputs rows"
    with pytest.raises(ModelError, match=text):
        tvmconv.build(proto)


def test_a_refusal_in_a_branch_names_no_value_of_the_branch() -> None:
    """No option ends the model at a value of a branch."""
    proto = model(
        """g (float[6] x, bool c) => (float[a] y) {
          some = Compress<axis = 0>(x, mask)
          y = If(c) <then_branch = g1 () => (u) { u = LpNormalization(some) },
                     else_branch = g2 () => (v) { v = Neg(some) }>
        }""",
        mask=np.ones(6, bool),
    )
    text = r"(?s)'u' \(LpNormalization\): .*'some'.*End the model before the node"
    with pytest.raises(ModelError, match=text) as caught:
        tvmconv.build(proto)
    assert "--outputs" not in str(caught.value)
