"""A walk over the groups of a SPARQL text, which writes them anew; ``;`` ``,`` ``[ ]`` and lists are written out on the way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from cqels_opt.verify.heads import PREFIX
from cqels_opt.verify.path_syntax import Path, read_path, step
from cqels_opt.verify.tokens import Token, closing, solid, tokens

Triple: TypeAlias = tuple[str, Path, str]
_GROUP_WORDS = frozenset(("OPTIONAL", "UNION", "MINUS", "FILTER", "BIND", "VALUES", "GRAPH", "SERVICE", "SELECT"))
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_REIFIES = f"<{_RDF}reifies>"


def as_written(part: Sequence[Token]) -> str:
    """The text of tokens; what had no blank between has none."""
    gaps = ["", *(" " if after.start > token.end else "" for token, after in pairwise(part))]
    return "".join(gap + token.text for gap, token in zip(gaps, part))


class Walker:
    """One pass over a text that writes it anew. A window's name travels down with the groups inside it; None: it is none that matters."""

    mark = ""  # tells the variables of one pass from another's

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.tokens = solid(tokens(plain))
        self.out: list[str] = []
        self.fresh = 0
        self.last: Token | None = None
        self.outermost: str | None = None

    def text(self) -> str:
        """The text, written anew."""
        self._copy_until(0, len(self.tokens), self.outermost)
        return " ".join(self.out)

    def block(self) -> list[Triple]:
        """The triples of a text that is nothing but triples."""
        found: list[Triple] = []
        place = depth = 0
        for at, token in enumerate([*self.tokens, Token("mark", ".", len(self.plain), len(self.plain))]):
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if token.text == "." and token.kind == "mark" and depth == 0:
                found += self.triples_of(self.tokens[place:at]) if at > place else []
                place = at + 1
        return found

    def _put(self, part: Sequence[Token]) -> None:
        """Copies tokens; what had no blank between has none."""
        for token in part:
            if self.out and self.last is not None and self.last.end == token.start and self.out[-1].endswith(self.last.text):
                self.out[-1] += token.text
            else:
                self.out.append(token.text)
            self.last = token

    def _copy_until(self, place: int, end: int, window: str | None) -> None:
        """What is no group goes as it is (the query's head, expressions, solution modifiers); groups inside it are walked."""
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
        """``{ … }`` that begins at ``place``; returns the place after it."""
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
            elif token.text == ".":  # whatever writes triples ends them; rdflib reads no full stop between groups
                place += 1
            elif word in _GROUP_WORDS:
                self._put([token])
                place += 1
            else:
                place = self._triples(place, end, window)
        self.out.append("}")
        return end + 1

    def _entered(self, place: int, window: str | None) -> tuple[int, str | None]:
        """What the beginning of a group says of it: (where it goes on, its window)."""
        return place, window

    def _values(self, place: int) -> int:
        opening = next(i for i in range(place, len(self.tokens)) if self.tokens[i].text == "{")
        end = closing(self.tokens, opening) + 1
        self._put(self.tokens[place:end])
        return end

    def _graph(self, place: int, window: str | None) -> int:
        """``GRAPH name { … }``."""
        raise NotImplementedError

    def _expression(self, place: int, end: int, window: str | None) -> int:
        """FILTER or BIND with its expression; the groups of EXISTS inside it are walked."""
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
        """The triples up to the next full stop or keyword."""
        stop, depth = place, 0
        while stop < end:
            token = self.tokens[stop]
            if depth == 0 and (token.text in (".", "{") or token.word() in _GROUP_WORDS):
                break
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            stop += 1
        self.out.append(self._written(self.tokens[place:stop], window))
        return stop

    def _written(self, part: Sequence[Token], window: str | None) -> str:
        """What becomes of triples."""
        raise NotImplementedError

    # ------------------------------------------------------------ ; , [ ] ( ) written out
    def triples_of(self, part: Sequence[Token]) -> list[Triple]:
        """``s p o ; q r , t`` as its triples."""
        triples: list[Triple] = []
        subject, place = self.node(part, 0, triples)
        self._properties(part, place, subject, triples)
        return triples

    def _properties(self, part: Sequence[Token], place: int, subject: str, triples: list[Triple]) -> int:
        while place < len(part) and part[place].text not in ("]", "|}"):
            if part[place].text == ";":
                place += 1
                continue
            verb, place = read_path(part, place)
            while True:
                item, place = self.node(part, place, triples)
                triples.append((subject, verb, item))
                place = self._annotations(part, place, f"{subject} {verb.text} {item}", triples)
                if place >= len(part) or part[place].text != ",":
                    break
                place += 1
        return place

    def node(self, part: Sequence[Token], place: int, triples: list[Triple]) -> tuple[str, int]:
        """A subject or object: (text, place after it); the triples of brackets are added."""
        token = part[place]
        if token.text == "[" and token.kind == "mark":
            node = self._fresh()
            return node, self._properties(part, place + 1, node, triples) + 1
        if token.text == "(" and token.kind == "mark":
            return self._list(part, place + 1, triples)
        if token.text == "<<":
            return self._quoted(part, place + 1, triples)
        if token.kind == "blank":
            return f"?{PREFIX}{token.text[2:].encode().hex()}", place + 1
        text, place = token.text, place + 1
        if token.text in ("+", "-") and place < len(part):  # a signed number
            text, place = text + part[place].text, place + 1
        if place < len(part) and part[place].kind == "language":
            return text + part[place].text, place + 1
        if place < len(part) and part[place].text == "^^":
            return f"{text}^^{part[place + 1].text}", place + 2
        return text, place

    def _quoted(self, part: Sequence[Token], place: int, triples: list[Triple]) -> tuple[str, int]:
        """``<<( s p o )>>`` as it is, and ``<< s p o ~ r >>`` as the node that reifies it."""
        whole = part[place].text == "("
        subject, place = self.node(part, place + whole, triples)
        verb, place = part[place].text, place + 1
        item, place = self.node(part, place, triples)
        triple = f"{subject} {verb} {item}"
        if whole:
            return f"<<( {triple} )>>", place + 2
        node = self._fresh()
        if part[place].text == "~":
            node, place = self._reifier(part, place + 1, triples)
        triples.append((node, step(_REIFIES), f"<<( {triple} )>>"))
        return node, place + 1

    def _reifier(self, part: Sequence[Token], place: int, triples: list[Triple]) -> tuple[str, int]:
        """What ``~`` names, or a new node."""
        if place < len(part) and (part[place].kind in ("iri", "name", "variable", "blank") or part[place].text == "["):
            return self.node(part, place, triples)
        return self._fresh(), place

    def _annotations(self, part: Sequence[Token], place: int, triple: str, triples: list[Triple]) -> int:
        """``~ r {| … |}`` behind an object: the nodes that reify the triple, and what is said of them."""
        node = ""
        while place < len(part) and part[place].text in ("~", "{|"):
            named = part[place].text == "~"
            if named or not node:
                node, place = self._reifier(part, place + 1, triples) if named else (self._fresh(), place)
                triples.append((node, step(_REIFIES), f"<<( {triple} )>>"))
            if not named:
                place = self._properties(part, place + 1, node, triples) + 1
                node = ""
        return place

    def _list(self, part: Sequence[Token], place: int, triples: list[Triple]) -> tuple[str, int]:
        items: list[str] = []
        while part[place].text != ")":
            item, place = self.node(part, place, triples)
            items.append(item)
        rest = f"<{_RDF}nil>"
        for item in reversed(items):
            node = self._fresh()
            triples += [(node, step(f"<{_RDF}first>"), item), (node, step(f"<{_RDF}rest>"), rest)]
            rest = node
        return rest, place + 1

    def _fresh(self) -> str:
        self.fresh += 1
        return f"?{PREFIX}{self.mark}{self.fresh}_"
