"""Random queries of the supported body over random worlds, from a seed.

A query is a tree of droppable parts, so that a failing case can be made small (case_shrinking.py).
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from local_runs import Settings, Triple, World

from cqels_opt.query.algebra import Query, Window
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

EX = "http://ex.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = f"PREFIX : <{EX}>\nPREFIX xsd: <{XSD}>\n"
STREAMS = ("S", "T")
GRAPHS = ("g1", "g2")

PEOPLE = [f"<{EX}p{i}>" for i in range(4)]
PLACES = [f"<{EX}x{i}>" for i in range(3)]
NUMBERS = [f'"{i}"^^<{XSD}integer>' for i in (-1, 0, 1, 2, 7)] + [f'"{d}"^^<{XSD}decimal>' for d in ("0.5", "1.5", "-2.25")]
MIXED = ['"a"', '"b"', '""', '"a"@en', f'"true"^^<{XSD}boolean>', f'"1.5E0"^^<{XSD}double>', f'"x"^^<{EX}odd>']

# predicate -> types of subject and object
MOVING = {"at": ("person", "place"), "val": ("person", "number"), "knows": ("person", "person")}
FIXED = {"near": ("place", "place"), "cap": ("place", "number"), "name": ("person", "text"), "knows": ("person", "person")}
NAMED = {"in": ("place", "place"), "knows": ("person", "person")}
VARIABLES = {"person": ["a", "b", "c"], "place": ["x", "y"], "number": ["v", "w"], "text": ["n"]}


# ------------------------------------------------------------------ queries as trees of parts
@dataclass(frozen=True)
class Group:
    """``{ part part … }``."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "{ " + " ".join(map(str, self.parts)) + " }"


@dataclass(frozen=True)
class Nested:
    """``head { … } between { … } tail``."""

    head: str
    groups: tuple[Group, ...]
    between: str = "UNION"
    tail: str = ""

    def __str__(self) -> str:
        return f"{self.head} " + f" {self.between} ".join(map(str, self.groups)) + f" {self.tail}"


Part: TypeAlias = "str | Nested"


@dataclass(frozen=True)
class Case:
    """A query over a world. ``windows`` replace those of the text where their kind is not one of the dialect's.

    ``form`` stands in the place of SELECT: ``CONSTRUCT { … }``, ``ASK`` or ``DESCRIBE …``.
    """

    select: str
    windows: tuple[tuple[str, str, str], ...]  # name, stream, window
    body: Group
    modifiers: tuple[str, ...]
    world: World
    settings: Settings
    replaced: dict[str, Window] = field(default_factory=dict)
    form: str = ""

    @property
    def asked(self) -> str:
        """The words before the windows."""
        return self.form or f"SELECT {self.select}"

    @property
    def text(self) -> str:
        clauses = "\n".join(f"FROM NAMED :{stream} [{window}] AS ?{name}" for name, stream, window in self.windows)
        return f"{PREFIXES}{self.asked}\n{clauses}\nWHERE {self.body}\n{' '.join(self.modifiers)}"

    def query(self) -> Query:
        parsed = parse(self.text)
        return replace(parsed, windows=tuple(self.replaced.get(w.name, w) for w in parsed.windows))

    def __str__(self) -> str:
        lines = [self.text, f"{self.settings}", *(f"{name}: {window}" for name, window in self.replaced.items())]
        for iri, files in self.world.streams.items():
            for file in files:
                lines += [f"file of <{iri}>:", *(f"  {e.t} {' . '.join(' '.join(t) for t in e.triples)}" for e in file)]
        lines += ["default graph:", *(f"  {' '.join(t)}" for t in self.world.default)]
        for name, triples in self.world.graphs.items():
            lines += [f"graph <{name}>:", *(f"  {' '.join(t)}" for t in triples)]
        return "\n".join(lines)


