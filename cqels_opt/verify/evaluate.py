"""The independent evaluation: at each instant of E, the query's own text over the contents of the windows by definition.

It shares with the engine only the positions of the window clauses in the text (``Query.clauses``) and their values
(``Query.windows``). Window contents are computed from scratch at each instant (contents.py), the text is rewritten to plain
SPARQL (rewrite.py, bags.py), pyoxigraph or rdflib evaluates it (on_pyoxigraph.py, on_rdflib.py), and R/I/DSTREAM compare the bags
of consecutive instants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from cqels_opt.errors import InputError, QueryError
from cqels_opt.query.algebra import Query, Window
from cqels_opt.verify.bags import over_copies
from cqels_opt.verify.contents import content
from cqels_opt.verify.dialects import DEFAULT, GRAPHS, NAME, element_graph, graph_copy, window_graph
from cqels_opt.verify.forms import maker
from cqels_opt.verify.instants import instants, t0_of
from cqels_opt.verify.model import Answers, Element, Inputs, Options, Row, Triple, bare
from cqels_opt.verify.on_pyoxigraph import Oxigraph
from cqels_opt.verify.on_rdflib import Rdflib
from cqels_opt.verify.quoted import is_named, makes_triples, unnamed
from cqels_opt.verify.rewrite import NOW_MARK, Plain, at_instant, plain_sparql
from cqels_opt.verify.sparql_engine import SparqlEngine
from cqels_opt.verify.subselects import evaluated_once
from cqels_opt.verify.tokens import solid, tokens

_LEXICAL = frozenset(
    ("STR", "STRLEN", "STRDT", "SAMETERM", "DATATYPE", "GROUP_CONCAT", "MD5", "SHA1", "SHA256", "SHA384", "SHA512")
)
"""Functions that read the lexical form of a number or time (the others take strings, and these functions produce them)."""


def evaluate(query: Query, inputs: Inputs, options: Options, only: Iterable[int] | None = None) -> Answers:
    """All answers of the query over finite inputs, as (time, op, row) with their counts.

    ``only`` restricts the answers (not the instants) to some times, to re-evaluate only these.
    """
    answers: Answers = Counter()
    for at, sign, rows in stepwise(query, inputs, options, only):
        for row, count in rows.items():
            answers[at, sign, row] += count
    return answers


def stepwise(
    query: Query, inputs: Inputs, options: Options, only: Iterable[int] | None = None
) -> Iterator[tuple[int, str, Counter[Row]]]:
    """The answers instant by instant: the time, ``+``, ``-`` or ``=``, and the emitted rows."""
    if inputs.later:
        yield from _over_versions(query, inputs, options, only)
        return
    streams = _sorted_streams(query, inputs)
    times = _times(query, streams)
    every = instants(query, times, options)
    wanted = set(every if only is None else only)
    operator = options.operator or query.operator or "istream"
    plain = plain_sparql(query)
    _check_nodes(query, plain, operator)
    if any(token.text.upper() == "SERVICE" for token in solid(tokens(query.text))):
        raise QueryError(
            "verify cannot check SERVICE: the operators of other packages have no independent evaluation", query.text, 1, 1
        )
    if makes_triples(solid(tokens(query.text))) and any(map(is_named, _subjects(inputs))):
        raise QueryError("verify cannot check triple terms, <<( )>>, over RDF-star files", query.text, 1, 1)
    engine = Rdflib() if chosen(query, inputs, options) == "rdflib" else Oxigraph()
    default = _load(engine, plain, inputs)
    made = maker(plain.form, engine, plain.prologue, query)
    text = evaluated_once(engine, plain)
    bag = options.duplicates == "bag"
    own = {w.name: _Graph(engine, window_graph(w.name), bag) for w in query.windows}
    merged = {name: _Graph(engine, name, bag) for name in plain.merged}
    for graph in merged.values():
        for triple in dict.fromkeys(default):
            graph.count(triple, +1)
    contents = [
        _WindowContent(
            w,
            streams[bare(w.stream)],
            [own[w.name], *(merged[g] for g, windows in plain.merged.items() if w.name in windows)],
            _ElementGraphs(engine, w.name, bag) if plain.element_graphs else None,
        )
        for w in query.windows
    ]

    before: Counter[Row] | None = Counter()  # None: the instant was not evaluated
    for at, following in zip(every, [*every[1:], None]):
        changed = [h.move(content(h.window, times[h.window.name], at, t0_of(h.window, options))) for h in contents]
        if at not in wanted and following not in wanted:
            before = None
            continue
        if before is None or at == every[0] or any(changed) or NOW_MARK in text:
            copies = {name: graph.copies() for name, graph in own.items()}
            engine.times = {
                t: e.t for e in sorted((e for h in contents for e in h.elements_now()), key=lambda e: e.t) for t in e.all
            }
            elements = {name: k for h in contents if h.of_elements is not None for name, k in h.of_elements.copies().items()}
            spread = over_copies(at_instant(text, at), copies, {name: g.copies() for name, g in merged.items()}, elements)
            current = _unnamed(made(engine.select(spread), chain(default, *(graph.counts for graph in own.values()))))
        else:
            current = before
        if at in wanted:
            yield at, *_emitted(operator, current, before or Counter())
        before = current


def _over_versions(
    query: Query, inputs: Inputs, options: Options, only: Iterable[int] | None
) -> Iterator[tuple[int, str, Counter[Row]]]:
    """Static data that change: each instant over the version valid at it, compared with the result of the previous instant."""
    operator = options.operator or query.operator or "istream"
    _check_nodes(query, plain_sparql(query), operator)
    every = moments(query, inputs, options)
    wanted = set(every if only is None else only)
    needed = {at for at, following in zip(every, [*every[1:], None]) if at in wanted or following in wanted}
    versions = [(inputs.default, inputs.graphs), *((version.default, version.graphs) for version in inputs.later)]
    number = {at: sum(version.at <= at for version in inputs.later) for at in every}
    before: Counter[Row] = Counter()
    for place, (default, graphs) in enumerate(versions):
        selected = needed & {at for at in every if number[at] == place}
        static = replace(inputs, default=default, graphs=graphs, later=())
        for at, _, current in stepwise(query, static, replace(options, operator="rstream"), selected) if selected else ():
            if at in wanted:
                yield at, *_emitted(operator, current, before)
            before = current


def _check_nodes(query: Query, plain: Plain, operator: str) -> None:
    """Raises QueryError if bags of two instants are not comparable."""
    if operator != "rstream" and any(token.word() == "BNODE" for token in tokens(plain.text)):
        raise QueryError("verify checks BNODE() with groups in RSTREAM alone: the node of a group has no name", query.text, 1, 1)


def _unnamed(rows: Counter[Row]) -> Counter[Row]:
    """The rows with the names of quoted triples replaced by the triples."""
    return Counter({frozenset((name, unnamed(term)) for name, term in row): count for row, count in rows.items()})


def _subjects(inputs: Inputs) -> Iterator[str]:
    """The subjects of all triples."""
    streamed = (t for elements in inputs.streams.values() for e in elements for t in e.all)
    yield from (t[0] for t in chain(streamed, inputs.default, *inputs.graphs.values()))


def moments(query: Query, inputs: Inputs, options: Options) -> list[int]:
    """The instants of E, ascending."""
    return instants(query, _times(query, _sorted_streams(query, inputs)), options)


def held_at(query: Query, inputs: Inputs, options: Options, at: int) -> dict[str, tuple[Element, ...]]:
    """The elements that each window holds at an instant."""
    streams = _sorted_streams(query, inputs)
    times = _times(query, streams)
    found: dict[str, tuple[Element, ...]] = {}
    for window in query.windows:
        places = content(window, times[window.name], at, t0_of(window, options))
        found[window.name] = tuple(streams[bare(window.stream)][places.start : places.stop])
    return found


def chosen(query: Query, inputs: Inputs, options: Options) -> Literal["pyoxigraph", "rdflib"]:
    """The engine that evaluates: pyoxigraph, unless the options name another or pyoxigraph would be wrong.

    It would be wrong if it identified different terms of the input, or if functions read another lexical form than the input's.
    """
    if options.evaluator != "auto":
        return options.evaluator
    if any(t.text in ("<<", "{|") or t.word() in ("TRIPLE", "ISTRIPLE") for t in tokens(query.text)):
        return "pyoxigraph"  # rdflib has no triple terms
    engine = _knowing(query, inputs)
    wrong = engine.confused or (engine.lossy and any(t.word() in _LEXICAL for t in tokens(query.text)))
    return "rdflib" if wrong else "pyoxigraph"


def confused(query: Query, inputs: Inputs) -> tuple[str, ...]:
    """Terms of the input that pyoxigraph reads as one; empty if it reads all of them as different terms."""
    return min((tuple(sorted(texts)) for texts in _knowing(query, inputs).confused), default=())


def _knowing(query: Query, inputs: Inputs) -> Oxigraph:
    """A pyoxigraph engine that has seen all terms of the input."""
    read = {bare(w.stream) for w in query.windows}
    engine = Oxigraph()
    engine.know(t for name, elements in inputs.streams.items() if bare(name) in read for e in elements for t in e.all)
    for default, graphs in ((inputs.default, inputs.graphs), *((version.default, version.graphs) for version in inputs.later)):
        for triples in (default, *graphs.values()):
            engine.know(triples)
    return engine


def _load(engine: SparqlEngine, plain: Plain, inputs: Inputs) -> list[Triple]:
    """Loads the static graphs and returns the default graph; with FROM clauses, the union of the named graphs."""
    graphs = {bare(name): triples for name, triples in inputs.graphs.items()}

    def resolved(written: str) -> str:
        ((_, iri),) = next(iter(engine.select(f"{plain.prologue} SELECT ?g {{ BIND({written} AS ?g) }}")))
        return bare(iri)

    seen = graphs if plain.named is None else set(map(resolved, plain.named))
    for name, triples in graphs.items():
        if name in seen:
            engine.add(name, triples)
            engine.add(GRAPHS, [(f"<{name}>", f"<{NAME}>", f"<{name}>")])
    default = [*inputs.default] if not plain.default and plain.named is None else []
    for written in plain.default:
        default += graphs.get(resolved(written), [])
    engine.add(None, default)
    return default


def _emitted(operator: str, current: Counter[Row], before: Counter[Row]) -> tuple[str, Counter[Row]]:
    """RSTREAM: the bag. ISTREAM: its difference from the bag of the previous instant. DSTREAM: the reverse difference."""
    match operator:
        case "rstream":
            return "=", current
        case "istream":
            return "+", current - before
        case "dstream":
            return "-", before - current
    raise InputError(f"verify cannot check the output operator {operator!r}: it knows RSTREAM, ISTREAM and DSTREAM alone")


def _sorted_streams(query: Query, inputs: Inputs) -> dict[str, list[Element]]:
    """The elements of each stream that the query reads, ordered by time, and by arrival within one time."""
    given = {bare(name): elements for name, elements in inputs.streams.items()}
    missing = [w.stream for w in query.windows if bare(w.stream) not in given]
    if missing:
        raise InputError(f"the query reads stream {missing[0]}, which is not given: add --stream {bare(missing[0])} PATH")
    return {name: sorted(given[name], key=lambda e: e.t) for name in {bare(w.stream) for w in query.windows}}


def _times(query: Query, streams: dict[str, list[Element]]) -> dict[str, list[int]]:
    """The elements' times by window."""
    return {w.name: [e.t for e in streams[bare(w.stream)]] for w in query.windows}


