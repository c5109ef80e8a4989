"""Makes LIMIT and OFFSET deterministic: SPARQL does not define which of several equal rows come first, SEMANTICS §6 does.

Ties are broken by term order, variable by variable in the order of variable names: over all variables of the group pattern with
an ORDER BY, over the selected variables without. Before and after::

    SELECT ?p { ?p :at ?l } ORDER BY ?l LIMIT 2
    SELECT ?p { ?p :at ?l } ORDER BY ?l ?l STR(?l) LANG(?l) ?p STR(?p) LANG(?p) LIMIT 2
"""

from __future__ import annotations

from cqels_opt.verify.tokens import Token, apply, closing, solid, tokens


def with_ties(plain: str) -> str:
    """The plain text with a total order wherever LIMIT or OFFSET applies."""
    found = solid(tokens(plain))
    depths = _depths(found)
    edits = []
    for place, token in enumerate(found):
        if token.word() not in ("LIMIT", "OFFSET") or _second_of_two(found, place):
            continue
        select = max(p for p in range(place) if found[p].word() == "SELECT" and depths[p] == depths[place])
        opening = next(p for p in range(select, place) if found[p].text == "{" and depths[p] == depths[place])
        end = closing(found, opening)
        head, group, modifiers = found[select + 1 : opening], found[opening : end + 1], found[end + 1 : place]
        ordered = any(t.word() == "ORDER" for t in modifiers)
        names = _in_scope(head, group, modifiers) if ordered else _selected(head, group)
        keys = " ".join(f"?{n} STR(?{n}) LANG(?{n})" for n in sorted(names))
        if keys:
            edits.append((token.start, token.start, f"{'' if ordered else 'ORDER BY '}{keys} "))
    return apply(plain, edits)


def _depths(found: list[Token]) -> list[int]:
    """The number of open ``{`` before each token."""
    depths, depth = [], 0
    for token in found:
        depth -= token.text == "}"
        depths.append(depth)
        depth += token.text == "{"
    return depths


def _second_of_two(found: list[Token], place: int) -> bool:
    """Whether this is the OFFSET of ``LIMIT 2 OFFSET 1`` (or vice versa)."""
    return place >= 2 and found[place - 2].word() in ("LIMIT", "OFFSET")


def _selected(head: list[Token], group: list[Token]) -> set[str]:
    """The variables of a SELECT clause: those outside brackets, and those after AS."""
    names: set[str] = set()
    depth = 0
    for place, token in enumerate(head):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if token.kind == "variable" and (depth == 0 or head[place - 1].word() == "AS"):
            names.add(token.text[1:])
        if token.text == "*" and depth == 0:
            names |= _variables(group)
    return names


def _in_scope(head: list[Token], group: list[Token], modifiers: list[Token]) -> set[str]:
    """The variables visible to ORDER BY: those of the group pattern, or the keys of GROUP BY; and those that SELECT computes."""
    grouped = [p for p, t in enumerate(modifiers) if t.word() == "GROUP"]
    if not grouped:
        return _variables(group) | _selected(head, group)
    stop = next((p for p, t in enumerate(modifiers) if t.word() in ("HAVING", "ORDER")), len(modifiers))
    return _selected(modifiers[grouped[0] + 2 : stop], []) | _selected(head, group)


def _variables(part: list[Token]) -> set[str]:
    return {t.text[1:] for t in part if t.kind == "variable"}
