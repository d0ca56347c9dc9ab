"""The search: reproducible, within the limits, and better than chance."""

from __future__ import annotations

import math
import random

import pytest

from tests.tuning.examples import DENSE, DEPTHWISE, V3, V4, default
from tvmconv.core.errors import ConfigError, TvmconvError
from tvmconv.kernels import registry
from tvmconv.records.space import make_space, validate
from tvmconv.tuning import cost_model
from tvmconv.tuning.search import Search


def landscape(config):
    """A time with one valley away from the default."""
    oc, ow, oh = config.int("oc"), config.int("ow"), config.int("oh")
    return 1e-3 * (1 + abs(oc - 3) + abs(ow - 6) + abs(oh - 1) + 0.5 * config.int("fetch_weight"))


def run(search, batches, size=8):
    seen = []
    for _ in range(batches):
        proposed = search.propose(size)
        seen += proposed
        search.learn({config: landscape(config) for config in proposed})
    return seen


def test_same_seed_same_proposals():
    space = make_space(DENSE, V4, "direct")
    first, second = run(Search(space, 7), 3), run(Search(space, 7), 3)
    assert first == second
    assert first != run(Search(space, 8), 3)


def test_no_config_is_proposed_twice_and_all_fit():
    space = make_space(DENSE, V3, "direct")
    module = registry.schedule("direct", V3)
    seen = run(Search(space, 0), 4)
    assert len(seen) == len(set(seen)) == 32
    for config in seen:
        module.check(DENSE, V3, config)
    assert seen[0] == default(DENSE, V3)


def test_it_is_better_than_random_sampling():
    space = make_space(DENSE, V4, "direct")
    guided, chance = [], []
    for seed in range(2):
        guided.append(min(map(landscape, run(Search(space, seed), 8))))
        generator = random.Random(seed)
        chance.append(min(landscape(space.sample(generator)) for _ in range(64)))
    assert sum(guided) < sum(chance)


def test_a_small_space_ends():
    space = make_space(DEPTHWISE, V3, "depthwise")
    search = Search(space, 0)
    seen = []
    while proposed := search.propose(32):
        seen += proposed
        search.learn({c: math.inf if c.int("tile_h") == 2 else 1e-3 for c in proposed})
    assert 0 < len(seen) <= space.size


def test_error_budget_limits_the_space():
    exact = make_space(DENSE, V4, "direct", 1e-5)
    assert exact.starts
    assert not make_space(DENSE, V4, "direct", 1e-9).starts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"oc": 99}, "oc=99"),
        ({"oc": True}, "oc=True"),
        ({"rows": -1}, "rows=-1"),
        ({"fetch_input": 2}, "fetch_input=2"),
        ({"ow": "7"}, "ow='7'"),
        ({"oh": 4, "ow": 14, "oc": 4}, "registers"),
    ],
)
def test_configs_from_outside_are_held_to_the_knobs(change, message):
    config = default(DENSE, V4).replace(**change)
    with pytest.raises(ConfigError, match=message):
        validate(DENSE, V4, "direct", config)


def test_integers_between_listed_values_are_accepted():
    validate(DENSE, V4, "direct", default(DENSE, V4).replace(rows=3))


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(cost_model, "find_spec", lambda name: None if name == "xgboost" else name)
    with pytest.raises(TvmconvError, match=r"packages xgboost\. .*pip install 'tvmconv\[tune\]'"):
        cost_model.check_packages()
