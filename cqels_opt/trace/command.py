"""What ``cqels-opt trace`` does with a trace file: a summary, a page, or what comes while it grows."""

from __future__ import annotations

import threading
from pathlib import Path

from rich.console import Console

from cqels_opt.trace.follow import follow
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.records import read_trace
from cqels_opt.trace.server import shown
from cqels_opt.trace.tail import News, Tail
from cqels_opt.trace.terminal import show_trace

LOOKS_EVERY = 0.5
"""Seconds."""


def summary(file: Path) -> str:
    """The terminal's view of a trace, as wide as the terminal."""
    console = Console()
    with console.capture() as view:
        show_trace(read_trace(file), console)
    return view.get()


def write_page(file: Path, html: Path) -> None:
    """Writes the page of a trace."""
    html.write_text(trace_page(read_trace(file), file.name), encoding="utf-8")


def follow_file(file: Path, address: tuple[str, int] | None = None) -> None:
    """Shows a trace as it grows, in the terminal and, where an address is given, as a page, until Ctrl-C."""
    ended = threading.Event()
    with shown(file.name, address) as page:

        def watch(news: News) -> None:
            if page is not None:
                if news.anew:
                    page.begin_anew()
                page.add(news.records)

        try:
            follow(Tail(file), Console(), lambda: not ended.wait(LOOKS_EVERY), watch)
        except KeyboardInterrupt:
            return
