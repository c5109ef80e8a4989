"""Static data that change while a query runs: its answers are those over what counts at each instant."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from local_runs import Cut
from merged_source_cases import MergedMaker
from random_cases import EX, FIXED, MOVING, NAMED, Maker, make
from store_update_cases import Living, changes

from cqels_opt.rdf.quads import Quad

MAKERS = {"windows by name": Maker, "merged with static data": MergedMaker}


@pytest.mark.long
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("seed", range(15))
def test_answers_are_those_over_the_data_of_each_instant(seed: int, maker: type[Maker], tmp_path: Path) -> None:
    rng, made = random.Random(seed), maker(seed)
    case = make(seed, maker)
    how = Cut(rng.choice("1237"), rng.choice(["adaptive", "random"]), rng.choice([1, 2]), rng.choice([1, 2, None]), seed)
    living = Living(case, how, tmp_path)
    killed = rng.random() < 0.4

    def come() -> list[Quad]:
        moving = [(*made.triple(kinds), None) for kinds in (FIXED, FIXED, MOVING) if rng.random() < 0.6]
        named = [(*made.triple(NAMED), f"<{EX}{name}>") for name in case.world.graphs if rng.random() < 0.4]
        return [*moving, *named]

    for number, rows in enumerate(living.source.chunks(how)):
        if number and rng.random() < 0.4:
            living.update(*changes(made, living.held, rng, come))
        if killed and rng.random() < 0.3:
            living.killed(number, rows)
            if rng.random() < 0.5:  # the batch that is done again takes the version that it had
                living.update(*changes(made, living.held, rng, come))
        living.batch(number, rows)
        if killed and rng.random() < 0.3:
            living.driver = living.opened()
            if rng.random() < 0.6:  # done, but perhaps Spark has not noted it
                living.batch(number, rows)
    verdict = living.judged()
    assert verdict.equal, f"{case}\nupdates at {[v.at for v in living.later]}\n{verdict.text()}"
