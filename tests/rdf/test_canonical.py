"""Canonical texts of many terms at once equal those of each term."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.rdf.canonical import canonical_texts
from cqels_opt.rdf.terms import XSD_INTEGER, XSD_STRING, TermError, canonical

PIECES = st.sampled_from(
    [
        *'<>"\\é\t\n .@-a{\x01',
        "\\u00E9",
        "_:",
        "b0",
        "en",
        "EN",
        "^^",
        f"^^<{XSD_STRING}>",
        f"^^<{XSD_INTEGER}>",
        "<http://e/a>",
        '"x"',
    ]
)


def one(text: str) -> str | None:
    try:
        return canonical(text)
    except TermError:
        return None


@given(st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=8))
def test_as_each_alone(texts: list[str]) -> None:
    assert canonical_texts(pa.array(texts, pa.string())).to_pylist() == [one(text) for text in texts]


@pytest.mark.parametrize("text", ["<http://e/a>", "_:b0", '"x"', '""', '"x y"@en-gb', f'"7"^^<{XSD_INTEGER}>', '"\x7f\x01"'])
def test_texts_that_are_canonical_are_not_looked_at_one_by_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cqels_opt.rdf.canonical._canonical", None)
    assert canonical_texts(pa.array([text])).to_pylist() == [text] == [canonical(text)]


def test_what_is_missing_stays_so() -> None:
    assert canonical_texts(pa.array([None, "x", "<a>"])).to_pylist() == [None, None, "<a>"]
