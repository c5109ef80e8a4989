"""Random queries of the dialects that match windows and static data as one graph, over worlds in which both have the same triples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from local_runs import Settings, World
from random_cases import EX, FIXED, GRAPHS, MOVING, NAMED, PREFIXES, Case, Group, Maker, Nested, Part

from cqels_opt.query.algebra import Query, Window
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

EVERYWHERE = {**MOVING, **FIXED}
EXT = "http://larkc.eu/csparql/sparql/jena/ext#"
WORDS = {"csparql": "wc,nc", "sparqlstream": "wc,nc", "streaming-sparql": "cc"}


@dataclass(frozen=True)
class MergedCase(Case):
    """A case whose ``windows`` are dataset clauses of a dialect."""

    dialect: str = "csparql"
    head: str = ""

    @property
    def text(self) -> str:
        clauses = "\n".join(clause for *_, clause in self.windows)
        register = "REGISTER QUERY q AS\n" if self.dialect == "csparql" else ""
        word, rest = self.asked.partition(" ")[::2]
        return f"{register}{PREFIXES}{word} {self.head}{rest}\n{clauses}\nWHERE {self.body}\n{' '.join(self.modifiers)}"

    def query(self) -> Query:
        return parse(self.text, self.dialect)


class MergedMaker(Maker):
    """Makes a case from a seed."""

    def __init__(self, seed: int, kinds: tuple[str, ...] = ("csparql", "sparqlstream", "streaming-sparql")) -> None:
        super().__init__(seed)
        self.dialect = self.rng.choice(kinds)
        self.named: list[str] = []

    def file(self, lateness: int) -> list[Element]:
        """Elements of which some are like static triples."""
        found = []
        for element in super().file(lateness):
            more = [self.triple(FIXED)] if self.rng.random() < 0.3 else []
            found.append(replace(element, triples=tuple(dict.fromkeys([*element.triples, *more]))))
        return found

    def world(self, lateness: int) -> World:
        """Static triples of which some are like elements."""
        world, rng = super().world(lateness), self.rng
        some = [t for files in world.streams.values() for file in files for e in file for t in e.triples if rng.random() < 0.1]
        return replace(world, default=sorted({*world.default, *some, *(self.triple(MOVING) for _ in range(rng.choice([0, 2])))}))

    # -------------------------------------------------------------- patterns
    def in_window(self) -> Part:
        group = self.patterns(EVERYWHERE)
        if self.named and self.rng.random() < 0.2:
            inner = self.windowed(self.patterns(MOVING)) if self.rng.random() < 0.3 else self.patterns(MOVING)
            return Nested(f"GRAPH :{self.rng.choice(self.named)}", (inner,))
        return Nested("", (self.windowed(group) if self.rng.random() < 0.3 else group,))

    def windowed(self, group: Group) -> Group:
        """A group with a WINDOW of its own, where the dialect has such."""
        if self.dialect != "streaming-sparql":
            return group
        self.own = True
        return Group((*group.parts, self.clause_window()))

    def stamped(self, part: Part) -> list[Part]:
        """The time of a triple that a part matches."""
        group = part.groups[0].parts if isinstance(part, Nested) and part.head == "" else ()
        plain = [text for text in group if isinstance(text, str) and "[]" not in text]
        return [f"BIND(<{EXT}timestamp>({', '.join(plain[0].split()[:3])}) AS ?ts)"] if plain else []

    def static(self) -> Part:
        if self.rng.random() < 0.6:
            return self.pattern(EVERYWHERE)
        return Nested(f"GRAPH :{self.rng.choice(GRAPHS)}", (self.inside(NAMED),))

    # -------------------------------------------------------------- windows
    def clause_window(self) -> str:
        rng = self.rng
        a, b = rng.choice([500, 1000, 2000, 3700]), rng.choice([400, 500, 1000])
        n = rng.choice([1, 2, 3, 5, 12])
        if self.dialect == "streaming-sparql":
            forms = [f"RANGE {max(a, b)} MS SLIDE {b} MS", f"RANGE {a} MS FIXED", f"RANGE {a} MS SLIDE", f"ELEMS {n}"]
            return f"WINDOW {rng.choice(forms)}"
        if self.dialect == "csparql":
            return rng.choice([f"[RANGE {a}ms STEP {b}ms]"] * 3 + [f"[RANGE {a}ms TUMBLING]", f"[RANGE TRIPLES {n}]"])
        slide = rng.choice(["", f" SLIDE {b} MS"])
        return rng.choice([f"[NOW - {a} MS TO NOW{slide}]", f"[NOW - {a} MS TO NOW - {rng.choice([100, 400])} MS{slide}]"])

    def case(self) -> Case:
        rng = self.rng
        lateness = rng.choice([0, 0, 300, 1000])
        windows, merged = [], 0
        for number in range(rng.choice([1, 1, 2, 3])):
            stream = rng.choice("ST")
            named = self.dialect != "csparql" and stream not in self.named and (merged > 0 or number > 1) and rng.random() < 0.4
            if named:
                self.named.append(stream)
            merged += not named
            clause = f"FROM {'NAMED ' * named}STREAM :{stream} {self.clause_window()}"
            windows.append((f"w{number}", EX + stream, clause))
        if rng.random() < 0.2:
            for name in rng.choices(GRAPHS, k=rng.choice([1, 2, 2, 3])):
                windows.insert(rng.randint(0, len(windows)), ("", "", f"FROM :{name}"))
        first = self.in_window()
        stamped = self.stamped(first) if self.dialect == "csparql" and rng.random() < 0.3 else []
        body = Group((first, *(self.some() for _ in range(rng.choice([0, 1, 1]))), *self.extras(1, 0.6), *stamped))
        select, modifiers = self.selection(body)
        head = f"{rng.choice(['RSTREAM', 'ISTREAM', 'DSTREAM'])} " if self.dialect == "sparqlstream" else ""
        text = " ".join([*(clause for *_, clause in windows), str(body)])
        duplicates: Any = (
            ("bag" if self.dialect == "streaming-sparql" else "set") if rng.random() < 0.7 else rng.choice(["bag", "set"])
        )
        policy = WORDS[self.dialect] if rng.random() < 0.6 else rng.choice(["cc", "wc", "wc,nc", "p:700"])
        drain = "TRIPLES" not in text and "ELEMS" not in text and rng.random() < 0.3
        operator = head.strip().lower() or rng.choice(["istream", "dstream", "rstream"])
        settings = Settings(operator, {"": policy}, {"": rng.choice([0, 0, 9_900])}, drain, lateness, duplicates)
        return MergedCase(
            select, tuple(windows), body, modifiers, self.world(lateness), settings, dialect=self.dialect, head=head
        )


class SetMaker(Maker):
    """Cases in RSP-QL's manner: named windows that are sets, among them element windows that move by several elements."""

    def other_window(self, name: str, stream: str) -> Window:
        """A window of another dialect than the text's."""
        if self.rng.random() < 0.6:
            return super().other_window(name, stream)
        return Window(name, stream, "last", count=self.rng.choice([1, 2, 3, 7]), every=self.rng.choice([0, 1, 2, 3, 5]))

    def case(self) -> Case:
        case, rng = super().case(), self.rng
        streams = {name: EX + stream for name, stream, _ in case.windows}
        replaced = {name: self.other_window(name, f"<{stream}>") for name, stream in streams.items() if rng.random() < 0.7}
        endless = any(text == "ALL" or text.startswith("TRIPLES") for name, _, text in case.windows if name not in replaced)
        drain = case.settings.drain and not endless and not any(w.kind == "last" for w in replaced.values())
        return replace(case, replaced=replaced, settings=replace(case.settings, duplicates="set", drain=drain))
