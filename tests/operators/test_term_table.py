"""Pages of terms, against dictionaries."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.errors import RunError
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.term_table import Page, TermTable, write_page
from cqels_opt.rdf.ids import PUBLIC, integer_ids


@pytest.mark.parametrize("seed", range(10))
def test_a_page_finds_what_a_dictionary_finds(seed: int, tmp_path: Path) -> None:
    """Ids with equal prefixes, of several kinds, present and absent, on pages of any size."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 300))
    few = np.unique(rng.integers(1, 4, size) << 60 | rng.integers(0, 1 << int(rng.integers(9, 60)), size))
    terms = {number: f'"{number}"' for number in few.tolist()}
    write_page(tmp_path / "page.arrow", few, list(terms.values()))
    page = Page.open(tmp_path / "page.arrow")
    near = few[rng.integers(0, len(few), 200)] + rng.integers(-2, 3, 200) if len(few) else few
    wanted = rng.permutation(np.concatenate([few, near, rng.integers(1, 1 << 62, 100)]))
    found, texts = page.find(wanted)
    assert found.tolist() == [number in terms for number in wanted.tolist()]
    assert texts == [terms[number] for number in wanted.tolist() if number in terms]
    given = [text if (text := terms.get(number)) and rng.random() < 0.5 else "another" for number in wanted.tolist()]
    others = page.others(wanted, pa.array(given, pa.string())).tolist()
    assert others == [number in terms and terms[number] != text for number, text in zip(wanted.tolist(), given)]

    parts = np.sort(rng.integers(0, len(few) + 1, 4))
    each = [
        Page(some, pa.array(map(terms.__getitem__, some.tolist()), pa.string())) for some in np.split(rng.permutation(few), parts)
    ]
    together = Page.together([*each[:2], Page.together(each[1:])])
    assert (np.diff(together.ids) >= 0).all()
    found, texts = together.find(wanted)
    assert found.tolist() == [number in terms for number in wanted.tolist()]
    assert texts == [terms[number] for number in wanted.tolist() if number in terms]
    assert together.others(wanted, pa.array(given, pa.string())).tolist() == others


@pytest.mark.parametrize("seed", range(6))
def test_a_column_has_the_texts(seed: int, tmp_path: Path) -> None:
    """Of terms of the store, of a page, made, inline and unbound, in any order; with and without the store's own columns."""
    rng = np.random.default_rng(seed)
    names = [f"<http://ex.org/{number}>" for number in range(30)]
    codes = TermTable(PUBLIC, None).ids(names)
    owner = rng.integers(0, 3, len(names))
    stored = {code: name for code, name, of in zip(codes.tolist(), names, owner.tolist()) if of == 0}
    paged = owner == 1
    write_page(tmp_path / "page.arrow", codes[paged], [name for name, of in zip(names, owner.tolist()) if of == 1])
    made = {code: name for code, name, of in zip(codes.tolist(), names, owner.tolist()) if of == 2}
    asked = []

    def column(ids: Ints) -> tuple[Ints, pa.StringArray]:
        asked.append(ids)
        places = rng.permutation([place for place, number in enumerate(ids.tolist()) if number in stored]).astype(np.int64)
        return places, pa.array([stored[number] for number in ids[places].tolist()], pa.string())

    def decode(ids: Ints) -> list[str | None]:
        return [stored.get(number) for number in ids.tolist()]

    pages = partial(list, [Page.open(tmp_path / "page.arrow")])
    wanted = rng.permutation(np.concatenate([codes, integer_ids(np.arange(5)), [0]]))
    found = TermTable(PUBLIC, decode, pages, constants=made, columns=column).column(wanted)
    plain = TermTable(PUBLIC, decode, pages, constants=made)
    assert found.to_pylist() == [text or "" for text in plain.texts(wanted)] == plain.column(wanted).to_pylist()
    assert asked
    with pytest.raises(RunError, match="no page of terms"):
        TermTable(PUBLIC, decode, columns=column).column(TermTable(PUBLIC, None).ids(["<http://ex.org/absent>"]))
