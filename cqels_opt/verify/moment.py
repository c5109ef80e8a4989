"""The first instant at which answers differ, for people: both bags, and the contents of the windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cqels_opt.verify.compare import row_text
from cqels_opt.verify.model import Answers, Element, Row

Bag = tuple[tuple[str, Row, int], ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """The expected and the actual rows at an instant, as (``+``, ``-`` or ``=``, row, count), and the elements of each window."""

    time: int
    expected: Bag
    got: Bag
    held: Mapping[str, tuple[Element, ...]]

    def text(self, limit: int = 10) -> str:
        """A text for people: the first ``limit`` rows of each bag, and the latest elements of each window."""
        lines = [f"the first instant that differs is {self.time}:"]
        for word, bag in (("expected", self.expected), ("the answer has", self.got)):
            rows = sum(count for _, _, count in bag)
            lines.append(f"  {word} {_counted(rows, 'row')}")
            lines += [f"    {op} {row_text(row)}{f' × {count}' if count > 1 else ''}" for op, row, count in bag[:limit]]
            lines += [f"    and {len(bag) - limit} more"] * (len(bag) > limit)
        for window, elements in self.held.items():
            lines.append(f"  window {window} holds {_counted(len(elements), 'element')}")
            lines += [f"    {len(elements) - limit} before, and"] * (len(elements) > limit)
            lines += [f"    {_element_text(element)}" for element in elements[-limit:]]
        return "\n".join(lines)


def moment(time: int, expected: Answers, got: Answers, held: Mapping[str, tuple[Element, ...]]) -> Moment:
    """The details of an instant."""
    return Moment(time, _at(time, expected), _at(time, got), held)


def _at(time: int, answers: Answers) -> Bag:
    found = ((op, row, count) for (at, op, row), count in answers.items() if at == time)
    return tuple(sorted(found, key=lambda one: (one[0], sorted(one[1]))))


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' * (number != 1)}"


def _element_text(element: Element) -> str:
    triples = " . ".join(" ".join(triple) for triple in element.all)
    return f"{element.t}{f' {element.graph}' if element.graph else ''} {triples}"