@dataclass(slots=True)
class _Graph:
    """The current contents of windows as graphs of a SPARQL engine: copy i holds the triples that occur at least i times."""

    engine: SparqlEngine
    name: str
    bag: bool
    counts: Counter[Triple] = field(default_factory=Counter)
    of_count: Counter[int] = field(default_factory=Counter)

    def copies(self) -> int:
        """The number of copies of the most frequent triple; 1 if the content is a set or empty."""
        return max(self.of_count, default=1)

    def count(self, triple: Triple, change: int) -> None:
        """Adds (+1) or removes (-1) a triple."""
        self.take({triple: change})

    def take(self, changes: Mapping[Triple, int]) -> None:
        """Adds triples (positive counts) and removes triples (negative counts)."""
        added: dict[int, list[Triple]] = {}
        removed: dict[int, list[Triple]] = {}
        for triple, change in changes.items():
            had = self.counts[triple]
            self.counts[triple] = has = had + change
            if not self.bag:
                had, has = min(had, 1), min(has, 1)
            for copy in range(had + 1, has + 1):
                added.setdefault(copy, []).append(triple)
            for copy in range(has + 1, had + 1):
                removed.setdefault(copy, []).append(triple)
            if self.bag:
                self._recount(had, has)
            if not has:
                del self.counts[triple]
        for copy, triples in removed.items():
            self.engine.remove(self._copy(copy), triples)
        for copy, triples in added.items():
            self.engine.add(self._copy(copy), triples)

    def _recount(self, had: int, has: int) -> None:
        self.of_count[had] -= 1
        self.of_count[has] += 1
        for count in (had, has):
            if not count or not self.of_count[count]:
                del self.of_count[count]

    def _copy(self, copy: int) -> str | None:
        """A copy's name; the first copy of the default graph is the default graph itself."""
        return None if self.name == DEFAULT and copy == 1 else graph_copy(self.name, copy)


