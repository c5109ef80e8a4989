"""The report of a scenario as tables: in the terminal, or as Markdown in a file or a pipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from cqels_opt.bench.screen import console, numbers, table

Report: TypeAlias = "Mapping[str, Any]"
Line: TypeAlias = "tuple[tuple[str, Any], ...]"
"""The parameters of a line of a table (query, rate and varied parameters), by name."""


class Rows(NamedTuple):
    """The table of a study: a sentence about it, heads and lines; columns after the first ``words`` are numbers."""

    text: str
    heads: list[str]
    lines: list[list[str]]
    words: int = 2


def line_of(result: Mapping[str, Any]) -> Line:
    """The line to which a result belongs."""
    return tuple((key, value) for key, value in result["parameters"].items() if key != "quick")


def by_line(report: Report) -> dict[Line, dict[str, Mapping[str, Any]]]:
    """The results of a report by line and contender; lines in order of query and rate."""
    found: dict[Line, dict[str, Mapping[str, Any]]] = {}
    for result in report["results"]:
        found.setdefault(line_of(result), {})[result["contender"]] = result
    queries = list(dict.fromkeys(dict(line)["query"] for line in found))
    return dict(sorted(found.items(), key=lambda item: queries.index(dict(item[0])["query"])))


def names(report: Report) -> list[str]:
    """The contenders of a report that have results, in its order."""
    present = {result["contender"] for result in report["results"]}
    return [name for name in report["contenders"] if name in present]


def parameters_of(report: Report) -> list[str]:
    """The names of the parameters of a report's lines."""
    return list(dict.fromkeys(key for line in by_line(report) for key, _ in line))


def heading(parameter: str) -> str:
    """The head of a parameter's column."""
    return "elements/s" if parameter == "rate" else parameter


def cell(result: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> str:
    """Milliseconds, and the ratio to the base (a dash if the base has none)."""
    if result is None:
        return "–"
    ms = result["milliseconds"]["median"]
    if base is None:
        return number(ms)
    least = base["milliseconds"]["median"]
    return f"{number(ms)} ({f'{ms / least:.2f}×' if least else '–'})"


def number(ms: float) -> str:
    """A number with a readable number of digits."""
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:,.1f}" if ms >= 1 else f"{ms:,.2f}"


def share(result: Mapping[str, Any]) -> float | None:
    """The optimizer's share of the time of all counted batches of a result; None without an optimizer."""
    found: float | None = result.get("optimizer_share")
    return found


def drift_rows(section: Mapping[str, Any]) -> Rows:
    """The study of drift: by query and workload the rows of each kind of plan, and their ratios."""
    results = section["results"]
    lines = [
        [
            one["query"],
            one["workload"],
            *(f"{rows:,}" for rows in one["rows"].values()),
            *(f"{ratio:.2f}×" for ratio in one["ratios"].values()),
        ]
        for one in results
    ]
    heads = ["query", "workload", *results[0]["rows"], *results[0]["ratios"]]
    size = f"{section['elements']:,} elements in batches of {section['batch']:,}"
    return Rows(f"Rows that all operators produce, {size}. They do not depend on the machine.", heads, lines)


def paced_rows(section: Mapping[str, Any]) -> Rows:
    """The study of latencies: one line per query, rate and contender."""
    lines = []
    for r in section["results"]:
        cells = [_whole(ms) for ms in r["latency ms"].values()]
        batch = [f"{r['milliseconds']['batches']:,}", _whole(r["milliseconds"]["median"]), _whole(r["elements a batch"])]
        lines.append(
            [r["parameters"]["query"], f"{r['parameters']['rate']:,}", r["contender"], *cells, *batch, f"{r['behind']:,}"]
        )
    percentiles = ["greatest" if name == "p100" else name for name in section["results"][0]["latency ms"]]
    heads = ["query", "elements/s", "contender", *percentiles, "batches", "ms per batch", "elements per batch", "never done"]
    text = "Milliseconds from the intended time of an element to its answers in the sink; and a micro-batch (medians)."
    return Rows(text, heads, lines, 3)


