"""The head of a query of another form than SELECT, rewritten so that the text asks for the solutions. Before and after::

CONSTRUCT { ?p :met [ :in ?l ] } WHERE { ?p :at ?l } LIMIT 5
SELECT ?l ?p WHERE { ?p :at ?l } LIMIT 5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cqels_opt.query.algebra import Query
from cqels_opt.verify.tokens import Token, closing

PREFIX = "_bag_"
"""What the names of variables begin with that are made here, in walker.py and in subselects.py."""
_ENDS = frozenset(("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES"))


def hidden(variable: str) -> bool:
    """Whether a variable was made on the way, so that no answer shows it."""
    return variable.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class Form:
    """What a query's text says of its form: the word, and what stands behind it (a template, or what is described)."""

    word: str = "SELECT"
    text: str = ""


SELECT = Form()


def asked(found: list[Token], place: int, query: Query) -> tuple[Form, tuple[int, int, str] | None]:
    """The form whose word stands at a place of the text's tokens, and the edit that makes the query a SELECT."""
    word = found[place].word()
    if word == "SELECT":
        return SELECT, None
    names = " ".join(f"?{v.name}" for v in query.variables) or f"(1 AS ?{PREFIX}none)"
    if word == "CONSTRUCT":
        opening = next(p for p in range(place, len(found)) if found[p].text == "{")
        short = any(t.word() in ("FROM", "WHERE") for t in found[place:opening])
        end = closing(found, opening)
        inside = _plain(found[opening + 1 : end]) if short else found[opening + 1 : end]
        text = " ".join(t.text for t in inside)
        stop = found[place].end if short else found[end].end
        return Form(word, text), (found[place].start, stop, f"SELECT {names}")
    end = next((p for p in range(place + 1, len(found)) if found[p].word() in _ENDS or found[p].text == "{"), len(found))
    items = [t.text for t in found[place + 1 : end] if t.kind in ("variable", "iri", "name") or t.text == "*"]
    without = not any(t.text == "{" for t in found[place:])
    return Form(word, " ".join(items)), (found[place].start, found[end - 1].end, f"SELECT {names}" + " { }" * without)


def _plain(inside: Sequence[Token]) -> list[Token]:
    """The triples of a group without the windows that they stand in."""
    kept: list[Token] = []
    place = 0
    while place < len(inside):
        token = inside[place]
        if token.word() in ("GRAPH", "STREAM", "WINDOW"):
            place = next(p for p in range(place, len(inside)) if inside[p].text == "{")
        elif token.text == "}":
            kept.append(Token("mark", ".", token.start, token.end))
        else:
            kept.append(token)
        place += 1
    return kept
