from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.errors import DataError
from cqels_opt.rdf import static
from cqels_opt.rdf.lines import TOO_LONG
from cqels_opt.rdf.nquads import parse_block, parse_line
from cqels_opt.rdf.static import Failures, StaticSource, file_format, pieces, read, read_all
from cqels_opt.rdf.terms import TermError

Quad = tuple[str, str, str, str | None]
INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"


def quads_of(path: Path, graph: str | None = None, failures: Failures | None = None) -> list[Quad]:
    failures = failures or Failures(skip=False)
    return [quad for quads in read_all([StaticSource(path, graph)], failures) for quad in zip(quads.s, quads.p, quads.o, quads.g)]


# ------------------------------------------------------------------ lines
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<s> <p> <o> .", ("<s>", "<p>", "<o>", None)),
        ("<s><p><o>.", ("<s>", "<p>", "<o>", None)),
        ("\t<s>\t<p>  _:b.c. # why", ("<s>", "<p>", "_:f3_b.c", None)),
        ('_:a <p> "x"^^<http://www.w3.org/2001/XMLSchema#string> <g> .', ("_:f3_a", "<p>", '"x"', "<g>")),
        ('<s> <p> "x"@EN _:g .\r', ("<s>", "<p>", '"x"@en', "_:f3_g")),
        (r'<\u0073> <p> "\u0041\\\n" .', ("<s>", "<p>", r'"A\\\n"', None)),
        ('<s> <p> "a\tb" .', ("<s>", "<p>", r'"a\tb"', None)),
        ('<s> <p> "a\tb"@x .', ("<s>", "<p>", r'"a\tb"@x', None)),
        (f'<s> <p> "5"{INTEGER} .', ("<s>", "<p>", f'"5"{INTEGER}', None)),
        ("", None),
        ("   # only a comment", None),
        ("\r", None),
    ],
)
def test_one_line(line: str, expected: Quad | None) -> None:
    assert parse_line(line.encode(), scope=3) == expected
    quads, wrong = parse_block(f"{line}\n".encode(), 3, None, True)
    assert (list(zip(quads.s, quads.p, quads.o, quads.g)), wrong) == ([expected] if expected else [], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"x" <p> <o> .', "column 1: expected a subject"),
        ("<s> _:p <o> .", "column 5: expected a predicate"),
        ("<s> <p> 5 .", "column 9: expected an object .*found '5 .'"),
        ("<s> <p> <o>", "column 12: expected a full stop .*found the end of the line"),
        ("<s> <p> <o> . <s>", "column 14: expected nothing but a comment"),
        ("<s> <p> <o> . # note\r<s> <p> <t> .", "expected nothing but a comment .* and no carriage return alone"),
        ("<s> <p> <o o> .", "column 9: expected an object"),
        (r'<s> <p> "\uD800" .', "not a character"),
        (r"<s> <p> <\u0020> .", "cannot contain"),
        ("<s> <p> <o> <g> <h> .", "full stop"),
    ],
)
def test_what_is_wrong_with_a_line(line: str, message: str) -> None:
    with pytest.raises(TermError, match=message):
        parse_line(line.encode(), scope=0)


def test_a_fourth_term_in_a_file_of_triples() -> None:
    quads, wrong = parse_block(b"<s> <p> <o> <g> .\n", 0, None, quads=False)
    assert (len(quads), wrong) == (0, [(1, "a fourth term; a file of quads is named .nq")])


def test_a_line_that_is_not_utf_8() -> None:
    quads, wrong = parse_block(b'<s> <p> <o> .\n<s> <p> "\xff" .\n', 0, None, quads=True)
    assert len(quads) == 1
    assert wrong[0][0] == 2 and "not UTF-8: invalid start byte at byte 10" in wrong[0][1]


terms = st.sampled_from(
    [
        *("<http://a>", "<http://b\\u00e9>", "_:x", '"plain"', '"esc\\n"', '"t"@EN', f'"5"{INTEGER}', '"é#."', '"<a> <b> ."'),
        *('"a b"@en-gb', '"x"^^<http://www.w3.org/2001/XMLSchema#string>', '"a \\" b"', "_:a.b", "<é>", "oops", '"', '"\t"', ""),
    ]
)
lines = st.tuples(
    terms, st.sampled_from(["<p>", "<http://q>"]), terms, st.sampled_from(["", "<g>", "_:g"]), st.sampled_from([" ", "\t", ""])
)


