"""Statements nested too deeply, huge elements, invalid distributions and deep expressions: the batch is still answered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cqels_opt.bench.local import Prepared, compiled, load
from cqels_opt.errors import DataError, QueryError
from cqels_opt.query.parser import parse
from cqels_opt.rdf.streams import OnError
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

EX = "http://ex.org/"
PREFIXES = (
    f"PREFIX : <{EX}> PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>"
    " PREFIX rspu: <http://w3id.org/rsp/rspu#>\n"
)
WHOLE = f"{PREFIXES} SELECT {{}} FROM NAMED WINDOW :w ON :S [RANGE PT1S STEP PT1S] WHERE {{{{ WINDOW :w {{{{ {{}} }}}} }}}}"


def element(number: int, inside: str) -> str:
    at = f'"1970-01-01T00:00:{number:02}Z"^^xsd:dateTime'
    return f":g{number} {{\n {inside}\n}}\n:g{number} prov:generatedAtTime {at} .\n"


def run(folder: Path, stream: str, shown: str, pattern: str, on_error: OnError = "skip") -> tuple[list[Counter[str]], int]:
    """(the values of ?x at each instant with answers, refused statements); one batch holds everything but the last element."""
    path = folder / "s.trigs"
    path.write_text(PREFIXES + stream + element(59, ":the :last :one ."), encoding="utf-8")
    text = WHOLE.format(shown, pattern)
    program = compiled("q", text, load(folder / "store", []), folder / "q")
    replay = cut([ReplaySource(f"{EX}S", (path,))], folder / "replay", BatchSize(duration=50_000), on_error=on_error)
    prepared, sink = Prepared("q", program, replay, folder), LocalSink()
    driver = prepared.driver(folder / "state", sink)
    for number, rows in enumerate(prepared.chunks()):
        driver.batch(number, rows)
    found: dict[int, Counter[str]] = {}
    for line in map(json.loads, sink.lines):
        found.setdefault(line["time"], Counter())[line["bindings"].get("x", {}).get("value", "-")] += 1
    return [found[time] for time in sorted(found)], sum(partition.rejected for partition in replay.partitions)


SURE = "<< ?s :rate ?x >> :confidence ?c"


@pytest.mark.parametrize("levels", [101, 20_000])
def test_a_statement_that_is_nested_too_deeply(levels: int, tmp_path: Path) -> None:
    deep = "<< :a :b " * levels + ":c" + " >>" * levels
    stream = element(1, "<< :ann :rate 1 >> :confidence 0.9 .") + element(2, f"{deep} :confidence 0.9 .")
    stream += "".join(element(n, f"<< :ann :rate {n} >> :confidence 0.9 .") for n in (3, 4, 5))
    (tmp_path / "skip").mkdir()
    answers, rejected = run(tmp_path / "skip", stream, "?x", SURE)
    values = [value for found in answers for value in found]
    assert rejected >= 1
    assert values[0] == "1" and values[-2:] == ["4", "5"]  # the parser continues after the next full stop
    with pytest.raises(DataError, match=r"s\.trigs:\d+: quoted triples are nested deeper than 100 levels"):
        run(tmp_path, stream, "?x", SURE, "fail")


def test_as_deep_as_is_allowed(tmp_path: Path) -> None:
    deep = "<< :a :b " * 99 + ":c" + " >>" * 99
    stream = element(1, f"{deep} :confidence 0.5 .") + element(2, "<< :ann :rate 2 >> :confidence 0.9 .")
    answers, rejected = run(tmp_path, stream, "?x", "?t :confidence ?c BIND (isTRIPLE(?t) AS ?x)")
    assert (answers, rejected) == ([Counter(true=1), Counter(true=1)], 0)


def test_an_element_of_many_annotated_triples(tmp_path: Path) -> None:
    count = 20_000
    many = " ".join(f"<< :ann :rate {n} >> :confidence 0.{n % 10}1 ." for n in range(count))
    stream = (
        element(1, "<< :ann :rate 1 >> :confidence 0.9 .") + element(2, many) + element(3, "<< :a :rate 3 >> :confidence 0.9 .")
    )
    answers, rejected = run(tmp_path, stream, "?x", f"{SURE} FILTER (?c > 0.5)")
    assert [sum(found.values()) for found in answers] == [1, count // 2, 1]
    assert rejected == 0


def test_an_element_of_huge_terms(tmp_path: Path) -> None:
    huge = "x" * 3_000_000
    stream = element(1, f'<< :ann :note "{huge}" >> :confidence 0.9 .') + element(
        2, f"<< :{huge[:100_000]} :note 2 >> :confidence 0.9 ."
    )
    answers, _ = run(tmp_path, stream, "?x", "<< ?s :note ?y >> :confidence ?c BIND (STRLEN(CONCAT(STR(?s), STR(?y))) AS ?x)")
    assert answers == [Counter({str(len(f"{EX}ann") + len(huge)): 1}), Counter({str(len(EX) + 100_000 + 1): 1})]


DISTRIBUTIONS = [
    "N(1, -2)",
    "U(3, 1)",
    "X(1, 2)",
    "N(" * 5_000,
    "N(" + "9" * 400 + ", 1)",
    "U(0, " + "1" * 200_000 + ")",
    "N(0, 1e-400)",
]


def test_bad_distributions_as_annotations(tmp_path: Path) -> None:
    """Each is an error of the expression: BIND leaves ?x unbound, and the row exists."""
    said = [f'<< :o :value {n} >> :u "{text}"^^rspu:distribution .' for n, text in enumerate(["N(0, 1)", *DISTRIBUTIONS])]
    stream = element(1, " ".join(said)) + element(2, said[0])
    pattern = "<< ?o :value ?v >> :u ?u BIND (rspu:lessThan(rspu:subtract(?u, ?v), 0) AS ?x)"
    answers, rejected = run(tmp_path, stream, "?v ?x", pattern)
    assert (answers, rejected) == ([Counter({"5.0E-1": 1, "-": len(DISTRIBUTIONS)}), Counter({"5.0E-1": 1})], 0)


def test_deep_sums(tmp_path: Path) -> None:
    """Nested calls: the most that a query may have, and a clear error for more."""
    stream = element(1, '<< :o :value 1 >> :u "N(0, 1)"^^rspu:distribution .')
    deep = "rspu:add(" * 40 + "?u" + ", ?v)" * 40
    answers, _ = run(tmp_path, stream, "?x", f"<< ?o :value ?v >> :u ?u BIND (rspu:lessThan({deep}, 40) AS ?x)")
    assert answers == [Counter({"5.0E-1": 1})]
    deeper = "rspu:add(" * 50_000 + "?u" + ", ?v)" * 50_000
    with pytest.raises(QueryError, match="nested too deeply"):
        parse(WHOLE.format("?x", f"<< ?o :value ?v >> :u ?u BIND (rspu:lessThan({deeper}, 40) AS ?x)"))
