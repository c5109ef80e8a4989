"""The ids of known terms: by distinct term and by row they are those of a dictionary."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.state import known_terms
from cqels_opt.state.known_terms import KnownTerms


def test_rows_have_the_ids_of_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_terms, "MANY_ROWS", 4)
    monkeypatch.setattr(known_terms, "SAMPLED", 4)
    by_row = 0
    for seed in range(200):
        rng = random.Random(seed)
        known, expected = KnownTerms(), dict[str, int]()
        for _ in range(rng.randrange(4)):  # also after the table was made
            more = {f"<{(name := rng.randrange(9))}>": name + 1 for _ in range(rng.randrange(6))}
            known.remember(pa.array(more, pa.string()), np.array([*more.values()], np.int64))
            expected |= more
            rows = [f"<{rng.randrange(rng.choice((5, 10)))}>" for _ in range(rng.randrange(40))]
            column = pa.chunked_array([rows[: len(rows) // 2], rows[len(rows) // 2 :]], pa.string())
            ids = [expected.get(row, 0) for row in rows]
            assert known.of(pa.array(rows, pa.string())).tolist() == ids
            found = known.of_rows(column)
            assert found is None or found.tolist() == ids
            by_row += found is not None
    assert by_row > 30


def test_columns_that_are_not_looked_up_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with missing terms or a dictionary, and those of which most terms are not known."""
    monkeypatch.setattr(known_terms, "MANY_ROWS", 2)
    monkeypatch.setattr(known_terms, "SAMPLED", 4)
    known = KnownTerms()
    known.remember(pa.array(["<a>"]), np.array([7]))
    texts = pa.chunked_array([["<a>", "<a>"]], pa.string())
    found = known.of_rows(texts)
    assert found is not None and found.tolist() == [7, 7]
    for column in (
        pa.chunked_array([["<a>", None]], pa.string()),
        texts.dictionary_encode(),
        pa.chunked_array([["<b>", "<a>"]], pa.string()),
        texts.slice(1),
    ):
        assert known.of_rows(column) is None


def test_too_many_terms_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_terms, "MOST_KNOWN", 2)
    known = KnownTerms()
    for term in ("<a>", "<b>", "<c>"):
        known.remember(pa.array([term]), np.array([5]))
    assert known == {"<c>": 5}
