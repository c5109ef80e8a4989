"""Declared scenarios are run: contenders of every kind agree, and wrong, slow, failing and unsupported ones are reported."""

from __future__ import annotations

import gc
import json
import math
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_tasks import task

from cqels_opt.bench import harness, skew, tables
from cqels_opt.bench.comparing import _duration, compare, spread
from cqels_opt.bench.contenders import Contender, Done, Task, UnsupportedError, built_in, find
from cqels_opt.bench.declared import read
from cqels_opt.bench.html import page
from cqels_opt.bench.measure import Ran, by_itself, check, in_turns
from cqels_opt.cli.options import BenchOptions
from cqels_opt.errors import CqelsOptError, InputError, RunError
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize

WITHOUT_SPARK = ("adaptive", "static", "first", "worst", "sub-results", "clairvoyant", "system-x", "duckdb", "pyoxigraph")
SCENARIO = f"""
title = "All <contenders> & more"
contenders = {json.dumps(WITHOUT_SPARK)}
seed = 3
[data]
generator = "social"
authors = 60
coauthor_pairs = 300
places = 6
[queries]
Q1 = "report:q1.rq"
Q2 = "report:q2.rq"
Q3 = "report:q3.rq"
Q4 = "report:q4.rq"
[stream]
rates = [10]
window = 5
seconds = 4
warm_up = 1
[sql]
folder = "shipped:rivals/as_written"
[quick.stream]
rates = [5]
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenario") / "all.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(scenario: Path) -> dict[str, Any]:
    return compare(read(scenario))


@pytest.mark.long
def test_all_contenders_agree_on_the_reports_queries(report: dict[str, Any]) -> None:
    assert report["failed"] == []
    found = [(r["contender"], r["parameters"]["query"]) for r in report["results"]]
    assert sorted(found) == sorted((name, query) for name in WITHOUT_SPARK for query in ("Q1", "Q2", "Q3", "Q4"))
    for query in ("Q1", "Q2", "Q3", "Q4"):
        counts = {r["answers"] for r in report["results"] if r["parameters"]["query"] == query}
        assert len(counts) == 1
        assert counts != {0}


@pytest.mark.long
def test_the_report_has_what_figures_hang_on(report: dict[str, Any]) -> None:
    assert {"machine", "versions", "seed", "scenario", "results"} <= report.keys()
    assert report["seed"] == 3
    assert report["machine"]["cores"] == os.cpu_count()
    assert report["versions"]["duckdb"]
    for result in report["results"]:
        assert result["milliseconds"]["batches"] == 4
        ms = result["milliseconds"]
        assert ms["least"] <= ms["p25"] <= ms["median"] <= ms["p75"] <= ms["p95"] <= ms["most"]
        assert result["verified"]
        assert result["latency"]["count"] == 40
    shares = {r["contender"]: tables.share(r) for r in report["results"]}
    assert shares["adaptive"]
    assert shares["sub-results"] is None  # it has no optimizer, and no cost of one
    json.dumps(report, allow_nan=False)


@pytest.mark.long
def test_the_page_needs_nothing_else(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    made = page([report])
    assert "<svg" in made
    assert "All &lt;contenders&gt; &amp; more" in made
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in made.replace("http://www.w3.org", "").partition('<script type="application/json"')[0]
    data = made.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)[0]["results"] == report["results"]
    tables.show(report)
    assert "median milliseconds per batch" in capsys.readouterr().out


def test_percentiles_and_the_time_that_counted_batches_cover() -> None:
    assert [spread([*range(1, n + 1)])["p95"] for n in (1, 19, 20, 21, 100)] == [1, 19, 19, 20, 95]
    times = [np.array(t) for t in ([0, 999], [1_000, 1_999], [], [3_000, 3_999])]
    assert _duration(times, 0) == 3_999  # from the first element on
    assert _duration(times, 1) == 3_000  # from the end of the batch that does not count
    assert _duration(times, 2) == 2_000
    assert _duration(times[:1], 0) == _duration(times, 4) == float("inf")


def test_quick_changes_what_it_says(scenario: Path) -> None:
    assert read(scenario, quick=True).stream.rates == (5,)
    assert read(scenario, quick=True).stream.window == read(scenario).stream.window


# ------------------------------------------------------------------ contenders that fail
TEXT = "PREFIX : <http://x/> SELECT ?a ?l FROM NAMED <http://s> [NOW] AS ?n { GRAPH ?n { ?a :at ?l } }"
ELEMENTS = [Element(100 * i, ((f"<http://x/p{i % 3}>", "<http://x/at>", "<http://x/l>"),)) for i in range(12)]


@pytest.fixture
def small(tmp_path: Path) -> Task:
    return task(tmp_path / "task", TEXT, {"http://s": ELEMENTS}, [], BatchSize(count=4))


def _own(name: str, *batches: list[tuple[int, str]]) -> Contender:
    def run(task: Task, folder: Path) -> Iterator[Done | None]:
        for batch in batches:
            yield None
            yield Done([(t, {"a": a, "l": "http://x/l"}) for t, a in batch])

    return Contender(name, "for a test", run)


RIGHT = [[(100 * i, f"http://x/p{i % 3}") for i in range(b, b + 4)] for b in (0, 4, 8)]


def test_answers_may_come_in_a_later_batch_than_their_elements(small: Task, tmp_path: Path) -> None:
    late = _own("late", [], [], [answer for batch in RIGHT for answer in batch])
    runs = in_turns([built_in()["adaptive"], late, _own("right", *RIGHT)], small, tmp_path / "runs", 60)
    check("q", runs)
    assert [run.bag.total for run in runs] == [12, 12, 12]


def test_a_wrong_answer_is_reported_with_its_instant(small: Task, tmp_path: Path) -> None:
    wrong = _own("wrong", RIGHT[0], [(400, "http://x/p9"), *RIGHT[1][1:]], RIGHT[2])
    runs = in_turns([built_in()["adaptive"], wrong], small, tmp_path / "runs", 60)
    with pytest.raises(RunError, match="q: wrong gives other answers than adaptive: at 400: 1 answers, and 1 others"):
        check("q", runs)


def test_one_who_is_too_slow_is_compared_as_far_as_it_came(small: Task, tmp_path: Path) -> None:
    right, wrong = _own("slow", *RIGHT), _own("slow", RIGHT[0][1:], *RIGHT[1:])
    for contender, agrees in ((right, True), (wrong, False)):
        fast, slow = in_turns([built_in()["adaptive"]], small, tmp_path / "a", 60) + in_turns(
            [contender], small, tmp_path / "b", 0.0
        )
        assert slow.why is not None
        assert "stopped after 1 of 3 batches" in slow.why
        assert slow.upto == 299
        if agrees:
            check("q", [fast, slow])
        else:
            with pytest.raises(RunError, match="at 0: 0 answers, and 1"):
                check("q", [fast, slow])


def test_who_cannot_or_breaks_is_left_out_with_the_reason(small: Task, tmp_path: Path) -> None:
    def cannot(task: Task, folder: Path) -> Iterator[Done | None]:
        raise UnsupportedError("no such window")
        yield

    def breaks(task: Task, folder: Path) -> Iterator[Done | None]:
        yield None
        yield Done([(t, {"a": a, "l": "http://x/l"}) for t, a in RIGHT[0]])
        raise ZeroDivisionError("oh")

    own = [Contender("cannot", "", cannot), Contender("breaks", "", breaks)]
    runs = in_turns([built_in()["adaptive"], *own], small, tmp_path / "runs", 60)
    assert [run.why for run in runs] == [None, "no such window", "failed: ZeroDivisionError: oh"]
    check("q", runs)
    with pytest.raises(RunError, match="no contender came to the end: cannot: no such window"):
        check("q", runs[1:])


def test_no_collection_of_garbage_in_a_turn_traverses_what_was_there_before(small: Task, tmp_path: Path) -> None:
    held, seen = [[number] for number in range(1_000)], list[bool]()

    def watching(task: Task, folder: Path) -> Iterator[Done | None]:
        seen.append(any(part is held for part in gc.get_objects()))
        yield from _own("", *RIGHT).run(task, folder)

    in_turns([Contender("watching", "", watching)], small, tmp_path / "runs", 60)
    assert seen == [False]


def test_a_clean_up_that_fails_is_a_reason_and_others_continue(small: Task, tmp_path: Path) -> None:
    def fails_at_its_end(task: Task, folder: Path) -> Iterator[Done | None]:
        try:
            yield from _own("", *RIGHT).run(task, folder)
        finally:
            raise OSError("no space")

    own = [Contender("late", "", fails_at_its_end), built_in()["adaptive"]]
    runs = in_turns(own, small, tmp_path / "runs", 60)
    assert [run.why for run in runs] == ["failed: OSError: no space", None]
    check("q", runs)
    stopped, _ = in_turns(own, small, tmp_path / "runs", 0.0)
    assert stopped.why == "stopped after 1 of 3 batches: over 0 s"


@pytest.mark.parametrize("batches", [RIGHT[:2], [*RIGHT, []]])
def test_a_contender_gives_one_result_a_batch(small: Task, tmp_path: Path, batches: list[list[tuple[int, str]]]) -> None:
    with pytest.raises(RunError, match=r"ended after 2 of 3|more than one result"):
        in_turns([_own("short", *batches)], small, tmp_path / "runs", 60)


KILLED = """
import os, signal
from cqels_opt.bench.contenders import Contender, Done

