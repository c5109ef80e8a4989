"""VoID descriptions: their counts, and inconsistent counts."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import DataError
from cqels_opt.rdf.void import Counts, Description, GraphCounts, described, read_description, turtle

HEAD = "@prefix void: <http://rdfs.org/ns/void#> . @prefix : <http://ex.org/> .\n"
NEAR, TYPE = "<http://ex.org/near>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def reading(tmp_path: Path, text: str) -> Description:
    path = tmp_path / "void.ttl"
    path.write_text(HEAD + text)
    return read_description(path)


def test_a_description_as_they_are_published(tmp_path: Path) -> None:
    found = reading(
        tmp_path,
        """:places a void:Dataset ; void:triples 1200 ; void:distinctSubjects 100 ;
             void:propertyPartition [ void:property :near ; void:triples 1000 ; void:distinctSubjects 90 ; void:distinctObjects 80 ] ;
             void:classPartition [ void:class :City ; void:entities 7 ; void:triples 70 ;
                                   void:propertyPartition [ void:property :near ; void:triples 5 ] ] .""",
    )
    assert found == Description(
        GraphCounts(Counts(1200, 100, None), {NEAR: Counts(1000, 90, 80)}, {"<http://ex.org/City>": 7}), {}, ()
    )


def test_a_description_is_a_set_of_triples(tmp_path: Path) -> None:
    part = ":places void:propertyPartition :p . :p void:property :near ; void:triples 7 . "
    assert reading(tmp_path, part * 2) == reading(tmp_path, part)
    assert reading(tmp_path, part * 2).default.properties[NEAR] == Counts(7, None, None)


def test_datasets_and_subsets_add_up(tmp_path: Path) -> None:
    """A dataset without partitions is the sum of its subsets; recursion stops at a dataset that is its own subset."""
    part = "void:propertyPartition [ void:property :near ; void:triples %d ; void:distinctObjects 3 ]"
    found = reading(
        tmp_path,
        f":a void:subset :b, :c . :b void:triples 10 ; {part % 10} . :c void:subset :c ; void:triples 5 ; {part % 5} ."
        f":d a void:Dataset ; void:triples 7 ; {part % 7} .",
    )
    assert found.default == GraphCounts(Counts(22, None, None), {NEAR: Counts(22, None, 9)}, {})


def test_wrong_numbers_are_left_out_and_named(tmp_path: Path) -> None:
    found = reading(
        tmp_path,
        """:d void:triples "many" ;
           void:propertyPartition [ void:property :near ; void:triples 10 ; void:distinctSubjects 11 ; void:distinctObjects -4 ] ;
           void:propertyPartition [ void:property :at ; void:triples 1, 2 ] ;
           void:classPartition [ void:class :City ; void:entities 1.5 ] .""",
    )
    assert found.default == GraphCounts(Counts(), {NEAR: Counts(10), "<http://ex.org/at>": Counts()}, {})
    assert sorted(fault.partition(" is ")[0] for fault in found.faults) == [
        "void:distinctObjects of property <http://ex.org/near>",
        "void:distinctSubjects of property <http://ex.org/near>",
        "void:entities of class <http://ex.org/City>",
        "void:triples of <http://ex.org/d>",
        "void:triples of property <http://ex.org/at>",
    ]
    warning = found.warning("void.ttl")
    assert warning is not None and warning.startswith("void.ttl: void:") and "(and 4 more)" in warning


@pytest.mark.parametrize("text", [":a :b :c .", ":d a void:Dataset .", ":d void:triples 'x' ."])
def test_a_file_that_describes_nothing_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no VoID description"):
        reading(tmp_path, text)


counts = st.integers(0, 50).flatmap(
    lambda n: st.builds(Counts, st.just(n), st.none() | st.integers(0, n), st.none() | st.integers(0, n))
)
names = st.sampled_from([NEAR, TYPE, "<http://ex.org/at>"])
graphs = st.builds(GraphCounts, counts, st.dictionaries(names, counts, max_size=3), st.dictionaries(names, st.integers(0, 9)))


@pytest.mark.long
@given(st.builds(Description, graphs, st.dictionaries(names, graphs, max_size=2)))
def test_what_is_written_is_read_back(description: Description) -> None:
    triples = [
        (str(t.subject), str(t.predicate), str(t.object)) for t in ox.parse(turtle(description), format=ox.RdfFormat.TURTLE)
    ]
    assert described(triples) == description
