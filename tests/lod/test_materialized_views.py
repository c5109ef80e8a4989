from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cqels_opt.errors import StoreError
from cqels_opt.lod import materialized_views
from cqels_opt.lod.materialized_views import find, find_or_compute, open_subresult, save
from cqels_opt.lod.relation import Relation

COAUTHOR = "?person1 <wrote> ?paper . ?person2 <wrote> ?paper -> ?person1 ?person2"
ON = [("person1", "person2"), ("person2",)]


def coauthors() -> Relation:
    return Relation.build({"person1": np.array([1, 2, 2]), "person2": np.array([2, 1, 3])}, np.array([4, 4, 1]))


def test_a_second_registration_uses_it_again(tmp_path: Path) -> None:
    first, was_there = find_or_compute(tmp_path, "store 1", COAUTHOR, ON, coauthors)
    assert not was_there
    again, was_there = find_or_compute(tmp_path, "store 1", COAUTHOR, ON[::-1], coauthors)
    assert was_there
    assert again.folder == first.folder
    assert (again.fingerprint, again.description) == ("store 1", COAUTHOR)
    assert again.relation.indexes == tuple(ON)
    assert again.relation.multiplicities().tolist() == [4, 4, 1]
    assert again.relation.index(ON[0]).lookup(np.array([2]), np.array([3]))[1].tolist() == [2]
    assert [path.name for path in tmp_path.iterdir()] == [first.folder.name]


def test_another_store_pattern_or_index_is_another_sub_result(tmp_path: Path) -> None:
    save(tmp_path, "store 1", COAUTHOR, coauthors(), ON)
    assert find(tmp_path, "store 2", COAUTHOR, ON) is None
    assert find(tmp_path, "store 1", "other", ON) is None
    assert find(tmp_path, "store 1", COAUTHOR, ON[:1]) is None
    assert find(tmp_path / "absent", "store 1", COAUTHOR, ON) is None


def test_a_damaged_one_is_computed_again(tmp_path: Path) -> None:
    saved = save(tmp_path, "store 1", COAUTHOR, coauthors(), ON)
    (saved.folder / materialized_views.RELATION / "c0.npy").unlink()
    with pytest.raises(StoreError, match="missing"):
        open_subresult(saved.folder)
    again, was_there = find_or_compute(tmp_path, "store 1", COAUTHOR, ON, coauthors)
    assert not was_there
    assert again.relation.rows == 3


def test_two_writers_at_once(tmp_path: Path) -> None:
    first = save(tmp_path, "store 1", COAUTHOR, coauthors(), ON)
    second = save(tmp_path, "store 1", COAUTHOR, coauthors(), ON)
    assert first.folder == second.folder
    assert [path.name for path in tmp_path.iterdir()] == [first.folder.name]


def test_a_relation_of_another_sub_result_is_noticed(tmp_path: Path) -> None:
    first = save(tmp_path, "store 1", COAUTHOR, coauthors(), ON)
    other = save(tmp_path, "store 1", "other", coauthors().take(np.array([0])), ON)
    (first.folder / materialized_views.RELATION).rename(tmp_path / "away")
    (other.folder / materialized_views.RELATION).rename(first.folder / materialized_views.RELATION)
    with pytest.raises(StoreError, match="is not what"):
        open_subresult(first.folder)
