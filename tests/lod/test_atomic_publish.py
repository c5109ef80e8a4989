"""At any moment there is the old store or the new one, whatever is killed; and loads to one target do not mix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_process import died, triples

from cqels_opt.errors import StoreError
from cqels_opt.lod import open_store as opening
from cqels_opt.lod.atomic_publish import clear, load_place
from cqels_opt.lod.build import build_store
from cqels_opt.lod.files import VERSION
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import Store

OLD = [(f"<http://old/{i}>", "<http://p>", "<http://o>", None) for i in range(3)]
NEW = [(f"<http://new/{i}>", "<http://q>", '"text"', None) for i in range(5)]


def died_loading(target: Path, fatal: int) -> bool:
    """Loads NEW in a process that is killed at its n-th change of the target; False where it has fewer."""
    return died(target, fatal, lambda: build_store(target, NEW, durable=False))


@pytest.mark.long
@pytest.mark.parametrize("first", [False, True], ids=["over a store", "the first"])
def test_killed_at_any_point_there_is_the_old_store_or_the_new_one(tmp_path: Path, first: bool) -> None:
    before = None if first else 3
    seen, fatal = [], 1
    while True:
        target = tmp_path / str(fatal)
        if not first:
            build_store(target, OLD, durable=False)
        if not died_loading(target, fatal):
            break
        seen.append(triples(target))
        # the next load finds what the killed one left, and leaves nothing but its store
        build_store(target, NEW, durable=False)
        assert triples(target) == 5
        assert sorted(path.name[:5] for path in target.iterdir() if path.suffix != ".lock") == ["data-", "store"]
        fatal += 1
    assert len(seen) > 20
    change = seen.index(5)
    assert seen == [before] * change + [5] * (len(seen) - change)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A target to which another load is under way."""
    with load_place(tmp_path / "s") as place:
        (place.folder / "half").write_text("x")
        yield place.folder


def test_a_load_leaves_another_one_alone(tmp_path: Path, held: Path) -> None:
    build_store(tmp_path / "s", OLD)
    clear(tmp_path / "s")
    assert (held / "half").read_text() == "x"
    assert triples(tmp_path / "s") == 3


def test_the_last_of_two_loads_stays(tmp_path: Path) -> None:
    target = tmp_path / "s"
    with load_place(target) as slow:
        build_store(target, OLD)
        assert triples(target) == 3
        (slow.folder / "mine").mkdir()
    assert triples(target) == 3
    build_store(target, NEW)
    assert triples(target) == 5
    assert sorted(path.name[:5] for path in target.iterdir() if path.suffix != ".lock") == ["data-", "store"]


def test_what_cannot_be_read_is_not_removed_before_there_is_something_better(tmp_path: Path) -> None:
    """A header of a newer version: a load that fails must not have cost the data."""
    build_store(tmp_path / "s", OLD)
    header = tmp_path / "s" / "store.json"
    header.write_text(header.read_text().replace(f'"version": {VERSION}', '"version": 99'))
    files = set((tmp_path / "s").rglob("*.npy"))
    with pytest.raises(OSError, match="disk is full"), load_place(tmp_path / "s"):
        raise OSError("disk is full")
    assert set((tmp_path / "s").rglob("*.npy")) == files
    build_store(tmp_path / "s", NEW)
    assert triples(tmp_path / "s") == 5
    assert not files & set((tmp_path / "s").rglob("*.npy"))


def test_a_store_that_is_replaced_while_it_is_opened_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_store(tmp_path / "s", OLD)
    opened = opening._opened
    headers = []

    def replaced(path: Path, header: dict[str, object]) -> Store:
        headers.append(header)
        if len(headers) == 1:
            monkeypatch.setattr(opening, "_opened", opened)
            build_store(path, NEW)
            monkeypatch.setattr(opening, "_opened", replaced)
        return opened(path, header)

    monkeypatch.setattr(opening, "_opened", replaced)
    assert open_store(tmp_path / "s").triples == 5
    assert len(headers) == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"), load_place(tmp_path / "file"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
