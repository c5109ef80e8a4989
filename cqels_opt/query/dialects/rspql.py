"""RSP-QL: windows named by IRIs, ``FROM NAMED WINDOW <w> ON <stream> [RANGE PT5S STEP PT2S]``, matched with ``WINDOW <w> { … }``.

``COMPUTED EVERY`` makes its windows those of RSP-QL* (SEMANTICS §1): its period is their ``step``.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Final

from cqels_opt.query.algebra import Algebra, InWindow, Join, Source, Union, Values, Variable, Window
from cqels_opt.query.dialects.called_windows import read_called
from cqels_opt.query.dialects.forms import grammar, read_count, read_duration, register
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.groups import graph_name
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.reading import Branch, Dialect, Reading, branches, only, span, tokens

_OPERATORS: Final[dict[str, str]] = {"RSTREAM": "rstream", "ISTREAM": "istream", "DSTREAM": "dstream"}


def _registration(reading: Reading, tree: Branch) -> None:
    register(reading, tree)
    reading.operator = _OPERATORS.get(tokens(tree)[0].upper())
    every = only(tree, "computed_every")
    if every is not None:
        reading.every = read_duration(reading, branches(every)[0])


def _declare(reading: Reading, tree: Branch, name: Branch, stream: Branch, window: Branch) -> None:
    iri = read_iri(reading, name)
    if iri in reading.window_of:
        reading.fail(name, f"the window {reading.source(name)} is declared twice")
    called, source = reading.free_window_name(iri), read_iri(reading, stream)
    if window.data == "elements":
        count, *every = read_count(reading, window)
        declared = Window(called, source, "last", count=count, every=every[0] if every else 0, step=reading.every)
    elif window.data == "called":
        if reading.every:
            reading.fail(window, "COMPUTED EVERY is for windows of RSP-QL*, and this window is of another kind")
        declared = read_called(reading, window, called, source)
    else:
        width, slide = (read_duration(reading, part) for part in branches(window))
        declared = Window(called, source, "star" if reading.every else "open-closed", width, slide, step=reading.every)
    reading.declare(declared, iri, name, *span(tree))


def _window_on(reading: Reading, tree: Branch) -> None:
    name, stream, window = branches(tree)
    _declare(reading, tree, name, stream, window)


def _window_before(reading: Reading, tree: Branch) -> None:
    name, window, stream = branches(tree)
    _declare(reading, tree, name, stream, window)


def _window_as(reading: Reading, tree: Branch) -> None:
    stream, window, name = branches(tree)
    _declare(reading, tree, name, stream, window)


def _window_block(reading: Reading, tree: Branch, source: Source) -> Algebra:
    named, group = branches(tree)
    name = graph_name(reading, named)
    if isinstance(name, Variable):
        return _any_window(reading, tree, name, group)
    if name not in reading.window_of:
        known = {iri: iri for iri in reading.window_of if isinstance(iri, str)}
        guess = nearest(name, known) or "; declare it with FROM NAMED WINDOW … ON <stream> [RANGE … STEP …]"
        reading.fail(named, f"the window {reading.source(named)} is not declared{guess}")
    return reading.read_group(reading, group, InWindow(reading.window_of[name]))


def _any_window(reading: Reading, tree: Branch, name: Variable, group: Branch) -> Algebra:
    # WINDOW ?w ranges over the declared windows, as GRAPH ?g does over the named graphs.
    if not reading.window_of:
        reading.fail(tree, "WINDOW needs a window: declare it with FROM NAMED WINDOW … ON <stream> [RANGE … STEP …]")
    found: list[Algebra] = []
    labels = dict(reading.labels)
    for iri, window in reading.window_of.items():
        reading.labels = dict(labels)
        found.append(Join(Values((name,), ((str(iri),),)), reading.read_group(reading, group, InWindow(window))))
    return reduce(Union, found)


DIALECT = Dialect(
    name="rspql",
    grammar=grammar("rspql"),
    recognise=re.compile(
        r"\bNAMED WINDOW\b|\bREGISTER [RID]STREAM\b|\bWINDOW ?(<>|[?$]\w+|[\w.-]*:[\w.-]*) ?\{|\] ?AS (<>|[\w.-]*:)",
        re.IGNORECASE,
    ),
    clauses={
        "registration": _registration,
        "window_on": _window_on,
        "window_before": _window_before,
        "window_as": _window_as,
    },
    patterns={"window_block": _window_block},
    window="FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s]",
    element_graphs=True,
)
