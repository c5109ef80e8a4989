"""Bag semantics on a set-based SPARQL engine: windows are bags in which a triple may occur twice, but RDF graphs are sets.

The content of window w is stored as several graphs: copy i holds the triples that the window holds at least i times. By the
definition of UNION, a triple pattern matched over the bag is the pattern over copy 1 UNION the pattern over copy 2 … So if a
window holds some triple k times, each *triple pattern* t inside ``GRAPH <w> { … }`` becomes

    { { GRAPH <w> { t } } UNION { GRAPH <w#2> { t } } UNION … UNION { GRAPH <w#k> { t } } }

separately per pattern, because a basic graph pattern over a bag is the join of its triple patterns over the bag. Where the graphs
of a window's elements have copies, GRAPH over all of them becomes a UNION over the existing ones. ``;`` ``,`` ``[ ]`` and lists are
expanded first; a blank node becomes a variable ``?_bag_…``, because patterns may share it, which ``*`` does not list and
:func:`~cqels_opt.verify.heads.hidden` recognizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from cqels_opt.verify.dialects import DEFAULT, HERE, OF_ELEMENTS, graph_copy, window_graph
from cqels_opt.verify.heads import check_rows_are_not_counted, with_listed_variables
from cqels_opt.verify.path_syntax import Path
from cqels_opt.verify.tokens import Token
from cqels_opt.verify.triples import TripleReader
from cqels_opt.verify.walker import Walker, as_written


def over_copies(
    plain: str, copies: Mapping[str, int], merged: Mapping[str, int] | None, elements: Mapping[str, int] | None
) -> str:
    """The plain text with its triple patterns in windows expanded over copies.

    ``copies`` is the number of copies per window, ``merged`` per graph that merges windows with static data, and ``elements`` per
    existing graph of elements.
    """
    graphs = {window_graph(name): k for name, k in copies.items()} | dict(merged or {}) | dict(elements or {})
    many = {f"<{graph}>": (graph, k) for graph, k in graphs.items() if k > 1}
    named = [f"<{graph}>" for graph in elements or ()]
    if not many and HERE not in plain:
        return plain
    text = _Spreader(with_listed_variables(plain), many, named).text()
    check_rows_are_not_counted(plain, text)
    return text


def written_out(triples: str) -> list[tuple[str, str, str]]:
    """The triples of a block with ``;`` ``,`` ``[ ]`` and lists expanded; blank nodes become hidden variables."""
    return [(subject, verb.written(), item) for subject, verb, item in TripleReader(triples).block()]


def parts_of(term: str) -> tuple[str, str, str]:
    """Subject, predicate and object of ``<<( s p o )>>`` as written."""
    reader = TripleReader(term)
    part = reader.tokens
    subject, place = reader.node(part, 2, [])
    item, _ = reader.node(part, place + 1, [])
    return subject, part[place].text, item


class _Spreader(Walker):
    def __init__(self, plain: str, many: Mapping[str, tuple[str, int]], elements: Sequence[str]) -> None:
        super().__init__(plain)
        self.many, self.elements = dict(many), elements
        self.outermost = f"<{DEFAULT}>" if f"<{DEFAULT}>" in self.many else None

    def _entered(self, place: int, window: str | None) -> tuple[int, str | None]:
        if self.tokens[place + 1].text != f"<{HERE}>":
            return place, window
        window = self.tokens[place + 5].text  # GRAPH <here> { } GRAPH <window> { }
        self.many.setdefault(window, (window[1:-1], 1))
        return place + 8, window

    def _graph(self, place: int, window: str | None) -> int:
        """A window with copies loses its GRAPH keyword, because each of its patterns gets its own."""
        name = self.tokens[place + 1].text
        if name.startswith(f"?{OF_ELEMENTS}") and self.elements:
            return self._over_elements(place, name)
        if name in self.many:
            return self._group(place + 2, name)
        self.out += ["GRAPH", name]
        return self._group(place + 2, None)

    def _over_elements(self, place: int, variable: str) -> int:
        """GRAPH over the graphs of elements, some with copies: one alternative per graph name."""
        end = place
        for number, graph in enumerate(self.elements):
            self.out += ["UNION"] * (number > 0) + [f"{{ VALUES {variable} {{ {graph} }}"]
            if graph not in self.many:
                self.out += ["GRAPH", graph]
            end = self._group(place + 2, graph if graph in self.many else None)
            self.out.append("}")
        return end

    def _written(self, part: Sequence[Token], window: str | None) -> str:
        if window is None:
            return as_written(part) + " ."
        if self.many[window][1] == 1:
            return f"GRAPH {window} {{ {as_written(part)} }}"
        return " ".join(self._spread(*triple, window) for triple in self.triples_of(part))

    def _spread(self, subject: str, verb: Path, item: str, window: str) -> str:
        name, copies = self.many[window]
        if verb.kind == "repeated":  # a path returns a set of pairs: the multiplicity of triples is irrelevant
            copies = 1
        triple = f"{subject} {verb.written()} {item}"
        parts: Iterator[str] = (f"{{ GRAPH <{graph_copy(name, i)}> {{ {triple} }} }}" for i in range(1, copies + 1))
        if name == DEFAULT:
            parts = chain([f"{{ {triple} }}"], islice(parts, 1, None))
        return "{ " + " UNION ".join(parts) + " }"