@pytest.mark.long
@given(st.lists(lines, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@settings(max_examples=400)
def test_a_block_has_the_quads_of_its_lines(statements: list[tuple[str, ...]], end: str, last: bool, fourth: bool) -> None:
    """The fast path for a whole block and the slow path per line give the same quads."""
    texts = [blank.join([s, p, o, g, "."]) if g else blank.join([s, p, o, "."]) for s, p, o, g, blank in statements]
    block = end.join(texts) + (end if last else "")
    quads, wrong = parse_block(block.encode(), 1, "<default>", fourth)
    expected = []
    failed = []
    for number, text in enumerate(texts, 1):
        try:
            parsed = parse_line(text.encode(), 1, fourth)
            assert parsed is not None
            expected.append((*parsed[:3], parsed[3] or "<default>"))
        except TermError as error:
            failed.append((number, str(error)))
    assert list(zip(quads.s, quads.p, quads.o, quads.g)) == expected
    assert wrong == failed
    assert set(quads.terms.to_pylist()) == {term for quad in expected for term in quad}


@given(
    st.integers(1, 60),
    st.lists(st.sampled_from(["<s> <p> <o> .", "", "# c", "<s> <p> <é> .", "bad"]), max_size=12),
    st.booleans(),
)
def test_pieces_together_read_what_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory, size: int, texts: list[str], last: bool
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "a.nt"
    path.write_text("\n".join(texts) + ("\n" if last else ""), encoding="utf-8")
    failures = Failures(skip=True)
    found = [o for piece in pieces(StaticSource(path), 0, size) for quads in read(piece, failures) for o in quads.o]
    assert found == [text[8:-2] for text in texts if text.startswith("<")]
    assert [failure.line for failure in failures.first] == [i for i, text in enumerate(texts, 1) if text == "bad"]


def test_blocks_of_a_large_file_keep_count_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "BLOCK", 20)
    path = tmp_path / "a.nt"
    path.write_bytes(b"\xef\xbb\xbf<s> <p> <o> .\n" * 1 + b"<s> <p> <o> .\n" * 6 + b"bad\n<s> <p> <o> .")
    failures = Failures(skip=True)
    assert len(quads_of(path, failures=failures)) == 8
    assert str(failures.first[0]).startswith(f"{path}:8: column 1")


@pytest.mark.parametrize("size", [50, 90, 1 << 62])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_a_line_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, compression: str) -> None:
    """In any piece; the other lines are read."""
    monkeypatch.setattr(static, "BLOCK", 30)
    monkeypatch.setattr(static, "LONGEST_LINE", 99)
    path = tmp_path / f"a.nt{compression}"
    good, long = b"<http://s> <http://p> <http://o> .\n", b"<http://s> <http://p> <http://" + b"x" * 200 + b"> .\n"
    text = 3 * good + long + 4 * good + long + good + long.strip()
    path.write_bytes(gzip.compress(text) if compression else text)
    failures = Failures(skip=True)
    assert sum(len(quads.o) for piece in pieces(StaticSource(path), 0, size) for quads in read(piece, failures)) == 8
    assert [(failure.line, failure.message) for failure in failures.first] == [(n, TOO_LONG) for n in (4, 9, 11)]
    with pytest.raises(DataError, match=rf"a\.nt{compression}:4: is longer than 64 MiB"):
        quads_of(path)


