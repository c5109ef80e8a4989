"""Random queries of the whole algebra, in every dialect, form and manner of a window.

:class:`Whole` adds what the makers of random_cases.py and merged_source_cases.py leave out because pyoxigraph departs from SPARQL 1.1
there:
these cases are held against the definitions (by_definition.py) alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from merged_source_cases import EXT, MergedMaker, SetMaker
from planted_answers import planted
from random_cases import EX, FIXED, MOVING, PEOPLE, PLACES, PREFIXES, Case, Group, Maker, Nested, Part, used

from cqels_opt.query.algebra import Query
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element


# ------------------------------------------------------------------ RSP-QL
@dataclass(frozen=True)
class RspCase(Case):
    """A case in RSP-QL."""

    header: str = ""

    @property
    def text(self) -> str:
        clauses = "\n".join(f"FROM NAMED WINDOW :{name} ON :{stream} [{window}]" for name, stream, window in self.windows)
        return f"{PREFIXES}{self.header}\n{self.asked}\n{clauses}\nWHERE {self.body}\n{' '.join(self.modifiers)}"

    def query(self) -> Query:
        parsed = parse(self.text, "rspql")
        return replace(parsed, windows=tuple(self.replaced.get(w.name, w) for w in parsed.windows))


class RspMaker(SetMaker):
    """Cases in RSP-QL: windows by name, or all of them, and in them the graphs of their elements."""

    def file(self, lateness: int) -> list[Element]:
        """Elements of which many are graphs with a name; what has several triples has one, since a file must give it one."""
        found, taken = [], set[tuple[str, int]]()
        number = self.rng.randrange(1000)  # rows of one graph and time are one element, also in another file
        for element in super().file(lateness):
            name = f"<{EX}g{number}-{self.rng.randrange(4)}>"
            if (name, element.t) in taken or (len(element.triples) == 1 and self.rng.random() < 0.4):
                name = f"<{EX}g{number}-{len(found)}x>" if len(element.triples) > 1 else ""
            taken.add((name, element.t))
            found.append(replace(element, graph=name or None))
        return found

    def in_window(self) -> Nested:
        rng = self.rng
        group = self.inside(MOVING)
        if rng.random() < 0.25:
            group = Group((Nested("GRAPH ?e" if rng.random() < 0.8 else "GRAPH ?g", (group,)),))
        return Nested(rng.choice(["WINDOW :u", "WINDOW :u", "WINDOW :z", "WINDOW :z", "WINDOW ?win"]), (group,))

    def window(self) -> str:
        rng = self.rng
        a, b, n = rng.choice([500, 1000, 2000, 3700]), rng.choice([400, 500, 1000]), rng.choice([1, 2, 3, 5, 12])
        return rng.choice([f"RANGE {a}ms STEP {b}ms"] * 3 + [f"ELEMENTS {n}", f"ELEMENTS {n} STEP {rng.choice([1, 2, 3])}"])

    def case(self) -> Case:
        case, rng = super().case(), self.rng
        every = " COMPUTED EVERY 500ms" if rng.random() < 0.15 else ""  # is said for all windows of a query
        kept = {} if every else {name: w for name, w in case.replaced.items() if w.kind != "star"}
        policies = {**case.settings.policies, "": rng.choice(["cc", "wc", "wc,nc", "p:700"])}
        endless = any(text.startswith("ELEMENTS") for name, _, text in case.windows if name not in kept)
        settings = replace(case.settings, policies=policies, drain=case.settings.drain and not endless)
        header = f"REGISTER {settings.operator.upper()} :out{every} AS" if rng.random() < 0.7 or every else ""
        return RspCase(case.select, case.windows, case.body, case.modifiers, case.world, settings, kept, header=header)


# ------------------------------------------------------------------ the whole algebra
class Whole(Maker):
    """Adds to a maker's language, and to its manner of saying windows, what the definitions can judge.

    Most terms are a few, so that patterns meet.
    """

    def term(self, kind: str) -> str:
        if self.rng.random() < 0.7 and kind in ("person", "place"):
            return self.rng.choice(PEOPLE[:2] if kind == "person" else PLACES[:1])
        return super().term(kind)

    def pattern(self, predicates: dict[str, tuple[str, str]], plain: bool = True) -> str:
        return super().pattern(predicates)

    def inside(self, predicates: dict[str, tuple[str, str]], plain: bool = True) -> Group:
        """A group within GRAPH, with anything in it."""
        group, rng = super().inside(predicates), self.rng
        if rng.random() < 0.8:
            return group
        more = self.patterns(predicates)
        kind = rng.choice(["bind", "filter", "exists", "values", "count", "limit", "minus"])
        self.fresh += 1
        match kind:
            case "bind":
                return Group((*group.parts, f"BIND({self.number()} AS ?k{self.fresh})"))
            case "filter":
                return Group((*group.parts, f"FILTER({self.condition()})"))
            case "exists":
                return Group((*group.parts, self.exists(*more.parts)))
            case "values":
                return Group((*group.parts, f"VALUES ?a {{ {PEOPLE[0]} {PEOPLE[1]} }}"))
            case "minus":
                return Group((*group.parts, Nested("MINUS", (more,))))
            case "count":
                made = Nested(
                    f"SELECT {rng.choice(['?a', '?x', ''])} (COUNT(*) AS ?k{self.fresh}) WHERE", (more,), "", "GROUP BY ?a"
                )
                return Group((*group.parts, Nested("", (Group((made,)),))))
        made = Nested(f"SELECT {rng.choice(['*', '?a', '?x ?a'])} WHERE", (more,), "", f"LIMIT {rng.choice([1, 2])}")
        return Group((*group.parts, Nested("", (Group((made,)),))))

    def condition(self, depth: int = 1) -> str:
        if depth and self.rng.random() < 0.08:
            word, or_ = self.rng.choice(["EXISTS", "NOT EXISTS"]), self.rng.choice(["||", "&&"])
            return f"({super().condition(0)} {or_} {word} {Group((self.some(),))})"
        return super().condition(depth)

    def inside_exists(self, depth: int) -> Part:
        rng = self.rng
        self.fresh += 1
        match rng.choice(["as before", "as before", "minus", "select", "bind", "count", "values"]):
            case "minus":
                return Nested("MINUS", (Group((self.some(), *self.tests(0.3))),))
            case "select":
                return Nested("", (Group((self.sub_select(0),)),))
            case "bind":
                return f"BIND({self.number()} AS ?k{self.fresh})"
            case "count":
                made = Nested(f"SELECT ?a (COUNT(*) AS ?k{self.fresh}) WHERE", (Group((self.some(),)),), "", "GROUP BY ?a")
                return Nested("", (Group((made,)),))
            case "values":
                return f"VALUES (?a ?x) {{ ({PEOPLE[0]} UNDEF) (UNDEF {PLACES[1]}) }}"
        return super().inside_exists(depth)

    def aggregates(self) -> list[str]:
        found, rng = super().aggregates(), self.rng
        if rng.random() < 0.4:
            self.fresh += 1
            name, distinct = rng.choice(["COUNT", "MIN", "MAX", "SAMPLE", "SUM"]), rng.choice(["", "DISTINCT "])
            argument = rng.choice([self.number(), f"({self.condition(0)})", "?v", "?n", "?a"])
            found.append(f"({name}({distinct}{argument}) AS ?agg{self.fresh})")
        return found

    def selection(self, body: Group) -> tuple[str, tuple[str, ...]]:
        select, modifiers = super().selection(body)
        rng, names = self.rng, used(body)
        words = " ".join(modifiers)
        if "LIMIT" not in words and rng.random() < 0.15:
            order = (
                [] if "ORDER" in words or rng.random() < 0.4 else [self.by(names, grouped="agg" in select or "GROUP" in words)]
            )
            modifiers = (*modifiers, *filter(None, order), f"LIMIT {rng.randint(0, 4)}")
        if rng.random() < 0.05 and names:
            modifiers = (*modifiers, f"VALUES ?{rng.choice(names)} {{ {PEOPLE[0]} {PLACES[0]} UNDEF }}")
        return select, modifiers

    def by(self, names: list[str], grouped: bool) -> str:
        """ORDER BY an expression."""
        if grouped or not names:
            return ""
        return f"ORDER BY {self.rng.choice(['', 'DESC'])}({self.rng.choice([self.number(), self.text(), self.condition(0)])})"


class WholeReport(Whole, Maker):
    """The report's dialect, and CQELS-QL within it."""

    def in_window(self) -> Part:
        if self.rng.random() < 0.15:
            return Nested(f"STREAM :{self.rng.choice('ST')} [{self.window()}]", (self.inside(MOVING),))
        return super().in_window()

    def case(self) -> Case:
        case = super().case()
        body = str(case.body)
        if "TRIPLES" in body or "[ALL]" in body:
            case = replace(case, settings=replace(case.settings, drain=False))
        return replace(case, settings=replace(case.settings, duplicates=self.rng.choice(["bag", "bag", "set"])))


