"""Sealed files, blocks that are verified when they are touched, and arrays over them that give what numpy gives."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.errors import CheckpointError, StoreError
from cqels_opt.lod.files import map_array, write_array
from cqels_opt.storage import checksum, documents, sealed_files
from cqels_opt.storage.columns import read_arrays, read_table, write_arrays
from cqels_opt.storage.verified_array import VerifiedArray


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are large."""
    monkeypatch.setattr(checksum, "BLOCK", 64)
    monkeypatch.setattr(checksum, "WHOLE", 100)
    checksum.VERIFIED.clear()


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    checksum.VERIFIED.clear()


def seal(path: Path, content: bytes) -> None:
    with sealed_files.sealing(path) as file:
        file.write(content)


def unsealed(path: Path) -> bytes:
    return sealed_files.opened_whole(path).to_pybytes()


def test_a_sealed_file_gives_back_its_content(tmp_path: Path) -> None:
    for content in (b"", b"x", bytes(range(256)) * 20_000):
        seal(tmp_path / "file", content)
        assert unsealed(tmp_path / "file") == content
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_each_byte_of_a_sealed_file_counts(tmp_path: Path) -> None:
    seal(tmp_path / "file", b"what a batch has left")
    for at in range((tmp_path / "file").stat().st_size):
        flip(tmp_path / "file", at)
        with pytest.raises(CheckpointError, match=r"file: the checkpoint is damaged \(.*\); use another folder"):
            unsealed(tmp_path / "file")
        flip(tmp_path / "file", at)
    assert unsealed(tmp_path / "file") == b"what a batch has left"


def test_sealed_files_that_were_swapped(tmp_path: Path) -> None:
    seal(tmp_path / "a", b"one")
    seal(tmp_path / "b", b"two")
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(CheckpointError, match="written under another name"):
        unsealed(tmp_path / "b")


def test_a_sealed_file_that_is_moved_has_its_new_name(tmp_path: Path) -> None:
    seal(tmp_path / "a", b"one")
    sealed_files.move(tmp_path / "a", tmp_path / "b")
    assert unsealed(tmp_path / "b") == b"one"
    assert not (tmp_path / "a").exists()


def test_a_file_is_verified_once_by_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    real = checksum.digest
    monkeypatch.setattr(checksum, "digest", lambda content: (hashed.append(1), real(content))[1])
    for number in range(3):
        seal(tmp_path / f"{number}", b"content" * (number + 1))
        for _ in range(4):
            unsealed(tmp_path / f"{number}")
    assert len(hashed) == 3


def test_a_document_holds_its_own_digest() -> None:
    document = documents.encode("3.json", {"b": [1, None, "é"], "a": {2: 0.1}})
    assert documents.decode("3.json", document) == {"b": [1, None, "é"], "a": {"2": 0.1}}
    with pytest.raises(ValueError, match="digest"):
        documents.decode("3.json", document.replace(b"0.1", b"0.2"))
    for damaged in (b"{}", b"[]", b"3", document[:-1]):
        with pytest.raises(ValueError, match="no document with a digest, or cut off"):
            documents.decode("3.json", damaged)
    with pytest.raises(ValueError, match="digest"):
        documents.decode("4.json", document)


def test_a_name_holds_the_digest_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(b"rows")
    path = checksum.name_after_content(tmp_path / "part.parquet")
    assert checksum.verify_name(path) == path
    flip(path, 2)
    with pytest.raises(CheckpointError, match="does not have its checksum"):
        checksum.verify_name(path)


# ------------------------------------------------------------------ large files
def large(tmp_path: Path, array: np.ndarray) -> VerifiedArray:
    files = write_array(tmp_path, "a.npy", array)
    checksum.VERIFIED.clear()
    found = map_array(tmp_path / "a.npy", files)
    assert isinstance(found, VerifiedArray)
    return found


