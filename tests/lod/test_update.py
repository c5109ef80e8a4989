"""An update makes of a store what a load of the changed data makes, beside the version before; whatever is killed, one of them is there."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from killed_process import died

from cqels_opt.errors import DataError, StoreError
from cqels_opt.lod import update as updating
from cqels_opt.lod.build import build_store
from cqels_opt.lod.check import check
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import hold, version_at
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.lod.update import extend, update
from cqels_opt.rdf.ids import PUBLIC, encode_one
from cqels_opt.rdf.quads import Quad
from cqels_opt.rdf.static import StaticSource

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
SUBJECTS = [f"<http://ex.org/{i}>" for i in range(4)]
OBJECTS = [*SUBJECTS, '"text"', f'"7"^^<{INTEGER}>', "<<( <http://ex.org/0> <http://ex.org/p> <http://ex.org/1> )>>"]
quads = st.tuples(
    st.sampled_from(SUBJECTS),
    st.sampled_from(["<http://ex.org/p>", "<http://ex.org/q>"]),
    st.sampled_from(OBJECTS),
    st.sampled_from([None, "<http://ex.org/g>"]),
)
some = st.lists(quads, max_size=12)


def written(folder: Path, name: str, found: list[Quad]) -> list[StaticSource]:
    """The quads as a file."""
    path = folder / f"{name}.nq"
    path.write_text("".join(f"{' '.join(x for x in quad if x)} .\n" for quad in found))
    return [StaticSource(path)]


def everything(store: Store) -> set[tuple[str | None, ...]]:
    """All triples, with the names of their graphs."""
    found: set[tuple[str | None, ...]] = set()
    for graph in (None, "g"):
        relation = store.match(StaticPattern("s", "p", "o", graph))
        texts = [store.decode(np.asarray(relation.columns[v])) for v in ("s", "p", "o", *(["g"] if graph else []))]
        found |= set(zip(*texts, *([] if graph else [[None] * relation.rows])))
    return found


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(some, st.lists(st.tuples(some, some), min_size=1, max_size=5))
def test_an_updated_store_is_what_a_load_makes_of_the_same_triples(
    tmp_path_factory: pytest.TempPathFactory, first: list[Quad], steps: list[tuple[list[Quad], list[Quad]]]
) -> None:
    folder = tmp_path_factory.mktemp("update")
    build_store(folder / "s", first, durable=False)
    held, number = set(first), 1
    for gone, come in steps:
        before, number = held, number + 1
        held = (held - set(gone)) | set(come)
        report = update(folder / "s", written(folder, "come", come), written(folder, "gone", gone), durable=False)
        assert (report.number, report.added, report.removed) == (number, len(held - before), len(before - held))
        store = open_store(folder / "s")
        assert everything(store) == held and store.triples == len(held)
        assert check(folder / "s") == []
    loaded = build_store(folder / "t", sorted(held, key=str), durable=False)
    mine = {key: entry for key, entry in store.entries.items() if key[0] != store.quoted}
    assert mine == {key: entry for key, entry in loaded.entries.items() if key[0] != loaded.quoted}


@settings(max_examples=10, deadline=None)
@given(some, some, some)
def test_a_store_of_a_store_and_files_is_what_a_load_makes_of_both(
    tmp_path_factory: pytest.TempPathFactory, first: list[Quad], second: list[Quad], third: list[Quad]
) -> None:
    folder = tmp_path_factory.mktemp("extend")
    build_store(folder / "s", first, durable=False)
    update(folder / "s", written(folder, "second", second), durable=False)
    report = extend(folder / "s", files := written(folder, "third", third), folder / "t", durable=False)
    given, made = version_at(folder / "s"), version_at(folder / "t")
    assert everything(open_store(folder / "t")) == {*first, *second, *third} and report.triples == len({*first, *second, *third})
    assert (
        report.read == len({*third})
        and made.number == given.number + 1
        and made.lineage != given.lineage
        and made.key == given.key
    )
    update(folder / "t", remove=files, durable=False)
    assert everything(open_store(folder / "t")) == {*first, *second} - {*third}
    assert everything(open_store(folder / "s")) == {*first, *second}
    assert check(folder / "s") == check(folder / "t") == []


@pytest.mark.parametrize("size", [1, 3])
def test_large_partitions_are_merged_in_pieces(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "MERGED", size)
    first = [(f"<http://ex.org/{i % 5}>", "<http://p>", f"<http://ex.org/{i}>", None) for i in range(23)]
    gone = first[::4]
    come = [(f"<http://ex.org/{i % 7}>", "<http://p>", f"<http://ex.org/{i}>", None) for i in range(15, 30)]
    build_store(tmp_path / "s", first)
    update(tmp_path / "s", written(tmp_path, "come", come), written(tmp_path, "gone", gone))
    loaded = build_store(tmp_path / "t", sorted({*first, *come} - {*gone} | {*come}))
    assert open_store(tmp_path / "s").entries == loaded.entries


def test_what_does_not_change_is_shared(tmp_path: Path) -> None:
    build_store(
        tmp_path / "s", [("<http://a>", "<http://p>", "<http://b>", None), ("<http://a>", "<http://q>", "<http://b>", None)]
    )
    before = open_store(version_at(tmp_path / "s").place)
    update(tmp_path / "s", written(tmp_path, "come", [("<http://new>", "<http://q>", "<http://b>", None)]))
    after = open_store(tmp_path / "s")
    same = [key for key, entry in after.entries.items() if before.entries[key] == entry]
    assert len(same) == 1
    (column,) = [(store.data / store.entries[same[0]].folder / "c0.npy") for store in (after,)]
    assert column.samefile(before.data / before.entries[same[0]].folder / "c0.npy")
    assert before.triples == 2  # the version before can still be read
    assert check(Path(version_at(before.path).place)) == []


def test_layers_of_the_dictionary_are_merged(tmp_path: Path) -> None:
    build_store(tmp_path / "s", [(f"<http://old/{i}>", "<http://p>", "<http://o>", None) for i in range(50)], durable=False)
    for number in range(20):
        come = written(tmp_path, "come", [(f"<http://new/{number}>", "<http://p>", "<http://o>", None)])
        update(tmp_path / "s", come, durable=False)
    store = open_store(tmp_path / "s")
    assert {part.entry.layer for part in store.dictionary.parts} <= set(range(7))  # 20 of 1 term each: a logarithmic number
    assert store.terms == 72 and store.triples == 70
    assert check(tmp_path / "s") == []


@pytest.mark.parametrize("fatal", range(1, 130, 9))
def test_a_killed_update_leaves_the_old_version_or_the_new_one(fatal: int, tmp_path: Path) -> None:
    target = tmp_path / "s"
    build_store(target, [(f"<http://old/{i}>", "<http://p>", "<http://o>", None) for i in range(3)])
    come = written(tmp_path, "come", [("<http://new>", "<http://p>", "<http://o>", None)])
    gone = written(
        tmp_path,
        "gone",
        [("<http://old/1>", "<http://p>", "<http://o>", None), ("<http://old/2>", "<http://p>", "<http://o>", None)],
    )
    killed = died(target, fatal, lambda: update(target, come, gone, durable=False))
    assert check(target) == []
    number = version_at(target).number
    assert open_store(target).triples == {1: 3, 2: 2}[number]
    assert killed or number == 2
    assert update(target, come, gone, durable=False).number == number + 1
    assert open_store(target).triples == 2
    assert sum(path.is_dir() and path.name != "readers" for path in target.iterdir()) == 2  # this version and the one before


def test_a_version_stays_while_the_state_of_its_reader_is_there(tmp_path: Path) -> None:
    target, reader = tmp_path / "s", tmp_path / "checkpoint"
    build_store(target, [("<http://a>", "<http://p>", "<http://b>", None)])
    reader.mkdir()
    first = version_at(target)
    hold(reader, [first.place])
    for number in range(3):
        update(target, written(tmp_path, "come", [(f"<http://{number}>", "<http://p>", "<http://b>", None)]))
    assert open_store(first.place).triples == 1
    build_store(target, [("<http://a>", "<http://other>", "<http://b>", None)])  # a load lets it stay as well
    assert open_store(first.place).triples == 1
    assert not first.followed_by(version_at(target))  # it is another lineage
    shutil.rmtree(reader)
    build_store(target, [("<http://a>", "<http://p>", "<http://b>", None)])
    assert not Path(first.place).exists()
    reader.mkdir()
    with pytest.raises(StoreError, match="this version of the store is gone"):
        hold(reader, [first.place])


@pytest.mark.parametrize("where", ["_new_terms", "_dictionary", "finish"])
def test_a_load_waits_for_an_update_that_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It would delete what the update reads, or be replaced by the next version of the old data."""
    store, new = tmp_path / "s", ("<http://ex.org/new>", "<http://ex.org/q>", '"text"', None)
    build_store(store, [(f"<http://ex.org/{i}>", f"<http://ex.org/p{i % 3}>", '"text"', None) for i in range(50)])
    loads: list[threading.Thread] = []
    before = getattr(updating, where)

    def hooked(*given: Any, **named: Any) -> Any:
        loads.append(threading.Thread(target=build_store, args=(store, [new])))
        loads[0].start()
        loads[0].join(0.5)
        return before(*given, **named)

    monkeypatch.setattr(updating, where, hooked)
    assert update(store, written(tmp_path, "come", [("<http://ex.org/more>", "<http://ex.org/p0>", '"text"', None)])).number == 2
    loads[0].join()
    assert everything(open_store(store)) == {new}
    assert not check(store)


