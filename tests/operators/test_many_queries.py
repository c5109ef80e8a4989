"""Many queries in one run: each has the answers that it has alone, whatever it shares, and whenever it comes or goes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from local_run import Cut
from merged_cases import MergedMaker
from random_cases import Maker
from shared_cases import Run, alike


def _cut(rng: random.Random, seed: int) -> Cut:
    batch, plan = rng.choice("1237"), rng.choice(["adaptive", "random"])
    return Cut(batch, plan, split=rng.choice([1, 2]), parts=rng.choice([1, 2, None]), seed=seed)


MAKERS = {"windows by name": Maker, "merged with static data": MergedMaker}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("seed", range(10))
def test_instances_have_the_answers_that_they_have_alone(
    seed: int, maker: type[Maker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, some = random.Random(seed), alike(seed, 3, maker)
    if some is None:
        pytest.skip("the query of this case has to be on its own")
    run = Run(some, ["m0", "m1", "m2"], _cut(rng, seed), tmp_path, monkeypatch)
    assert [program.id for program in run.driver.programs] == ["like-m0"]
    for number, rows in enumerate(run.source.chunks(run.how)):
        run.batch(number, rows)
    for name in run.span:
        assert run.lines_of(name) == run.alone(name), name


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("seed", range(10))
def test_queries_come_and_go(seed: int, maker: type[Maker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, some = random.Random(1000 + seed), alike(seed, 6, maker)
    if some is None:
        pytest.skip("the query of this case has to be on its own")
    names = [member.id for member in some.members]
    there, waiting = names[: rng.randint(2, 3)], names[3:]
    run = Run(some, there, _cut(rng, seed), tmp_path, monkeypatch)
    killed = rng.random() < 0.5
    for number, rows in enumerate(run.source.chunks(run.how)):
        if killed and number and rng.random() < 0.3:
            run.driver = run.opened()
        come = [waiting.pop(0) for _ in range(rng.randint(0, 2)) if waiting] if number and rng.random() < 0.5 else []
        go = [rng.choice(there)] if number and len(there) > 1 and rng.random() < 0.3 else []
        run.change(come, go)
        there = [*(name for name in there if name not in go), *come]
        run.batch(number, rows)
        if killed and rng.random() < 0.3:  # done, but perhaps Spark has not noted it
            run.driver = run.opened()
            if rng.random() < 0.7:
                run.batch(number, rows)
        assert run.queries.names() == there
    for name in run.span:
        assert run.lines_of(name) == run.alone(name), name
