"""Pages of terms, against dictionaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.operators.term_table import Page, write_page


@pytest.mark.parametrize("seed", range(10))
def test_a_page_finds_what_a_dictionary_finds(seed: int, tmp_path: Path) -> None:
    """Ids with equal prefixes, of several kinds, present and absent, on pages of any size."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 300))
    few = np.unique(rng.integers(1, 4, size) << 60 | rng.integers(0, 1 << int(rng.integers(9, 60)), size))
    terms = {number: f'"{number}"' for number in few.tolist()}
    write_page(tmp_path / "page.arrow", few, list(terms.values()))
    page = Page(tmp_path / "page.arrow")
    near = few[rng.integers(0, len(few), 200)] + rng.integers(-2, 3, 200) if len(few) else few
    wanted = rng.permutation(np.concatenate([few, near, rng.integers(1, 1 << 62, 100)]))
    found, texts = page.find(wanted)
    assert found.tolist() == [number in terms for number in wanted.tolist()]
    assert texts == [terms[number] for number in wanted.tolist() if number in terms]
    given = [text if (text := terms.get(number)) and rng.random() < 0.5 else "another" for number in wanted.tolist()]
    others = page.others(wanted, pa.array(given, pa.string())).tolist()
    assert others == [number in terms and terms[number] != text for number, text in zip(wanted.tolist(), given)]
