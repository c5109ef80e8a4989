"""Reports as one self-contained page: tables, SVG charts, and the data as a JSON block. Light and dark mode, printable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from cqels_opt.bench import charts
from cqels_opt.bench.claim import HEADS, Claim, summary
from cqels_opt.bench.claims import claims
from cqels_opt.bench.concurrent_tables import beside
from cqels_opt.bench.tables import (
    ROBUSTNESS_HEADS,
    STUDY_TABLES,
    Rows,
    by_line,
    cell,
    drift_rows,
    heading,
    names,
    number,
    parameters_of,
    robustness_rows,
    share,
    text_of,
)

STYLE = Path(__file__).with_name("page.css")


def page(reports: Sequence[Mapping[str, Any]]) -> str:
    """The page of several reports in sequence."""
    title = " · ".join(str(report.get("title", report["scenario"])) for report in reports)
    body = "".join(_report(report) for report in reports)
    data = json.dumps(list(reports), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>\n{body}"
        f'</main>\n<script type="application/json" id="data">{data}</script>\n</body>\n</html>\n'
    )


def _report(report: Mapping[str, Any]) -> str:
    head = f"<h1>{escape(str(report.get('title', report['scenario'])))}</h1>{_circumstances(report)}"
    if "sections" in report:
        return head + _claims(claims(report)) + "".join(_section(section) for section in report["sections"])
    return head + _section(report, titled=False)


def _section(report: Mapping[str, Any], titled: bool = True) -> str:
    """A scenario with its charts; the result of a study as tables."""
    title = f"<h2>{escape(str(report['title']))}</h2>" if titled else ""
    if "concurrent" in report:
        return title + _concurrent(report["concurrent"])
    if "figures" in report:
        return title + _robustness(report)
    if "contenders" not in report:
        if (results := report.get("results")) and all("ratios" in result for result in results):
            return title + _drift(report)
        if report["scenario"] in STUDY_TABLES:
            return title + _study(STUDY_TABLES[report["scenario"]](report))
        found = {
            key: value for key, value in report.items() if key not in ("machine", "versions", "scenario", "title", "parameters")
        }
        return f"{title}<details><summary>what was found, as JSON</summary><pre>{escape(json.dumps(found, indent=1))}</pre></details>"
    about = f"<p>{escape(report['about'])}</p>" if report["about"] else ""
    contenders = names(report)
    figures = "".join(
        _figure(report, query, contenders) for query in dict.fromkeys(r["parameters"]["query"] for r in report["results"])
    )
    shaded = "<p>The scales are logarithmic. The shaded foot of a bar is the optimizer's time: statistics, costs and choice.</p>"
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(report['contenders'][name])}</dd>" for name in contenders)
    pictures = f'{charts.legend(contenders)}<div class="figures">{figures}</div>{shaded}'
    return f"{title}{about}{pictures}{_table(report, contenders)}<dl>{listed}</dl>{_failed(report)}"


def _figure(report: Mapping[str, Any], query: str, contenders: Sequence[str]) -> str:
    groups: dict[str, dict[str, charts.Bar]] = {}
    for line, results in by_line(report).items():
        if dict(line)["query"] == query:
            label = ", ".join(f"{value:,g}/s" if key == "rate" else f"{key} {value}" for key, value in line if key != "query")
            groups[label or query] = {name: _bar(query, label, result) for name, result in results.items()}
    chart = charts.bars(groups, contenders, "ms per batch", f"{query}: median milliseconds per batch")
    return f"<figure>{chart}<figcaption>{escape(query)}</figcaption></figure>"


def _bar(query: str, label: str, result: Mapping[str, Any]) -> charts.Bar:
    ms, part = result["milliseconds"], share(result)
    said = f"{result['contender']}, {query}, {label}: {number(ms['median'])} ms ({number(ms['p25'])} to {number(ms['p75'])})"
    said += "" if part is None else f", optimizer {part:.0%}"
    return charts.Bar(ms["median"], None if not part else part * ms["median"], said)


def _table(report: Mapping[str, Any], contenders: Sequence[str]) -> str:
    lines = by_line(report)
    parameters = parameters_of(report)
    rows = []
    for line, results in lines.items():
        base = results.get(contenders[0])
        where = [text_of(dict(line).get(name)) for name in parameters]
        answers = (base or next(iter(results.values())))["answers"] or 0
        rows.append([*where, *(cell(results.get(name), base) for name in contenders), f"{answers:,}"])
    return table([*map(heading, parameters), *contenders, "answers"], rows, len(parameters))


def table(heads: Iterable[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table; columns after the first ``words`` are numbers."""
    top = "".join(f'<th scope="col"{" class=n" * (i >= words)}>{escape(head)}</th>' for i, head in enumerate(heads))
    lines = ("".join(f"<td{' class=n' if i >= words else ''}>{escape(text)}</td>" for i, text in enumerate(row)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _claims(found: Sequence[Claim]) -> str:
    return f"<h2>Summary</h2><p>{escape(summary(found))}</p>{table(HEADS, [claim.row for claim in found], len(HEADS))}"


def _concurrent(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for query in dict.fromkeys(row["query"] for row in rows):
        heads, lines, series = beside(query, rows)
        chart = charts.lines(series, "times 10 instances", f"{query}: milliseconds, over those of 10 instances", "instances")
        parts.append(f"<h3>{escape(query)}</h3>{charts.legend(list(series))}<figure>{chart}</figure>{table(heads, lines)}")
    return "".join(parts)


def _drift(report: Mapping[str, Any]) -> str:
    """Rows under drift, one group of bars per query and workload."""
    rows = drift_rows(report)
    contenders = list(report["results"][0]["rows"])
    groups = {
        f"{one['query']}, {one['workload']}": {
            name: charts.Bar(rows, None, f"{one['query']}, {one['workload']}, {name}: {rows:,} rows")
            for name, rows in one["rows"].items()
        }
        for one in report["results"]
    }
    chart = charts.bars(groups, contenders, "rows", "Rows that all operators make")
    return _study(rows, f'{charts.legend(contenders)}<div class="figures"><figure>{chart}</figure></div>')


def _study(rows: Rows, figure: str = "") -> str:
    """A figure and the table of a study."""
    return f"<p>{escape(rows.text)}</p>{figure}{table(rows.heads, rows.lines, rows.words)}"


def _robustness(report: Mapping[str, Any]) -> str:
    """The figures of robustness, and those that are ratios as bars, by the numbers of the rows."""
    bars = ("median", "greatest")
    groups = {
        str(number): {
            name: charts.Bar(one[key], None, f"{one['figure']}, {name}: {one[key]:,.2f}×")
            for name, key in zip(bars, ("median", "most"))
        }
        for number, one in enumerate(report["figures"], 1)
        if one["unit"]
    }
    chart = charts.bars(groups, bars, "ratio", "Robustness of plans, by the rows of the table")
    rows = [[f"{number}. {figure}", *others] for number, (figure, *others) in enumerate(robustness_rows(report), 1)]
    return f"{charts.legend(bars)}<figure>{chart}</figure>{table(ROBUSTNESS_HEADS, rows, 2)}"


def _failed(report: Mapping[str, Any]) -> str:
    rows = [
        [f["contender"], f["query"], ", ".join(f"{k} {v}" for k, v in f["parameters"].items()), f["why"]]
        for f in report["failed"]
    ]
    return "" if not rows else "<h3>Not completed</h3>" + table(["contender", "query", "", "why"], rows, 4)


def _circumstances(report: Mapping[str, Any]) -> str:
    machine, versions = report.get("machine", {}), report.get("versions", {})
    facts = [*machine.items(), *versions.items(), *([("seed", report["seed"])] if "seed" in report else [])]
    return '<p class="facts">' + " · ".join(f"{escape(str(k))} {escape(str(v))}" for k, v in facts if v is not None) + "</p>"
