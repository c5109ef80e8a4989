"""Terms by their ids: each once, and two texts of one id never pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.operators.term_table import Page, write_page
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.runtime.term_encoding import Texts
from cqels_opt.state.compaction import PagesTask, merge
from cqels_opt.windows.binding_slots import SlotFile


def held(*blocks: dict[int, str]) -> Texts:
    texts = Texts()
    for block in blocks:
        texts.add(np.array(list(block), np.int64), pa.array(list(block.values())))
    return texts


def test_texts_of_ids() -> None:
    texts = held({7: "<c>", 3: "<a>"}, {5: "<b>", 3: "<a>"})
    for asked, expected in (([3, 7, 9, 3], {3: "<a>", 7: "<c>"}), ([5], {5: "<b>"}), ([], {}), ([9], {})):
        ids, found = texts.of(np.array(asked, np.int64))
        assert dict(zip(ids.tolist(), found.to_pylist())) == expected
    assert len(Texts().of(np.array([3]))[0]) == 0


def test_two_texts_of_one_id_are_said() -> None:
    texts = held({7: "<c>", 3: "<a>"}, {3: "<b>"})
    assert texts.losers([]) == ["<b>"]
    with pytest.raises(CollisionError):
        texts.of(np.array([7]))


def test_a_term_that_is_known_keeps_its_id(tmp_path: Path) -> None:
    """Whichever of two terms of a batch is the least."""
    write_page(tmp_path / "page", np.array([3, 9], np.int64), ["<b>", "<x>"])
    page = Page(tmp_path / "page")
    assert held({3: "<a>"}, {3: "<b>"}, {9: "<x>"}).losers([page]) == ["<a>"]
    assert held({3: "<b>", 9: "<x>"}).losers([page]) == []
    assert held({9: "<y>"}).losers([page]) == ["<y>"]


def test_two_texts_of_one_id_are_said_where_pages_are_merged(tmp_path: Path) -> None:
    def merged(*pages: dict[int, str]) -> SlotFile:
        for number, page in enumerate(pages):
            write_page(tmp_path / f"p{number}", np.array(list(page), np.int64), list(page.values()))
        files = tuple(SlotFile("terms", f"p{i}", "<s>", rows=len(page), greatest=i) for i, page in enumerate(pages))
        return merge(PagesTask(str(tmp_path), "merged", files))

    file = merged({7: "<c>", 3: "<a>"}, {3: "<a>", 5: "<b>"})
    page = Page(tmp_path / file.path)
    assert dict(zip(page.ids.tolist(), page.terms.to_pylist())) == {3: "<a>", 5: "<b>", 7: "<c>"}
    assert (file.stream, file.rows, file.greatest) == ("<s>", 3, 1)
    with pytest.raises(CollisionError, match="<b>"):
        merged({3: "<a>"}, {3: "<b>"})
