"""The page docs/reference/arena.md: the verdicts, the losses first, and how they were measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cqels_opt.bench import csrbench, yabench
from cqels_opt.bench.arena.verdicts import CANNOT, CLOSE, FAILED, LOST, NOT_COMPARED, ORDER, OTHER_ANSWERS, OURS, REFERENCE, WON
from cqels_opt.bench.evaluation import facts, markdown_table
from cqels_opt.bench.tables import number

HEADS = (
    "verdict",
    "workload",
    "query",
    "rival",
    "CPU ratio",
    "CPU ms",
    "wall ms",
    "peak MB",
    "first answer s",
    "answers",
    "note",
)


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row of the table: pairs are the rival's figure and the engine's."""
    first = [row["verdict"], row["workload"], row["query"], row["rival"]]
    if "theirs" not in row:
        return [*first, *["–"] * 6, row["why"]]
    ours, theirs = row["ours"], row["theirs"]
    pairs = [f"{_cell(theirs[key])} / {_cell(ours[key])}" for key in ("cpu_ms", "wall_ms", "peak_mb", "first_answer_s")]
    ratio = f"{'≥ ' if row['lower_bound'] else ''}{row['cpu_ratio']:.2f}×"
    note = "; ".join(filter(None, (row["why"], "measured in the warm-up" if row["in_warm_up"] else "")))
    return [*first, ratio, *pairs, f"{row['answers']:,}", note]


def _phases(report: Mapping[str, Any]) -> str:
    """The engine's phases, for each query with a loss."""
    lost = {(row["workload"], row["query"]): row["ours"]["phases"] for row in report["results"] if row["verdict"] == LOST}
    names = list(dict.fromkeys(name for phases in lost.values() for name in phases))
    return markdown_table(
        ("workload", "query", *names), [[*of, *(_cell(phases.get(name)) for name in names)] for of, phases in lost.items()]
    )


def _correctness(found: Mapping[str, Any], quick: bool) -> list[str]:
    """The answers that are compared without times; nothing of a workload whose data are missing."""
    sections: Mapping[str, Callable[[Mapping[str, Any]], list[str]]]
    sections = {"csrbench": partial(_csrbench, quick=quick), "yabench": _yabench}
    parts = [part for name, section in sections.items() if name in found for part in section(found[name])]
    return ["## Correctness", *parts] if parts else []


def _csrbench(found: Mapping[str, Any], quick: bool) -> list[str]:
    runs, rows = sum(row["t0"] for row in found["results"]), sum(row["rows"] for row in found["results"])
    return [
        f"CSRBench's seven queries in three languages, at {'the first and the last' if quick else 'every'} t0 that the slide of their "
        f"windows allows ({runs} runs): the engine gives the {rows:,} rows of the independent evaluation. The table has what other "
        "engines answered, as CSRBench's oracle has recorded it: parts of their answers that are as ours, at their instants and with all "
        "instants moved. `correct`: their answer is ours for some t0.",
        markdown_table(csrbench.HEADS, [csrbench.cells(row) for row in found["engines"]], 2),
    ]


def _yabench(found: Mapping[str, Any]) -> list[str]:
    return [
        "YABench's three queries over the contents of windows as its oracle defines them, in the sizes of its published tests: at each "
        "instant the engine has the rows that the oracle has. CQELS-QL runs in the [profile](../glossary.md#profile) `cqels-1.x`.",
        markdown_table(yabench.HEADS, [yabench.cells(row) for row in found["results"]], 3),
    ]


def _registration(report: Mapping[str, Any]) -> str:
    """The longest time in which the engine registers a query."""
    times = [(row["ours"]["prepared_s"], row["workload"], row["query"]) for row in report["results"] if "ours" in row]
    if not times:
        return ""
    seconds, workload, query = max(times)
    return f"The engine registers a query in at most {_cell(seconds)} s ({workload} {query})."


def _cell(value: float | None) -> str:
    return "–" if value is None else number(value)


def summary(report: Mapping[str, Any]) -> str:
    """One sentence with the number of verdicts."""
    counts = report["verdicts"]
    return (
        f"Of {sum(counts.values())} pairs of a query and a rival, "
        + ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
        + "."
    )


