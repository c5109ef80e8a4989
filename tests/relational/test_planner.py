"""The optimizer of an adaptive join without Spark: plans that adapt to the data, restarts, versions, windows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.errors import CheckpointError
from cqels_opt.plans.cost_models.spark import SparkCost
from cqels_opt.plans.query_graph import JoinKind
from cqels_opt.relational.counting import Counted
from cqels_opt.relational.fanouts import KeyCounts
from cqels_opt.relational.planner import Counts, JoinPlanner, ObservedJoin
from cqels_opt.relational.progress import EventTime, Progress
from cqels_opt.relational.retained_rows import NEW_CHUNKS, SHARE, RetainedRows, identity_of, merged
from cqels_opt.relational.spec import JoinInput, JoinSpec
from cqels_opt.stats import SlotCounts, slot_counts, tally
from cqels_opt.stats.frequency_sketch import mixed
from cqels_opt.windows.binding_slots import SlotFile

MODEL = SparkCost(slots=2, partitions=2)
STAR = (
    JoinSpec()
    .relation(JoinInput("views", False))
    .relation(JoinInput("follows", True))
    .relation(JoinInput("offers", True))
    .on("views.who = follows.who AND views.item = offers.item")
)


def static(fanouts: dict[int, int], variable: str) -> Counts:
    """A relation with this number of rows per key."""
    keys = np.array(sorted(fanouts), np.int64)
    counts = np.array([fanouts[k] for k in keys.tolist()], np.int64)
    return Counts(int(counts.sum()), {variable: KeyCounts(int(counts.sum()), len(keys), tally(keys, counts))})


FOLLOWS = static({1: 200_000, 2: 1, 3: 1}, "who")
OFFERS = static({1: 200_000, 2: 1, 3: 1}, "item")
STATICS = {"follows": FOLLOWS, "offers": OFFERS}


def batch(number: int, who: int, item: int, rows: int = 500) -> Counted:
    columns = {"who": np.full(rows, who), "item": np.full(rows, item)}
    return Counted(rows, slots={"views": slot_counts(number, np.full(rows, number), columns)})


def step(planner: JoinPlanner, number: int, counted: Counted) -> str:
    planner.advance(counted, number, number + 1)
    planner.choose()
    return planner.plans()["views"]


FIRST_OFFERS, FIRST_FOLLOWS = "views » offers[?item] » follows[?who]", "views » follows[?who] » offers[?item]"


def test_the_order_follows_the_keys_of_each_batch() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    famous, hot = {"who": 1, "item": 2}, {"who": 2, "item": 1}
    assert [step(planner, n, batch(n, **keys)) for n, keys in enumerate([famous, famous, hot, famous])] == [
        FIRST_OFFERS,
        FIRST_OFFERS,
        FIRST_FOLLOWS,
        FIRST_OFFERS,
    ]
    assert planner.switches == 2
    (delta,) = planner.deltas()
    assert delta.switched
    assert any("join_size" in moved.statistic for moved in delta.reason)
    assert {operator.by for operator in delta.operators[1:]} <= {"broadcast", "shuffle hash", "sort merge"}


@pytest.mark.parametrize(
    "width, most, sides",
    [
        (10.0, 9_000, ["left", "left"]),
        (10.0, 5_000, ["left", None]),
        (10.0, 4_999, [None, None]),
        (4_000.0, 1_700_000, ["right", "right"]),
        (10.0, -1, [None, None]),
    ],
)
def test_the_side_of_fewer_bytes_is_broadcast(width: float, most: float, sides: list[str | None]) -> None:
    """500 rows meet one row each of relations with 200,002 rows of 8 bytes. The trace and EXPLAIN show the sides that Spark is given."""
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    planner.widths = {"views": width, "follows": 8.0, "offers": 8.0}
    step(planner, 0, batch(0, 2, 2))
    assert planner.broadcast_below("views", most) == [None, *sides]
    shown = json.loads(planner.explain("json"))["deltas"][0]["operators"]
    assert [operator.get("build") for operator in shown] == [None, *sides]
    (delta,) = planner.deltas()
    methods = [None, *("broadcast" if side else "sort merge" for side in sides)]
    assert [operator.by for operator in delta.operators] == [operator.get("by") for operator in shown] == methods


def test_rows_of_a_micro_batch_alone_are_gone_with_the_next() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    step(planner, 0, batch(0, 1, 2, rows=70))
    step(planner, 1, batch(1, 1, 2, rows=30))
    assert planner.statistics.windows["views"].card() == 30


def test_a_batch_that_comes_again_changes_nothing() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    step(planner, 0, batch(0, 1, 2))
    before = planner.summary()
    assert step(planner, 0, batch(0, 1, 2)) == FIRST_OFFERS
    assert planner.summary() == before


def test_another_version_of_a_static_relation() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    assert step(planner, 0, batch(0, 1, 2)) == FIRST_OFFERS
    planner.replace("follows", static({2: 1, 3: 1}, "who"))
    planner.replace("offers", static({2: 200_000}, "item"))
    assert step(planner, 1, batch(1, 2, 2)) == FIRST_FOLLOWS
    assert planner.summary()["relations"]["offers"]["rows"] == 200_000


def test_a_static_plan_is_kept() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL, "static")
    assert step(planner, 0, batch(0, 1, 2)) == FIRST_OFFERS
    assert step(planner, 1, batch(1, 2, 1)) == FIRST_OFFERS
    assert planner.switches == 0


def test_a_restart_knows_what_was_known() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    step(planner, 0, batch(0, 1, 2))
    planner.observe(ObservedJoin({"views": [500, 500, 100_000_000]}))
    feedback, statistics = planner.state()
    again = JoinPlanner(STAR.layout, STATICS, MODEL)
    again.resume(json.loads(json.dumps(feedback)), statistics)
    assert again.summary() == planner.summary()
    assert step(again, 1, batch(1, 2, 1)) == step(planner, 1, batch(1, 2, 1)) == FIRST_FOLLOWS
    assert again.deltas() == planner.deltas()
    assert again.switches == planner.switches == 1


def test_observed_rows_stand_beside_the_estimates() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    step(planner, 0, batch(0, 2, 2))
    planner.observe(ObservedJoin({"views": [500, 500, 499]}))
    (delta,) = planner.deltas()
    assert [operator.observed for operator in delta.operators] == [500, 500, 499]
    described = json.loads(planner.explain("json"))["deltas"][0]
    assert [step["observed"] for step in described["operators"]] == [500, 500, 499]
    assert described["operators"][1]["by"] in ("broadcast", "shuffle hash", "sort merge")
    assert "cost model spark" in planner.explain()


def test_before_any_rows_nothing_of_the_stream_is_known() -> None:
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    planner.choose()
    assert "assumed, not observed: rows of views" in planner.explain()


# ------------------------------------------------------------------ units
def estimated_rows(kind: JoinKind, counts: Counts, counted: Counted) -> float:
    """The estimated rows of a micro-batch joined with one relation on who."""
    spec = JoinSpec().relation(JoinInput("views", False)).relation(JoinInput("people", True, kind=kind))
    planner = JoinPlanner(spec.on("views.who = people.who").layout, {"people": counts}, MODEL)
    step(planner, 0, counted)
    return float(planner.decisions["views"].choice.estimated[-1])


@pytest.mark.parametrize(("kind", "rows"), [("inner", 30_000), ("semi", 15_000), ("anti", 5_000), ("optional", 35_000)])
def test_units_of_sampled_keys(kind: JoinKind, rows: int) -> None:
    """People have 2 rows for each of 80,000 keys, of which every 16th is kept; 15,000 of 20,000 views have one of these keys."""
    keys, level = mixed(np.arange(85_000)).view(np.int64), 4
    kept = keys[:80_000][keys[:80_000].view(np.uint64) >> np.uint64(64 - level) == 0]
    sampled = KeyCounts(160_000, 80_000.0, tally(kept, np.full(len(kept), 2)), level, heavy=100)
    views = slot_counts(0, np.zeros(20_000, np.int64), {"who": keys[65_000:]})
    found = estimated_rows(kind, Counts(160_000, {"who": sampled}), Counted(20_000, slots={"views": views}))
    assert found == pytest.approx(rows, rel=0.2)


@pytest.mark.parametrize(("kind", "rows"), [("inner", 600), ("semi", 300), ("anti", 200 + 500), ("optional", 600 + 200 + 500)])
def test_units_keep_rows_without_a_key(kind: JoinKind, rows: int) -> None:
    """Of 1,000 views 500 have no key, and 200 have one without people; the others have 2 people each."""
    keyed = slot_counts(0, np.zeros(500, np.int64), {"who": np.arange(500)})
    views = SlotCounts(0, np.zeros(1, np.int64), np.array([1000]), keyed.values)
    people = static(dict.fromkeys(range(200, 1000), 2), "who")
    assert estimated_rows(kind, people, Counted(1_000, slots={"views": views})) == rows


# ------------------------------------------------------------------ windows
PAIRS = (
    JoinSpec()
    .relation(JoinInput("now", False, 1, "t"))
    .relation(JoinInput("before", False, 100, "t"))
    .on("now.place = before.place")
    .where("now.who < before.who")
)


def window_batch(number: int, times: list[int]) -> Counted:
    columns = {"place": np.zeros(len(times), np.int64)}
    slots = {name: slot_counts(number, np.array(times), columns) for name in ("now", "before")}
    return Counted(len(times), slots=slots)


def test_windows_forget_what_has_ended() -> None:
    planner = JoinPlanner(PAIRS.layout, {}, MODEL)
    assert planner.sources == ["now", "before"]
    progress, cards = Progress(), []
    for number, times in enumerate(([0, 50], [90, 120], [230], [231])):
        before = progress.frontier
        progress = progress.after([EventTime("t")], {"t": max(times)}, 0)
        planner.advance(window_batch(number, times), before, progress.frontier)
        planner.choose()
        cards.append(int(planner.statistics.windows["before"].card()))
    assert cards == [2, 4, 4, 2]  # at 120 the row of 0 has expired, at 230 those of 50, 90 and 120
    assert planner.rule.order[0] == "before"
    planner.observe(ObservedJoin(filters=[(PAIRS.graph.filters[0].name, 8, 2)]))
    assert planner.summary()["filters"][PAIRS.graph.filters[0].name]["kept"] == 0.25


# ------------------------------------------------------------------ retained rows
COLUMNS = [("who", "int"), ("loc", "string")]


def commit(kept: RetainedRows, number: int, chunks: list[SlotFile], planner: JoinPlanner) -> None:
    for chunk in chunks:
        (kept.folder / chunk.path).mkdir(exist_ok=True)
    progress = Progress(number, {"t": number})
    kept.commit(number, chunks, progress, COLUMNS, ["__at"], planner, {"batches": 1}, {"trace": 10 * number}, {})


def test_the_state_goes_on_and_back(tmp_path: Path) -> None:
    identity, planner = identity_of(STAR, 0), JoinPlanner(STAR.layout, STATICS, MODEL)
    kept = RetainedRows(tmp_path, identity)
    for number in range(6):
        step(planner, number, batch(number, 1, 2))
        commit(kept, number, [SlotFile("rows", kept.path(number), rows=1, greatest=number)], planner)
    assert sorted(path.name for path in (tmp_path / "rows").iterdir()) == [f"{n:012d}" for n in (3, 4, 5)]
    again = RetainedRows(tmp_path, identity)
    assert (again.state.batch, again.progress.frontier, again.state.totals) == (5, 5, {"batches": 6})
    other = JoinPlanner(STAR.layout, STATICS, MODEL)
    again.restore_planner(other)
    assert other.summary() == planner.summary()
    assert not again.begin(6)
    assert again.begin(5)
    assert (again.state.batch, again.state.lengths) == (4, {"trace": 40})
    with pytest.raises(CheckpointError, match="the job goes back to batch 2, but the state of before is kept no longer"):
        again.begin(2)
    assert again.begin(0)
    assert again.state.batch == -1


def test_the_first_batch_may_come_again_whatever_its_number(tmp_path: Path) -> None:
    kept, planner = RetainedRows(tmp_path, identity_of(STAR, 0)), JoinPlanner(STAR.layout, STATICS, MODEL)
    for number in (7, 8, 9):
        step(planner, number, batch(number, 1, 2))
        commit(kept, number, [], planner)
    assert kept.begin(7)
    assert kept.state.batch == -1


def test_a_state_that_another_object_has_gone_on_with_is_read_anew(tmp_path: Path) -> None:
    """As when a notebook cell runs again during a batch."""
    planner = JoinPlanner(STAR.layout, STATICS, MODEL)
    old, new = (RetainedRows(tmp_path, identity_of(STAR, 0)) for _ in range(2))
    step(planner, 0, batch(0, 1, 2))
    commit(old, 0, [SlotFile("rows", old.path(0), rows=1, greatest=0)], planner)
    assert new.begin(1)
    assert (new.state.batch, [chunk.path for chunk in new.state.files]) == (0, [old.path(0)])
    assert not old.begin(1)


def test_the_state_is_of_one_join(tmp_path: Path) -> None:
    RetainedRows(tmp_path, identity_of(STAR, 0))
    with pytest.raises(CheckpointError, match="the checkpoint belongs to another run"):
        RetainedRows(tmp_path, identity_of(STAR.where("offers.price > 3"), 0))
    with pytest.raises(CheckpointError, match="its lateness differs"):
        RetainedRows(tmp_path, identity_of(STAR, 5))


def test_the_state_is_of_one_kind_of_join(tmp_path: Path) -> None:
    identities = {}
    for kind in ("optional", "semi", "anti"):
        spec = STAR.relation(JoinInput("people", True, kind=kind)).on("views.who = people.who")  # type: ignore[arg-type]
        identities[kind] = identity_of(spec, 0)
    RetainedRows(tmp_path, identities["semi"])
    RetainedRows(tmp_path, identities["semi"])
    for kind in ("optional", "anti"):
        with pytest.raises(CheckpointError, match="the checkpoint belongs to another run"):
            RetainedRows(tmp_path, identities[kind])


def test_the_identity_of_inner_joins_stays() -> None:
    """So that state folders of earlier versions are accepted."""
    relations = [["views", False, None, None], ["follows", True, None, None], ["offers", True, None, None]]
    keys = [["views.who", "follows.who"], ["views.item", "offers.item"]]
    assert identity_of(STAR, 0).query == [relations, keys, []]


def test_other_columns_do_not_go_with_rows_that_are_kept(tmp_path: Path) -> None:
    kept, planner = RetainedRows(tmp_path, identity_of(PAIRS, 0)), JoinPlanner(PAIRS.layout, {}, MODEL)
    planner.choose()
    kept.check_columns([("another", "int")], [])  # no rows are kept yet
    commit(kept, 0, [SlotFile("rows", kept.path(0), rows=1, greatest=5)], planner)
    kept.check_columns([*COLUMNS, ("more", "int")], ["__at"])
    with pytest.raises(CheckpointError, match="the column who of the stream was int and is string: cast it to int"):
        kept.check_columns([("who", "string"), ("loc", "string")], ["__at"])
    with pytest.raises(CheckpointError, match=r"internal columns of the name of a new one \(__at\): rename it"):
        kept.check_columns([*COLUMNS, ("__at", "bigint")], ["__at_"])


def test_rows_live_as_long_as_a_window_may_meet_them(tmp_path: Path) -> None:
    kept, planner = RetainedRows(tmp_path, identity_of(PAIRS, 0)), JoinPlanner(PAIRS.layout, {}, MODEL)
    planner.choose()
    chunks = [SlotFile("rows", kept.path(n), rows=1, least=n, greatest=n) for n in range(NEW_CHUNKS)]
    commit(kept, NEW_CHUNKS, chunks, planner)
    assert [chunk.greatest for chunk in kept.live(105, 100)] == list(range(6, NEW_CHUNKS))
    assert kept.due(chunks[1:]) == []
    assert kept.due(chunks) == chunks
    whole = merged(kept.path(20, "merged"), chunks)
    assert (whole.rows, whole.least, whole.greatest, whole.shape) == (NEW_CHUNKS, 0, NEW_CHUNKS - 1, "merged")


def test_of_kept_rows_few_chunks_are_left_and_each_row_is_written_a_few_times(tmp_path: Path) -> None:
    kept, chunks, written = RetainedRows(tmp_path, identity_of(PAIRS, 0)), list[SlotFile](), 0
    for n in range(2_000):
        chunks = [chunk for chunk in chunks if chunk.greatest > n - 1_000]
        chunks.append(SlotFile("rows", kept.path(n), rows=10, least=n, greatest=n))
        if some := kept.due(chunks):
            chunks = [merged(kept.path(n, "merged"), some), *(chunk for chunk in chunks if chunk not in some)]
            written += chunks[0].rows
        assert len(chunks) <= NEW_CHUNKS + 2 * SHARE + 16  # as most_merged of tests/local_runs.py
        assert sum(chunk.rows for chunk in chunks) <= 10 * 1_000 * (1 + 2 / SHARE)
    assert written <= 3 * 10 * 2_000


def test_a_damaged_optimizer_state_does_not_stop_a_run(tmp_path: Path) -> None:
    kept, planner = RetainedRows(tmp_path, identity_of(STAR, 0)), JoinPlanner(STAR.layout, STATICS, MODEL)
    step(planner, 0, batch(0, 1, 2))
    commit(kept, 0, [], planner)
    (tmp_path / kept.state.optimizer).write_bytes(b"no archive")
    lost = kept.restore_planner(JoinPlanner(STAR.layout, STATICS, MODEL))
    assert str(lost).startswith(f"{tmp_path / kept.state.optimizer}: the statistics of the optimizer are lost (")
