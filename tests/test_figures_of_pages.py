"""Figures that the README and pages for users state are those of the tables on docs/evaluation.md and docs/measurements.md.

The harness writes these tables (docs/benchmarking.md). Here each statement is made of them again; a ratio that no statement covers fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

import pytest
from pages import DOCS, ROOT

NAMES = {"README": ROOT / "README.md"} | {name: DOCS / f"{name}.md" for name in ("performance", "many-queries", "uncertainty")}
TABLES = {"evaluation": DOCS / "evaluation.md", "measurements": DOCS / "measurements.md"}
RATIO = re.compile(r"\d[\d.]*\s*×|\d\.\d+ times|\d[\d.]* to \d[\d.]* times")


@cache
def text(page: str) -> str:
    """A page on one line, without its links' targets."""
    plain = re.sub(r"\]\([^()]*\)", "]", NAMES[page].read_text(encoding="utf-8"))
    return re.sub(r"\s+", " ", re.sub(r"[][]", "", plain))


def table(page: str, heading: str, number: int = 0) -> list[dict[str, str]]:
    """A table below a heading, one dict per row."""
    section = re.split(r"^#+ ", TABLES[page].read_text(encoding="utf-8"), flags=re.MULTILINE)
    (mine,) = (part for part in section if part.startswith(heading))
    lines = re.findall(r"(?:^\|.*\n)+", mine, re.MULTILINE)[number].splitlines()
    heads, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(heads, row)) for row in rows]


def number(cell: str) -> float:
    """The first number of a cell."""
    return float(re.findall(r"[\d,]+(?:\.\d+)?", cell)[0].replace(",", ""))


def ratio(cell: str) -> float:
    """The ratio of a cell, as in ``302 (1.00×)``."""
    return float(re.findall(r"([\d.]+)×", cell)[0])


def only(rows: Sequence[dict[str, str]], **of: str) -> dict[str, str]:
    (found,) = (row for row in rows if all(row[key] == value for key, value in of.items()))
    return found


def span(values: Iterable[float], form: str = ",.0f", scale: float = 1) -> str:
    """The least and the greatest value, ``1 to 2``."""
    least, *_, most = sorted(value / scale for value in values)
    return f"{least:{form}} to {most:{form}}"


FIGURE_5 = table("evaluation", "Execution time")
WHOLE = {row["query"]: row for row in FIGURE_5 if row["elements/s"] == "5000"}
PACED = table("evaluation", "Latencies")
JOINS = {row["contender"]: row for row in table("measurements", "Joins of DataFrames")}
STEADY = table("measurements", "Steady data")
SHARES = sorted(number(row["optimizer's share"].rstrip("%")) for row in STEADY)
COMPARED = {row["claim"]: row for row in table("evaluation", "Summary")}
RATES = table("measurements", "All batch sizes")
LARGE = {(row["query"], row["run"]): row for row in table("measurements", "Large batches")}
INCREMENTAL = table("measurements", "Incremental evaluation")
TUNNEL = table("measurements", "Times")
LAZY = table("measurements", "Times", 2)
WINDOWS = table("measurements", "Long windows")
STORES = {row["triples"]: row for row in table("measurements", "Static stores")}
RECOVERY = table("measurements", "Recovery")
STAR_BYTES = {row["annotated triples"]: row for row in table("measurements", "Annotated statements")}
STAR_MS = {row["annotated triples"]: row for row in table("measurements", "Annotated statements", 1)}


def paced(contender: str, column: str, rate: str = "") -> list[float]:
    rows = [row for row in PACED if row["contender"] == contender and rate in row["elements/s"]]
    return [number(row[column]) for row in rows]


def drift(query: str) -> str:
    return f"{ratio(COMPARED[f'{query} under drift, mean milliseconds: static over adaptive']['figure']):.2f}×"


def over_engine(contender: str) -> list[float]:
    """Milliseconds of a contender on Spark over those of the engine, in all cases."""
    return [number(row[contender]) / number(row["spark-adaptive"]) for row in FIGURE_5]


def rows_under_drift() -> list[str]:
    columns = ("query", "workload", "adaptive", "static", "best by phase", "static / adaptive", "adaptive / best by phase")
    return ["| " + " | ".join(row[c] for c in columns) + " |" for row in table("evaluation", "Rows under drift")]


def whole_batches() -> list[str]:
    columns = ("spark-adaptive", "spark-tuned", "noop", "adaptive")
    return ["| " + " | ".join((query, *(row[c].partition(" (")[0] for c in columns))) + " |" for query, row in WHOLE.items()]


def latencies() -> list[str]:
    columns = ("p50", "p99", "greatest")
    return [
        f"| {rate} | {said} | " + " | ".join(span(paced(contender, column, rate)) for column in columns) + " |"
        for rate in ("1,000", "5,000")
        for contender, said in (("adaptive", "engine"), ("tuned", "tuned Spark job"))
    ]


