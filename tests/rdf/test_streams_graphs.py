"""Streams of named graphs: one element per graph, with the time from the default graph."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from cqels_opt.errors import DataError
from cqels_opt.rdf import graphs
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.rdf.streams import read_stream
from cqels_opt.rdf.tabular import Reject

PREFIXES = "PREFIX : <http://e/> PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"


def elements(path: Path, **options: object) -> list[tuple[str, int, list[str], int]]:
    found: dict[int, tuple[str, int, list[str], int]] = {}
    for batch in read_stream(path, **options):  # type: ignore[arg-type]
        for row in batch.to_pylist():
            if row["g"] is None:  # triples of the default graph about the element
                continue
            _, _, objects, _ = found.setdefault(row["element"], (row["g"], row["t"], [], row["line"]))
            objects.append(row["o"].rpartition("/")[2].strip(">"))
    return [found[number] for number in sorted(found)]


def trig(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.trig"
    path.write_text(PREFIXES + text, encoding="utf-8")
    return path


def test_each_graph_is_an_element(tmp_path: Path) -> None:
    path = trig(
        tmp_path,
        ':g0 { :a :at :x . :b :at :y } :g0 prov:generatedAtTime "1970-01-01T00:00:01"^^xsd:dateTime .\n'
        '_:g1 {\n :a :at :z }\n_:g1 prov:generatedAtTime "1970-01-01T00:00:00.5Z"^^xsd:dateTime ; :note 5 .\n',
    )
    assert elements(path) == [("<http://e/g0>", 1000, ["x", "y"], 2), ("_:g1", 500, ["z"], 4)]
    packed = tmp_path / "s.trigs.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert elements(packed) == elements(path)


def test_a_graph_may_have_a_name_of_hexadecimal_digits(tmp_path: Path) -> None:
    """As Oxigraph writes those of blank nodes: its time is in another graph, the default one."""
    name = "_:a6f489dfb01234567890abcd"
    path = trig(tmp_path, f'{name} {{ :a :at :x . :b :at :y }} {name} prov:generatedAtTime "7" .')
    assert [e[1:3] for e in elements(path)] == [(7, ["x", "y"])]


def test_times_may_stand_before_or_after_all_graphs(tmp_path: Path) -> None:
    graphs = ":g0 { :a :at :x }\n:g1 { :a :at :y }\n"
    times = ':g1 prov:generatedAtTime "7" . :g0 prov:generatedAtTime "9" .\n'
    assert [e[:3] for e in elements(trig(tmp_path, times + graphs))] == [
        ("<http://e/g0>", 9, ["x"]),
        ("<http://e/g1>", 7, ["y"]),
    ]
    assert [e[:3] for e in elements(trig(tmp_path, graphs + times))] == [
        ("<http://e/g0>", 9, ["x"]),
        ("<http://e/g1>", 7, ["y"]),
    ]


def test_another_time_predicate(tmp_path: Path) -> None:
    path = trig(tmp_path, ":g0 { :a :at :x } :g0 :when 5 ; prov:generatedAtTime 9 .\n")
    assert elements(path, time_predicate="http://e/when")[0][1] == 5


def test_quads(tmp_path: Path) -> None:
    path = tmp_path / "s.nq"
    at = "<http://www.w3.org/ns/prov#generatedAtTime>"
    path.write_text(f'# a stream\n<a:a> <a:at> <e:/x> <g:0> .\n<a:a> <a:at> <e:/y> <g:0> .\n<g:0> {at} "5" .\n')
    assert elements(path) == [("<g:0>", 5, ["x", "y"], 2)]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (":g0 { :a :at :x } :g0 prov:generatedAtTime 5 .\n:g1 { :a :at oops } :g1 prov:generatedAtTime 6 .", 3, "is not TriG"),
        (":g0 { :a :at :x }\n:g1 { :a :at :y } :g1 prov:generatedAtTime 6 .", 2, "graph <http://e/g0> has no time"),
        (":g0 { :a :at :x } :g0 prov:generatedAtTime 5 .\n:g0 prov:generatedAtTime 6 .", 3, "a second time, '6'"),
        (":g0 { :a :at :x } :g0 prov:generatedAtTime :b .", 2, "not a literal"),
        (
            ':g0 { :a :at :x }\n:g0 prov:generatedAtTime "soon" .',
            2,
            "the time of graph <http://e/g0> in line 3 is not a time: 'soon'; expected",
        ),
        (":g0 { :a :at :x }\n:g0 prov:generatedAtTime '5'^^oops .", 3, "is not TriG"),
        (":g0 { :a :at :x }\n:g0 prov:generatedAtTime :b .", 3, "not a literal"),
        (":g0 { :a :at :x .\n", 3, "is not TriG: .*Unexpected end of file"),
        (":g0 { :a :at :x }\n:g0 prov:generatedAtTime", 3, "is not TriG: .*Unexpected end of file"),
        (
            ":g0 { :a :at :x } :g0 prov:generatedAtTime 5 .\n:g1 { :a :at :x } :g1 prov:generatedAtTime 5 .\n:g0 { :a :at :y }",
            4,
            "do not stand together",
        ),
    ],
)
def test_bad_graphs_are_found_at_their_place(tmp_path: Path, text: str, line: int, reason: str) -> None:
    path = trig(tmp_path, text)
    with pytest.raises(DataError, match=rf"s\.trig:{line}: .*{reason}"):
        elements(path)
    rejects: list[Reject] = []
    elements(path, on_error="skip", rejected=rejects.append)
    assert rejects[0].line == line


def test_a_rejected_time_is_reported_before_its_graph(tmp_path: Path) -> None:
    path = tmp_path / "s.nq"
    path.write_text(f'<a:a> <a:at> <e:/x> <g:0> .\n<g:0> <{GENERATED_AT}> "5"^^xsd:integer .\n')
    with pytest.raises(DataError, match=r"s\.nq:2: is not N-Quads: .*datatype must be an IRI"):
        elements(path)
    rejects: list[Reject] = []
    elements(path, on_error="skip", rejected=rejects.append)
    assert [reject.line for reject in rejects] == [2, 1]


def test_a_graph_may_have_its_time_said_again_but_no_other_after_its_element(tmp_path: Path) -> None:
    text = ":g0 { :a :at :x } :g0 prov:generatedAtTime 5 .\n:g1 { :a :at :x } :g1 prov:generatedAtTime 6 .\n"
    path = trig(tmp_path, text + ":g0 prov:generatedAtTime 5 .\n:g0 prov:generatedAtTime 7 .")
    rejects: list[Reject] = []
    assert [e[1] for e in elements(path, on_error="skip", rejected=rejects.append)] == [5, 6]
    assert [(r.line, r.reason) for r in rejects] == [(5, "graph <http://e/g0> has a second time, '7'")]


def test_the_names_of_graphs_that_are_done_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only digests are stored: a long stream of long names fits into memory."""
    monkeypatch.setattr(graphs, "BATCH", 200)
    names, size = 2000, 5000
    path = tmp_path / "s.nq"
    with path.open("w") as file:
        for i in range(names):
            name = f"<g:{i:0{size}}>"
            file.write(f'<a:a> <a:at> <e:/x> {name} .\n{name} <{GENERATED_AT}> "{i}" .\n')
    tracemalloc.start()
    try:
        held = [tracemalloc.get_traced_memory()[0] for rows, _ in graphs.read_graphs(path, ".nq") if len(rows.s)]
    finally:
        tracemalloc.stop()
    assert len(held) > 5
    assert held[-1] - held[0] < names * size / 4


