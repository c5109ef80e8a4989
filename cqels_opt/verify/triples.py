"""Triples of a SPARQL text, with ``;`` ``,`` ``[ ]``, lists, quoted triples and annotations expanded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cqels_opt.verify.heads import PREFIX
from cqels_opt.verify.path_syntax import Path, read_path, step
from cqels_opt.verify.tokens import Token, solid, tokens

Triple: TypeAlias = tuple[str, Path, str]
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_REIFIES = f"<{_RDF}reifies>"


class TripleReader:
    """Reads triples from the tokens of a text; brackets become fresh variables."""

    mark = ""  # distinguishes the variables of different passes

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.tokens = solid(tokens(plain))
        self.fresh = 0

    def block(self) -> list[Triple]:
        """The triples of a text that consists only of triples."""
        found: list[Triple] = []
        place = depth = 0
        for at, token in enumerate([*self.tokens, Token("mark", ".", len(self.plain), len(self.plain))]):
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if token.text == "." and token.kind == "mark" and depth == 0:
                found += self.triples_of(self.tokens[place:at]) if at > place else []
                place = at + 1
        return found

    def triples_of(self, part: Sequence[Token]) -> list[Triple]:
        """The triples of ``s p o ; q r , t``."""
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
        """A subject or object: (text, position after it); the triples of brackets are added."""
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
        """``<<( s p o )>>`` unchanged, and ``<< s p o ~ r >>`` as the node that reifies it."""
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
        """The node after ``~``, or a fresh node."""
        if place < len(part) and (part[place].kind in ("iri", "name", "variable", "blank") or part[place].text == "["):
            return self.node(part, place, triples)
        return self._fresh(), place

    def _annotations(self, part: Sequence[Token], place: int, triple: str, triples: list[Triple]) -> int:
        """``~ r {| … |}`` after an object: the nodes that reify the triple, and their properties."""
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