# ------------------------------------------------------------------ formats
TRIPLES: list[Quad] = [("<http://a>", "<http://p>", "<http://b>", None), ("<http://a>", "<http://p>", f'"5"{INTEGER}', None)]
NT = f'<http://a> <http://p> <http://b> .\n<http://a> <http://p> "5"{INTEGER} .\n'
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://">
<rdf:Description rdf:about="http://a"><p rdf:resource="http://b"/>
<p rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">5</p></rdf:Description></rdf:RDF>"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.nt", NT),
        ("a.nq", NT),
        ("a.NT", NT),
        ("a.ttl", "<http://a> <http://p> <http://b>, 5 ."),
        ("a.n3", "@prefix : <http://> . :a :p :b, 5 ."),
        ("a.trig", "<http://a> <http://p> <http://b>, 5 ."),
        ("a.rdf", RDF),
    ],
)
@pytest.mark.parametrize("compress", [None, (".gz", gzip.compress), (".zst", zstandard.ZstdCompressor().compress)])
def test_every_format(tmp_path: Path, name: str, text: str, compress: tuple[str, Callable[[bytes], bytes]] | None) -> None:
    data = text.encode()
    path = tmp_path / (name + (compress[0] if compress else ""))
    path.write_bytes(compress[1](data) if compress else data)
    assert quads_of(path) == TRIPLES
    assert quads_of(path, "http://g") == [(s, p, o, "<http://g>") for s, p, o, _ in TRIPLES]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.nq", "<http://s> <http://p> <http://o> <http://g> ."), ("a.trig", "<http://g> { <http://s> <http://p> <http://o> }")],
)
def test_the_data_name_the_graph(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert quads_of(tmp_path / name, "http://other") == [("<http://s>", "<http://p>", "<http://o>", "<http://g>")]


def test_zstandard_and_gzip_of_several_frames(tmp_path: Path) -> None:
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(NT.encode()) * 2)
    frame = zstandard.ZstdCompressor().compress(NT.encode())
    (tmp_path / "a.nt.zst").write_bytes(frame * 2)
    assert quads_of(tmp_path / "a.nt.gz") == quads_of(tmp_path / "a.nt.zst") == TRIPLES * 2


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": ["<a>", "_:b", "<a>"],
            "p": ["<p>"] * 3,
            "o": ['"x"@EN', "_:b", "<c>"],
            "g": [None, "<g>", "_:b"],
            "other": [1, 2, 3],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert quads_of(tmp_path / "a.parquet", "http://d") == [
        ("<a>", "<p>", '"x"@en', "<http://d>"),
        ("_:f0_b", "<p>", "_:f0_b", "<g>"),
        ("<a>", "<p>", "<c>", "_:f0_b"),
    ]
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    pq.write_table(table.slice(0, 1), folder / "part-0.parquet")
    pq.write_table(table.slice(2, 1).drop(["g"]), folder / "part-1.parquet")
    assert [quad[2] for quad in quads_of(folder)] == ['"x"@en', "<c>"]


