"""Entities of RDF/XML: abbreviations of namespaces work; expansion of a small file to a large one is rejected."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from cqels_opt.errors import DataError
from cqels_opt.rdf.entities import MOST
from cqels_opt.rdf.static import Failures, StaticSource, read_all
from cqels_opt.verify.inputs import read_static

OWL = "http://www.w3.org/2002/07/owl#"
BODY = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">
<rdf:Description rdf:about="http://a">{}</rdf:Description></rdf:RDF>"""
READERS = ["load", "verify"]


def objects(reader: str, path: Path) -> list[str]:
    if reader == "verify":
        return [o for _, (_, _, o) in read_static(path)]
    return [o for quads in read_all([StaticSource(path)], Failures(skip=False)) for o in quads.o]


def document(tmp_path: Path, declarations: str, body: str) -> Path:
    file = tmp_path / "a.owl"
    file.write_text(f"<!DOCTYPE rdf:RDF [\n{declarations}\n]>\n{BODY.format(body)}", encoding="utf-8")
    return file


def laughs(levels: int, times: int = 10) -> str:
    return '<!ENTITY a0 "ha">\n' + "\n".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * times}">' for i in range(levels))


@pytest.mark.parametrize("reader", READERS)
def test_abbreviations_of_namespaces(reader: str, tmp_path: Path) -> None:
    declared = f'<!-- of OWL -->\n<!ENTITY owl "{OWL}">\n<!ENTITY\n  thing\n  "&owl;Thing&#33;" > <!ENTITY % unused "x">'
    file = document(tmp_path, declared, '<e:p rdf:resource="&owl;Class"/><e:p>&thing; &amp; &lt;</e:p>')
    assert objects(reader, file) == [f"<{OWL}Class>", f'"{OWL}Thing! & <"']


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("declarations", "line"),
    [
        (laughs(7), 5),  # 589 bytes that expanded to 20 MB
        (f'<!ENTITY a "{"x" * (MOST + 1)}">', 2),  # referenced a million times
        (f'<!ENTITY a "{"x" * (MOST - 1)}">\n<!ENTITY a "">\n<!ENTITY b "yy&a;">', 4),
        (f'<!-- <!ENTITY\na\n"{"x" * (MOST + 1)}"> -->', 4),
    ],
    ids=["laughs", "long", "twice", "comment"],
)
def test_what_expands_is_refused(reader: str, declarations: str, line: int, tmp_path: Path) -> None:
    file = document(tmp_path, declarations, "<e:p>&a7;</e:p>")
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"a\.owl:{line}: the entity \w+ stands for [\d,]+ characters, and may stand for 256"):
        objects(reader, file)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "declaration",
    ['<!ENTITY a SYSTEM "file:///etc/hosts">', "<!ENTITY a 'one'>", '<!ENTITY%%a "x">', '<!ENTITY a "' + "x" * 5000],
)
def test_other_declarations_are_refused(reader: str, declaration: str, tmp_path: Path) -> None:
    file = document(tmp_path, declaration, "<e:p>&a;</e:p>")
    with pytest.raises(
        DataError, match=r"a\.owl:[2-4]: a declaration of an entity cannot be read: write <!ENTITY name \"value\">"
    ):
        objects(reader, file)


def test_a_file_grows_by_a_bounded_factor(tmp_path: Path) -> None:
    file = document(tmp_path, f'<!ENTITY a "{"x" * MOST}">', f"<e:p>{'&a;' * 5000}</e:p>")
    (found,) = objects("load", file)
    assert len(found) == 5000 * MOST + 2 <= file.stat().st_size * MOST / 3


def test_the_file_ends_there_where_bad_input_is_skipped(tmp_path: Path) -> None:
    failures = Failures(skip=True)
    found = list(read_all([StaticSource(document(tmp_path, laughs(3), "<e:p>x</e:p>"))], failures))
    assert (sum(len(quads.s) for quads in found), failures.count) == (0, 1)