def test_skipped_quads_leave_the_others(tmp_path: Path) -> None:
    path = tmp_path / "s.nq"
    at = "<http://www.w3.org/ns/prov#generatedAtTime>"
    path.write_text(f'<a:a> <a:at> <e:/x> <g:0> .\noops\n<g:0> {at} "5" .\n<a:a> <a:at> <e:/y> <g:1> .\n<g:1> {at} "6" .\n')
    rejects: list[Reject] = []
    assert [e[:3] for e in elements(path, on_error="skip", rejected=rejects.append)] == [("<g:0>", 5, ["x"]), ("<g:1>", 6, ["y"])]
    assert [reject.line for reject in rejects] == [2]


@pytest.mark.needs_shared_data
@pytest.mark.parametrize("name", ["activity", "heart-reification", "oxygen-reification"])
def test_the_published_streams_are_read(shared_data: Path, name: str) -> None:
    found = elements(shared_data / "rspqlstar" / "use-case" / f"{name}.trigs.gz")
    assert len(found) == 3600
    assert found[0][1] == 1556617861000
    assert [line for *_, line in found] == list(range(2, 3602))


@pytest.mark.parametrize("name", ["s.nq", "s.trig"])
def test_a_line_that_is_too_long_ends_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(graphs, "LONGEST_LINE", 99)
    (tmp_path / name).write_text("\n# " + "x" * 100)
    with pytest.raises(DataError, match=rf"{name}:2: cannot be read on: the line is longer than 64 MiB"):
        elements(tmp_path / name)


def test_a_file_that_was_cut_off_is_said(tmp_path: Path) -> None:
    at = "<http://www.w3.org/ns/prov#generatedAtTime>"
    text = "".join(f'<a:{i}> <a:at> <e:/x> <g:{i}> .\n<g:{i}> {at} "{i}" .\n' for i in range(20000))
    whole = gzip.compress(text.encode())
    (tmp_path / "s.nq.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"s\.nq\.gz:\d+: cannot be read on"):
        elements(tmp_path / "s.nq.gz")