@dataclass(slots=True)
class _ElementGraphs:
    """The graphs of a window's elements by name, and the graphs that list them."""

    engine: SparqlEngine
    window: str
    bag: bool
    graphs: dict[str, _Graph] = field(default_factory=dict)
    listed: list[_Graph] = field(default_factory=list)

    def copies(self) -> dict[str, int]:
        """The number of copies of each non-empty graph."""
        return {iri: graph.copies() for iri, graph in self.graphs.items() if graph.counts}

    def count(self, element: Element, change: int) -> None:
        """Adds (+1) or removes (-1) an element."""
        if element.graph is None:
            return
        iri = element_graph(self.window, bare(element.graph))
        if not self.listed:
            self.listed = [_Graph(self.engine, name, False) for name in (element_graph(self.window), GRAPHS)]
        for listed, item in zip(self.listed, (element.graph, f"<{iri}>")):
            listed.count((f"<{iri}>", f"<{NAME}>", item), change)
        graph = self.graphs.setdefault(iri, _Graph(self.engine, iri, self.bag))
        graph.take(dict.fromkeys(element.triples, change))


@dataclass(slots=True)
class _WindowContent:
    """The current elements of a window, and the graphs that contain them."""

    window: Window
    elements: list[Element]
    graphs: list[_Graph]
    of_elements: _ElementGraphs | None = None
    places: range = range(0)

    def elements_now(self) -> Iterator[Element]:
        """The current elements."""
        return (self.elements[place] for place in self.places)

    def move(self, places: range) -> bool:
        """Removes expired elements and adds new ones; returns whether the content changed."""
        changes: Counter[Triple] = Counter()
        for old, other, change in ((self.places, places, -1), (places, self.places, +1)):
            for place in _outside(old, other):
                for triple in self.elements[place].all:
                    changes[triple] += change
                if self.of_elements is not None:
                    self.of_elements.count(self.elements[place], change)
        for graph in self.graphs:
            graph.take(changes)
        changed, self.places = places != self.places, places
        return changed


def _outside(places: range, others: range) -> Iterator[int]:
    """The positions in ``places`` that are not in ``others``."""
    yield from range(places.start, min(places.stop, others.start))
    yield from range(max(places.start, others.stop), places.stop)
