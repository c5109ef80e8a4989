"""The RDF-star study: the size and meaning of its forms, and that all contenders have the same input."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.bench import rdf_star as star
from cqels_opt.bench.local import load
from cqels_opt.rdf.streams import read_stream


def triples_of(path: Path) -> set[int]:
    """The number of triples in the elements of a stream, without statements about the elements."""
    graphs = [g for batch in read_stream(path) for g in batch.column("g").to_pylist() if g is not None]
    return set(Counter(graphs).values())


def test_an_element_has_the_triples_that_its_form_needs(tmp_path: Path) -> None:
    """Per triple, RDF-star has the statements about it and the quotation, an annotation also the triple, reification six."""
    for form, each in (("RDF-star", 2), ("annotation", 3), ("reification", 6)):
        for n in (1, 3):
            assert triples_of(star.write(tmp_path, form, n, seconds=1, rate=2)) == {each * n}, form


def test_bytes_are_those_of_the_element_with_its_prefixes(tmp_path: Path) -> None:
    sizes = list(star.sizes(4))
    assert [row["annotated"] for row in sizes] == [1, 2, 3, 4]
    path = star.write(tmp_path, "RDF-star", 3, seconds=1, rate=1)
    text = re.sub(r'"0\.\d+"', '"0.8444"', path.read_text(encoding="utf-8"))
    assert sizes[2]["bytes"]["RDF-star"] == len(text.encode())
    for form in star.FORMS:  # each annotated triple takes as many bytes as the next one
        steps = np.diff([row["bytes"][form] for row in sizes])
        assert steps.min() == steps.max() > 0
    for row in sizes:
        assert row["bytes"]["RDF-star"] < row["bytes"]["reification"]
        assert row["compressed"]["RDF-star"] < row["compressed"]["reification"]


@pytest.mark.long
def test_all_contenders_answer_the_same(tmp_path: Path) -> None:
    store = load(tmp_path / "store", [])
    (found,) = star.times(tmp_path, store, (3,), seconds=13, rate=4)
    assert set(found["milliseconds"]) == {name for name, _, _ in star.CONTENDERS}
    sure = np.random.default_rng(star.SEED).random(52).round(4) > 0.5
    assert found["answers"] == sum(
        int(sure[4 * second : 4 * second + 40].sum()) for second in (0, 1)
    )  # whose windows have closed


@pytest.mark.long
@pytest.mark.needs_shared_data
def test_the_ehealth_query_raises_the_alert_of_its_story(tmp_path: Path) -> None:
    """Her heart rate is high and her breathing slow; her partner leaves after forty seconds. First and last are checked."""
    over = {row["form"]: row for row in star.ehealth(tmp_path, minutes=1, checked=2)}
    assert set(over) == {"rdf-star", "reification"}
    for row in over.values():
        assert (row["instants"], row["checked"], row["alerts"], row["checked alerts"]) == (6, 2, 1, 1)
