"""Triple terms, reifiers and annotations (RSP-QL*, SPARQL 1.2): random annotated data, queries, batches and plans."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from local_runs import Cut, Settings, Triple, World, register

from cqels_opt.bench.local import load, prepare
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.errors import QueryError
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.verify import Element, Options, judge, read_answers, read_inputs
from cqels_opt.windows.batch_size import BatchSize

from .conftest import EX, STREAM

CASES = int(os.environ.get("CQELS_OPT_CASES", "40"))
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
CUTS = [Cut("1"), Cut("3", "random", 3, 3), Cut("100", "worst")]
STATIC_PATTERNS = [
    "<< ?s ?p ?o >> :since ?since .",
    "<< ?s :at ?o >> :source ?w .",
    "?x :says <<( ?s :at ?o )>> .",
    "?s :at ?o ~ ?x .",
    "?s ?p ?o {| :source ?w |} .",
    "?x :says <<( ?a :says <<( ?s :at :x )>> )>> .",
    "<< << ?s :at ?o >> :source ?w >> :since ?since .",
    "?s :knows+ ?o .",
]
STREAM_PATTERNS = [
    "<< ?s :at ?o >> :conf ?c .",
    "<< ?s ?p ?o ~ ?r >> :conf ?c .",
    "?r :conf ?c ; <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> ?t .",
    "?s :at ?o {| :conf ?c |} .",
    "?x :says <<( ?s :at ?o )>> .",
    "?x :says <<( ?x ?p ?o )>> .",
    "?x ?y <<( ?a ?b <<( ?s ?p :x )>> )>> .",
    "<< << ?s :at ?o >> :conf ?c >> :source ?w .",
    "<< :a :at :x >> :conf ?c .",
    "?s :at ?o ~ ?r1 ~ ?r2 .",
]
TAILS = [
    "",
    "FILTER (?c > 0.5)",
    "BIND (SUBJECT(?t) AS ?u) FILTER (isTRIPLE(?t))",
    "BIND (<<( ?s :at ?o )>> AS ?t2)",
    "FILTER (OBJECT(?t) != :x)",
    "FILTER NOT EXISTS { << ?s :at ?o >> :source :w1 }",
    "OPTIONAL { << ?s :at ?o >> :since ?q }",
    "MINUS { ?x2 :says <<( ?s :at ?o )>> }",
    "VALUES ?t { <<( :a :at :x )>> <<( :b :at :y )>> UNDEF }",
    "?v :says+ <<( ?s :at ?o )>> .",
]


def term(name: str) -> str:
    return f"<{EX}{name}>"


class Annotated:
    """Random triples about triples."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.nodes = rng, 0

    def plain(self) -> Triple:
        rng = self.rng
        return term(rng.choice("abc")), term(rng.choice(["at", "at", "knows"])), term(rng.choice("xyab"))

    def whole(self, depth: int = 0) -> str:
        s, p, o = self.plain()
        if depth < 2 and self.rng.random() < 0.3:
            p, o = term("says"), self.whole(depth + 1)
        return f"<<( {s} {p} {o} )>>"

    def reified(self, said: str, value: str, of: Triple | None = None) -> list[Triple]:
        self.nodes += 1
        node = self.rng.choice([f"_:r{self.nodes}", term(f"r{self.rng.randrange(3)}")])
        s, p, o = of or self.plain()
        found = [(node, REIFIES, f"<<( {s} {p} {o} )>>"), (node, term(said), value)]
        if self.rng.random() < 0.3:
            found.append((s, p, o))
        if of is None and self.rng.random() < 0.3:
            found += self.reified("source", term("w1"), (node, term(said), value))
        return found

    def some(self, said: str, value: str) -> list[Triple]:
        kind = self.rng.random()
        if kind < 0.55:
            return self.reified(said, value)
        return [(term(self.rng.choice("abc")), term("says"), self.whole())] if kind < 0.8 else [self.plain()]


def number(value: float) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#decimal>'