def test_parquet_with_mistakes(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"s": ["<a>", "a", '"l"', "<a>", None], "p": ["<p>", "<p>", "<p>", "_:p", "<p>"], "o": ["<a>"] * 5}),
        tmp_path / "a.parquet",
    )
    failures = Failures(skip=True)
    assert len(quads_of(tmp_path / "a.parquet", failures=failures)) == 1
    assert [failure.line for failure in failures.first] == [2, 3, 4, 5]
    pq.write_table(pa.table({"s": ["<a>"], "x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet: has no column p, o"):
        quads_of(tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"c\.parquet: cannot be read"):
        quads_of(tmp_path / "c.parquet")


def test_blank_nodes_are_scoped_to_their_file(tmp_path: Path) -> None:
    for name in ("a.ttl", "b.ttl", "c.nt"):
        (tmp_path / name).write_text("_:x <http://p> _:x .")
    (tmp_path / "d.ttl").write_text("[] <http://p> [ <http://q> () ] .")
    sources = [StaticSource(tmp_path / name) for name in ("a.ttl", "b.ttl", "c.nt", "d.ttl", "d.ttl")]
    found = [(s, o) for quads in read_all(sources, Failures(skip=False)) for s, o in zip(quads.s, quads.o)]
    assert found[:3] == [("_:f0_x", "_:f0_x"), ("_:f1_x", "_:f1_x"), ("_:f2_x", "_:f2_x")]
    assert {term for pair in found[3:5] for term in pair if term.startswith("_")} == {"_:f3-1", "_:f3-2"}
    assert {term for pair in found[5:] for term in pair if term.startswith("_")} == {"_:f4-1", "_:f4-2"}


def test_a_blank_node_is_one_in_all_graphs_of_a_document(tmp_path: Path) -> None:
    """Also if its label looks like those that pyoxigraph makes, and if it names a graph."""
    label = "b6f0c1d2e3a4958677001122"
    (tmp_path / "a.trig").write_text(
        f"<g:1> {{ _:{label} <n:p> 1 }} <g:2> {{ <n:s> <n:p> _:{label} . [] <n:p> 2 }} [] {{ <n:a> <n:b> <n:c> . <n:d> <n:e> <n:f> }}"
    )
    found = quads_of(tmp_path / "a.trig")
    assert found[0][0] == found[1][2] != found[2][0]
    assert found[3][3] == found[4][3] not in {found[0][0], found[2][0]}


def test_a_document_of_one_long_line(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("<http://s> <http://p> 0" + "".join(f", {i}" for i in range(1, 50_000)) + " . x")
    failures = Failures(skip=True)
    assert len(quads_of(tmp_path / "a.ttl", failures=failures)) == 50_000
    assert [failure.line for failure in failures.first] == [1]


def test_relative_iris_are_resolved_against_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("<x> <http://p> <#y> .")
    assert quads_of(tmp_path / "a.ttl")[0][0] == f"<{(tmp_path / 'x').as_uri()}>"


def test_a_base_direction_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text('<http://s> <http://p> "a"@EN--ltr .')
    assert [quad[2] for quad in quads_of(tmp_path / "a.ttl")] == ['"a"@en--ltr']


# ------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.nt", "<s> <p> <o> .\n\n<s> <p> .\n", r"a\.nt:3: column 9: expected an object"),
        ("a.ttl", "<http://s> <http://p> 1 .\n<http://s> <http://p> ; .\n\n<http://s> x:p 1 .", r"a\.ttl:\d: "),
        ("a.trig", "{ <http://s> <http://p> 1 .\n\n <http://s> 5 1 }", r"a\.trig:3: "),
        ("a.rdf", RDF.replace("</rdf:RDF>", "</rdf:RDG>"), r"a\.rdf:3: "),
        ("a.ttl", "<http://s> <http://p> " + "<<( <http://a> <http://b> " * 200, r"a\.ttl:1: quoted triples are nested deeper"),
        ("a.nt.gz", "not gzip", r"a\.nt\.gz: cannot be read"),
        ("a.nt.zst", "not zstandard", r"a\.nt\.zst: cannot be read"),
    ],
)
def test_the_first_mistake_ends_the_reading(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        quads_of(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_cut_compressed_file(tmp_path: Path) -> None:
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(NT.encode() * 1000)[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        quads_of(tmp_path / "a.nt.gz")


def test_the_lines_before_a_cut_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = 20_000
    for name, compress in (("a.nt.gz", gzip.compress), ("a.nt.zst", zstandard.compress)):
        text = "".join(f"<http://s> <http://p> <http://{i * 7919 % 100_003}> .\n" for i in range(lines))
        (tmp_path / name).write_bytes(compress(text.encode())[:-2_000])
        failures = Failures(skip=True)
        found = quads_of(tmp_path / name, failures=failures)
        assert lines / 2 < len(found) < lines
        assert [failure.message[:14] for failure in failures.first] == ["cannot be read"]


@pytest.mark.parametrize("name", ["a.nt", "a.nq", "a.ttl", "a.trig", "a.rdf"])
def test_byte_order_marks(tmp_path: Path, name: str) -> None:
    head = (
        "<http://s> <http://p> "
        if name != "a.rdf"
        else '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://">'
    )
    text = (
        f'{head}"x" .\n' if name != "a.rdf" else f'{head}<r:Description r:about="http://s"><e:p>x</e:p></r:Description></r:RDF>'
    )
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert quads_of(tmp_path / name) == [("<http://s>", "<http://p>", '"x"', None)]


def test_line_ends_within_literals_of_xml(tmp_path: Path) -> None:
    head = '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://">'
    text = f'{head}\r\n<r:Description r:about="http://s"><e:p>x\r\ny\r\n</e:p></r:Description></r:RDF>'
    (tmp_path / "a.rdf").write_bytes(text.encode())
    assert [quad[2] for quad in quads_of(tmp_path / "a.rdf")] == [r'"x\ny\n"']


def test_mistakes_are_counted_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("bad\n" * 150 + NT)
    (tmp_path / "b.ttl").write_text("<http://s> <http://p> 1 .\n<http://s> x:p 1 .\n<http://s> <http://p> 2 .")
    failures = Failures(skip=True)
    assert quads_of(tmp_path / "a.nt", failures=failures) == TRIPLES
    assert (failures.count, len(failures.first)) == (150, 100)
    failures = Failures(skip=True)
    assert [quad[2][:3] for quad in quads_of(tmp_path / "b.ttl", failures=failures)] == ['"1"', '"2"']
    assert [failure.line for failure in failures.first] == [2]


def test_names_of_files(tmp_path: Path) -> None:
    assert file_format(Path("x.NT.GZ")) == ("nt", "gz")
    assert file_format(Path("x.owl")) == ("rdf", None)
    with pytest.raises(DataError, match=r"x\.csv: unknown format"):
        file_format(Path("x.csv"))
    with pytest.raises(DataError, match="compressed inside"):
        file_format(Path("x.parquet.gz"))
    with pytest.raises(DataError, match="no such file"):
        quads_of(tmp_path / "a.nt")
    (tmp_path / "d.nt").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        quads_of(tmp_path / "d.nt")
    (tmp_path / "a.nt").write_text(NT)
    with pytest.raises(DataError, match="the name of a graph"):
        quads_of(tmp_path / "a.nt", "not an iri")
