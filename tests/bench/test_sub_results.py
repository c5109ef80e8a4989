"""The study of sub-results: the crowd causes one, the trickle does not; the estimated cost equals the measured one."""

from __future__ import annotations

import pytest

from cqels_opt.bench import sub_results


@pytest.mark.long
def test_a_crowd_brings_a_sub_result_about() -> None:
    found = sub_results.study(quick=True)
    (change,) = found["changes"]
    assert (change["was"], change["is"]) == (["follows", "memberOf"], ["follows+memberOf"])
    trickle, before, after = found["phases"]
    assert change["batch"] == trickle["batches"] + before["batches"]
    for phase in (trickle, before):
        assert phase["adaptive"] == phase["as compiled"]
    assert after["adaptive"]["plan"] == "now » follows+memberOf[?person]"
    assert after["adaptive"]["rows"] * 2 < after["as compiled"]["rows"]
    assert after["adaptive"]["seconds"] == pytest.approx(change["price"], rel=0.1)
    assert after["as compiled"]["seconds"] == pytest.approx(change["cost"], rel=0.1)


def test_the_rows_of_the_sub_result_are_counted_by_brute_force() -> None:
    world = sub_results.crowd(3, people=50, friends=4, share=0.2, trickle=(1, 1), crowd=(1, 5))
    pairs = list(zip(*(side.tolist() for side in world.follows)))
    assert sub_results.made_rows(world) == sum(b in set(world.members.tolist()) for _, b in pairs)
    assert len(world.times) == 6
