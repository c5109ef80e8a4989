"""The study of skew: single plans produce the rows of brute force, and the ideal split is far below them."""

from __future__ import annotations

import numpy as np

from cqels_opt.bench import skew


def test_the_figures_of_single_plans_are_those_of_brute_force() -> None:
    found = skew.study(quick=True)
    world = skew.meeting(found["seed"], people=skew.PEOPLE, rooms=skew.ROOMS, topics=skew.TOPICS, elements=found["elements"])
    counted = skew.hops(world)
    everybody = np.ones(found["elements"], bool)
    assert found["answers"] == counted.answers.sum() > 0
    assert found["rows"]["person first"] == counted.rows(everybody)
    assert found["rows"]["room first"] == counted.rows(~everybody)
    assert found["rows"]["ideal by element"] <= found["rows"]["ideal by class"]
    assert found["rows"]["ideal by element"] <= found["rows"]["adaptive"]
    assert found["ratios"]["best single plan / ideal by class"] > 2
    assert found["split"] == found["batches"]
    assert found["ratios"]["one plan a delta / adaptive"] > 2


def test_hubs_and_the_others_want_other_plans() -> None:
    world = skew.meeting(3, people=400, rooms=20, topics=2_000, elements=2_000)
    counted = skew.hops(world)
    usual_hub, usual = world.hub & ~world.hall, ~world.hub & world.hall
    assert counted.by_person[usual_hub].sum() > 10 * counted.by_room[usual_hub].sum()
    assert counted.by_room[usual].sum() > 5 * counted.by_person[usual].sum()
    assert 0.02 < world.hub.mean() < 0.1