def world(rng: random.Random) -> World:
    made = Annotated(rng)
    elements = []
    for second in sorted(rng.choices(range(1, 9), k=10)):
        triples = [t for _ in range(rng.randint(1, 2)) for t in made.some("conf", number(rng.choice([0.25, 0.5, 0.75])))]
        elements.append(Element(second * 1000, tuple(dict.fromkeys(triples)), term(f"g{rng.randrange(3)}")))
    elements = [e for at, e in enumerate(elements) if all((e.t, e.graph) != (f.t, f.graph) for f in elements[:at])]
    static = [t for _ in range(8) for t in made.some(rng.choice(["since", "source"]), rng.choice([number(1.5), term("w1")]))]
    return World({STREAM: [elements]}, list(dict.fromkeys(static)), {f"{EX}G": static[: len(static) // 2]})


def body(rng: random.Random, dialect: str, about: str = "") -> str:
    """``about``: the patterns over the graphs of elements."""
    inside = " ".join(rng.sample(STREAM_PATTERNS, rng.choice([1, 1, 2])))
    outside = " ".join(rng.sample(STATIC_PATTERNS, rng.choice([0, 1])))
    if outside and rng.random() < 0.2:
        outside = f"GRAPH :G {{ {outside} }}"
    tail = rng.choice(TAILS)
    if dialect == "csparql":
        return f"{inside} {outside} {tail}"
    if dialect == "cqels":
        return f"STREAM :S [RANGE 3s] {{ {inside} }} {outside} {tail}"
    if rng.random() < 0.4:
        inside = f"GRAPH ?g {{ {inside} }} {about}"
    return f"WINDOW :w {{ {inside} }} {outside} {tail}"


FROM = {"csparql": "FROM STREAM :S [RANGE 3s STEP 1s]", "rspql": "FROM NAMED WINDOW :w ON :S [RANGE PT3S STEP PT1S]", "cqels": ""}


@pytest.mark.parametrize("seed", range(CASES))
def test_random_annotations(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    dialect = rng.choice(list(FROM))
    text = f"PREFIX : <{EX}> SELECT * {FROM[dialect]} WHERE {{ {body(rng, dialect)} }}"
    operator = rng.choice(["istream", "rstream", "dstream"])
    settings = Settings(operator, {"": "cc"}, drain=True, duplicates="bag" if dialect == "cqels" else "set")
    found = register(parse(text, dialect), world(rng), tmp_path, settings)
    outcomes = [found.run(how).answers for how in CUTS]
    assert all(answers == outcomes[0] for answers in outcomes), text
    verdict = found.judged(outcomes[0])
    assert verdict.equal, f"{text}\n{verdict.text()}"


# ------------------------------------------------------------------ files, and the page of the docs
PAGE = (Path(__file__).parents[2] / "docs" / "rdf-star.md").read_text(encoding="utf-8")
HEART = "http://ex.org/heart"


def from_files(folder: Path, text: str, files: dict[str, str], streams: dict[str, str], static: Sequence[str] = ()) -> list[str]:
    """The lines of a query over files, for any batches; the independent evaluation of the same files agrees."""
    paths = {name: folder / name for name in files}
    for name, path in paths.items():
        path.write_text(files[name], encoding="utf-8")
    query = parse(text)
    meant = query_semantics(query)
    store = load(folder / "store", [StaticSource(paths[name]) for name in static])
    lines: list[list[str]] = []
    for count in (1, 3, 100):
        ready = prepare(
            "q", text, store, {iri: paths[name] for iri, name in streams.items()}, folder / f"by{count}", BatchSize(count=count)
        )
        sink = LocalSink()
        driver = ready.driver(folder / f"state{count}", sink)
        for number, chunk in enumerate(ready.chunks()):
            driver.batch(number, chunk)
        lines.append(sink.lines)
    assert sorted(lines[0]) == sorted(lines[1]) == sorted(lines[2])
    out = folder / "answers.jsonl"
    out.write_text("".join(line + "\n" for line in lines[0]), encoding="utf-8")
    inputs = read_inputs([(iri, paths[name]) for iri, name in streams.items()], [paths[name] for name in static]).inputs
    policy = f"p:{meant.report.default.period}" if meant.report.default.period else {"rspql": "wc", "cqels": "cc"}[query.dialect]
    verdict = judge(query, inputs, Options(policy, operator=meant.operator, duplicates=meant.duplicates), read_answers(out))
    assert verdict.equal, f"{text}\n{verdict.text()}"
    return lines[0]


def page_block(kind: str) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[0]


def test_the_page_gives_what_stands_on_it(tmp_path: Path) -> None:
    files = {"heart.trigs": page_block("trig"), "people.ttl": page_block("turtle")}
    found = from_files(tmp_path, page_block("sparql"), files, {HEART: "heart.trigs"}, ["people.ttl"])
    assert found == page_block("json").splitlines()


WINDOW = (
    "PREFIX : <urn:> PREFIX prov: <http://www.w3.org/ns/prov#> SELECT {} FROM NAMED WINDOW :w ON <http://ex.org/heart> "
    "[RANGE PT10S STEP PT10S] WHERE {{ {} }}"
)
BODIES = [
    ("?t ?c", "WINDOW :w { ?t :confidence ?c }"),
    ("?s ?t", "WINDOW :w { ?t :confidence ?c } BIND (SUBJECT(?t) AS ?s) FILTER (isTRIPLE(?t))"),
    ("?s ?o ?name", "WINDOW :w { << ?s :rate ?o >> :confidence ?c } << ?s :name ?name >> :source :register"),
    ("?s ?a ?b", "WINDOW :w { << ?s :rate ?o >> :confidence ?a ; :checked ?b }"),
    ("?o ?d", "WINDOW :w { << << :ann :rate ?o >> :confidence ?c >> :doubted ?d }"),
    ("?t", "WINDOW :w { ?x :says ?t . ?t :confidence ?c }"),
    ("?g ?who", "WINDOW :w { GRAPH ?g { << ?s :rate 91 >> ?p ?o } ?g prov:wasAttributedTo ?who }"),
    ("?g ?at", "WINDOW :w { ?g prov:generatedAtTime ?at GRAPH ?g { ?x :says ?t } }"),
    ("?t ?u", "WINDOW :w { ?t :confidence ?c } ?t :source ?u"),
    ("?s ?p ?o", "WINDOW :w { ?r <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( ?s ?p ?o )>> }"),
]


@pytest.mark.parametrize("ending", ["trigs", "trig"])
@pytest.mark.parametrize("number", range(len(BODIES)))
def test_elements_of_rdf_star_and_of_rdf_1_2(number: int, ending: str, tmp_path: Path) -> None:
    stream = page_block("trig") + (
        ":g5 { << :ann :rate 91 >> :checked true . << << :ann :rate 91 >> :confidence 0.97 >> :doubted :bob ."
        " :bob :says << :ann :rate 95 >> , << :x :y _:z >> . }"
        ' :g5 prov:generatedAtTime "1970-01-01T00:00:08Z"^^xsd:dateTime .\n'
        ':g6 { :the :last :one } :g6 prov:generatedAtTime "1970-01-01T00:00:12Z"^^xsd:dateTime .\n'
    )
    static = "PREFIX : <urn:> << :ann :name 'Ann' >> :source :register . << :ann :rate 95 >> :source :log ."
    files = {f"s.{ending}": stream, f"p.{'ttls' if ending == 'trigs' else 'ttl'}": static}
    select, body = BODIES[number]
    found = from_files(tmp_path, WINDOW.format(select, body), files, {HEART: f"s.{ending}"}, list(files)[1:])
    as_terms = ending == "trigs" or number in (0, 2, 4, 6, 7, 9)  # in RDF 1.2 each quotation has its own reifier
    assert bool(found) == as_terms


def test_what_a_stream_says_of_a_triple_joins_with_what_the_store_says_of_it(tmp_path: Path) -> None:
    """In RDF-star the triple is one term, in streams and static data."""
    files = {"heart.trigs": page_block("trig"), "said.ttls": "PREFIX : <urn:> << :ann :rate 95 >> :source :log ."}
    text = WINDOW.format("?t ?c ?u", "WINDOW :w { ?t :confidence ?c } ?t :source ?u").replace(
        "PT10S STEP PT10S", "PT4S STEP PT2S"
    )
    found = from_files(tmp_path, text, files, {HEART: "heart.trigs"}, ["said.ttls"])
    assert [json.loads(line)["bindings"]["t"]["value"]["object"]["value"] for line in found] == ["95"]


def test_triples_about_triples_are_made_and_read_on(tmp_path: Path) -> None:
    """CONSTRUCT with triple terms and annotations; each solution has new blank nodes."""
    text = page_block("sparql").replace(
        "SELECT ?name ?rate ?sensor",
        "CONSTRUCT { ?sensor :says <<( ?person :rate ?rate )>> . ?person :rate ?rate {| :by ?sensor |} }",
    )
    files = {"heart.trigs": page_block("trig"), "people.ttl": page_block("turtle")}
    found = from_files(tmp_path, text, files, {HEART: "heart.trigs"}, ["people.ttl"])
    triples = [triple for line in found for triple in json.loads(line)["triples"]]
    whole = '<<( <urn:ann> <urn:rate> "91"^^<http://www.w3.org/2001/XMLSchema#integer> )>>'
    assert ["<urn:watch>", "<urn:says>", whole] in triples
    (node,) = {s for s, p, o in triples if (p, o) == (REIFIES, whole)}
    assert [node, "<urn:by>", "<urn:watch>"] in triples


# ------------------------------------------------------------------ random files of RDF-star
class Starred:
    """A random RDF-star stream: quoted triples as subjects and objects, nested, annotations, and statements about elements."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def plain(self) -> tuple[str, str, str]:
        return ":" + self.rng.choice("abc"), self.rng.choice([":at", ":at", ":knows"]), ":" + self.rng.choice("xyab")

    def quoted(self, depth: int = 0) -> str:
        s, p, o = self.plain()
        if depth < 3 and self.rng.random() < 0.3:
            s, p, o = self.quoted(depth + 1), self.rng.choice([":conf", ":source"]), self.rng.choice(["0.5", ":w1"])
        elif depth < 3 and self.rng.random() < 0.3:
            p, o = ":says", self.quoted(depth + 1)
        return f"<< {s} {p} {o} >>"

    def triple(self) -> str:
        confidence = self.rng.choice(["0.25", "0.5", "0.75"])
        match self.rng.randrange(5):
            case 0 | 1:
                return f"{self.quoted()} :conf {confidence} ."
            case 2:
                return f"{' '.join(self.plain())} {{| :conf {confidence} ; :source :w1 |}} ."
            case 3:
                return f":{self.rng.choice('abc')} :says {self.quoted()} ."
        return f"{' '.join(self.plain())} ."

    def stream(self) -> str:
        elements = [f"PREFIX : <{EX}> PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>"]
        for number, second in enumerate(sorted(self.rng.choices(range(1, 9), k=10))):
            inside = " ".join(self.triple() for _ in range(self.rng.randint(1, 3)))
            at = f'"1970-01-01T00:00:0{second}Z"^^xsd:dateTime'
            elements.append(
                f":g{number} {{ {inside} }} :g{number} prov:generatedAtTime {at} ; :by :{self.rng.choice(['u', 'v'])} ."
            )
        return "\n".join(elements)

    def static(self) -> str:
        said = [f"{self.quoted()} {self.rng.choice([':since 1.5', ':source :w1'])} ." for _ in range(6)]
        return "\n".join([f"PREFIX : <{EX}>", *said, *(self.triple() for _ in range(4))])


@pytest.mark.parametrize("seed", range(CASES // 2))
def test_random_files_of_rdf_star(seed: int, tmp_path: Path) -> None:
    """Any query over them, in batches of one, three or all elements, has the answers of the independent evaluation."""
    rng = random.Random(seed)
    made, text = Starred(rng), "<<("
    while "<<(" in text or "EXISTS" in text:  # not expressible in the independent evaluation of RDF-star
        text = f"PREFIX : <{EX}> SELECT * {FROM['rspql']} WHERE {{ {body(rng, 'rspql', '?g :by ?who')} }}"
    from_files(tmp_path, text, {"s.trigs": made.stream(), "p.ttls": made.static()}, {STREAM: "s.trigs"}, ["p.ttls"])


def test_what_cannot_be_verified_over_rdf_star_is_said(tmp_path: Path) -> None:
    """It is not reported as a difference of the answers."""
    made = Starred(random.Random(1))
    for pattern in ("?x :says <<( ?s :at ?o )>>", "?x ?p ?o FILTER (?o = <<( :a :at :x )>>)"):
        text = f"PREFIX : <{EX}> SELECT * {FROM['rspql']} WHERE {{ WINDOW :w {{ {pattern} }} }}"
        (folder := tmp_path / str(len(pattern))).mkdir()
        with pytest.raises(QueryError, match="verify cannot check triple terms"):
            from_files(folder, text, {"s.trigs": made.stream()}, {STREAM: "s.trigs"})
