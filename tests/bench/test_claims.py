"""The evaluation of a report: ratios, which claims hold, and the pages that show it."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from cqels_opt.bench.charts import Scale, bars, short
from cqels_opt.bench.claim import HEADS, summary
from cqels_opt.bench.claims import FIGURE_5, claims
from cqels_opt.bench.concurrent_tables import beside, growth
from cqels_opt.bench.evaluation import evaluate, markdown, markdown_table
from cqels_opt.bench.goals import of
from cqels_opt.bench.html import page
from cqels_opt.bench.published import Q1_PRIME, Q2_PRIME
from cqels_opt.bench.ratios import over
from cqels_opt.bench.tables import paced_rows


def _result(contender: str, query: str, ms: float, rate: int = 1000, **phases: float) -> dict[str, Any]:
    spread = dict.fromkeys(("median", "mean", "p25", "p75", "p95", "least", "most"), ms) | {"batches": 5}
    found = {
        "contender": contender,
        "parameters": {"query": query, "rate": rate, "quick": False},
        "milliseconds": spread,
        "answers": 7,
    }
    if "optimize" in phases:
        found["optimizer_share"] = phases["optimize"] / sum(phases.values())
    return {**found, "phases": phases} if phases else found


def _section(scenario: str, *results: dict[str, Any]) -> dict[str, Any]:
    who = {r["contender"]: f"what {r['contender']} is" for r in results}
    return {
        "scenario": scenario,
        "title": scenario,
        "about": "",
        "data": {"generator": "g", "": "data"},
        "contenders": who,
        "results": list(results),
        "failed": [],
    }


CONCURRENT = [
    {"query": "Q1'", "instances": n, "contender": "adaptive", "ms": ms, "memory_mb": 100}
    for n, ms in ((10, 20.0), (1000, 30.0), (5000, 50.0))
]


MANY = {
    "scenario": "concurrent",
    "title": "Many",
    "world": {"authors": 6_000, "rate": 200},
    "concurrent": CONCURRENT,
}

ROWS = {
    "scenario": "drift",
    "title": "Rows",
    "elements": 3_000,
    "batch": 250,
    "results": [
        {
            "query": "Q2",
            "workload": "congress",
            "rows": {"adaptive": 1_000, "static": 4_000_000},
            "ratios": {"adaptive / best by phase": 1.02, "static / adaptive": 4_000},
            "switches": {"switches": 3, "gained": 2, "regret": 0.01},
        }
    ],
}

PACED = {
    "scenario": "paced",
    "title": "Paced",
    "results": [
        {
            "contender": name,
            "parameters": {"query": query, "rate": 1000},
            "latency ms": {"p50": p50, "p99": 300.0},
            "milliseconds": {"median": 100.0, "batches": 5},
            "elements a batch": 10.0,
            "behind": 0,
        }
        for query in ("Q1", "Q2")
        for name, p50 in (("adaptive", 300.0 if query == "Q1" else 330.0), ("noop", 100.0))
    ],
}

STARTS = {
    "scenario": "start-up",
    "title": "Starts",
    "elements": 1_000,
    "starts": [
        {"contender": name, "seconds": seconds, "driver": 1.0, "jvm": 1.0, "workers": 0.0, "load": 0.5}
        for name, seconds in (("in process", 0.9), ("run", 7.0), ("run", 8.0), ("run", 9.0), ("plain job", 4.0))
    ],
}


def test_an_element_that_is_never_done_misses_the_goal() -> None:
    """Also where its latency, which is then infinite, is no percentile that is compared; a case in which noop is late does not count."""

    def paced(contender: str, query: str, behind: int, p99: float) -> dict[str, Any]:
        return {"contender": contender, "parameters": {"query": query}, "behind": behind, "latency ms": {"p50": 1.0, "p99": p99}}

    results = [
        paced("noop", "Q1", 0, 1.0),
        paced("adaptive", "Q1", 1, 1.0),
        paced("noop", "Q2", 1, inf),
        paced("adaptive", "Q2", 0, 1.0),
    ]
    found = list(of({"scenario": "paced", "results": results}))
    assert [(claim.ours, claim.holds) for claim in found] == [("1.0×, median 1.0×", False)] * 2


def test_a_latency_that_is_none_in_json_is_infinite() -> None:
    sizes = {"milliseconds": {"median": None, "batches": 0}, "elements a batch": None, "behind": 1}
    behind = {
        "contender": "adaptive",
        "parameters": {"query": "Q1", "rate": 10},
        "latency ms": {"p50": 7.0, "p99": None},
        **sizes,
    }
    noop = {**behind, "contender": "noop", "behind": 0, "latency ms": {"p50": 7.0, "p99": 7.0}}
    claims = list(of({"scenario": "paced", "results": [behind, noop]}))
    assert [(claim.ours, claim.holds) for claim in claims] == [("1.0×, median 1.0×", False), ("inf×, median inf×", False)]
    assert paced_rows({"results": [behind]}).lines == [["Q1", "10", "adaptive", "7", "–", "0", "–", "–", "1"]]


def test_a_cell_of_markdown_has_one_line_and_no_column_marks() -> None:
    assert markdown_table(("a", "b"), [("x|y", "1\n2")], 1) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 2 |"


def test_few_different_queries_and_no_switches_meet_no_goal() -> None:
    few = {"query": "different", "instances": 20, "contender": "adaptive", "ms": 10.0}
    assert not list(
        of({"scenario": "concurrent", "concurrent": [few], "different": {"wall": {"ratio": 2.0}, "cpu": {"ratio": 2.0}}})
    )
    none = {**ROWS["results"][0], "switches": {"switches": 0, "gained": 0, "regret": 0.0}}
    assert not any("switches" in claim.text for claim in of({"scenario": "drift", "results": [none]}))


@pytest.fixture
def report() -> dict[str, Any]:
    figure = _section(
        FIGURE_5,
        *(_result("system-x", "Q3", ms, rate, execute=ms / 2) for rate, ms in ((1000, 100.0), (2000, 400.0))),
        *(_result("sub-results", "Q3", ms, rate, execute=ms / 2) for rate, ms in ((1000, 50.0), (2000, 50.0))),
        *(_result("adaptive", "Q3", 10.0, rate, execute=8.0, optimize=2.0) for rate in (1000, 2000)),
        *(_result("static", "Q3", ms, rate) for rate, ms in ((1000, 8.0), (2000, 60.0))),
        *(_result("spark-adaptive", "Q3", ms, rate) for rate, ms in ((1000, 160.0), (2000, 90.0))),
        *(_result("noop", "Q3", 80.0, rate) for rate in (1000, 2000)),
    )
    drift = _section(
        "phases",
        *(_result(name, "Q2", ms, execute=ms) for name, ms in (("adaptive", 10.0), ("static", 30.0), ("clairvoyant", 8.0))),
    )
    machine = {"cores": 2, "processor": "p", "memory_gb": 4.0, "system": "s", "python": "3", "java": 17, "load": 0.1}
    return {
        "machine": machine,
        "versions": {"numpy": "2", "commit": "c"},
        "scenario": "evaluation",
        "title": "Evaluation",
        "taken": "now",
        "parameters": {"quick": False, "spark": True},
        "sections": [figure, drift, ROWS, MANY, PACED, STARTS],
    }


def test_ratios_are_geometric_means_over_rates(report: dict[str, Any]) -> None:
    assert over(report["sections"][0], "Q3", "system-x", "sub-results") == pytest.approx(4.0)  # of 2 and 8
    assert over(report["sections"][0], "Q3", "system-x", "gone") is None


def test_what_holds_and_what_does_not(report: dict[str, Any]) -> None:
    found = {claim.text: (claim.ours, claim.holds) for claim in claims(report)}
    assert found["Q3: System X over sub-results alone"] == ("4.0× (4.0× of the joins alone)", False)
    assert found["Q3: sub-results alone over sub-results and optimizer"] == ("5.00× (2.50× of the joins alone)", True)
    assert found["Q3: System X over CQELS"] == ("20.0×", True)
    assert found["the optimizer's share of the time"] == ("20% to 20%", True)
    assert found["Q2 under drift, mean milliseconds: adaptive over clairvoyant"] == ("1.25× (1.25× of the joins alone)", False)
    assert found["Q2 under drift, mean milliseconds: static over adaptive"] == ("3.00× (3.00× of the joins alone)", True)
    assert found["Q1': 5,000 instances over 10"] == ("2.5×", True)
    for claim in claims(report):
        assert claim.reason


def test_goals_of_small_batches_hold_in_every_case(report: dict[str, Any]) -> None:
    found = {claim.text: (claim.published, claim.ours, claim.holds) for claim in claims(report) if claim.is_goal}
    assert found["Q3: a whole batch on Spark over noop, by rate"] == ("≤ 1.6× (goal)", "1.12× to 2.00×", False)
    fixed = found["adaptive over the best fixed plan, 2 cases"]
    assert fixed == ("≤ 1.03× (goal)", "0.20× to 1.25×, median 0.72×", False), "the best of both: 8 and 50 ms"
    assert found["the optimizer's share of the time on steady data, without Spark"] == ("≤ 3% (goal)", "20%", False)
    assert found["a batch of 1,000 elements without Spark"] == ("≤ 15 ms (goal)", "10.0 ms", True)
    assert found["Q2 under congress: compared switches that gain in hindsight; regret"] == (
        "all; ≤ 5% (goal)",
        "2 of 3; 1.0%",
        False,
    )
    latency = found["latency in real time over noop's: p50, 2 cases"]
    assert latency == ("≤ 2× (goal)", "3.0× to 3.3×, median 3.1×", False)
    assert found["latency in real time over noop's: p99, 2 cases"] == ("≤ 2.5× (goal)", "1.0×, median 1.0×", True)
    assert found["from the start of a process to its first answer: run"] == ("≤ 6 s (goal)", "8.0 s", False)
    assert found["from the start of a process to its first answer: in process"] == ("≤ 1 s (goal)", "0.9 s", True)
    over_plain = found["from the start of a process to its first answer: run over a plain Spark job with a Python stage"]
    assert over_plain == ("≤ 1.5× (goal)", "2.00×", False)


def test_verdicts_and_their_counts(report: dict[str, Any]) -> None:
    rows = {row[0]: row[1:] for row in (claim.row for claim in claims(report))}
    assert rows["Q3: System X over CQELS"] == ("16.7×", "20.0×", "reproduced", "")
    aim, figure, verdict, reason = rows["Q2 under drift, mean milliseconds: adaptive over clairvoyant"]
    assert (aim, figure, verdict) == ("≤ 1.1× (goal)", "1.25× (1.25× of the joins alone)", "not met")
    assert reason.startswith("At this batch size")
    assert summary(claims(report)) == "3 of 4 statements of the report are reproduced; 7 of 15 goals of the project are met."
    assert summary([]) == "No claim was measured."


def test_the_command_ends_with_the_claims(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    def section(name: str) -> dict[str, Any]:
        return next(one for one in report["sections"] if one["scenario"] == name)

    without = evaluate(section, quick=True, spark=False, page=None)
    assert [one["scenario"] for one in without["sections"]] == ["figure-5", "phases", "drift", "concurrent"]
    capsys.readouterr()
    evaluate(section, quick=True, spark=True, page=None)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert tuple(table[0]) == HEADS
    assert table[2:] == [list(claim.row) for claim in claims(report)], "one line for each claim, with its whole reason"
    assert lines[-1].startswith(summary(claims(report)) + " A quick run: ")


def test_the_printed_tables() -> None:
    assert Q1_PRIME[5000]["System X"] == 3567
    assert Q2_PRIME[5000] == {"System X": None, "CQELS without optimizer": 3688, "CQELS": 1551}
    heads, lines, series = beside("Q1'", CONCURRENT)
    assert heads[1:4] == ["adaptive ms", "adaptive × 10", "adaptive MB"]
    last = dict(zip(heads, lines[-1]))
    assert (last["instances"], last["adaptive × 10"], last["CQELS × 10 (printed)"]) == ("5,000", "2.5×", "58.4×")
    assert series["adaptive"] == {10: 1.0, 1000: 1.5, 5000: 2.5}
    assert growth("Q1'", CONCURRENT) == (5000, 2.5)
    assert growth("Q2'", CONCURRENT) is None


def test_the_page_of_the_docs(report: dict[str, Any]) -> None:
    text = markdown(report)
    assert (
        "| Q3: System X over sub-results alone | 8.7× | 4.0× (4.0× of the joins alone) | not reproduced | The baseline is" in text
    )
    assert "| Q1': 5,000 instances over 10 | 58× (3× is the goal) | 2.5× | met |  |" in text
    head, _, rest = text.partition("\n## Summary\n")
    assert head.count("\n## ") == 0, "the page begins with the summary"
    assert summary(claims(report)) in rest.partition("\n## ")[0]
    assert "| Q3 | 1000 | " in text
    assert "CQELS × 10 (printed)" in text
    assert "6,000 authors, 200 elements per batch, without Spark." in text
    assert "A quick run" not in text
    assert "**A quick run**" in markdown({**report, "parameters": {"quick": True, "spark": False}})
    assert "| Q2 | congress | 1,000 | 4,000,000 | 1.02× | 4000.00× |" in text
    shown = page([report])
    assert shown.count("<svg class=") == 4
    assert "Q2, congress, static: 4,000,000 rows" in shown
    assert "as JSON" not in shown


def test_numbers_on_a_scale_fit() -> None:
    assert [short(value) for value in (0.05, 20, 500_000, 5e6, 2e9)] == ["0.05", "20", "500,000", "5M", "2G"]


def test_scales_and_bars() -> None:
    scale = Scale(1, 100, 0, 10)
    assert [scale(v) for v in (1, 10, 100)] == [0, 5, 10]
    assert scale(0.001) == 0  # values below the scale's minimum are drawn at its lower end
    assert bars({}, [], "ms", "nothing") == ""
