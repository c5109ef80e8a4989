"""The trace of a running job in a terminal: a compact view that is redrawn as batches end; in a pipe, one line per batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from cqels_opt.trace.figures import clock, duration, plural
from cqels_opt.trace.history import Histories, QueryHistory
from cqels_opt.trace.live import NEWEST
from cqels_opt.trace.plan_figures import cost_figure, moved_statistics
from cqels_opt.trace.records import TraceRecord
from cqels_opt.trace.source_history import Switch
from cqels_opt.trace.tail import News, Tail

BACKLOG = 10
MOST_QUERIES = 4
MOST_SWITCHES = 3
_BLOCKS = "▁▂▃▄▅▆▇█"


def follow(tail: Tail, console: Console, wait: Callable[[], bool], watch: Callable[[News], None] | None = None) -> None:
    """Shows new records until ``wait``, which is called when there are none, returns False. ``watch`` gets the same records."""
    if not console.is_terminal:
        _lines(tail, console, wait, watch)
        return
    view = Compact(str(tail.path))
    with Live(view.render(console.width), console=console, auto_refresh=False, transient=False) as live:
        for news in _news(tail, wait, watch):
            view.add(news)
            if not news.more:
                live.update(view.render(console.width), refresh=True)


def _lines(tail: Tail, console: Console, wait: Callable[[], bool], watch: Callable[[News], None] | None) -> None:
    """Prints the last lines first, as ``tail -f`` does, then each new one."""
    seen, backlog = Histories(NEWEST), deque[str](maxlen=BACKLOG)
    following = False
    for news in _news(tail, wait, watch):
        if news.restarted:
            seen = Histories(NEWEST)
            backlog.append("the trace begins again")
        for record in news.records:
            seen.add(record)
            backlog.append(batch_line(record, seen.letters(record.query)))
            if following:
                _print(console, backlog)
        if not news.more:
            following = True
            _print(console, backlog)


def _print(console: Console, lines: deque[str]) -> None:
    while lines:
        console.print(Text(lines.popleft()), soft_wrap=True)


def _news(tail: Tail, wait: Callable[[], bool], watch: Callable[[News], None] | None) -> Iterable[News]:
    while True:
        news = tail.news()
        if news.records or news.restarted:
            if watch:
                watch(news)
            yield news
        if not news.more and not wait():
            return


def batch_line(record: TraceRecord, letters: Mapping[str, str]) -> str:
    """One line for a batch: its elements, duration, the plan letter of each delta source, and the switches."""
    plans = " ".join(f"{delta.source}:{letters[delta.source]}" for delta in record.deltas)
    switched = [f"delta {delta.source} switched ({moved_statistics(delta.reason)})" for delta in record.switches]
    parts = [
        f"batch {record.batch}",
        record.query,
        clock(record.stream_time),
        plural(record.elements, "element"),
        duration(record.ms.total),
        plans,
        *switched,
        f"failed: {record.failed}" if record.failed is not None else "",
    ]
    return ", ".join(part for part in parts if part)


class Compact:
    """The terminal view: per query the last batch, the durations of previous batches, the current plans and the last switches."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._clear()

    def _clear(self) -> None:
        self._histories = Histories(NEWEST)
        self._last: dict[str, TraceRecord] = {}
        self._times: dict[str, deque[float]] = {}

    def add(self, news: News) -> None:
        """Adds new records."""
        if news.restarted:
            self._clear()
        for record in news.records:
            self._histories.add(record)
            self._last[record.query] = record
            self._times.setdefault(record.query, deque(maxlen=60)).append(record.ms.total)

    def render(self, width: int) -> RenderableType:
        """The view for a width in columns."""
        if not self._last:
            return Text(f"{self._title}: waiting for the first batch")
        parts: list[RenderableType] = []
        for query in self._histories.queries[:MOST_QUERIES]:
            parts += self._query(query, width)
        if (rest := len(self._histories.queries) - MOST_QUERIES) > 0:
            parts.append(Text(f"and {rest:,} more queries: cqels-opt trace {self._title} --html OUT.html shows all", "dim"))
        return Group(*parts)

    def _query(self, query: str, width: int) -> list[RenderableType]:
        record, history = self._last[query], self._histories.of(query)
        lag = f", {duration(record.lag.time)} behind" if record.lag.time is not None else ""
        late = f", {history.late:,} late" if history.late else ""
        head = Text.assemble(
            (query, "bold"),
            f"  batch {record.batch}, {clock(record.stream_time)}, ",
            f"{plural(record.elements, 'element')}, {duration(record.ms.total)} (most of it {record.ms.longest}){lag}{late}",
        )
        times = list(self._times[query])[-max(10, width - 36) :]
        spark = Text.assemble(("  times ", "dim"), sparkline(times), (f" at most {duration(max(times))}", "dim"))
        lines = [
            *(Text(f"  failed, {why}", "red") for why in history.failed[-1:]),
            *_source_lines(history),
            *(Text(f"  {_switch_line(history, s)}", "yellow") for s in history.switches[-MOST_SWITCHES:]),
        ]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return [head, spark, *lines]


def _source_lines(history: QueryHistory) -> list[Text]:
    """One line per delta source with its current plan, aligned."""
    sources = history.sources
    uses = [next(use for use in source.plans if use.plan == source.reigns[-1].plan) for source in sources]
    names = max((len(source.source) for source in sources), default=0)
    costs = [f"cost {cost_figure(use.cost, history.unit)}" for use in uses]
    wide = max(map(len, costs), default=0)
    return [
        Text.assemble(f"  {source.source:<{names}} ", (f"{use.letter:<2}", "bold cyan"), f" {cost:<{wide}}  ", (use.plan, "dim"))
        for source, use, cost in zip(sources, uses, costs)
    ]


def _switch_line(history: QueryHistory, switch: Switch) -> str:
    source = next(source for source in history.sources if source.source == switch.source)
    step = f"{source.letter(switch.before)} -> {source.letter(switch.after)}"
    return f"batch {switch.batch}, delta {switch.source}: {step}, {moved_statistics(switch.reason)}"


def sparkline(values: Sequence[float]) -> str:
    """Values as a line of block characters; the maximum is a full block."""
    most = max(values, default=0.0) or 1.0
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(max(value, 0.0) / most * len(_BLOCKS)))] for value in values)
