"""A walk over the groups of a SPARQL text that rewrites them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from cqels_opt.verify.tokens import Token, closing
from cqels_opt.verify.triples import TripleReader

_GROUP_WORDS = frozenset(("OPTIONAL", "UNION", "MINUS", "FILTER", "BIND", "VALUES", "GRAPH", "SERVICE", "SELECT"))


def as_written(part: Sequence[Token]) -> str:
    """The text of tokens; keeps whether there is a space between them."""
    gaps = ["", *(" " if after.start > token.end else "" for token, after in pairwise(part))]
    return "".join(gap + token.text for gap, token in zip(gaps, part))


class Walker(TripleReader, ABC):
    """One rewriting pass over a text. A window's name is passed down to the groups inside it; None: no relevant window."""

    def __init__(self, plain: str) -> None:
        super().__init__(plain)
        self.out: list[str] = []
        self.last: Token | None = None
        self.outermost: str | None = None

    def text(self) -> str:
        """The rewritten text."""
        self._copy_until(0, len(self.tokens), self.outermost)
        return " ".join(self.out)

    def _put(self, part: Sequence[Token]) -> None:
        """Copies tokens; keeps whether there is a space between them."""
        for token in part:
            if self.out and self.last is not None and self.last.end == token.start and self.out[-1].endswith(self.last.text):
                self.out[-1] += token.text
            else:
                self.out.append(token.text)
            self.last = token

    def _copy_until(self, place: int, end: int, window: str | None) -> None:
        """Copies everything outside groups (the query's head, expressions, solution modifiers) and walks the groups."""
        while place < end:
            token = self.tokens[place]
            if token.word() == "VALUES":
                place = self._values(place)
            elif token.text == "{" and token.kind == "mark":
                place = self._group(place, window)
            else:
                self._put([token])
                place += 1

    def _group(self, place: int, window: str | None) -> int:
        """Rewrites the ``{ … }`` that begins at ``place``; returns the position after it."""
        end = closing(self.tokens, place)
        self.out.append("{")
        place, window = self._entered(place + 1, window)
        if self.tokens[place].word() == "SELECT":
            self._copy_until(place, end, window)
            place = end
        while place < end:
            token = self.tokens[place]
            word = token.word()
            if token.kind == "mark" and token.text == "{":
                place = self._group(place, window)
            elif word == "VALUES":
                place = self._values(place)
            elif word in ("FILTER", "BIND"):
                place = self._expression(place, end, window)
            elif word == "GRAPH":
                place = self._graph(place, window)
            elif token.text == ".":  # the writers of triples add full stops; rdflib rejects one between groups
                place += 1
            elif word in _GROUP_WORDS:
                self._put([token])
                place += 1
            else:
                place = self._triples(place, end, window)
        self.out.append("}")
        return end + 1

    def _entered(self, place: int, window: str | None) -> tuple[int, str | None]:
        """Handles the beginning of a group: (position to continue at, window of the group)."""
        return place, window

    def _values(self, place: int) -> int:
        opening = next(i for i in range(place, len(self.tokens)) if self.tokens[i].text == "{")
        end = closing(self.tokens, opening) + 1
        self._put(self.tokens[place:end])
        return end

    @abstractmethod
    def _graph(self, place: int, window: str | None) -> int:
        """Rewrites ``GRAPH name { … }``; returns the position after it."""

    def _expression(self, place: int, end: int, window: str | None) -> int:
        """Copies FILTER or BIND with its expression; walks the groups of EXISTS inside it."""
        depth = 0
        while place < end:
            token = self.tokens[place]
            if token.kind == "mark" and token.text == "{":
                place = self._group(place, window)
                if depth == 0:
                    return place
                continue
            self._put([token])
            place += 1
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if depth == 0 and token.text == ")":
                return place
        return place

    def _triples(self, place: int, end: int, window: str | None) -> int:
        """Rewrites the triples up to the next full stop or keyword."""
        stop, depth = place, 0
        while stop < end:
            token = self.tokens[stop]
            if depth == 0 and (token.text in (".", "{") or token.word() in _GROUP_WORDS):
                break
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            stop += 1
        self.out.append(self._written(self.tokens[place:stop], window))
        return stop

    @abstractmethod
    def _written(self, part: Sequence[Token], window: str | None) -> str:
        """The rewritten text of triples."""