def test_it_is_verified_by_the_block(tmp_path: Path, small_blocks: None) -> None:
    """Of 1,000 numbers a look-up verifies the blocks in which it ends; a damaged block is found when it is read, not before."""
    array = np.arange(1000) * 3
    entry = write_array(tmp_path, "a.npy", array)
    found = large(tmp_path, array)
    blocks = found._blocks
    header = blocks.pending
    assert np.searchsorted(found, [300, 302]).tolist() == [100, 101]
    assert header - blocks.pending <= 2
    flip(tmp_path / "a.npy", (tmp_path / "a.npy").stat().st_size - 4)
    found = map_array(tmp_path / "a.npy", entry)
    assert found[5] == 15
    assert found.take(np.array([5, 7])).tolist() == [15, 21]
    for read in (found.__getitem__, lambda place: found.take(np.array([place]))):
        with pytest.raises(StoreError, match=r"a\.npy does not have its checksum"):
            read(999)


def test_a_block_that_two_threads_verify_counts_once(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are in the hash of the first block at once. The second block is damaged, and is found when it is read."""
    content, hash_of, both = np.zeros(2 * checksum.BLOCK, np.uint8), checksum.hash_of, threading.Barrier(2)
    known = checksum.BlockHashes(hash_of(content[: checksum.BLOCK].data) + bytes(checksum.SIZE))
    blocks = checksum.Blocks(content, known, checksum.damaged(Path("a")))
    with monkeypatch.context() as patched:
        patched.setattr(checksum, "hash_of", lambda block: (both.wait(), hash_of(block))[1])
        threads = [threading.Thread(target=blocks.verify_span, args=(0, 1)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert blocks.pending == 1
    with pytest.raises(CheckpointError, match="damaged"):
        blocks.verify_all()


def test_a_large_file_is_verified_once_and_mapped_while_it_is_read(
    tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped file takes its space on disk after it was deleted."""
    hashed, hash_of = list[int](), checksum.hash_of
    path, entry = tmp_path / "segment.arrow", write_array(tmp_path, "a.npy", np.arange(1000))
    write_arrays(path, {"a": np.arange(1000)}, {"said": "this"})
    monkeypatch.setattr(checksum, "hash_of", lambda block: (hashed.append(1), hash_of(block))[1])
    for _ in range(3):
        found, stored = read_arrays(path)[0]["a"], map_array(tmp_path / "a.npy", entry)
        assert found[500] == stored[500] == 500
        once = len(hashed)
        assert found.sum() == stored.sum()
        assert mapped_of(tmp_path) == {"a.npy", "segment.arrow"}
        del found, stored
        assert not mapped_of(tmp_path)
    assert once == len(hashed) > 100  # the third reader has verified nothing


def mapped_of(folder: Path) -> set[str]:
    """The files of a folder that this process maps."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {Path(line.split(maxsplit=5)[5]).name for line in lines if str(folder) in line}


def test_it_gives_what_numpy_gives(tmp_path: Path, small_blocks: None) -> None:
    rng = np.random.default_rng(5)
    array = np.sort(rng.integers(0, 500, 400))
    keys = (7, -1, slice(3, 90), slice(None, None, -2), slice(5, 5), rng.integers(-400, 400, 30), array > 250, np.array([], int))
    for key in keys:
        assert np.array_equal(large(tmp_path, array)[key], array[key])
    for side in ("left", "right"):
        probes = rng.integers(-5, 505, 60)
        wanted = np.searchsorted(array, probes, side)  # type: ignore[call-overload]
        assert np.array_equal(np.searchsorted(large(tmp_path, array), probes, side), wanted)  # type: ignore[call-overload]
        assert large(tmp_path, array).searchsorted(probes[0], side) == wanted[0]
    found = large(tmp_path, array)
    assert len(found) == 400 and found.dtype == array.dtype and found.nbytes == array.nbytes and found.shape == (400,)
    assert np.array_equal(np.concatenate([found, found]), np.concatenate([array, array]))
    assert np.array_equal(np.diff(found), np.diff(array)) and np.array_equal(found == 7, array == 7)
    assert np.array_equal(np.asarray(found), array) and found.tolist() == array.tolist() and found.sum() == array.sum()
    assert np.array_equal(found[1:] - found[:-1], np.diff(array)) and np.array_equal(np.unique(found), np.unique(array))


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_misleads_a_search(tmp_path: Path, small_blocks: None, seed: int) -> None:
    """A search goes through elements that it does not return: with any of them damaged the answer is right, or the damage is named."""
    rng = random.Random(seed)
    array = np.array(sorted(rng.sample(range(2000), 300)))
    entry = write_array(tmp_path, "a.npy", array)
    path = tmp_path / "a.npy"
    content = bytearray(path.read_bytes())
    content[rng.randrange(128, len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    found_it = 0
    for probe in rng.sample(range(2000), 40):
        checksum.VERIFIED.clear()
        try:
            assert np.searchsorted(map_array(path, entry), [probe])[0] == np.searchsorted(array, probe)
        except StoreError as error:
            assert "a.npy does not have its checksum" in str(error)
            found_it += 1
    checksum.VERIFIED.clear()
    with pytest.raises(StoreError, match="does not have its checksum"):
        np.asarray(map_array(path, entry))


def test_arrays_of_the_state(tmp_path: Path, small_blocks: None) -> None:
    path = tmp_path / "segment.arrow"
    arrays = {"a": np.arange(500), "b": np.arange(9, dtype=np.int32), "c": np.empty(0, np.int64)}
    write_arrays(path, arrays, {"said": "this"})
    found, said = read_arrays(path)
    assert said == {"said": "this"} and isinstance(found["a"], VerifiedArray)
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    whole = path.read_bytes()
    silent = 0
    for at in range(0, len(whole), 7):
        flip(path, at)
        try:
            found, _ = read_arrays(path)
            silent += 1
            with pytest.raises(CheckpointError, match=r"segment\.arrow: the checkpoint is damaged"):
                [np.asarray(array) for array in found.values()]
        except CheckpointError as error:
            assert "segment.arrow: the checkpoint is damaged" in str(error)
        path.write_bytes(whole)
        checksum.VERIFIED.clear()
    assert silent > 100  # what lies in the arrays themselves is found when it is read


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32])
@pytest.mark.parametrize("length", [0, 1, 7, 200_000])
def test_arrays_of_the_state_are_lists_of_arrow(tmp_path: Path, dtype: type[np.integer], length: int) -> None:
    array = np.arange(2 * length, dtype=dtype)[::2]  # not contiguous
    write_arrays(tmp_path / "a.arrow", {"a": array, "b": array[::-1]}, {"said": "this"})
    expected = pa.table(
        {"a": [array], "b": [array[::-1]]}, schema=pa.schema({n: pa.large_list(pa.array(array).type) for n in "ab"})
    )
    assert read_table(tmp_path / "a.arrow").equals(expected)


@pytest.mark.parametrize("key", [slice(9, 6, -1), slice(6, 10), slice(None, 980, -3), np.array([7, 12])])
def test_every_element_of_a_selection_is_verified(tmp_path: Path, small_blocks: None, key: object) -> None:
    """Whichever of its elements is damaged."""
    array = np.arange(1000) * 3
    entry = write_array(tmp_path, "a.npy", array)
    begin = (tmp_path / "a.npy").stat().st_size - array.nbytes
    for place in np.arange(1000)[key].tolist():  # type: ignore[call-overload]
        flip(tmp_path / "a.npy", begin + place * array.itemsize)
        with pytest.raises(StoreError, match=r"a\.npy does not have its checksum"):
            map_array(tmp_path / "a.npy", entry)[key]
        flip(tmp_path / "a.npy", begin + place * array.itemsize)