def _whole(value: float | None) -> str:
    """A whole number; a dash for an infinite latency, or the median of no batches (None in JSON)."""
    return "–" if value is None or not math.isfinite(value) else f"{value:,.0f}"


def start_up_rows(section: Mapping[str, Any]) -> Rows:
    """The study of first answers: medians by contender."""
    lines = []
    for name in dict.fromkeys(start["contender"] for start in section["starts"]):
        own = [start for start in section["starts"] if start["contender"] == name]
        parts = ("seconds",), ("driver", "jvm", "workers"), ("driver",), ("jvm",), ("workers",), ("load",)
        lines.append([name, *(f"{median(sum(start[p] for p in part) for start in own):.1f}" for part in parts)])
    heads = ["contender", "s to the first answer", "CPU s", "driver", "JVM", "workers", "load"]
    return Rows(f"From the command to the first answer, {section['elements']:,} elements (medians).", heads, lines, 1)


STUDY_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Rows]] = {
    "drift": drift_rows,
    "paced": paced_rows,
    "start-up": start_up_rows,
}
"""The tables of the studies of an evaluation."""


ROBUSTNESS_HEADS = ("figure", "aim", "cases", "least", "median", "greatest")


def robustness_rows(section: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The figures of robustness, for the terminal and for the page."""
    return [
        (
            one["figure"],
            one["aim"],
            f"{one['cases']:,}",
            *(f"{one[name]:,.2f}{one['unit']}" for name in ("least", "median", "most")),
        )
        for one in section["figures"]
    ]


def show_rows(rows: Rows) -> None:
    """Prints the table of a study."""
    shown = table(*rows.heads[: rows.words], *numbers(*rows.heads[rows.words :]), title=rows.text)
    for line in rows.lines:
        shown.add_row(*line)
    console().print(shown)


def show(report: Report) -> None:
    """Prints medians and ratios, spread, latencies, and failures."""
    columns = names(report)
    described = "; ".join(dict.fromkeys(str(text) for key, text in report["data"].items() if key != "generator" and text))
    parameters = parameters_of(report)
    title = f"{report['title']}\n{described}\nmedian milliseconds per batch (and relative to {columns[0]})"
    shown = table(*map(heading, parameters), *numbers(*columns, "optimizer", "answers"), title=title)
    for line, mine in by_line(report).items():
        base = mine.get(columns[0])
        first = base or next(iter(mine.values()))
        part = share(first)
        shown.add_row(
            *(text_of(dict(line).get(name)) for name in parameters),
            *(cell(mine.get(name), base) for name in columns),
            "–" if part is None else f"{part:.0%}",
            f"{first['answers'] or 0:,}",
        )
    screen = console()
    screen.print(shown)
    _spreads(report, parameters)
    for failed in report["failed"]:
        where = ", ".join([failed["query"], *(f"{k} {v}" for k, v in failed["parameters"].items())])
        screen.print(f"{failed['contender']}, {where}: {failed['why']}", highlight=False)


def _spreads(report: Report, parameters: Sequence[str]) -> None:
    measures = numbers("25 %", "median", "75 %", "most", "batches", "latency p50", "p99", "max", "keeps up")
    title = "Quartiles of milliseconds per batch; latency from an element's own time, in an open loop"
    shown = table(*map(heading, parameters), "contender", *measures, title=title)
    for line, mine in by_line(report).items():
        for name, result in mine.items():
            ms, late = result["milliseconds"], result.get("latency")
            cells = [number(ms[key]) for key in ("p25", "median", "p75", "most")]
            waits = [number(late[key]) for key in ("p50", "p99", "max")] if late else ["–"] * 3
            keeps = "–" if late is None else "yes" if result["keeps_up"] else "no"
            shown.add_row(*(text_of(dict(line).get(key)) for key in parameters), name, *cells, str(ms["batches"]), *waits, keeps)
    console().print(shown)


def text_of(value: object) -> str:
    """A parameter as text."""
    return "–" if value is None else f"{value:,g}" if isinstance(value, int | float) else str(value)
