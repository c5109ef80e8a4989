from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.errors import StoreError
from cqels_opt.lod.build import build_store
from cqels_opt.lod.check import PredicateInfo, check, info
from cqels_opt.lod.files import file_entry, write_header
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import array_bytes

FIVE = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
QUADS = [
    ("<http://a>", "<http://p>", "<http://b>", None),
    ("<http://a>", "<http://p>", FIVE, None),
    ("<http://b>", "<http://p>", FIVE, None),
    ("<http://a>", "<http://q>", '"x"', "<http://g>"),
]


def test_info_describes(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", QUADS)
    described = info(tmp_path / "s")
    assert (described.version, described.triples, described.terms, described.graphs) == (5, 4, 6, ("<http://g>",))
    assert described.fingerprint == store.fingerprint
    assert described.predicates == (
        PredicateInfo(None, "<http://p>", 3, 2, 2),
        PredicateInfo("<http://g>", "<http://q>", 1, 1, 1),
    )
    assert described.bytes > 1000


def test_an_intact_store_has_no_findings(tmp_path: Path) -> None:
    build_store(tmp_path / "s", QUADS)
    assert check(tmp_path / "s") == []
    build_store(tmp_path / "empty", [])
    assert check(tmp_path / "empty") == []


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        check(tmp_path / "s")


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    build_store(tmp_path / "s", QUADS)
    files = sorted((tmp_path / "s").rglob("*.npy"))
    assert len(files) > 4
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        try:
            findings = check(tmp_path / "s")
        except StoreError as error:
            findings = [str(error)]
        assert len(findings) == 1 and str(file) in findings[0]
        file.write_bytes(whole)
    assert check(tmp_path / "s") == []


def rewrite(store: Path, folder: Path, name: str, array: np.ndarray) -> None:
    """Replace an array and correct every checksum above it: what a faulty writer would leave."""
    np.save(folder / name, array)
    headers = [store / "store.json"]
    if folder.name != "dictionary":
        headers.insert(0, folder / "relation.json")
    header = json.loads(headers[0].read_text())
    header.pop("checksum")
    if len(headers) == 1:
        header["dictionary"][0]["files"][name] = file_entry(folder / name)
        write_header(headers[0], header)
        return
    header["files"][name] = file_entry(folder / name)
    checksum = write_header(headers[0], header)
    top = json.loads(headers[1].read_text())
    top.pop("checksum")
    for row in top["partitions"]:
        if folder.name == f"{row[1]:016x}":
            row[3:] = [array_bytes(folder), checksum]
    write_header(headers[1], top)


@pytest.mark.parametrize(
    ("name", "change", "finding"),
    [
        ("c0.npy", lambda a: a[::-1], "subjects are not in order"),
        ("c1.npy", lambda a: -a, "objects of a subject are not in order"),
        ("c1.npy", lambda a: a[[1, 1, 1]], "a triple is there twice"),
        ("c1.npy", lambda a: a + 1, "ids have no text"),
        ("i0.starts.npy", lambda a: np.append(a[:1], a[1:] - 1), "index on s does not fit"),
        ("i1.keys.npy", lambda a: a[::-1], "index on o does not fit"),
        ("i1.rows.npy", lambda a: a[[0, 0, 0]], "index on o does not fit"),
    ],
)
def test_what_a_faulty_writer_leaves_is_found(tmp_path: Path, name: str, change, finding: str) -> None:  # type: ignore[no-untyped-def]
    build_store(tmp_path / "s", QUADS)
    folder = next(file.parent for file in (open_store(tmp_path / "s").data / "graphs" / "default").rglob("relation.json"))
    rewrite(tmp_path / "s", folder, name, change(np.load(folder / name)))
    findings = check(tmp_path / "s")
    assert any(finding in text for text in findings), findings


def test_a_dictionary_with_other_texts_or_ids_is_found(tmp_path: Path) -> None:
    build_store(tmp_path / "s", QUADS)
    folder = open_store(tmp_path / "s").data / "dictionary"
    text = np.load(folder / "0.text.npy")
    rewrite(tmp_path / "s", folder, "0.text.npy", np.where(text == ord("b"), ord("c"), text).astype(np.uint8))
    assert any("1 terms of part 0 have other ids" in finding for finding in check(tmp_path / "s"))
    rewrite(tmp_path / "s", folder, "0.ids.npy", np.load(folder / "0.ids.npy")[::-1])
    assert any("ids of part 0 are not in order" in finding for finding in check(tmp_path / "s"))