class WholeMerged(Whole, MergedMaker):
    """C-SPARQL, SPARQLstream and Streaming SPARQL; of the first also the times of triples, wherever a condition stands."""

    def condition(self, depth: int = 1) -> str:
        if self.dialect == "csparql" and self.rng.random() < 0.15:
            return f"{self.time()} {self.rng.choice(['<', '>=', '!='])} {self.rng.choice([self.time(), '11000', '13000'])}"
        return super().condition(depth)

    def time(self) -> str:
        """When a triple came last that the windows have, if any."""
        s, p, o = self.rng.choice([("?a", ":at", "?x"), ("?b", ":at", "?y"), ("?a", ":val", "?v"), ("?a", ":knows", "?b")])
        return f"<{EXT}timestamp>({s}, {p}, {self.rng.choice([o, o, PLACES[0]]) if p == ':at' else o})"


class WholeRsp(Whole, RspMaker):
    """RSP-QL, as sets or bags."""

    def case(self) -> Case:
        case = super().case()
        return replace(case, settings=replace(case.settings, duplicates=self.rng.choice(["set", "set", "bag"])))


# ------------------------------------------------------------------ forms
def with_form(case: Case, maker: Maker) -> Case:
    """The case as a CONSTRUCT, ASK or DESCRIBE of what it selects."""
    rng = maker.rng
    selected = Nested(f"SELECT {case.select} WHERE", (case.body,), "", " ".join(case.modifiers))
    names = used(Group((selected,))) if "*" not in case.select.replace("(*)", "") else used(case.body)
    body = Group((Nested("", (Group((selected,)),)),))
    nodes = [f"?{name}" for name in names] or ["?none"]
    match rng.choice(["construct", "construct", "ask", "describe"]):
        case "construct":
            more = [*nodes, ":some", "1", "_:new", "[]"]
            triples = [
                f"{rng.choice([*nodes, '_:new', ':it'])} {rng.choice([':p', ':q', nodes[0]])} {rng.choice(more)}"
                for _ in range(rng.choice([1, 1, 2, 3]))
            ]
            form = f"CONSTRUCT {{ {' . '.join(triples)} }}"
        case "ask":
            form = "ASK"
        case _:
            form = f"DESCRIBE {' '.join(rng.sample(nodes, rng.randint(1, len(nodes))))}"
    return replace(case, form=form, body=body, modifiers=())


KINDS: dict[str, Callable[[int], Maker]] = {
    "report": Maker,
    "merged": MergedMaker,
    "sets": SetMaker,
    "rspql": RspMaker,
    "whole report": WholeReport,
    "whole merged": WholeMerged,
    "whole rspql": WholeRsp,
}


MOST = 20
"""Elements of a file of a case: many small worlds find more than a few large ones."""


class Formed:
    """A maker whose cases are small, and now and then of another form than SELECT."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, seed: int) -> Formed:
        """For :func:`random_cases.make`, which makes makers from seeds."""
        found = Formed(self.kind)
        found.maker = KINDS[self.kind](seed)
        return found

    maker: Maker

    def case(self) -> Case:
        case = self.maker.case()
        streams = {iri: [file[:MOST] for file in files] for iri, files in case.world.streams.items()}
        case = replace(case, world=replace(case.world, streams=streams))
        rng = self.maker.rng
        if rng.random() < 0.85:
            case = planted(case, rng, isinstance(self.maker, MergedMaker), isinstance(self.maker, RspMaker))
        return with_form(case, self.maker) if rng.random() < 0.25 else case


__all__ = ["FIXED", "KINDS", "Formed", "with_form"]
