"""Streams and answers in the notation of SEMANTICS §5: ``at(3, "b", "x")`` is the element `b at x` at second 3."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from cqels_opt.query.parser import parse
from cqels_opt.verify import Answers, Element, Inputs, Options, evaluate

EX = "http://ex.org/"
STREAM = f"{EX}S"

At = Callable[[float, str, str], Element]
Ask = Callable[..., list[str]]


def _at(second: float, person: str, place: str) -> Element:
    return Element(round(second * 1000), ((f"<{EX}{person}>", f"<{EX}at>", f"<{EX}{place}>"),))


def _triple(text: str) -> tuple[str, str, str]:
    s, p, o = (part if part.startswith(('"', "<", "_:")) else f"<{EX}{part}>" for part in text.split(None, 2))
    return s, p, o


def short(found: Answers) -> list[str]:
    """Answers as ``second op value value …``; values are in the order of the variables' names and have no namespaces."""
    lines: list[tuple[int, str]] = []
    for (time, op, row), count in found.items():
        values = [re.sub(r'^<.*/(.*)>$|^"([^"]*)".*$', r"\1\2", term) for _, term in sorted(row)]
        lines += [(time, " ".join([f"{time / 1000:g}", op, *values]))] * count
    return [line for _, line in sorted(lines)]


@pytest.fixture
def at() -> At:
    """Makes an element from second, person and place."""
    return _at


@pytest.fixture
def world() -> list[Element]:
    """Stream S of SEMANTICS §5."""
    return [_at(1, "a", "x"), _at(3, "b", "x"), _at(6, "a", "y"), _at(9, "c", "y")]


@pytest.fixture
def ask(world: list[Element]) -> Ask:
    """Evaluates a query (with the prefix ``:``; ``:S`` is the stream) and returns its answers, shortened and sorted."""

    def run(
        text: str,
        options: Options | None = None,
        stream: list[Element] | None = None,
        default: Iterable[str] = (),
        graphs: dict[str, list[str]] | None = None,
    ) -> list[str]:
        named = {EX + name: [_triple(t) for t in triples] for name, triples in (graphs or {}).items()}
        inputs = Inputs({STREAM: world if stream is None else stream}, [_triple(t) for t in default], named)
        return short(evaluate(parse(f"PREFIX : <{EX}>\n{text}"), inputs, options or Options()))

    return run
