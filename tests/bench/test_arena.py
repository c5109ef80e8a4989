"""The arena: workloads at a tiny size, rivals in processes of their own, verdicts, and the page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from bench_tasks import TINY, tiny
from bench_tasks import task as bench_task

from cqels_opt.bench import arena, harness
from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.arena import runs
from cqels_opt.bench.arena.page import cells, markdown, summary
from cqels_opt.bench.arena.runs import Rivals, measured, rivals
from cqels_opt.bench.arena.verdicts import CANNOT, EVEN, FAILED, LOST, NOT_COMPARED, OTHER_ANSWERS, WON, in_order, rows
from cqels_opt.bench.arena.worker import FINISH, STEP, Measured, Reply, _Clock
from cqels_opt.bench.circumstances import cpu_seconds
from cqels_opt.bench.comparing import Worlds
from cqels_opt.bench.contenders import Contender, Task, built_in, find
from cqels_opt.bench.csrbench_answers import Compared
from cqels_opt.bench.declared import read
from cqels_opt.bench.generated import Request
from cqels_opt.bench.generators import generate
from cqels_opt.bench.lsbench import PHOTO_LIKES, PHOTOS, POST_LIKES, POSTS
from cqels_opt.bench.measure import Ran, check, final_times, in_turns, order
from cqels_opt.bench.nexmark import AUCTIONS, BIDS, DATA, NS, PERSONS
from cqels_opt.bench.srbench import OBSERVATIONS, OWL, TYPE, WEATHER
from cqels_opt.bench.watdiv import LIKES, PURCHASES, REVIEWS
from cqels_opt.bench.yabench import PUBLISHED
from cqels_opt.cli.options import BenchOptions
from cqels_opt.errors import InputError, RunError
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize


@pytest.mark.long
@pytest.mark.parametrize("name", TINY)
def test_stores_and_engine_give_the_answers_of_the_independent_evaluation(tmp_path: Path, name: str) -> None:
    worlds = tiny(name, tmp_path)
    (case,) = worlds.scenario.cases()
    _, tasks = worlds.tasks(case)
    for query, task in tasks.items():
        runs = in_turns(find(("pyoxigraph", "adaptive", "duckdb-delta", "sqlite")), task, tmp_path / "runs", 300)
        assert [run.why for run in runs] == [None] * 4, query
        check(query, runs)
        assert runs[0].bag.total > 0, query


@pytest.mark.long
@pytest.mark.needs_shared_data
def test_citybench_has_the_same_answers_everywhere(tmp_path: Path) -> None:
    scenario = read(arena.WORKLOADS["citybench"], quick=True)
    worlds = Worlds(replace(scenario, data={**scenario.data, "rows": 60}), tmp_path)
    (case,) = scenario.cases()
    for query, task in worlds.tasks(case)[1].items():
        runs = in_turns(find(("pyoxigraph", "adaptive", "duckdb-delta", "sqlite")), task, tmp_path / "runs", 300)
        assert [run.why for run in runs] == [None] * 4, query
        check(query, runs)
        assert runs[0].bag.total > 0, query


def test_a_workload_without_data_is_left_out_unless_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arena.yabench, "study", lambda quick: {"results": []})
    monkeypatch.setenv("CQELS_OPT_DATA", str(tmp_path))
    monkeypatch.setattr(arena, "WORKLOADS", {"citybench": arena.WORKLOADS["citybench"]})
    found = arena.study(True)
    assert list(found["left_out"]) == ["citybench", "csrbench"] and list(found["correctness"]) == ["yabench"]
    assert found["results"] == []
    with pytest.raises(InputError, match="the data set citybench is not there"):
        arena.study(True, ("citybench",))


def test_answers_alone_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = {"results": [], "engines": []}
    monkeypatch.setattr(arena.csrbench, "study", lambda quick: recorded)
    found = arena.study(True, ("csrbench",))
    assert found["correctness"] == {"csrbench": recorded}
    assert found["results"] == found["workloads"] == []


def test_the_quick_form_has_some_queries_of_every_workload_and_every_rival() -> None:
    for name, file in arena.WORKLOADS.items():
        whole, quick = read(file), read(file, quick=True)
        assert quick.queries and set(quick.queries) <= set(whole.queries), name
        assert set(quick.contenders) == {one.name for one in find(whole.contenders) if not one.spark}, name


def test_every_query_of_every_workload_has_sql() -> None:
    for name, file in arena.WORKLOADS.items():
        scenario = read(file)
        assert scenario.sql is not None, name
        for query in scenario.queries:
            assert (scenario.sql / f"{query.lower()}.sql").is_file(), f"{name} {query}"


# ------------------------------------------------------------------ NEXMark
def test_nexmark_is_seeded_and_has_the_proportions_of_the_benchmark(tmp_path: Path) -> None:
    made = [generate(tmp_path / f"{i}", Request(seed, 100, 10, 0), {"generator": "nexmark"}) for i, seed in enumerate((1, 1, 2))]
    files = [[path.read_bytes() for path in (*data.static, *data.streams.values())] for data in made]
    assert files[0] == files[1]
    assert files[0][-1] != files[2][-1]
    tables = {iri: parquet.read_table(path) for iri, path in made[0].streams.items()}
    assert {iri: len(set(table["s"].to_pylist())) for iri, table in tables.items()} == {PERSONS: 20, AUCTIONS: 60, BIDS: 920}
    for table in tables.values():
        assert table["g"] == table["s"]
        assert table["t"].to_pylist() == sorted(table["t"].to_pylist())


def test_under_drift_all_bids_of_the_second_half_go_to_hot_auctions(tmp_path: Path) -> None:
    data = generate(tmp_path, Request(1, 100, 20, 0), {"generator": "nexmark", "drift": True, "active": 10})
    rows = [row for row in parquet.read_table(data.streams[BIDS]).to_pylist() if row["p"] == f"<{NS}auction>"]
    number = [int(row["o"].removeprefix(f"<{DATA}auction/").removesuffix(">")) for row in rows]
    half = len(number) // 2
    assert {n % 10 for n in number[half:]} == {0}
    assert {n % 10 for n in number[:half]} == set(range(10))


def test_lsbench_is_seeded_and_nobody_likes_an_item_twice(tmp_path: Path) -> None:
    parameters = {"generator": "lsbench", "users": 12, "friends": 3}
    made = [generate(tmp_path / f"{i}", Request(seed, 100, 10, 0), parameters) for i, seed in enumerate((1, 1, 2))]
    files = [[path.read_bytes() for path in (*data.static, *data.streams.values())] for data in made]
    assert files[0] == files[1]
    assert files[0][0] != files[2][0]
    items = {"post": POSTS, "photo": PHOTOS}
    for kind, likes in (("post", POST_LIKES), ("photo", PHOTO_LIKES)):
        posted = {row["g"]: row["t"] for row in parquet.read_table(made[0].streams[items[kind]]).to_pylist()}
        rows = parquet.read_table(made[0].streams[likes]).to_pylist()
        assert len(rows) > 50
        assert len({(row["s"], row["o"]) for row in rows}) == len(rows)
        assert all(posted[row["o"]] < row["t"] for row in rows)


def test_srbench_is_seeded_and_its_storm_moves_over_the_stations(tmp_path: Path) -> None:
    parameters = {"generator": "srbench", "stations": 40, "near": 2}
    made = [generate(tmp_path / f"{i}", Request(seed, 100, 20, 0), parameters) for i, seed in enumerate((1, 1, 2))]
    files = [[path.read_bytes() for path in (*data.static, *data.streams.values())] for data in made]
    assert files[0] == files[1]
    assert files[0][1] != files[2][1]
    found: dict[str, dict[str, str]] = {}
    for row in parquet.read_table(made[0].streams[OBSERVATIONS]).to_pylist():
        found.setdefault(row["g"], {})[row["p"]] = row["o"]
    assert len(found) == 2000 and {len(graph) for graph in found.values()} == {5}
    snow = [graph for graph in found.values() if graph[f"<{TYPE}>"] == f"<{WEATHER}SnowfallObservation>"]
    heavy = [graph[f"<{OWL}procedure>"] for graph in snow if int(graph[f"<{OWL}floatValue>"].split('"')[1]) > 5]
    order = [int(station.rsplit("/", 1)[1].rstrip(">")) for station in heavy]
    assert len(order) > 20 and set(order[:5]) <= set(range(6)) and set(order[-5:]) <= set(range(10, 16))


@pytest.mark.parametrize("name", ["nexmark", "lsbench", "srbench", "watdiv"])
def test_generators_need_a_rate(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"the generator {name} needs stream\.rates"):
        generate(tmp_path, Request(1, None, 4, 0), {"generator": name})


@pytest.mark.parametrize("name", ["lsbench", "watdiv"])
def test_there_are_more_users_than_friends(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"data\.friends: must be less than the 3 users"):
        generate(tmp_path, Request(1, 10, 4, 0), {"generator": name, "users": 3, "friends": 3})


def test_watdiv_is_seeded_and_nobody_likes_a_product_twice(tmp_path: Path) -> None:
    parameters = {"generator": "watdiv", "users": 12, "products": 30, "friends": 3}
    made = [generate(tmp_path / f"{i}", Request(seed, 100, 10, 0), parameters) for i, seed in enumerate((1, 1, 2))]
    files = [[path.read_bytes() for path in (*data.static, *data.streams.values())] for data in made]
    assert files[0] == files[1]
    assert files[0][0] != files[2][0]
    events = {iri: parquet.read_table(path) for iri, path in made[0].streams.items()}
    liked = [(row["s"], row["o"]) for row in events[LIKES].to_pylist()]
    assert len(set(liked)) == len(liked) > 100
    assert {iri: len(table) // len(set(table["g"].to_pylist())) for iri, table in events.items()} == {
        LIKES: 1,
        PURCHASES: 2,
        REVIEWS: 3,
    }


# ------------------------------------------------------------------ processes
RIVAL = """
import os
import threading
from cqels_opt.bench.contenders import Contender, Done, UnsupportedError

