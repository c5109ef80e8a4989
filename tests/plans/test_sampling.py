"""What a walk says of the delta at hand, and what the optimizer does with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cqels_opt.bench.shapes import relation
from cqels_opt.plans import FilterNode, KnownStatistics, Optimizer, Plan, QueryGraph, SampledCardinality, parse_plan
from cqels_opt.plans.plan import operators
from cqels_opt.plans.plan_sampling import SAMPLING_ROUNDS
from cqels_opt.plans.sampling import PRIOR, Corrections

GRAPH = QueryGraph([relation("s", "x y", True), relation("a", "x u"), relation("b", "y v"), relation("c", "u v")])
STATISTICS = KnownStatistics(
    {"s": 100.0, "a": 1e6, "b": 1e6, "c": 1e6},
    {("s", "a", "x"): 1000.0, ("s", "b", "y"): 1500.0, ("a", "c", "u"): 1e6, ("b", "c", "v"): 1e6},
)


class World:
    """Knows how many rows each set of relations really has, and which plans were walked."""

    def __init__(self, rows: dict[str, float], scale: float = 1.0) -> None:
        self.rows, self.scale, self.walked = rows, scale, list[str]()

    def __call__(self, source: str, plan: Plan) -> Sequence[SampledCardinality | None]:
        self.walked.append(str(plan))
        found = []
        for step in operators(plan):
            rows = self.rows.get("".join(sorted(step.covers)))
            found.append(None if rows is None else SampledCardinality(round(rows / self.scale), self.scale))
        return found


def test_a_plan_that_disappoints_is_left_before_it_runs() -> None:
    """By pairs s » a comes first; a walk sees that what follows explodes, tries the rival, and stays with that."""
    optimizer = Optimizer(GRAPH, ["s"])
    by_pairs = optimizer.choose({"s": STATISTICS})["s"]
    assert str(by_pairs.plan).startswith("s » a[?x] » c[?u]")
    world = World({"s": 100, "as": 1000, "bs": 1500, "acs": 500_000, "bcs": 40, "abcs": 40})
    choice = optimizer.choose({"s": STATISTICS}, sampler=world)["s"]
    assert str(choice.plan) == "s » b[?y] » c[?v] » a[?u ?x]"
    assert world.walked[:3] == ["s » a[?x]", "s » b[?y]", str(by_pairs.plan)]  # it gives ten times the rows of the delta
    assert world.walked[-1] == str(choice.plan)
    assert choice.estimated == pytest.approx((100, 1500, 40, 40))
    assert [(r.statistic, round(r.now or 0)) for r in choice.reason] == [("rows(s, a, c)", 500_000), ("rows(s, a, b, c)", 40)]


@pytest.mark.parametrize(("rows", "walked"), ((300.0, ["s » a[?x] » c[?u] » b[?v ?y]"]), (500.0, ["s » a[?x]", "s » b[?y]"])))
def test_a_plan_that_gives_many_more_rows_than_it_needs_is_compared_with_other_first_joins(
    rows: float, walked: list[str]
) -> None:
    """The rows of s » b are a thousand times overestimated. Nothing of a plan that begins with it is ever observed."""
    sizes = {("s", "a", "x"): rows, ("s", "b", "y"): 1e5, ("a", "c", "u"): 1e6, ("b", "c", "v"): 1e6}
    statistics = KnownStatistics({"s": 100.0, "a": 1e6, "b": 1e6, "c": 1e6}, sizes)
    optimizer, world = Optimizer(GRAPH, ["s"]), World({"s": 100, "as": rows, "bs": 100, "acs": rows, "bcs": 100, "abcs": 10})
    assert str(optimizer.choose({"s": statistics})["s"].plan).startswith("s » a")
    choice = optimizer.choose({"s": statistics}, sampler=world)["s"]
    assert world.walked[: len(walked)] == walked
    assert str(choice.plan).startswith("s » b" if rows == 500 else "s » a")


def test_what_a_walk_says_is_for_its_delta_alone() -> None:
    optimizer = Optimizer(GRAPH, ["s"])
    before = optimizer.choose({"s": STATISTICS})["s"]
    other = World({"s": 100, "as": 1000, "bs": 1500, "acs": 500_000, "bcs": 40, "abcs": 40})
    optimizer.choose({"s": STATISTICS}, sampler=other)
    after = optimizer.choose({"s": STATISTICS}, sampler=World({"s": 100, "as": 1000}))["s"]
    assert (after.plan, after.estimated) == (before.plan, before.estimated)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_plan_that_was_rejected_after_a_sample_stays_rejected(restarted: bool) -> None:
    """Its sampled rows are feedback for the deltas after it, which are not sampled; by pairs alone it is the cheapest."""
    optimizer = Optimizer(GRAPH, ["s"], feedback=True)
    rejected = optimizer.choose({"s": STATISTICS})["s"].plan
    world = World({"s": 100, "as": 1000, "bs": 1500, "acs": 500_000, "bcs": 40, "abcs": 40})
    chosen = optimizer.choose({"s": STATISTICS}, sampler=world)["s"]
    assert chosen.plan != rejected
    optimizer.observe("s", [100, 1500, 40, 40])
    if restarted:
        state, optimizer = optimizer.state(), Optimizer(GRAPH, ["s"], feedback=True)
        optimizer.resume(state)
    after = optimizer.choose({"s": STATISTICS})["s"]
    assert after.plan == chosen.plan and after.estimated == pytest.approx((100, 1500, 40, 40))
    priced = optimizer.price_of("s", rejected)
    assert priced is not None and max(priced[1]) == pytest.approx(500_000)
    for _ in range(60):  # what is not observed again decays, so a rejected plan is tried again at last
        optimizer.observe("s", [100, 1500, 40, 40])
        after = optimizer.choose({"s": STATISTICS})["s"]
    assert max(optimizer.price_of("s", rejected)[1]) < 10_000  # type: ignore[index]


def test_walks_come_to_an_end() -> None:
    """Every plan disappoints: after a few rounds the cheapest is taken as it is."""
    world = World({"".join(sorted(names)): 10.0 ** (4 + len(names)) for names in ("as", "bs", "acs", "bcs", "abs")})
    Optimizer(GRAPH, ["s"]).choose({"s": STATISTICS}, sampler=world)
    assert 1 < len(world.walked) == len(set(world.walked)) <= SAMPLING_ROUNDS


def test_nothing_is_sampled_without_a_filter_that_is_an_operator() -> None:
    """A sample of a triangle alone would evaluate the filter, and its rows would count as those of the triangle without it."""
    words = ("ab", "ac", "bc", "ad")
    graph = QueryGraph(
        [relation(word, " ".join(word), True) for word in words], filters=[FilterNode("f", frozenset("abc"), weight=1e6)]
    )
    statistics, world = KnownStatistics(dict.fromkeys(words, 1000.0)), World({"ab": 1000.0})
    Optimizer(graph, ["ab"]).choose({"ab": statistics}, sampler=world)
    assert world.walked and all("f" in plan for plan in world.walked)


def test_a_sample_after_one_without_rows_replaces_the_estimate() -> None:
    """The smaller pattern had no rows where a filter was evaluated, and the larger one has some without it."""
    corrections = Corrections({})
    corrections.learn(0b011, 300.0, SampledCardinality(0, 1.0))
    corrections.learn(0b111, 1000.0, SampledCardinality(100, 2.0))
    assert corrections.known == {0b011: 0.0, 0b111: 0.2}


def test_few_rows_of_a_sample_say_little() -> None:
    whole = 0b111
    for rows, scale in ((0, 100.0), (1, 100.0), (400, 100.0)):
        corrections = Corrections({})
        corrections.learn(whole, 1000.0, SampledCardinality(rows, scale))
        assert corrections.known[whole] == pytest.approx((rows + PRIOR) / (10 + PRIOR))
    corrections = Corrections({})
    corrections.learn(whole, 1000.0, SampledCardinality(0, 1.0))
    assert corrections.known[whole] == 0  # all of it was walked


def test_what_was_expected_goes_along_with_what_the_walk_found_before() -> None:
    """Feedback says twice the estimate of the larger set; the walk finds a third of the smaller, so two thirds are expected."""
    corrections = Corrections({0b111: 2.0})
    corrections.learn(0b011, 300.0, SampledCardinality(100, 1.0))
    corrections.learn(0b111, 1000.0, SampledCardinality(round(2000 / 3 / 10), 10.0))
    assert corrections.known[0b111] == pytest.approx(2 / 3, rel=0.01)


def test_plans_that_are_kept_are_not_walked() -> None:
    world = World({})
    Optimizer(GRAPH, ["s"], mode="first").choose({"s": STATISTICS}, sampler=world)
    Optimizer(GRAPH, ["s"], mode={"s": parse_plan("s » a[?x] » b[?y] » c[?u ?v]")}).choose({"s": STATISTICS}, sampler=world)
    assert not world.walked


@pytest.mark.parametrize(("share", "walks"), [(0.5, True), (2.0, False)])
def test_plans_that_cost_less_than_a_walk_are_not_walked(share: float, walks: bool) -> None:
    world = World({"s": 100, "as": 1000})
    optimizer = Optimizer(GRAPH, ["s"])
    cost = optimizer.choose({"s": STATISTICS})["s"].cost
    optimizer.choose({"s": STATISTICS}, sampler=world, sampling_seconds=share * cost)
    assert bool(world.walked) is walks


def test_a_plan_that_was_walked_is_walked_again_when_plans_have_cost_enough_or_rows_surprise() -> None:
    optimizer = Optimizer(GRAPH, ["s"], feedback=True)
    cost = optimizer.choose({"s": STATISTICS})["s"].cost

    def walked(observed: float = 1.0) -> bool:
        """Whether a batch was walked whose operators give so many times the rows that were expected."""
        world = World({"s": 100, "as": 1000})
        choice = optimizer.choose({"s": STATISTICS}, sampler=world, sampling_seconds=cost / 13)["s"]
        optimizer.observe("s", [observed * rows for rows in choice.estimated])
        return bool(world.walked)

    # four batches cost more than 50 samples; each sample that keeps the plan doubles that
    assert [number for number in range(25) if walked()] == [0, 8, 24]
    assert [walked(1.9), walked(2.1), walked(), walked()] == [False, False, True, False]


@pytest.mark.parametrize(("rows", "share", "switches"), [(40.0, 0.5, True), (500_000.0, 0.5, False), (500_000.0, 2.0, True)])
def test_a_plan_is_sampled_before_it_replaces_another(rows: float, share: float, switches: bool) -> None:
    """The sizes of pairs say that s » b has become the better beginning; what follows it has ``rows``. Plans that cost less than a sample
    are not sampled."""
    optimizer = Optimizer(GRAPH, ["s"])
    first = World({"s": 100, "as": 1000, "bs": 1500, "acs": 1000, "bcs": 1500, "abcs": 40})
    before = optimizer.choose({"s": STATISTICS}, sampler=first)["s"]
    assert first.walked and str(before.plan).startswith("s » a")
    moved = KnownStatistics(STATISTICS.cardinalities, {**STATISTICS.join_sizes, ("s", "b", "y"): 100.0})
    expected = Optimizer(GRAPH, ["s"]).choose({"s": moved})["s"]
    world = World({"s": 100, "as": 1000, "bs": 100, "abs": rows, "acs": 1000, "bcs": rows, "abcs": 40})
    choice = optimizer.choose({"s": moved}, sampler=world, sampling_seconds=share * expected.cost)["s"]
    assert bool(world.walked) is (share < 1)
    assert str(choice.plan).startswith("s » b" if switches else "s » a")
    assert choice.switched is switches
    assert choice.previous == (before.plan if switches else None)
    changed = [reason.was for reason in choice.reason if reason.statistic.startswith("rows(")]
    assert set(changed) <= {*before.estimated}, "reasons compare with the batch before, not with the estimates before the sample"


def test_a_restarted_optimizer_samples_in_the_same_batches() -> None:
    cost = Optimizer(GRAPH, ["s"]).choose({"s": STATISTICS})["s"].cost
    sampled: list[list[int]] = []
    for restarts in (False, True):
        optimizer, found = Optimizer(GRAPH, ["s"]), []
        for _ in range(40):
            if restarts:
                state, optimizer = optimizer.state(), Optimizer(GRAPH, ["s"])
                optimizer.resume(state)
            world = World({})
            optimizer.choose({"s": STATISTICS}, sampler=world, sampling_seconds=cost / 3)
            found.append(len(world.walked))
        sampled.append(found)
    assert sampled[0] == sampled[1]
    assert 0 < sum(map(bool, sampled[0])) < 40


def test_triangles_of_a_delta_are_sampled_before_its_plans() -> None:
    """By pairs the hub of a graph gives a triangle millions of rows, and none of the plans that begin with it would be tried."""
    words = ("ab", "ac", "bc", "ad", "bd", "cd")
    graph = QueryGraph([relation(word, " ".join(word), True) for word in words])
    pairs = {(one, other, x): 4e5 for one in words for other in words for x in {*one} & {*other} if one < other}
    statistics, world = KnownStatistics(dict.fromkeys(words, 1000.0), pairs), World({"ab": 1000.0})
    Optimizer(graph, ["ab"]).choose({"ab": statistics}, sampler=world)
    assert world.walked[:2] == ["ab » ac[?a] & bc[?b]", "ab » ad[?a] & bd[?b]"]
    paper = World({"ab": 1000.0})
    Optimizer(graph, ["ab"], "paper").choose({"ab": statistics}, sampler=paper)  # which has no multiway joins
    assert not any("&" in plan for plan in paper.walked)