def test_a_version_of_a_store_is_not_updated_by_itself(tmp_path: Path) -> None:
    build_store(tmp_path / "s", [("<http://ex.org/0>", "<http://ex.org/p>", '"text"', None)])
    (version,) = (tmp_path / "s").glob("data-*")
    with pytest.raises(StoreError, match=r"data-\w+: it is a version of the store .*/s: update the store"):
        update(version, written(tmp_path, "come", []))


def test_blank_nodes_of_an_added_file_are_new_ones(tmp_path: Path) -> None:
    (tmp_path / "blank.nt").write_text("_:a <http://p> <http://b> .\n")
    build_store(tmp_path / "s", [("_:f0_a", "<http://p>", "<http://b>", None)])
    for _ in range(2):
        update(tmp_path / "s", [StaticSource(tmp_path / "blank.nt")])
    assert open_store(tmp_path / "s").triples >= 2
    with pytest.raises(DataError, match=r"blank\.nt: what is to be removed cannot have blank nodes"):
        update(tmp_path / "s", remove=[StaticSource(tmp_path / "blank.nt")])


def test_blank_nodes_of_files_and_of_the_store_that_they_are_added_to_are_different(tmp_path: Path) -> None:
    (tmp_path / "blank.nt").write_text("_:a <http://p> <http://b> .\n")
    build_store(tmp_path / "s", [], durable=False)
    for _ in range(3):
        update(tmp_path / "s", [StaticSource(tmp_path / "blank.nt")], durable=False)
    extend(tmp_path / "s", [StaticSource(tmp_path / "blank.nt")] * 2, tmp_path / "t", durable=False)
    assert open_store(tmp_path / "t").triples == 5
    update(tmp_path / "t", [StaticSource(tmp_path / "blank.nt")], durable=False)
    assert open_store(tmp_path / "t").triples == 6


