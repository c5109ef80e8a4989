"""BNODE() with stable names: ISTREAM and DSTREAM must know which node of an instant is the same in the previous instant.

By our definition (docs/language.md) a node depends on the bindings of the row where it is created, independent of the instant, or
on the row and the label. So the call gets all variables of the query as arguments, and the name of the node is derived from them.
Before and after::

    BIND (BNODE() AS ?k)
    BIND (<urn:cqels-opt:blank>("17", COALESCE(?a, <urn:cqels-opt:unbound>), COALESCE(?x, <urn:cqels-opt:unbound>)) AS ?k)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import takewhile

from cqels_opt.verify.literals import literal_parts
from cqels_opt.verify.tokens import Token, closing

BLANK = "urn:cqels-opt:blank"
_UNBOUND = "<urn:cqels-opt:unbound>"
_MADE = "_:made"
_LABEL = '"label"'
_HEADS = frozenset(("SELECT", "GROUP", "HAVING", "ORDER"))
_GROUPING = frozenset(("GROUP", "COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"))


def blank_node(site: str, *arguments: str) -> str | None:
    """The node of a call at a position of the text, or of a label (first argument); None, an error, if the label is no string."""
    if site == _LABEL and (not arguments[0].startswith('"') or any(literal_parts(arguments[0])[1:])):
        return None
    bound = [term for term in arguments if not term.startswith(_MADE)]
    return _MADE + hashlib.sha256(repr((site, bound)).encode()).hexdigest()[:24]


def with_blank_nodes(found: Sequence[Token]) -> list[tuple[int, int, str]]:
    """The edits that pass all variables to each BNODE(); none where rows are groups, which hide the bindings of their members."""
    calls = [place for place, token in enumerate(found) if token.word() == "BNODE" and found[place + 1].text == "("]
    if any(_in_head(found, place) for place in calls) and any(token.word() in _GROUPING for token in found):
        return []
    names = sorted({token.text[1:] for token in found if token.kind == "variable"})
    edits: list[tuple[int, int, str]] = []
    for place in calls:
        end = closing(found, place + 1)
        made = _assigned_variable(found, end)
        bound = ", ".join(f"COALESCE(?{name}, {_UNBOUND})" for name in names if name != made)
        first = f'"{found[place].start}"' if end == place + 2 else _LABEL
        start = f"<{BLANK}>({first}" + (", " if end > place + 2 else "")
        edits += [
            (found[place].start, found[place + 1].end, start),
            (found[end].start, found[end].start, f", {bound}" * bool(bound)),
        ]
    return edits


def _assigned_variable(found: Sequence[Token], end: int) -> str:
    """The variable that the expression around a call is assigned to, which the row does not bind yet."""
    depth, place = 0, end + 1
    while place < len(found) and depth >= 0 and found[place].text not in "{}":
        if depth == 0 and found[place].word() == "AS":
            return found[place + 1].text[1:]
        depth += {"(": 1, ")": -1}.get(found[place].text, 0) if found[place].kind == "mark" else 0
        place += 1
    return ""


def _in_head(found: Sequence[Token], place: int) -> bool:
    """Whether a call is in SELECT or after the body: a keyword of these clauses precedes it, with no brace between."""
    return any(token.word() in _HEADS for token in takewhile(lambda token: token.text not in ("{", "}"), reversed(found[:place])))
