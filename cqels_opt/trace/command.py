"""The command ``cqels-opt trace``: a summary of a trace file, a page, or a view that follows the growing file."""

from __future__ import annotations

import threading
from pathlib import Path

from cqels_opt.trace.console import OutputConsole
from cqels_opt.trace.follow import follow
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.records import read_trace
from cqels_opt.trace.server import shown
from cqels_opt.trace.tail import News, Tail
from cqels_opt.trace.terminal import show_trace

POLL_INTERVAL = 0.5
"""Seconds between reads of a followed file."""


def show_summary(file: Path) -> None:
    """Prints the terminal's view of a trace, as wide as the terminal."""
    show_trace(read_trace(file), OutputConsole())


def write_page(file: Path, html: Path, other: Path | None) -> None:
    """Writes the page of a trace, and of another one to compare with."""
    compared = (read_trace(other), str(other) if other.name == file.name else other.name) if other is not None else None
    html.write_text(trace_page(read_trace(file), file.name, compared), encoding="utf-8")


def follow_file(file: Path, address: tuple[str, int] | None) -> None:
    """Shows a growing trace in the terminal and, with an address, as a page, until Ctrl-C."""
    ended = threading.Event()
    with shown(file.name, address) as page:

        def watch(news: News) -> None:
            if page is not None:
                if news.restarted:
                    page.restart()
                page.add(news.records)

        try:
            follow(Tail(file), OutputConsole(), lambda: not ended.wait(POLL_INTERVAL), watch)
        except KeyboardInterrupt:
            return