def one_core(query: str, elements: str) -> str:
    return f"{only(RATES, query=query, **{'elements per batch': elements})['1 core']} in batches of {elements}"


def gain(query: str) -> str:
    """The gain of a second core in each run."""
    return " and ".join(dict.fromkeys(row["gain"] for (mine, _), row in LARGE.items() if mine == query))


def without_spark() -> str:
    """The gain of a second process in Q2, from both runs of decision 080."""
    decision = (DOCS / "decisions" / "080-what-each-task-of-a-large-batch-repeats.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"Q2 ([\d.]+) and ([\d.]+), ([\d.]+) and ([\d.]+) s", decision)
    (both,) = {f"{float(one) / float(two):.2f}×" for one, two in (found[:2], found[2:])}
    return both


def incremental(window: str) -> str:
    return span((ratio(row["ms, from all / incrementally"]) for row in INCREMENTAL if row["window"] == window), ".1f")


WRONG, RIGHT = "order as written is wrong", "it is right"
PLAIN = ("as written", "AQE", "AQE and CBO")
over = {name: ratio(row["over `adaptive`"]) for name, row in JOINS.items()}
hour = WINDOWS[-1]
A, B, C, D = (f"Q{query}'" for query in range(1, 5))


def instances(query: str) -> str:
    return f"{ratio(COMPARED[query + ': 5,000 instances over 10']['figure']):.1f}"


def printed(query: str) -> str:
    return re.findall(r"(\d+)×", COMPARED[f"{query}: 5,000 instances over 10"]["aim"])[0]


def faster(rows: Sequence[dict[str, str]], *pairs: tuple[str, str]) -> str:
    return span((number(row[slow]) / number(row[fast]) for row in rows for slow, fast in pairs), ".1f")


STATEMENTS: list[tuple[str, str]] = [
    *(("README", line) for line in rows_under_drift()),
    ("README", f"- {drift('Q2')} (Q2) and {drift('Q3')} (Q3) while the data change: 5,000 authors"),
    (
        "README",
        f"- {span((ratio(row['static']) for row in STEADY), '.2f')} times with steady data: Q1 to Q4 at three rates, 20,000 authors",
    ),
    (
        "README",
        f"The median latency of Q1 to Q4 is {span(paced('adaptive', 'p50'))} ms at 1,000 and 5,000 elements/s; "
        f"a Spark stream that does nothing has {span(paced('noop', 'p50'))} ms",
    ),
    ("performance", f"window of 30 s, on Spark | {span((number(row['spark-adaptive']) for row in WHOLE.values()), '.0f')} ms |"),
    ("performance", f"the same without Spark | {span((number(row['adaptive']) for row in WHOLE.values()), '.0f')} ms |"),
    (
        "performance",
        f"latency on Spark at 1,000 and 5,000 elements/s, median | {span(paced('adaptive', 'p50'), '.1f', 1000)} s |",
    ),
    ("performance", f"latency on Spark, maximum | {span(paced('adaptive', 'greatest'), '.1f', 1000)} s |"),
    (
        "performance",
        f"hand-tuned Spark job at 1,000 to 5,000 elements/s, time per batch | {span(over_engine('spark-tuned'), '.1f')} times ours |",
    ),
    (
        "performance",
        f"a plan chosen once, while the data change | {drift('Q2')} (Q2) and {drift('Q3')} (Q3) as long as adaptive plans |",
    ),
    ("performance", f"plan of the first batch takes {drift('Q2')} (Q2) and {drift('Q3')} (Q3) as long (evaluation)."),
    (
        "performance",
        f"plan of the first batch takes {span((ratio(row['static']) for row in STEADY), '.2f')} times as long as adaptive plans",
    ),
    (
        "performance",
        f"The optimizer takes {SHARES[0]:.0f} % to {SHARES[-1]:.0f} % of the time on steady data",
    ),
    (
        "performance",
        f"a second core gains {gain('Q1')} in Q1 and {gain('Q2')} in Q2. Without Spark the gain in Q2 is {without_spark()}.",
    ),
    *(("performance", line) for line in (*whole_batches(), *latencies())),
    (
        "performance",
        f"On one quiet core Q1 takes {one_core('Q1', '100,000').replace(' in', ' elements/s in')} and {one_core('Q1', '1,000,000')}; "
        f"Q2 takes {one_core('Q2', '100,000')} and {one_core('Q2', '500,000')}.",
    ),
    (
        "performance",
        f"the plan of the first batch takes {over['static']:.2f} times as long as `adaptive`, the plain Spark job "
        f"{span((over[name] for name in PLAIN), '.2f')} times (without and with AQE and CBO), and the right order in each phase, "
        f"by hindsight, {over['hindsight']:.2f} times.",
    ),
    (
        "performance",
        "Where the written order is wrong, the plain jobs take "
        f"{span((number(JOINS[name][WRONG]) / number(JOINS['adaptive'][WRONG]) for name in PLAIN), '.1f')} times as long.",
    ),
    (
        "performance",
        f"A batch then takes {hour['batch of 5,000']} without Spark, against {WINDOWS[0]['batch of 5,000']} at 1.1M rows. "
        f"The driver uses {hour['driver memory, not mapped']} and the worker {hour['worker memory, not mapped']}, "
        f"plus {hour['mapped by the worker']} of mapped files",
    ),
    (
        "performance",
        f"at a window of 150,000 rows, incremental evaluation is {incremental('150,000')} times as fast as evaluation from all rows; "
        f"at 50,000 rows, {incremental('50,000')} times.",
    ),
    *(
        (
            "performance",
            f"| {size} | {row['load']} | {row['store, share of source'].partition(', ')[0]} | {row['opened in']} | {row['warm probe']} |",
        )
        for size, row in STORES.items()
        if size in ("1M", "30M")
    ),
    (
        "performance",
        f"the first new commit takes {RECOVERY[0]['total']} s with 150,000 rows in the window and "
        f"{RECOVERY[-1]['total']} s with 4.5M rows: "
        f"{span((number(row['process and session']) for row in RECOVERY), '.0f')} s for the process",
    ),
    (
        "performance",
        f"an element with ten annotated triples takes {STAR_BYTES['10']['RDF-star']} bytes, with reification "
        f"{STAR_BYTES['10']['reification']}. A batch takes {number(STAR_MS['10']['RDF-star']):.0f} ms against "
        f"{number(STAR_MS['10']['reification']):.0f} ms",
    ),
    (
        "many-queries",
        f"A batch of 5,000 instances takes {instances(A)} (Q1'), {instances(B)} (Q2'), {instances(C)} (Q3') and {instances(D)} times (Q4') "
        f"as long as a batch of 10; the report has {printed(A)} and {printed(B)} times for Q1' and Q2'",
    ),
    (
        "uncertainty",
        f"Placement by `cost` is {faster(TUNNEL, ('H3', '`cost`'))} times as fast as H3 and "
        f"{faster(TUNNEL, ('H4', '`cost`'))} times as fast as H4; lazy variables are "
        f"{faster(LAZY, ('eager, cache', 'lazy, cache'), ('eager', 'lazy'))} times as fast as eager ones",
    ),
]


@pytest.mark.parametrize(("page", "statement"), STATEMENTS)
def test_a_statement_has_the_figures_of_the_tables(page: str, statement: str) -> None:
    assert statement in text(page)


@pytest.mark.parametrize("page", NAMES)
def test_every_ratio_is_in_a_statement(page: str) -> None:
    rest = text(page)
    for mine, statement in STATEMENTS:
        if mine == page:
            rest = rest.replace(statement, " … ")
    assert RATIO.findall(rest) == []


def test_slower_where_the_written_order_is_right() -> None:
    """docs/performance.md says so of `AdaptiveJoin`."""
    slower = [number(JOINS["adaptive"][RIGHT]) / number(JOINS[name][RIGHT]) for name in PLAIN]
    assert max(slower) <= 1.02
    assert "Where it is right, `adaptive` takes at most 2 % more." in text("performance")


def test_rounded_figures() -> None:
    """What docs/performance.md rounds in its first table."""
    (loads, recovered) = ([number(STORES[n]["triples/s"]) for n in ("10M", "30M")], [number(row["total"]) for row in RECOVERY])
    rates = [number(row["1 core"]) for row in RATES]
    assert [round(rate, -4) for rate in (min(rates), max(rates))] == [130_000, 810_000]
    assert "large batches, one core | 130,000 to 810,000 elements/s" in text("performance")
    assert {round(load, -4) for load in loads} == {440_000}
    assert "from 10M triples on | 440,000 triples/s; the store takes 40 % of the source's size" in text("performance")
    assert all(abs(seconds - 20) < 2 for seconds in recovered)
    assert "about 20 s, whatever the window size" in text("performance")


def test_the_summary_of_the_evaluation_counts_its_verdicts() -> None:
    verdicts = [row["verdict"] for row in COMPARED.values()]
    assert set(verdicts) <= {"reproduced", "not reproduced", "met", "not met"}
    reproduced, met = verdicts.count("reproduced"), verdicts.count("met")
    statements, goals = reproduced + verdicts.count("not reproduced"), met + verdicts.count("not met")
    assert [bool(row["reason"]) for row in COMPARED.values()] == [verdict.startswith("not") for verdict in verdicts]
    shown = TABLES["evaluation"].read_text(encoding="utf-8")
    assert (
        f"{reproduced} of {statements} statements of the report are reproduced; {met} of {goals} goals of the project are met."
        in shown
    )


def test_gains_of_a_second_core_are_ratios_of_their_rows() -> None:
    for row in (*LARGE.values(), *RATES):
        assert f"{number(row['2 cores']) / number(row['1 core']):.2f}×" == row["gain"]
    throughput = TABLES["measurements"].read_text(encoding="utf-8").partition("### Large batches")[2].partition("###")[0]
    assert f"a gain of {without_spark()}" in throughput