class Maker:
    """Makes a case from a seed. Literals are numbers, or in some worlds ``mixed``: strings and others among them.

    ``seen`` are the variables of patterns so far, by kind: conditions are mostly of these, since one about another variable never holds.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.fresh = 0
        self.seen: dict[str, list[str]] = {kind: [] for kind in VARIABLES}
        self.mixed = self.rng.random() < 0.3
        self.people = [*PEOPLE, "_:n0", "_:n1"] if self.rng.random() < 0.15 else PEOPLE

    # -------------------------------------------------------------- worlds
    def term(self, kind: str) -> str:
        rng = self.rng
        if kind == "person":
            return rng.choice(self.people)
        if kind == "place":
            return rng.choice(PLACES)
        if kind == "number":
            return rng.choice(NUMBERS + MIXED if self.mixed else NUMBERS)
        return rng.choice(['"Ann"', '"Bob"', '"Ann"@en', '"Zoë"'])

    def triple(self, predicates: dict[str, tuple[str, str]]) -> Triple:
        p = self.rng.choice(list(predicates))
        s, o = predicates[p]
        return self.term(s), f"<{EX}{p}>", self.term(o)

    def file(self, lateness: int) -> list[Element]:
        rng = self.rng
        count, step = rng.choice([0, 3, 8, 8, 15, 15, 25, 60]), rng.choice([100, 250, 500, 1000])
        t, elements = 10_000 + rng.randint(0, 4) * 250, []
        for _ in range(count):
            t += rng.choice([0, 0, 1, 1, 1, 2, 5]) * step
            seen = t
            if rng.random() < 0.15:
                seen -= rng.randint(0, lateness + 1)
            if rng.random() < 0.05:
                seen -= lateness + rng.randint(2, 2000)  # late
            triples = [self.triple(MOVING) for _ in range(rng.choice([1, 1, 1, 1, 2, 3]))]
            if elements and rng.random() < 0.15:
                triples = [*elements[-1].triples]  # the same again
            elements.append(Element(seen, tuple(dict.fromkeys(triples))))
        return elements

    def world(self, lateness: int) -> World:
        rng = self.rng
        streams = {EX + s: [self.file(lateness) for _ in range(rng.choice([1, 1, 1, 2]))] for s in STREAMS}
        default = {self.triple(FIXED) for _ in range(rng.choice([0, 4, 12]))}
        graphs = {EX + g: sorted({self.triple(NAMED) for _ in range(rng.choice([0, 2, 5]))}) for g in GRAPHS}
        return World(streams, sorted(default), {g: triples for g, triples in graphs.items() if triples})

    # -------------------------------------------------------------- patterns
    def node(self, kind: str) -> str:
        if self.rng.random() < 0.12:
            constant = self.term(kind)
            return constant if not constant.startswith("_:") else "[]"
        name = self.rng.choice(VARIABLES[kind])
        self.seen[kind].append(name)
        return f"?{name}"

    def of(self, kind: str) -> str:
        """A variable of a kind, mostly one of the patterns."""
        return "?" + self.rng.choice(self.seen[kind] if self.seen[kind] and self.rng.random() < 0.9 else VARIABLES[kind])

    def pattern(self, predicates: dict[str, tuple[str, str]], plain: bool = True) -> str:
        rng = self.rng
        p = rng.choice(list(predicates))
        s, o = predicates[p]
        verb = f":{p}" if rng.random() < 0.95 else "?p"
        if rng.random() < 0.1:
            verb = self.path(list(predicates), plain)
            s, o = predicates[next(iter(re.findall(r":(\w+)", verb)), p)]
            s, o = (o, s) if "^" in verb else (s, o)
            s, o = rng.choice([(s, s), (s, o), (s, o), (s, o), (o, s)])
        return f"{self.node(s)} {verb} {self.node(o)} ."

    def path(self, predicates: Sequence[str], plain: bool, depth: int = 2) -> str:
        """A property path; a ``plain`` one may have length zero."""
        rng = self.rng
        kind = rng.choice(["step", "step", "inverse", "not", "/", "|", "+", "?", "*"] if depth else ["step", "inverse"])
        p, other = rng.choice(predicates), rng.choice(predicates)
        match kind:
            case "step":
                return f":{p}"
            case "inverse":
                return f"^:{p}"
            case "not":
                return rng.choice([f"!:{p}", f"!(:{p}|^:{other})", f"!(:{p}|:{other})", f"!^:{p}"])
            case "/" | "|":
                return f"({self.path(predicates, plain, depth - 1)}{kind}{self.path(predicates, plain, depth - 1)})"
        return f"({self.path(predicates, plain, depth - 1)}){kind if plain else '+'}"

    def patterns(self, predicates: dict[str, tuple[str, str]], most: int = 2, plain: bool = True) -> Group:
        return Group(tuple(self.pattern(predicates, plain) for _ in range(self.rng.randint(1, most))))

    def in_window(self) -> Nested:
        return Nested(f"GRAPH ?{self.rng.choice(['u', 'z'])}", (self.inside(MOVING),))

    def inside(self, predicates: dict[str, tuple[str, str]], plain: bool = True) -> Group:
        """A group within GRAPH, now and then with more than triples in it.

        pyoxigraph takes ?g for shared in a MINUS within GRAPH ?g, knows no ?g after a sub-select in it, and lets EXISTS see variables
        of the groups around its own.
        """
        group = self.patterns(predicates, plain=plain)
        if self.rng.random() < 0.15:
            more = self.patterns(predicates, plain=plain)
            word = self.rng.choice(["OPTIONAL", "UNION"] + ["MINUS", "SELECT"] * plain)
            if word == "UNION":
                return Group((Nested("", (group, more)),))
            if word == "SELECT":
                return Group((*group.parts, Nested("", (Group((Nested(f"SELECT ?{self.rng.choice('abxv')} WHERE", (more,)),)),))))
            return Group((*group.parts, Nested(word, (more,))))
        return group

    def static(self) -> Part:
        roll = self.rng.random()
        if roll < 0.6:
            return self.pattern(FIXED)
        if roll < 0.85:
            return Nested(f"GRAPH :{self.rng.choice(GRAPHS)}", (self.inside(NAMED),))
        return Nested("GRAPH ?g", (self.inside(NAMED, plain=False),))

    def some(self) -> Part:
        return self.in_window() if self.rng.random() < 0.6 else self.static()

    def variable(self) -> str:
        return self.of(self.rng.choice([kind for kind in VARIABLES if self.seen[kind]] or [*VARIABLES]))

    # -------------------------------------------------------------- expressions
    def number(self, depth: int = 1) -> str:
        rng = self.rng
        roll = rng.random()
        if roll < 0.45 or not depth:
            if not self.seen["number"] and rng.random() < 0.7:
                return f"STRLEN(STR({self.variable()}))"
            return self.of("number")
        if roll < 0.65:
            return rng.choice(["0", "1", "2", "1.5", "-1"])
        if roll < 0.9:
            return f"({self.number(depth - 1)} {rng.choice('+-*')} {self.number(depth - 1)})"
        return rng.choice(
            [
                f"STRLEN({self.text()})",
                "ABS(?v)",
                "COALESCE(?v, ?w, 0)",
                "IF(BOUND(?v), ?v, 5)",
                "(SECONDS(NOW()) * ?v)",
                "xsd:integer(?v)",
            ]
        )

    def text(self) -> str:
        plain = [f"STR({self.of('person')})", f"STR({self.of('place')})"]
        return self.rng.choice([*plain, *(["?n", "CONCAT(?n, '!')", "LANG(?n)", "STR(?n)"] if self.seen["text"] else plain)])

    def condition(self, depth: int = 1) -> str:
        rng = self.rng
        roll = rng.random()
        if depth and roll < 0.2:
            return f"({self.condition(0)} {rng.choice(['&&', '||'])} {self.condition(0)})"
        if depth and roll < 0.27:
            return f"!({self.condition(0)})"
        if roll < 0.5:
            return f"{self.number()} {rng.choice(['<', '>', '<=', '>=', '=', '!='])} {self.number()}"
        if roll < 0.65:
            kind, term = rng.choice([("person", PEOPLE[0]), ("place", PLACES[0])])
            one = self.of(kind)
            others = [f"?{name}" for name in [*self.seen[kind], *VARIABLES[kind]] if f"?{name}" != one]
            return f"{one} {rng.choice(['=', '!=', '!='])} {rng.choice(others[:3]) if rng.random() < 0.6 else term}"
        if roll < 0.75:
            return f"BOUND({self.variable()})"
        if roll < 0.85:
            return f"{self.of('person')} {rng.choice(['IN', 'NOT IN'])} ({PEOPLE[0]}, {PEOPLE[1]})"
        return rng.choice(
            [
                "SECONDS(NOW()) > 12.3",
                f"CONTAINS({self.text()}, 'n')",
                f"REGEX({self.text()}, '^[Ah]')",
                f"isLiteral({self.variable()})",
                f"isNumeric({self.of('number')})",
                self.of("number"),
                f"STRSTARTS(STR({self.of('place')}), 'http')",
            ]
        )

    # -------------------------------------------------------------- groups
    def extra(self, depth: int) -> Part:
        rng = self.rng
        kind = rng.choice(
            ["optional"] * 4
            + ["union"] * 3
            + ["filter"] * 4
            + ["bind"] * 3
            + ["minus"] * 2
            + ["exists"] * 3
            + ["sub"] * 3
            + ["values"]
        )
        if kind == "filter" or (depth == 0 and kind in ("union", "sub")):
            return f"FILTER({self.condition()})"
        if kind == "optional":
            parts: list[Part] = [self.some(), *self.extras(depth - 1, 0.25)] if depth else [self.some()]
            if rng.random() < 0.4:
                parts.append(f"FILTER({self.condition()})")
            if rng.random() < 0.15:
                parts.append(self.exists(self.some()))
            return Nested("OPTIONAL", (Group(tuple(parts)),))
        if kind == "union":
            return Nested("", tuple(self.group(depth - 1) for _ in range(rng.choice([2, 2, 3]))))
        if kind == "bind":
            self.fresh += 1
            made = rng.choice([self.number(), self.text(), f"({self.condition()})", "?a", "NOW()", "YEAR(NOW())"])
            return f"BIND({made} AS ?k{self.fresh})"
        if kind == "minus":
            return Nested("MINUS", (Group((self.some(), *(self.extras(depth - 1, 0.2) if depth else ()))),))
        if kind == "exists":
            parts = [self.some()]
            if rng.random() < 0.35:
                parts.append(f"FILTER({self.condition()})")
            if rng.random() < 0.4:
                parts.append(self.inside_exists(depth))
            word = rng.choice(["EXISTS", "NOT EXISTS"])
            return Nested(f"FILTER {word}", (Group(tuple(parts)),))
        if kind == "values":
            return (
                f"VALUES ?a {{ {PEOPLE[0]} {PEOPLE[2]} }}"
                if rng.random() < 0.6
                else f"VALUES (?a ?x) {{ ({PEOPLE[0]} UNDEF) (UNDEF {PLACES[1]}) }}"
            )
        return Nested("", (Group((self.sub_select(depth - 1),)),))

    def inside_exists(self, depth: int) -> Part:
        """More of a pattern of EXISTS. pyoxigraph's MINUS in it takes all variables of the outside for shared."""
        rng = self.rng
        kind = rng.choice(["optional", "union", "exists", "exists"])
        if kind == "exists" or depth <= 0:
            return self.exists(self.some(), *self.tests(0.4))
        if kind == "union":
            return Nested("", tuple(Group((self.some(), *self.tests(0.4))) for _ in range(2)))
        return Nested("OPTIONAL", (Group((self.some(), *self.tests(0.5))),))

    def exists(self, *parts: Part) -> Part:
        return Nested(f"FILTER {self.rng.choice(['EXISTS', 'NOT EXISTS'])}", (Group(parts),))

    def tests(self, chance: float) -> list[Part]:
        if self.rng.random() >= chance:
            return []
        return [f"FILTER({self.condition()})" if self.rng.random() < 0.5 else self.exists(self.some())]

    def extras(self, depth: int, chance: float) -> Iterator[Part]:
        while self.rng.random() < chance:
            yield self.extra(max(depth, 0))
            chance *= 0.7

    def group(self, depth: int) -> Group:
        parts: list[Part] = [self.some() for _ in range(self.rng.choice([1, 1, 2]))]
        return Group((*parts, *self.extras(depth, 0.5)))

    def sub_select(self, depth: int) -> Nested:
        inner = self.group(depth)
        select, modifiers = self.selection(inner)
        return Nested(f"SELECT {select} WHERE", (inner,), "", " ".join(modifiers))

    def aggregates(self) -> list[str]:
        rng, found = self.rng, []
        for _ in range(rng.choice([1, 1, 2])):
            self.fresh += 1
            distinct = rng.choice(["", "", "DISTINCT "])
            argument = rng.choice(["?v", "?v", "?w", self.number()])
            # pyoxigraph does not leave errors out of a COUNT, so its argument is a variable
            kinds = [
                f"COUNT({distinct}*)",
                f"COUNT({distinct}{rng.choice(['?v', '?a'])})",
                f"SUM({distinct}{argument})",
                f"AVG({distinct}{argument})",
            ]
            if not self.mixed:  # SPARQL leaves the order of literals of different kinds open
                kinds += [f"MIN(COALESCE({argument}, 1))", f"MAX({argument})"]  # for pyoxigraph nothing is less than unbound
            kinds.append(f"SAMPLE(COALESCE({rng.choice(['?a', '?x', '?n'])}, :none))")
            kinds += [
                f"GROUP_CONCAT({distinct}{rng.choice(['?n', 'STR(?a)'])}; SEPARATOR='|')",
                f"MAX({rng.choice(['?a', '?n'])})",
            ]
            found.append(f"({rng.choice(kinds)} AS ?agg{self.fresh})")
        return found

    def selection(self, body: Group) -> tuple[str, tuple[str, ...]]:
        """A SELECT clause, and the modifiers."""
        rng = self.rng
        names = used(body)
        modifiers: list[str] = []
        if rng.random() < 0.35:
            keys = rng.sample(names, min(len(names), rng.choice([0, 1, 1, 2])))
            made = self.aggregates()
            items = [f"?{k}" for k in keys] + made
            if keys:
                modifiers.append("GROUP BY " + " ".join(f"?{k}" for k in keys))
            if rng.random() < 0.3:
                modifiers.append(f"HAVING (COUNT(*) {rng.choice(['>', '<='])} {rng.choice([1, 2, 3])})")
            order = [item.split(" AS ")[1].rstrip(")") for item in made] + [f"?{k}" for k in keys]
        else:
            items = [f"?{n}" for n in rng.sample(names, rng.randint(1, len(names)))] if names else ["(1 AS ?one)"]
            if rng.random() < 0.15:
                self.fresh += 1
                items.append(f"({self.number()} AS ?e{self.fresh})")
            if rng.random() < 0.1 and names:
                items = ["*"]
            if rng.random() < 0.2:
                items.insert(0, "DISTINCT")
            order = [f"?{n}" for n in names]
        definite = not self.mixed and not any("GROUP_CONCAT" in item for item in items)
        if rng.random() < 0.25 and order and definite:
            by = rng.choice(["{}", "{}", "DESC({})"]).format(rng.choice(order))
            modifiers += (
                [f"ORDER BY {by}", f"LIMIT {rng.choice([0, 1, 2, 3, 4, 5])}"] if rng.random() < 0.8 else [f"ORDER BY {by}"]
            )
            if modifiers[-1].startswith("LIMIT") and rng.random() < 0.3:
                modifiers.append(f"OFFSET {rng.randint(1, 2)}")
        return " ".join(items), tuple(modifiers)

    # -------------------------------------------------------------- windows
    def window(self) -> str:
        rng = self.rng
        a, b = rng.choice([500, 1000, 2000, 3700]), rng.choice([400, 500, 1000])
        return rng.choice(
            ["NOW"]
            + [f"RANGE {a} ms"] * 3
            + [f"RANGE {a} ms SLIDE {b} ms", f"RANGE {a} ms TUMBLING", f"TRIPLES {rng.choice([1, 2, 3, 5, 12])}", "ALL"]
        )

    def other_window(self, name: str, stream: str) -> Window:
        """A window of another dialect."""
        rng = self.rng
        kind: Any = rng.choice(["open-closed", "closed-open", "star", "past", "delta", "grid"])
        width, slide = rng.choice([500, 1000, 2000, 3700]), rng.choice([300, 500, 1000, 1700])
        if kind == "past":
            return Window(name, stream, kind, width + slide, rng.choice([0, slide]), step=rng.choice([0, 0, 700]))
        if kind == "delta":
            width = max(width, slide)
        return Window(name, stream, kind, width, slide)

    def case(self) -> Case:
        rng = self.rng
        lateness = rng.choice([0, 0, 300, 1000])
        windows = tuple((name, rng.choice(STREAMS), self.window()) for name in ("u", "z"))
        body = Group((self.in_window(), *(self.some() for _ in range(rng.choice([0, 1, 1, 2]))), *self.extras(2, 0.75)))
        select, modifiers = self.selection(body)
        replaced = {}
        policies, t0 = {"": "cc"}, {}
        if rng.random() < 0.3:
            for name, stream, _ in windows:
                if rng.random() < 0.7:
                    replaced[name] = self.other_window(name, EX + stream)
            policies = {"": rng.choice(["cc", "wc", "wc,nc", "cc,nc", "p:700", "wc,p:900"])}
            if rng.random() < 0.3:
                policies["u"] = rng.choice(["cc", "wc", "cc,nc", "p:500,nc"])
            if rng.random() < 0.5:
                t0[rng.choice(["", "z"])] = rng.choice([100, 9_900, 11_111])
        endless = any(w.startswith("TRIPLES") or w == "ALL" for n, _, w in windows if n not in replaced)
        operator = rng.choice(["istream", "istream", "dstream", "rstream"])
        drain = not endless and rng.random() < (0.8 if operator == "dstream" else 0.4)
        settings = Settings(operator, policies, t0, drain, lateness)
        return Case(select, windows, body, modifiers, self.world(lateness), settings, replaced)