def right(task, folder):
    for run in task.options["answers"]:
        yield None
        yield Done(run)

def wrong(task, folder):
    for run in task.options["answers"]:
        yield None
        yield Done([(t, {"bid": "other"}) for t, _ in run])

def refuses(task, folder):
    raise UnsupportedError("no windows in its language")
    yield

def breaks(task, folder):
    yield None
    yield Done()
    yield None
    raise ValueError("out of luck")

def dies(task, folder):
    yield None
    os._exit(3)

def hangs(task, folder):
    yield None
    threading.Event().wait()

CONTENDERS = tuple(Contender(f.__name__, "for a test", f) for f in (right, wrong, refuses, breaks, dies))
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """NEXMark's q13 at a tiny size, with its answers per micro-batch as an option."""
    folder = tmp_path_factory.mktemp("arena")
    worlds = tiny("nexmark", folder)
    (case,) = worlds.scenario.cases()
    whole = worlds.tasks(case)[1]["q13"]
    run = built_in()["adaptive"].run(whole, empty_folder(folder / "run"))
    answers = [list(done.answers) for done in run if done is not None]
    whole.options["answers"] = answers  # type: ignore[index]
    return whole


@pytest.mark.long
def test_rivals_run_in_processes_of_their_own_and_get_verdicts(task: Task, tmp_path: Path) -> None:
    file = tmp_path / "rivals.py"
    file.write_text(RIVAL, encoding="utf-8")
    contenders = find(("adaptive", "pyoxigraph", "sqlite"), [file])
    with rivals(contenders, [file], tmp_path / "runs") as among:
        found = measured(task, among, limit=100)
        again = measured(task, among, limit=100)  # the process that ended is replaced
    assert list(found) == [contender.name for contender in contenders]
    verdicts = {row["rival"]: row for row in rows("nexmark", task, found, warm_up=10)}
    assert {name: row["why"] for name, row in verdicts.items()} == {
        "pyoxigraph": None,
        "sqlite": None,
        "right": None,
        "wrong": f"at {task.options['answers'][0][0][0]}: 1 answers, and 1 others of the engine",  # type: ignore[index]
        "refuses": "no windows in its language",
        "breaks": "failed: ValueError: out of luck",
        "dies": "failed: its process ended in micro-batch 1",
    }
    assert [verdicts[name]["verdict"] for name in ("wrong", "refuses", "breaks", "dies")] == [
        OTHER_ANSWERS,
        CANNOT,
        FAILED,
        FAILED,
    ]
    assert {row["checked"] for row in verdicts.values()} == {found["pyoxigraph"].ran.bag.total}
    assert found["pyoxigraph"].ran.bag.total == sum(map(len, task.options["answers"])) > 400  # type: ignore[call-overload]
    assert verdicts["sqlite"]["batches"] == 3
    assert again["dies"].ran.why == "failed: its process ended in micro-batch 1"
    assert not again["sqlite"].ran.bag.difference(found["sqlite"].ran.bag)
    for one in (found["adaptive"], found["sqlite"]):
        assert len(one.cpu) == len(one.ran.milliseconds) == 13
        assert min(one.cpu) > 0 and one.peak_mb > 10 and one.first_answer is not None


