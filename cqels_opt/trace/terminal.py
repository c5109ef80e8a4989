"""The trace in a terminal: plans and their batches, switches and their reasons, the quality of estimates, slow batches.

All lines fit the console's width, in a pipe as on 80 columns. Plans contain square brackets, which rich would interpret as
markup: all text goes through :class:`rich.text.Text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cqels_opt.trace.figures import clock, duration, figure, phase_times, plural
from cqels_opt.trace.history import QueryHistory, histories, totals
from cqels_opt.trace.plan_figures import cost_figure, moved_statistic
from cqels_opt.trace.records import Called, Milliseconds, TraceRecord
from cqels_opt.trace.regret import Regret
from cqels_opt.trace.source_history import SourceHistory, Switch

MOST_SWITCHES = 20


def show_trace(records: Iterable[TraceRecord], console: Console) -> None:
    """Prints the summary of a trace."""
    found = histories(records)
    if not found:
        _line(console, "The trace is empty: no micro-batch was recorded.")
    for number, history in enumerate(found):
        if number:
            console.print()
        _show_query(history, console)


def show_plans(history: QueryHistory, console: Console) -> None:
    """Prints each delta source's plans with their numbers of batches, and the switches with the statistics that changed."""
    for source in history.sources:
        _show_source(source, history.unit, console)
    _show_switches(history, console)


def _show_query(history: QueryHistory, console: Console) -> None:
    _line(console, f"query {history.query}", style="bold")
    first, *qualifications = history.headline
    _line(console, first, indent=2, style="bold")
    if qualifications:
        _line(console, " ".join(qualifications), indent=2)
    _line(console, totals(history), indent=2)
    if history.first_time is not None:
        _line(console, f"stream time {clock(history.first_time)} to {clock(history.last_time)} UTC", indent=2)
    phases = phase_times(history.ms)
    total = f"{duration(history.ms.total)}{'' if history.alone else ' of all queries'} in all"
    _line(console, f"{total}, {duration(history.median_ms)} the median batch: {phases}", indent=2)
    if history.lag:
        _line(console, f"lag: {history.lag}", indent=2)
    for why in history.failed:
        _line(console, f"failed, {why}", indent=2, style="red")
    for reason in history.fallbacks:
        _line(console, f"the optimizer fell back to a greedy order: {reason}", indent=2, style="yellow")
    if history.noted > len(history.notes):
        _line(console, f"{plural(history.noted - len(history.notes), 'earlier notice')} not shown", indent=2, style="yellow")
    for note in history.notes:
        _line(console, note, indent=2, style="yellow")
    for version in history.versions:
        _line(console, f"static data, {version}", indent=2)
    for change in history.sub_results:
        _line(console, f"sub-results, {change}", indent=2)
    for called in history.calls:
        _line(console, f"calls of {called.call}: {_called(called)}", indent=2)
    show_plans(history, console)
    _show_estimates(history, console)
    _show_slowest(history, console)


def _called(called: Called) -> str:
    kept = f", {called.hits:,} of {called.looked_up:,} from the cache" if called.looked_up else ""
    return f"{plural(called.rows, 'row')}, {called.distinct:,} distinct{kept}, {duration(called.ms)}"


def _show_source(source: SourceHistory, unit: str | None, console: Console) -> None:
    head = f"delta {source.source}: {plural(len(source.plans), 'plan')}, {plural(source.switched, 'switch')}"
    batches = sum(use.batches for use in source.plans)
    rows = [
        (
            use.letter,
            f"{use.batches:,}",
            f"{100 * use.batches / batches:.0f} %",
            duration(use.ms),
            cost_figure(use.cost, unit),
            use.plan,
        )
        for use in source.plans
    ]
    _table(console, head, ("", "batches", "share", "time", "last cost", "plan"), rows, wide=5)


def _show_switches(history: QueryHistory, console: Console) -> None:
    switches = history.switches
    if not switches:
        return
    console.print()
    _line(console, f"{plural(len(switches), 'plan switch')}{_regret(history.regret)}", style="bold")
    letters = {source.source: source for source in history.sources}
    if len(switches) > MOST_SWITCHES:
        _line(console, f"{plural(len(switches) - MOST_SWITCHES, 'earlier switch')} not shown", indent=2)
    for switch in switches[-MOST_SWITCHES:]:
        source = letters[switch.source]
        step = f"{source.letter(switch.before)} -> {source.letter(switch.after)}"
        _line(
            console,
            f"batch {switch.batch}, {clock(switch.time)}, delta {switch.source}: {step}{_gain(switch, history.unit)}{_since(switch.since)}",
            indent=2,
        )
        for moved in switch.reason:
            _line(console, moved_statistic(moved), indent=6)


def _gain(switch: Switch, unit: str | None) -> str:
    if switch.cost is None or switch.instead_of is None:
        return ""
    return f", cost {cost_figure(switch.instead_of, unit)} -> {cost_figure(switch.cost, unit)}"


def _since(since: Regret) -> str:
    """What a switch has saved, or its regret, in the batches until the next one."""
    if not since.batches:
        return ""
    word, share = since.outcome
    return f", {word} {100 * share:.1f} % in {plural(since.batches, 'batch')}"


def _regret(regret: Regret) -> str:
    return f": {regret.gained:,} of {regret.switches:,} saved, regret {100 * regret.share:.1f} %" if regret.switches else ""


def _show_estimates(history: QueryHistory, console: Console) -> None:
    rows = [
        (estimates.relation, f"{estimates.known:,}", figure(estimates.median), figure(estimates.p95), figure(estimates.greatest))
        for estimates in sorted(history.estimates, key=lambda estimates: -estimates.p95)
    ]
    if rows:
        _table(
            console, "q-error of the estimates (1 is exact)", ("relation", "probes", "median", "95 %", "greatest"), rows, wide=0
        )


def _show_slowest(history: QueryHistory, console: Console) -> None:
    rows = [
        (f"{slow.batch}", clock(slow.time), f"{slow.elements:,}", duration(slow.ms.total), _most_of_it(slow.ms))
        for slow in history.slowest
    ]
    _table(console, "slowest batches", ("batch", "stream time", "elements", "time", "most of it"), rows, wide=4)


def _most_of_it(ms: Milliseconds) -> str:
    return f"{ms.longest} {100 * getattr(ms, ms.longest) / ms.total:.0f} %" if ms.total else "-"


def _table(console: Console, head: str, columns: Sequence[str], rows: Iterable[Sequence[str]], wide: int) -> None:
    """A table without borders; the column ``wide`` is text and wraps, all others are numbers and do not."""
    console.print()
    _line(console, head, style="bold")
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        text = number in (0, wide)
        table.add_column(
            Text(column),
            justify="left" if text else "right",
            no_wrap=number != wide,
            overflow="fold",
            ratio=1 if number == wide else None,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _line(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    """One paragraph, wrapped within the indentation, without trailing spaces."""
    margin = " " * indent
    lines = wrap(text, console.width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False)
    console.print(Text("\n".join(lines), style=style))
