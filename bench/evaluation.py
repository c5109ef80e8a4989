"""``cqels-opt bench evaluation``: reproduces the report's §6 and checks the project's goals, as a page (docs/evaluation.md) and
as data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from cqels_opt.bench import tables
from cqels_opt.bench.circumstances import circumstances
from cqels_opt.bench.claim import HEADS, summary
from cqels_opt.bench.claims import FIGURE_5, SLACK, claims
from cqels_opt.bench.concurrent_tables import beside
from cqels_opt.bench.screen import console, table

TITLE = "The evaluation of the CQELS report (§6) and of the project's goals, with a page"
SECTIONS = (FIGURE_5, "phases", "drift", "concurrent", "paced", "start-up")
"""The scenarios and studies of the evaluation."""
ON_SPARK = ("paced", "start-up")
"""Those that need Spark."""

WIDEST = 400
"""The width of the table of claims in a file or a pipe: each claim, with its reason, on one line."""

_QUICK_FIGURES = "A quick run: small data and low rates show that the command works; only a full run supports a verdict."
_QUICK = "**A quick run**: small data and low rates, on a machine with other load. The page of a full run replaces it."


def evaluate(section: Callable[[str], dict[str, Any]], quick: bool, spark: bool, page: Path | None) -> dict[str, Any]:
    """Runs its scenarios and studies, each with ``section``; writes the Markdown page to ``page``."""
    progress = Console(stderr=True)
    sections = []
    for name in (name for name in SECTIONS if spark or name not in ON_SPARK):
        progress.print(f"evaluation: {name}")
        sections.append(section(name))
    report = {
        **circumstances(),
        "scenario": "evaluation",
        "title": "Evaluation",
        "taken": datetime.now(UTC).isoformat(timespec="minutes"),
        "parameters": {"quick": quick, "spark": spark},
        "sections": sections,
    }
    _show(report)
    if page is not None:
        page.write_text(markdown(report), encoding="utf-8")
    return report


def _show(report: Mapping[str, Any]) -> None:
    found, quick = claims(report), report["parameters"]["quick"]
    shown = table(*HEADS, title="Claims: the CQELS report's, and the project's goals", show_lines=sys.stdout.isatty())
    for claim in found:
        shown.add_row(*claim.row)
    screen = console(WIDEST)
    screen.print(shown)
    screen.print(summary(found), _QUICK_FIGURES * quick, highlight=False)


# ------------------------------------------------------------------ the page
def markdown(report: Mapping[str, Any]) -> str:
    """The page of the documentation."""
    quick = report["parameters"]["quick"]
    options = " --quick" * quick + " --no-spark" * (not report["parameters"]["spark"])
    command = f"cqels-opt bench evaluation{options} --page docs/evaluation.md --html evaluation.html --json evaluation.json"
    found = claims(report)
    parts = [
        "# Evaluation",
        "After reading this page you know which claims of the CQELS report (§6) and which goals of the project hold on the engine, and why "
        "the others do not.",
        "## Summary",
        _QUICK if quick else "",
        f"{summary(found)} The aim is the report's value or a goal; a ratio counts as reproduced from {SLACK:g} of the report's value, "
        "which comes from other machines and data. Machines differ: compare **ratios**, not times.",
        markdown_table(HEADS, [claim.row for claim in found], len(HEADS)),
        "Terms: [sub-result](glossary.md#sub-result), [clairvoyant plan](glossary.md#clairvoyant), "
        "[delta source](glossary.md#delta-source).",
        "## How it was measured",
        "The benchmark harness writes this page, including all figures and verdicts:",
        f"```\n{command}\n```",
        facts(report),
        "The harness compares the answers of all contenders, as bags, before it reports a time. With `--quick` the same command ends with "
        "the same table of claims after a small run. The [arena](reference/arena.md) compares the engine with other systems.",
        *(part for section in report["sections"] for part in _section(section)),
        "## Robustness",
        "`cqels-opt bench robustness` measures how far plans fall where estimates are wrong or the join order is bad; its figures are in "
        "[measurements](measurements.md#robustness-of-plans).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(report: Mapping[str, Any]) -> str:
    """When and where a report was measured, and the versions of the software."""
    machine, versions = report["machine"], report["versions"]
    what = ", ".join(f"{name} {text}" for name, text in versions.items() if text and name != "commit")
    return (
        f"Measured {report['taken']} on {machine['cores']} cores ({machine['processor']}), {machine['memory_gb']:g} GB, "
        f"{machine['system']}, Python {machine['python']}, Java {machine['java']}; "
        f"load {machine['load']:g} at the end. {what}; commit {versions['commit']}."
    )


def _section(section: Mapping[str, Any]) -> list[str]:
    if "concurrent" in section:
        return _concurrent(section)
    if "contenders" in section:
        return _scenario(section)
    rows = tables.STUDY_TABLES[section["scenario"]](section)
    return [f"## {section['title']}", rows.text, markdown_table(rows.heads, rows.lines, rows.words)]


def _scenario(section: Mapping[str, Any]) -> list[str]:
    contenders = tables.names(section)
    described = list(dict.fromkeys(str(text) for key, text in section["data"].items() if key != "generator"))
    lines = tables.by_line(section)
    parameters = tables.parameters_of(section)
    rows = []
    for line, results in lines.items():
        base = results.get(contenders[0])
        part = tables.share(base) if base else None
        where = [str(dict(line).get(name, "–")) for name in parameters]
        rows.append(
            [*where, *(tables.cell(results.get(name), base) for name in contenders), "–" if part is None else f"{part:.0%}"]
        )
    failed = [f"- {f['contender']}, {f['query']}, {f['parameters']}: {f['why']}" for f in section["failed"]]
    return [
        f"## {section['title']}",
        section["about"],
        f"{'; '.join(described)}. Median milliseconds per batch; in brackets the ratio to `{contenders[0]}`.",
        markdown_table([*map(tables.heading, parameters), *contenders, "optimizer's share"], rows),
        "\n".join(f"- `{name}`: {section['contenders'][name]}" for name in contenders),
        "\n".join(["Not completed:", "", *failed]) if failed else "",
    ]


def _concurrent(section: Mapping[str, Any]) -> list[str]:
    world = section["world"]
    size = f"{world['authors']:,} authors, {world['rate']:,} elements per batch, without Spark"
    parts = [
        f"## {section['title']}",
        f"Next to the report's Tables 2 and 3. `× 10` is the ratio to the cost of 10 instances. {size}.",
    ]
    for query in dict.fromkeys(row["query"] for row in section["concurrent"]):
        heads, lines, _ = beside(query, section["concurrent"])
        parts += [f"### {query}", markdown_table(heads, lines, 0)]
    return parts


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 2) -> str:
    """A Markdown table; columns after the first ``words`` are numbers. Cells have no line breaks."""
    marks = ["---" if place < words else "---:" for place in range(len(heads))]
    lines = ((" ".join(cell.replace("|", "\\|").splitlines()) for cell in line) for line in (heads, marks, *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