def test_a_rival_that_never_replies_is_killed(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rivals.py"
    file.write_text(RIVAL.replace("(right, wrong, refuses, breaks, dies)", "(hangs,)"), encoding="utf-8")
    with rivals(find((), [file]), [file], tmp_path / "runs") as among:
        among.start()
        monkeypatch.setattr(runs, "LONGEST", 1.0)
        found = measured(task, among, limit=100)
    assert found["hangs"].ran.why == "failed: its process gave no reply for 2 s and was killed in micro-batch 1"


@pytest.mark.long
def test_a_rival_over_its_limit_is_compared_up_to_there(task: Task, tmp_path: Path) -> None:
    with rivals(find(("adaptive", "sqlite")), (), tmp_path) as among:
        found = measured(task, among, limit=0)
    assert found["sqlite"].ran.why == "stopped after 1 of 13 micro-batches: over 0 CPU seconds"
    (row,) = rows("nexmark", task, found, warm_up=10)
    assert (row["batches"], row["checked"], row["in_warm_up"]) == (1, 0, True)
    assert row["verdict"] in (LOST, EVEN, WON)


class Answering:
    """Rivals that reply at once; ``steps`` has those that have processed a micro-batch, in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.steps = list(names), list[str]()

    def ask(self, name: str, verb: str, task: Task | None = None) -> Reply:
        if verb == STEP:
            self.steps.append(name)
        return Reply(measured=Measured(Ran(name)) if verb == FINISH else None)


def test_the_order_of_rivals_is_random_in_each_micro_batch(task: Task) -> None:
    among: Any = Answering("abc")
    measured(task, among, limit=1)
    assert among.steps == [name for number in range(len(task.chunks)) for name in order("abc", number)]
    pairs = {(one, other) for one, other in zip(among.steps, among.steps[1:])}
    assert {one for one, other in pairs if other == "b"} >= {"a", "c"}, "b always runs after the same one"


def test_the_cpu_time_of_processes_below_counts_in_nanoseconds() -> None:
    work = "import time; sum(range(10**6)); print(time.process_time_ns(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        before, own = int(process.stdout.readline()) / 1e9, cpu_seconds(process.pid)
        among = cpu_seconds(os.getpid())
        process.stdin.write("\n")
    assert 0 < before <= own.driver <= among.workers
    assert own.jvm == own.workers == 0
    assert round(own.driver, 2) != own.driver  # no clock ticks


def test_the_cpu_time_of_processes_that_have_ended_counts() -> None:
    work = "import time; sum(range(10**7)); print(time.process_time(), flush=True); input()"
    pipe = subprocess.PIPE
    clock = _Clock()
    with subprocess.Popen([sys.executable, "-c", work], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        used = 1000 * float(process.stdout.readline())
        while_it_ends = _Clock()
        process.stdin.write("\n")
    assert clock.read()[1] > used
    assert while_it_ends.read()[1] > 0


def test_answers_are_final_up_to_what_every_stream_has_reached(tmp_path: Path) -> None:
    element = ("<http://x/a>", "<http://x/p>", "<http://x/b>")
    streams = {
        "http://s/1": [Element(t, (element,)) for t in (100, 1100, 2100, 2900)],
        "http://s/2": [Element(t, (element,)) for t in (1500, 2200)],
    }
    text = """SELECT ?a FROM NAMED <http://s/1> [RANGE 1s] AS ?one FROM NAMED <http://s/2> [RANGE 1s] AS ?two
              { GRAPH ?one { ?a ?p ?b } GRAPH ?two { ?a ?p ?b } }"""
    small = bench_task(tmp_path / "task", text, streams, [], BatchSize(duration=1000))
    assert final_times(small) == [-1, 1099, 2199]


@pytest.mark.long
def test_the_independent_evaluation_stops_within_a_batch(task: Task, tmp_path: Path) -> None:
    with rivals(find(("adaptive", "pyoxigraph")), (), tmp_path) as among:
        runs = measured(replace(task, options={"pyoxigraph.cpu_seconds": 1e-6}), among, limit=100)
    stopped = runs["pyoxigraph"].ran
    assert stopped.why == "stopped within micro-batch 1 of 13: over 1e-06 CPU seconds"
    (row,) = rows("nexmark", task, runs, warm_up=10)
    first = task.options["answers"][0]  # type: ignore[index]
    assert stopped.upto == first[0][0]
    assert row["checked"] == stopped.bag.total == sum(t == stopped.upto for t, _ in first) == 1


def test_the_engine_must_give_the_answers_of_the_independent_evaluation(task: Task) -> None:
    ours, other = Measured(Ran("adaptive")), Measured(Ran("pyoxigraph"))
    ours.ran.bag.add([(1, {"a": "x"})])
    other.ran.bag.add([(1, {"a": "y"})])
    with pytest.raises(RunError, match="nexmark q13: the engine gives other answers than the independent evaluation: at 1"):
        rows("nexmark", task, {"adaptive": ours, "pyoxigraph": other}, 0)


# ------------------------------------------------------------------ verdicts and the page
def _measured(name: str, cpu: list[float]) -> Measured:
    phases = [{"ingest": ms / 2, "execute": ms} for ms in cpu] if name == "adaptive" else [{}] * len(cpu)
    return Measured(Ran(name, [2 * ms for ms in cpu], phases), cpu, 50.0, 1.5)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "ratio"),
    [
        ([9, 9, 10, 20], [1, 1, 3, 6], LOST, 0.3),
        ([9, 9, 10, 10], [1, 1, 10.5, 10.5], EVEN, 1.05),
        ([9, 9, 10, 10], [1, 1, 20, 30], WON, 2.5),
        ([9, 9, 10, 10], [27], WON, 3.0),  # stopped in the warm-up: what both completed
    ],
)
def test_verdicts_compare_the_same_batches(
    task: Task, ours: list[float], theirs: list[float], verdict: str, ratio: float
) -> None:
    found = {name: _measured(name, cpu) for name, cpu in (("adaptive", ours), ("sqlite", theirs))}
    (row,) = rows("nexmark", task, found, warm_up=2)
    assert (row["verdict"], row["cpu_ratio"]) == (verdict, pytest.approx(ratio))


def _stopped(name: str, cpu: list[float], upto: int, answers: Sequence[int], unfinished: bool = True) -> Measured:
    found = _measured(name, cpu)
    found.unfinished, found.ran.why, found.ran.upto = unfinished, "stopped", upto
    found.ran.bag.add((time, {}) for time in answers)
    return found


@pytest.mark.parametrize(
    ("theirs", "warm_up", "verdict", "expected"),
    [
        ([90, 90, 1], 1, WON, {"cpu_ratio": 9, "batches": 1, "in_warm_up": False, "lower_bound": False}),  # without the part
        ([90, 90, 1], 2, WON, {"cpu_ratio": 9, "batches": 2, "in_warm_up": True, "lower_bound": False}),
        ([20], 2, WON, {"cpu_ratio": 2, "batches": 1, "in_warm_up": True, "lower_bound": True}),
        ([5], 2, NOT_COMPARED, {"why": "stopped; a part of a micro-batch took 0.50× of the engine's CPU time for all of it"}),
        ([], 2, NOT_COMPARED, {"why": "stopped; it completed no micro-batch"}),
    ],
)
def test_a_micro_batch_within_which_a_rival_stopped_does_not_count(
    task: Task, theirs: list[float], warm_up: int, verdict: str, expected: dict[str, Any]
) -> None:
    ours = _measured("adaptive", [10.0] * 4)
    ours.ran.bag.add([(1, {})])
    (row,) = rows("nexmark", task, {"adaptive": ours, "cqels": _stopped("cqels", theirs, 1, [1])}, warm_up)
    assert row | expected == row and row["verdict"] == verdict
    if verdict == WON:
        assert cells(row)[4].startswith("≥") == row["lower_bound"]
        assert cells(row)[-1] == ("stopped; measured in the warm-up" if row["in_warm_up"] else "stopped")
    else:
        assert "cpu_ratio" not in row and cells(row)[4:-1] == ["–"] * 6


def test_a_row_without_a_compared_answer_has_no_ratio(task: Task) -> None:
    ours = _measured("adaptive", [10.0] * 4)
    found = {"adaptive": ours, "pyoxigraph": _stopped("pyoxigraph", [90.0, 90.0], 7, [], unfinished=False)}
    assert [row["verdict"] for row in rows("nexmark", task, found, 1)] == [WON]  # the query has no answers
    ours.ran.bag.add([(8, {})])
    (row,) = rows("nexmark", task, found, 1)
    assert (row["verdict"], row["why"], row["checked"]) == (NOT_COMPARED, "stopped; the engine's first answer is later", 0)
    assert "cpu_ratio" not in row
    ours.ran.bag.add([(7, {})])
    found["pyoxigraph"].ran.bag.add([(7, {})])
    assert [(row["verdict"], row["checked"]) for row in rows("nexmark", task, found, 1)] == [(WON, 1)]


def test_the_page_has_the_losses_first(task: Task) -> None:
    found = {
        name: _measured(name, cpu)
        for name, cpu in {"adaptive": [10.0], "fast": [1.0], "slow": [90.0], "faster": [0.5], "mute": []}.items()
    }
    found["mute"].ran.why = "it has no joins"
    results = in_order(rows("nexmark", task, found, warm_up=0))
    assert [row["rival"] for row in results] == ["faster", "fast", "slow", "mute"]
    counts = {LOST: 2, EVEN: 0, WON: 1, OTHER_ANSWERS: 0, FAILED: 0, CANNOT: 1, NOT_COMPARED: 0}
    report = {
        "taken": "2026-01-01T00:00+00:00",
        "parameters": {"quick": True},
        "workloads": [arena._described("nexmark", read(arena.WORKLOADS["nexmark"]), "data", "at 100/s", 12.3)],
        "left_out": {"citybench": "the data set citybench is not there"},
        "rivals": dict.fromkeys(found, "about"),
        "not_installed": {"flink": "make arena-rivals RIVAL=flink"},
        "verdicts": counts,
        "results": results,
        "correctness": {
            "csrbench": {
                "results": [{"query": 1, "language": "cqels", "t0": 0, "instants": 4, "rows": 12}],
                "engines": [asdict(Compared(1, "cqels", 9, 15, 9, None, 0, 0, 0, True, "the same"))],
            },
            "yabench": {"results": [{**asdict(PUBLISHED[0]), "instants": 26, "rows": 1026}]},
        },
        "machine": dict.fromkeys(("cores", "processor", "system", "python", "java"), "x") | {"memory_gb": 1, "load": 0.5},
        "versions": {"commit": "abc"},
    }
    assert summary(report) == "Of 4 pairs of a query and a rival, 2 lost, 1 won, 1 cannot say."
    assert cells(results[0])[:6] == ["lost", "nexmark", "q13", "faster", "0.05×", "0.50 / 10.0"]
    assert cells(results[3])[-1] == "it has no joins"
    page = markdown(report)
    assert page.index("| lost | nexmark | q13 | faster") < page.index("| won | nexmark | q13 | slow")
    assert "cqels-opt bench arena --page" in page
    assert "nexmark q13 0. Where it checked none, the answers are compared with those of the other rivals alone." in page
    assert "- `flink`: not installed. `make arena-rivals RIVAL=flink` installs it." in page
    assert "| workload | query | ingest | execute |\n| --- | --- | ---: | ---: |\n| nexmark | q13 | 5.0 | 10.0 |" in page
    assert "| 1 | cqels | 9 | 15 | 9/9 |  |  | yes | the same |" in page
    assert "| 1 | cqels | an element arrives | 60 | 60 | 10 | 60 | 26 | 1,026 |" in page
    assert "- `citybench` was left out: the data set citybench is not there" in page


# ------------------------------------------------------------------ the command
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BenchOptions(("arena",), workloads=("nexmrk",)), "--workload: there is no 'nexmrk'; did you mean nexmark"),
        (BenchOptions(("arena",), rivals=("sqlit",), workloads=("report",)), "there is no contender 'sqlit'"),
        (BenchOptions(("hubs",), rivals=("sqlite",)), "--rival: only arena has it"),
        (BenchOptions(("hubs",), full=True), "--full: only arena has it"),
    ],
)
def test_mistakes_of_the_command(options: BenchOptions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        harness.bench(options)


def test_a_process_is_started_only_for_a_rival_that_is_asked(tmp_path: Path) -> None:
    among = Rivals([Contender("never", "for a test", lambda task, folder: iter(()))], (), tmp_path)
    among.close()
    assert among.names == ["never"]