def test_triple_terms_to_be_removed_have_no_blank_nodes(tmp_path: Path) -> None:
    reified = '<http://r> <http://p> <<( _:a <http://p> <<( <http://x> <http://p> "_:text" )>> )>> .\n'
    (tmp_path / "blank.nt").write_text(reified)
    (tmp_path / "text.nt").write_text(reified.replace("_:a", "<http://a>"))
    build_store(tmp_path / "s", [("<http://a>", "<http://p>", "<http://b>", None)])
    update(tmp_path / "s", [StaticSource(tmp_path / "text.nt")])
    with pytest.raises(DataError, match=r"blank\.nt: what is to be removed cannot have blank nodes"):
        update(tmp_path / "s", remove=[StaticSource(tmp_path / "blank.nt")])
    assert update(tmp_path / "s", remove=[StaticSource(tmp_path / "text.nt")]).removed == 1


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store; cqels-opt load makes one"):
        update(tmp_path / "none")
    with pytest.raises(StoreError, match="a store is updated in a folder"):
        update("s3://bucket/store")
    build_store(tmp_path / "s", [("<http://a>", "<http://p>", "<http://b>", None)])
    (tmp_path / "bad.nt").write_text("<http://a> <http://p> <http://c> .\nnonsense\n")
    with pytest.raises(DataError, match=r"bad\.nt:2: "):
        update(tmp_path / "s", [StaticSource(tmp_path / "bad.nt")])
    assert version_at(tmp_path / "s").number == 1
    assert update(tmp_path / "s", [StaticSource(tmp_path / "bad.nt")], on_error="skip").skipped == 1
    assert open_store(tmp_path / "s").triples == 2


# ------------------------------------------------------------------ terms with equal ids
@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(some, st.lists(st.tuples(some, some), min_size=1, max_size=4))
def test_updates_tell_terms_with_equal_ids_apart(
    tmp_path_factory: pytest.TempPathFactory, first: list[Quad], steps: list[tuple[list[Quad], list[Quad]]]
) -> None:
    """With 16 ids of each kind; of what is removed as well as of what is added."""
    folder = tmp_path_factory.mktemp("update")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cqels_opt.rdf.ids.HASH_BITS", 4)
        build_store(folder / "s", first, durable=False)
        held = set(first)
        for number, (gone, come) in enumerate(steps):
            update(folder / "s", written(folder, f"c{number}", come), written(folder, f"g{number}", gone), durable=False)
            held = held - set(gone) | set(come)
        assert everything(open_store(folder / "s")) == held
        assert check(folder / "s") == []


def test_an_update_gives_a_second_id_to_a_term_whose_id_the_store_has_for_another_one(tmp_path: Path) -> None:
    old, new = "<http://a.org/zrcn1imlm5dc>", "<http://a.org/hb4mggqwr1rn>"
    assert encode_one(old, PUBLIC) == encode_one(new, PUBLIC)
    build_store(tmp_path / "s", [(old, "<p>", "<o>", None)], scheme=PUBLIC)
    kept: Quad = (old, "<p>", "<o>", None)
    update(tmp_path / "s", (), written(tmp_path, "wrong", [(new, "<http://p>", "<http://o>", None)]))
    update(tmp_path / "s", written(tmp_path, "new", [(new, "<http://p>", "<http://o>", None)]))
    assert everything(open_store(tmp_path / "s")) == {kept, (new, "<http://p>", "<http://o>", None)}
