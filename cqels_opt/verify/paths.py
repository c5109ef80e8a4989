"""Expands property paths, so that multiplicities follow SPARQL 1.1 §18.2.2.4 and §18.4 in every engine.

pyoxigraph counts the matches of a path of fixed length once if both ends are known, and has no path of length zero at a term that
is not a node. So only ``*``, ``+`` and ``?``, whose pairs are a set by definition, are left to the engine. Before and after::

    ?x (:p|^:q)/:r ?y                 { ?x :p ?_bag_p1_ . } UNION { ?_bag_p1_ :q ?x . } ?_bag_p1_ :r ?y .
    ?x !(:p|^:q) ?y                   { ?x ?_bag_p1_ ?y FILTER(?_bag_p1_ NOT IN (:p)) } UNION { … }
    ?x :p* :a                         { BIND(:a AS ?x) } UNION { ?x (:p)* :a FILTER(!SAMETERM(?x, :a)) }

Within ``GRAPH ?g`` a path of length zero matches once in each graph that :data:`~cqels_opt.verify.dialects.GRAPHS` lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from cqels_opt.verify.dialects import GRAPHS, NAME
from cqels_opt.verify.heads import check_rows_are_not_counted, with_listed_variables
from cqels_opt.verify.path_syntax import Path
from cqels_opt.verify.tokens import Token
from cqels_opt.verify.walker import Walker


def expand_paths(plain: str) -> str:
    """The plain text with expanded paths; unchanged without paths or if it is not SPARQL, which the engine reports."""
    try:
        writer = _Writer(with_listed_variables(plain))
        text = writer.text()
    except (IndexError, ValueError):  # the text ends too early, or does not begin like a path
        return plain
    if not writer.found:
        return plain
    check_rows_are_not_counted(plain, text)
    return text


class _Writer(Walker):
    """Walks over all groups of a text and expands the paths of their triples."""

    mark = "p"

    def __init__(self, plain: str) -> None:
        super().__init__(plain)
        self.found = False
        self.graph = ""

    def _graph(self, place: int, window: str | None) -> int:
        name, outer = self.tokens[place + 1], self.graph
        self.out += ["GRAPH", name.text]
        self.graph = name.text
        end = self._group(place + 2, window)
        self.graph = outer
        return end

    def _written(self, part: Sequence[Token], window: str | None) -> str:
        triples = self.triples_of(part)
        self.found = self.found or any(verb.kind != "step" for _, verb, _ in triples)
        return " ".join(self._expanded(*triple) for triple in triples)

    # ------------------------------------------------------------ expansion of a path
    def _expanded(self, subject: str, path: Path, item: str) -> str:
        match path.kind:
            case "step":
                return f"{subject} {path.text} {item} ."
            case "inverse":
                return self._expanded(item, path.parts[0], subject)
            case "/":
                nodes = [subject, *(self._fresh() for _ in path.parts[1:]), item]
                return " ".join(self._expanded(s, p, o) for s, p, o in zip(nodes, path.parts, nodes[1:]))
            case "|":
                return " UNION ".join(f"{{ {self._expanded(subject, p, item)} }}" for p in path.parts)
            case "!":
                return self._negated(subject, path, item)
        return self._repeated(subject, path, item)

    def _negated(self, subject: str, path: Path, item: str) -> str:
        plain = [p.text for p in path.parts if p.kind == "step"]
        inverse = [p.parts[0].text for p in path.parts if p.kind == "inverse"]
        ways = []
        for s, names, o in ((subject, plain, item), (item, inverse, subject)):
            if names or (names is plain and not inverse):
                predicate = self._fresh()
                members = ", ".join("<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>" if n == "a" else n for n in names)
                past = f" FILTER({predicate} NOT IN ({members}))" if members else ""  # in pyoxigraph NOT IN () is never true
                ways.append(f"{{ {s} {predicate} {o}{past} }}")
        return " UNION ".join(ways)

    def _repeated(self, subject: str, path: Path, item: str) -> str:
        pattern = f"{subject} {path.written()} {item} ."
        ends = [end for end in (subject, item) if not end.startswith(("?", "$"))]
        if path.text == "+" or not ends:
            return pattern
        here = f"GRAPH <{GRAPHS}> {{ {self.graph} <{NAME}> {self.graph} }} " if self.graph.startswith(("?", "$")) else ""
        if len(ends) == 2:
            return (
                f"{{ {here}}}"
                if subject == item
                else f"{{ {subject} ({path.parts[0].written()}){'+' if path.text == '*' else ''} {item} }}"
            )
        variable = subject if item in ends else item
        rest = f"{{ {pattern} FILTER(!SAMETERM({variable}, {ends[0]})) }}"
        return f"{{ {{ {here}BIND({ends[0]} AS {variable}) }} UNION {rest} }}"
