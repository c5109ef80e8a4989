"""The trace as one self-contained HTML page: a JSON block with the data, and the scripts that draw it.

The page loads nothing from elsewhere, enforced by its content security policy, so that it can be mailed or archived with the
trace. The scripts are in ``assets/``; uPlot draws the charts (MIT licence, ``assets/uplot/``).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from cqels_opt.trace.picture import VERSION, Picture
from cqels_opt.trace.records import TraceRecord

_SCRIPTS = ("uplot/uPlot.iife.min.js", "figures.js", "tree.js", "bands.js", "charts.js", "tables.js", "summary.js", "page.js")
SCRIPT = "page.js"
"""The name of the script next to a page that does not hold it."""
_STYLES = ("uplot/uPlot.min.css", "page.css")


def trace_page(records: Iterable[TraceRecord], title: str, other: tuple[Iterable[TraceRecord], str] | None = None) -> str:
    """The HTML text; ``title`` is usually the trace file's name. ``other`` is a trace to compare with, and its title."""
    data = _drawn(records, title)
    if other is not None:
        data["compare"] = _drawn(*other)
    return _page(data, title)


def _drawn(records: Iterable[TraceRecord], title: str) -> dict[str, Any]:
    picture = Picture()
    picture.add(records)
    return picture.to_json(title)


def live_page(title: str) -> str:
    """The page of a running job, which fetches its data from its own server."""
    return _page({"version": VERSION, "title": title, "live": True, "queries": []}, title, connect="'self'")


def page_with_script_apart(picture: Picture, title: str) -> str:
    """The page for a server that allows no script within a page; it has :func:`page_script` next to it as :data:`SCRIPT`."""
    return _page(picture.to_json(title), title, script_apart=True)


def page_script() -> str:
    """The script of the page."""
    return "\n".join(map(_asset, _SCRIPTS))


def _page(data: Mapping[str, Any], title: str, connect: str = "'none'", script_apart: bool = False) -> str:
    style, script = "\n".join(map(_asset, _STYLES)), page_script()
    allowed, element = (
        ("'self'", f'<script src="{SCRIPT}"></script>') if script_apart else (_hash(script), f"<script>{script}</script>")
    )
    policy = f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; connect-src {connect}; base-uri 'none'"
    return Template(_asset("page.html")).substitute(
        title=escape(title), policy=policy, style=style, script=element, data=embedded(data)
    )


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that is safe inside a script element: no text in it can end the element or begin another."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _asset(name: str) -> str:
    return files("cqels_opt.trace").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