def used(part: Part | Group) -> list[str]:
    """The variables that can be selected of a group, in order."""
    names: dict[str, None] = {}
    for piece in part.parts if isinstance(part, Group) else [part]:
        if isinstance(piece, str):
            if not piece.startswith("FILTER"):
                names.update(dict.fromkeys(re.findall(r"\?(\w+)", piece.split(" AS ")[1] if piece.startswith("BIND") else piece)))
        elif piece.head.startswith("SELECT"):
            plain = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*AS (\?\w+)\)", r"\1", piece.head)
            names.update(dict.fromkeys(re.findall(r"\?(\w+)", plain)))
        elif not piece.head.startswith(("MINUS", "FILTER")):
            if named := re.fullmatch(r"(?:GRAPH|WINDOW) \?(g|e|win)", piece.head):
                names[named[1]] = None
            for group in piece.groups:
                names.update(dict.fromkeys(used(group)))
    return list(names)


def make(seed: int, maker: Callable[[int], Maker] | None = None) -> Case:
    """The case of a seed, made by a :class:`Maker` or the like; a seed whose query the language does not allow leads to the next."""
    from cqels_opt.errors import QueryError

    attempt = seed * 1000
    while True:
        case = (maker or Maker)(attempt).case()
        try:
            case.query()
        except QueryError as error:
            if "not supported" in str(error):
                raise
            attempt += 1
            continue
        return case


# ------------------------------------------------------------------ a query with many plans, over such worlds
SIX_RELATIONS = """PREFIX : <http://ex.org/>
SELECT ?a ?b ?x ?y FROM NAMED :S [NOW] AS ?n FROM NAMED :S [RANGE 2 s] AS ?u FROM NAMED :T [RANGE 3 s SLIDE 1 s] AS ?z
WHERE { GRAPH ?n { ?a :at ?x } GRAPH ?u { ?b :at ?x . ?b :knows ?c } GRAPH ?z { ?c :at ?y } ?x :near ?y . ?a :knows ?b
FILTER(?a != ?c) }"""


def seeds_with_answers(count: int) -> list[int]:
    """Worlds that are not empty."""
    return list(itertools.islice(filter(_has_answers, itertools.count()), count))


@cache
def _has_answers(seed: int) -> bool:
    world = make(seed).world
    return all(any(files) for files in world.streams.values()) and len(world.default) > 6