def run(task, folder):
    if task.query == "second":
        os.kill(os.getpid(), signal.SIGKILL)
    for chunk in task.chunks:
        yield None
        yield Done()

CONTENDERS = (Contender("mortal", "dies of the second task", run, apart=True),)
"""


@pytest.mark.long
def test_a_process_that_dies_costs_its_task_alone(small: Task, tmp_path: Path) -> None:
    file = tmp_path / "mortal.py"
    file.write_text(KILLED, encoding="utf-8")
    found = by_itself(
        Contender("mortal", "", lambda task, folder: iter(()), apart=True),
        [file],
        [replace(small, query=name) for name in ("first", "second", "third")],
        tmp_path / "runs",
    )
    assert [run.whole for run in found] == [True, False, True]
    assert found[1].why == f"a run in a process of its own failed (exit code {-signal.SIGKILL})"
    assert len(found[2].milliseconds) == 3


OWN = """
from cqels_opt.bench.contenders import Contender

CONTENDERS = ({})
"""


@pytest.mark.parametrize(("names", "taken"), [(["mine", "adaptive"], "adaptive"), (["mine", "mine"], "mine")])
def test_a_name_that_is_taken_is_refused(tmp_path: Path, names: list[str], taken: str) -> None:
    file = tmp_path / f"{'-'.join(names)}.py"
    file.write_text(OWN.format("".join(f"Contender({name!r}, '', None), " for name in names)), encoding="utf-8")
    with pytest.raises(InputError, match=rf"{file.name}: the name '{taken}' is taken by another contender"):
        find(("first",), [file])


def test_a_limit_may_be_a_whole_number(small: Task, tmp_path: Path) -> None:
    limited = replace(small, options={"pyoxigraph.cpu_seconds": 0})
    (run,) = in_turns([built_in()["pyoxigraph"]], limited, tmp_path / "runs", 60)
    assert run.why == "stopped within micro-batch 1 of 3: over 0 CPU seconds"


def test_a_median_of_zero_has_no_ratio() -> None:
    one, base = ({"milliseconds": {"median": ms}} for ms in (2.5, 0.0))
    assert [tables.cell(one, base), tables.cell(one, one), tables.cell(one, None)] == ["2.5 (–)", "2.5 (1.00×)", "2.5"]


def test_the_column_of_the_rate_has_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    ms = {"median": 1.0, "p25": 1.0, "p75": 1.0, "most": 1.0, "batches": 1}
    result = {"contender": "adaptive", "parameters": {"query": "Q1", "rate": 1000}, "milliseconds": ms, "answers": 1}
    found = {
        "scenario": "s",
        "title": "",
        "about": "",
        "data": {},
        "contenders": {"adaptive": "x"},
        "results": [result],
        "failed": [],
    }
    tables.show(found)
    assert "| query | elements/s |" in capsys.readouterr().out
    assert '<th scope="col">elements/s</th>' in page([found])


def test_every_table_of_a_study_is_markdown_in_a_pipe() -> None:
    folder = Path(harness.__file__).parent
    assert [path.stem for path in folder.glob("*.py") if "from rich.table" in path.read_text("utf-8")] == ["screen"]


def test_a_report_without_results_has_a_page() -> None:
    assert "as JSON" in page([{"scenario": "arena", "title": "Arena", "results": []}])


def test_someone_must_answer() -> None:
    with pytest.raises(RunError, match="no contender came to the end"):
        check("q", [Ran("noop", answers=False)])


# ------------------------------------------------------------------ the command
def test_bench_writes_json_and_a_page(scenario: Path, tmp_path: Path) -> None:
    text = SCENARIO.replace(json.dumps(WITHOUT_SPARK), '["adaptive"]').partition("Q2")[0] + SCENARIO[SCENARIO.index("[stream]") :]
    file = tmp_path / "one.toml"
    file.write_text(text, encoding="utf-8")
    harness.bench(BenchOptions((str(file),), quick=True, json=tmp_path / "o.json", html=tmp_path / "o.html"))
    found = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert [r["parameters"] for r in found["results"]] == [{"query": "Q1", "rate": 5, "quick": True}]
    assert (tmp_path / "o.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_numbers_that_json_does_not_have_are_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"rows": {"q": (math.inf, math.nan, 1.5)}, "note": "[/tmp/x]"}
    monkeypatch.setattr(skew, "study", lambda quick: found)
    monkeypatch.setattr(skew, "show", lambda found: tables.show_rows(tables.Rows(found["note"], ["[b] red"], [["why [/red]"]])))
    options = BenchOptions(("skew",), json=tmp_path / "o.json", html=tmp_path / "o.html", keep=tmp_path / "kept")
    harness.bench(options)
    (kept,) = (tmp_path / "kept").iterdir()
    for text in (options.json.read_text("utf-8"), kept.read_text("utf-8"), options.html.read_text("utf-8")):
        assert "NaN" not in text and "Infinity" not in text
    assert json.loads(options.json.read_text("utf-8"))["rows"] == {"q": [None, None, 1.5]}
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("[/tmp/x]", "[b] red", "why [/red]"))


def test_everything_that_is_listed_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    harness.bench(BenchOptions(list=True))
    shown = capsys.readouterr().out
    for name in ("figure-5:", "drift:", "evaluation:", "system-x:", "spark-tuned:"):
        assert name in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BenchOptions(("figure-6",)), "there is no scenario 'figure-6'; did you mean figure-5"),
        (BenchOptions(("none.toml",)), "none.toml: cannot be read"),
        (BenchOptions(("hubs",), page=Path("x.md")), "--page: evaluation or arena alone has a page"),
        (BenchOptions(("hubs",), contenders=(Path(__file__),)), "has CONTENDERS"),
        (
            BenchOptions(("skew",), contenders=(Path(__file__),)),
            "--contender: only scenarios, evaluation and arena have contenders",
        ),
        (BenchOptions(("drift", "profile"), spark=False), "--no-spark: the study profile runs on Spark"),
        (BenchOptions(("arena",), quick=True, full=True), "--quick and --full: give one of them"),
    ],
)
def test_mistakes_of_the_command(options: BenchOptions, message: str) -> None:
    with pytest.raises(CqelsOptError, match=message):
        harness.bench(options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seed = 3", "sed = 3"), r"all.toml: sed: no key of a scenario; did you mean seed\?"),
        (("seed = 3", "seed = -1"), "seed: must be at least 0, not -1"),
        (("seed = 3", 'seed = "x"'), "seed: must be a whole number, not 'x'"),
        (("rates = [10]", "rates = [0]"), "stream.rates: must be positive"),
        (("rates = [10]", "rate = 10"), "stream.rate: there are rates"),
        (("rates = [10]", 'batch = "1 sec or so"'), "stream.batch"),
        (('"report:q2.rq"', '"q2.rq"'), "queries.Q2: there is no file"),
        (("seed = 3", 'seed = 3\nonly = ["Q9"]'), "only: there is no query 'Q9'; there are Q1, Q2"),
        (("seed = 3", "seed = = 3"), r"all.toml: .*line 4"),
        (("rates = [10]", 'batch = "0s"'), "all.toml: stream.batch: must be positive, not '0s'"),
        (("authors = 60", "authors = 0"), "all: data.authors: must be at least 1, not 0"),
        (("places = 6", "places = 0"), "all: data.places: must be at least 1, not 0"),
        (("authors = 60", "authors = 60\npapers = -5"), "all: data.papers: must be at least 1, not -5"),
        (("authors = 60", 'authors = "many"'), "makes no data with authors = 'many', .*: TypeError"),
        (
            ("seed = 3", "seed = 3\n[options.system-y]\ncache = 1"),
            r"options.system-y: there is no contender .*; did you mean system-x\?",
        ),
        (
            ("seed = 3", "seed = 3\n[options.duckdb]\nsecond = 1"),
            r"all.toml: options.duckdb.second: the contender has no such option; it has duckdb.seconds",
        ),
        (("seed = 3", "seed = 3\n[options.static]\nx = 1"), r"options.static.x: the contender has no such option; it has none"),
        (("seed = 3", "seed = 3\n[options]\nduckdb = 1"), r"options.duckdb: must be a table: \[options.duckdb\]"),
        (
            ("seed = 3", 'seed = 3\n[options.pyoxigraph]\ncpu_seconds = "1s"'),
            r"all.toml: options.pyoxigraph.cpu_seconds: must be a number of seconds, not '1s'",
        ),
        (("authors = 60", "writers = 60"), r"all: data.writers: the generator social has no such parameter; it has authors, "),
        (('generator = "social"', 'generator = "sozial"'), "there is no generator 'sozial'; did you mean social"),
        (('generator = "social"', 'generator = "gone.py:make"'), "gone.py: there is no such Python file"),
        (('"worst"', '"wurst"'), "there is no contender 'wurst'"),
    ],
)
def test_mistakes_in_a_scenario_name_their_place(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "all.toml"
    assert change[0] in SCENARIO
    path.write_text(SCENARIO.replace(*change), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        compare(read(path))


def test_a_batch_that_counts_is_left(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    text = re.sub(r"contenders = .*", 'contenders = ["adaptive"]', SCENARIO.replace("warm_up = 1", "warm_up = 99"))
    path.write_text(re.sub("Q[234] = .*\\n", "", text), encoding="utf-8")
    with pytest.raises(InputError, match=r"all: stream.warm_up: 99 of .* batches do not count, so that none is left"):
        compare(read(path))


@pytest.mark.parametrize("name", harness.STUDIES)
def test_every_study_measures_and_displays(name: str) -> None:
    study = import_module(f"cqels_opt.bench.{name.replace('-', '_')}")
    assert next(iter(signature(study.study).parameters)) == "quick"
    assert len(signature(study.show).parameters) == 1