def markdown(report: Mapping[str, Any]) -> str:
    """The page."""
    quick = report["parameters"]["quick"]
    checked = {(row["workload"], row["query"]): row["checked"] for row in report["results"]}
    parts = [
        "# Arena",
        "After reading this page you know on which queries the engine needs more CPU time than other systems, and on which less. "
        "The harness writes it, including all verdicts. Terms: [micro-batch](../glossary.md#micro-batch), "
        "[window](../glossary.md#window), [element](../glossary.md#element), [store](../glossary.md#store).",
        f"```\ncqels-opt bench arena{'' if quick else ' --full'} --page docs/reference/arena.md --json arena.json\n```",
        _QUICK if quick else "",
        "## Verdicts",
        f"{summary(report)} The ratio is the rival's CPU time over that of `{OURS}`, for the same micro-batches: below {1 / CLOSE:.2f} the "
        f"row is `{LOST}`. Each pair of figures is the rival's and the engine's. CPU and wall-clock milliseconds are means per "
        f"micro-batch. A rival with `{OTHER_ANSWERS}` or `{FAILED}` has no figures; `{CANNOT}` has the reason in the note. "
        "A micro-batch within which a rival stopped does not count. If it is the only one, the ratio is a lower bound (`≥`), which can "
        f"show that a row is `{WON}`, and nothing else. A row is `{NOT_COMPARED}` if this lower bound shows nothing, or if the engine has "
        "answers, but none up to the time at which the rival stopped. `measured in the warm-up`: the rival completed no later micro-batch.",
        markdown_table(HEADS, [cells(row) for row in report["results"]], 4),
        "## Where the engine's time goes",
        "Wall-clock milliseconds per micro-batch by phase, for the queries with a loss; `optimize` includes the statistics. Each triple "
        "pattern over a window is a [delta source](../glossary.md#delta-source) of its own: a query that reads several triples of an "
        "element joins them again, while the relational stores have them in one row.",
        _phases(report),
        *_correctness(report["correctness"], quick),
        "## Workloads",
        "\n".join(
            f"- `{one['name']}`: {one['title']}. {one['about']} {one['data']}; {one['case'] or 'its own times'}; seed {one['seed']}; "
            f"{one['warm_up']} micro-batches of warm-up; at most {one['limit_cpu_seconds']:g} CPU seconds per query and rival. "
            f"It took {one['seconds']:.0f} s."
            for one in report["workloads"]
        ),
        "\n".join(f"- `{name}` was left out: {why}" for name, why in report["left_out"].items()),
        "## Rivals",
        "\n".join(
            [
                *(f"- `{name}`: {text}" for name, text in report["rivals"].items()),
                *(f"- `{name}`: not installed. `{command}` installs it." for name, command in report["not_installed"].items()),
            ]
        ),
        "## How it was measured",
        f"Each rival has a process of its own. On each query all of them prepare; then they process one micro-batch each in turn, in a "
        f"random order each time, and only one works at a time. CPU time is that of the rival's process and of all that it "
        f"starts. `first answer` counts the work from the beginning of the preparation to the end of the first micro-batch with answers; "
        f"the engine's static store was loaded before. {_registration(report)}",
        "The relational stores get the same RDF elements and turn them into typed rows themselves "
        "([decision 057](../decisions/057-arena.md)). Flink, Esper, Pathway and Differential Dataflow get typed rows, which are made "
        "before the clock starts ([decision 060](../decisions/060-engines-of-typed-rows.md)). CQELS, C-SPARQL, YASPER and Kolibrie read "
        "RDF; CQELS has the clock of the stream ([decision 076](../decisions/076-engines-of-rdf-streams.md)). The process of all these "
        "starts with the first query of a workload and runs the next ones as well, so that its peak memory includes what it keeps. "
        "A row has figures only if its answers are equal, as bags and by time, up to the time at which the rival stopped. "
        f"`{REFERENCE}` is also the independent evaluation: the run ends where the engine differs from it.",
        "Answers that the independent evaluation checked before its limit: "
        + ", ".join(f"{workload} {query} {count:,}" for (workload, query), count in checked.items())
        + "."
        + (_UNCHECKED if 0 in checked.values() else ""),
        facts(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_UNCHECKED = " Where it checked none, the answers are compared with those of the other rivals alone."
_QUICK = "These are the figures of the quick form. The full form has larger data, and the rivals that need Spark."
