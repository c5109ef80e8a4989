"""Lines and indentation for the text of a query. Only white space outside of strings changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

WIDTH: Final = 100
"""A group without inner groups that fits stays on one line."""
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"|<[^<>"{}|^`\\\s]*>'
_WORD = re.compile(rf'(?:{_QUOTED}|[^\s"{{}}])+|[{{}}]')
_ELEMENTS: Final = frozenset(("FILTER", "BIND", "OPTIONAL", "GRAPH", "MINUS", "VALUES", "SERVICE", "WINDOW", "STREAM"))
"""The words that begin an element of a group."""
Group: TypeAlias = "list[str | Group]"


def laid_out(text: str) -> str:
    """The text with a line for each element of a group, and a line of its own for what follows an outermost group.

    >>> print(laid_out('SELECT ?x WHERE { ?x <urn:a> "{" . GRAPH <urn:g> { ?x <urn:b> ?y . } FILTER (?y < 3) } LIMIT 2'))
    SELECT ?x WHERE {
      ?x <urn:a> "{" .
      GRAPH <urn:g> { ?x <urn:b> ?y . }
      FILTER (?y < 3)
    }
    LIMIT 2
    """
    found, end, words = list[str](), 0, _WORD.finditer(text)
    for word in words:
        if word[0] == "{":
            before = _trimmed(text[end : word.start()])
            group, end = _group(words)
            found.append(f"{before} {_shown(group, '')}")
    return "\n".join(filter(None, [*found, _trimmed(text[end:])]))


def _trimmed(text: str) -> str:
    return re.sub(r" *\n *", "\n", text.strip())


def _group(words: Iterator[re.Match[str]]) -> tuple[Group, int]:
    """The words and groups before the brace that closes a group, and the end of that brace."""
    found: Group = []
    for word in words:
        if word[0] == "}":
            return found, word.end()
        found.append(_group(words)[0] if word[0] == "{" else word[0])
    raise AssertionError("a group is not closed")


def _flat(group: Group) -> str:
    return " ".join(["{", *(part if isinstance(part, str) else _flat(part) for part in group), "}"])


def _shown(group: Group, margin: str) -> str:
    """A group on one line if it has no inner groups and fits, else with one line for each of its elements."""
    if all(isinstance(part, str) for part in group) and len(margin) + len(flat := _flat(group)) <= WIDTH:
        return flat
    inner = f"{margin}  "
    return "\n".join(["{", *(f"{inner}{line}" for line in _elements(group, inner)), f"{margin}}}"])


def _elements(group: Group, margin: str) -> Iterator[str]:
    """The elements of a group. Within brackets nothing begins or ends."""
    line, depth = list[str](), 0
    for part, after in zip(group, [*group[1:], ""]):
        if isinstance(part, str):
            if depth == 0 and part in _ELEMENTS and line:
                yield " ".join(line)
                line = []
            line[-1:] = [f"{line[-1]}{part}"] if line and part[0] == ")" else [*line[-1:], part]
            bare = re.sub(_QUOTED, "", part)
            depth += bare.count("(") - bare.count(")")
            ends = part == "."
        else:
            line.append(_flat(part) if depth else _shown(part, margin))
            ends = after != "UNION"
        if ends and depth == 0:
            yield " ".join(line)
            line = []
    if line:
        yield " ".join(line)
