"""Terms by their ids: each once, and two texts of one id never pass."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.lod.build import build_store
from cqels_opt.operators.term_table import Page, write_page
from cqels_opt.rdf.ids import PUBLIC, CollisionError
from cqels_opt.runtime import term_encoding
from cqels_opt.runtime.rejected_elements import RejectSpool
from cqels_opt.runtime.term_encoding import Texts, encode_rows
from cqels_opt.state import known_terms, worker_cache
from cqels_opt.state.compaction import PagesTask, merge
from cqels_opt.state.known_terms import KnownTerms
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.element_rows import ELEMENT_ROWS

EX = "http://ex.org/"


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


def test_texts_of_ids_are_the_same_for_few_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    for _ in range(50):
        block = {rng.randrange(20): "" for _ in range(rng.randrange(1, 12))}
        texts, asked = held({i: f"<{i}>" for i in block}), np.array([rng.randrange(20) for _ in range(9)], np.int64)
        for few in (0, 99):
            monkeypatch.setattr(term_encoding, "FEW", few)
            ids, found = texts.of(asked)
            assert ids.tolist() == sorted(block.keys() & set(asked.tolist()))
            assert found.to_pylist() == [f"<{i}>" for i in ids]


def test_rows_of_known_terms_have_the_ids_of_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has read terms before encodes rows as one that has not, whatever else is in them."""
    store, rng = str(tmp_path / "store"), random.Random(2)
    build_store(Path(store), [(f"<{EX}{i}>", f"<{EX}p>", f"<{EX}o>", None) for i in range(20)], scheme=PUBLIC, durable=False)
    others = ["_:b", '"x"', "no term", f"<{EX}new>", f"<< _:b <{EX}p> <{EX}1> >>", None]
    rows = [
        {"s": rng.choice(others) if rng.random() < 0.1 else f"<{EX}{rng.randrange(20)}>", "p": f"<{EX}p>", "o": f"<{EX}o>"}
        for _ in range(300)
    ]
    given = [
        {**row, "stream": i % 2, "partition": 0, "offset": i, "t": i, "late": False, "line": i} for i, row in enumerate(rows)
    ]
    monkeypatch.setattr(known_terms, "MANY_ROWS", 100)
    by_row = 0

    def of_rows(self: KnownTerms, column: pa.ChunkedArray) -> Any:
        nonlocal by_row
        found = lookup(self, column)
        by_row += found is not None
        return found

    lookup = KnownTerms.of_rows
    monkeypatch.setattr(KnownTerms, "of_rows", of_rows)
    for some in (given, [row for row in given if row["s"] is not None]):
        found = []
        for begin in (True, False):
            if begin:
                worker_cache.term_ids(store, PUBLIC).clear()
            rejected = RejectSpool(str(tmp_path), "rejects.jsonl")
            encoded, texts = encode_rows(
                [pa.Table.from_pylist(some, ELEMENT_ROWS)], ("a", "b"), store, PUBLIC, rejected, False, False
            )
            kept = texts.of(np.concatenate(encoded.terms))
            found.append(([c.tolist() for c in encoded.terms], encoded.bad.tolist(), kept[0].tolist(), kept[1].to_pylist()))
        assert found[0] == found[1]
        assert any(found[0][1])
    assert by_row >= 2


def test_two_texts_of_one_id_are_said() -> None:
    texts = held({7: "<c>", 3: "<a>"}, {3: "<b>"})
    assert texts.losers([]) == ["<b>"]
    with pytest.raises(CollisionError, match="the id of <b> is that of another term"):
        texts.of(np.array([7]))


def test_a_term_that_is_known_keeps_its_id(tmp_path: Path) -> None:
    """Whichever of two terms of a batch is the least."""
    write_page(tmp_path / "page", np.array([3, 9], np.int64), ["<b>", "<x>"])
    page = Page.open(tmp_path / "page")
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
    page = Page.open(tmp_path / file.path)
    assert dict(zip(page.ids.tolist(), page.terms.to_pylist())) == {3: "<a>", 5: "<b>", 7: "<c>"}
    assert (file.stream, file.rows, file.greatest) == ("<s>", 3, 1)
    with pytest.raises(CollisionError, match="<b>"):
        merged({3: "<a>"}, {3: "<b>"})
