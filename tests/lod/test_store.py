from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.errors import InputError, RunError, StoreError
from cqels_opt.lod import dictionary
from cqels_opt.lod.build import build_store
from cqels_opt.lod.check import check
from cqels_opt.lod.files import VERSION, write_header
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.rdf.ids import PUBLIC, IdScheme, encode, encode_one

Quad = tuple[str, str, str, str | None]

NODES = ["<http://a>", "<http://b>", "_:c", '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"text"@en']
PREDICATES = ["<http://p>", "<http://q>", "<http://a>"]
GRAPHS = [None, "<http://g>", "<http://a>"]
quads_of = st.lists(
    st.tuples(st.sampled_from(NODES[:3]), st.sampled_from(PREDICATES), st.sampled_from(NODES), st.sampled_from(GRAPHS)),
    max_size=25,
)
EXAMPLE: list[Quad] = [
    ("<http://ann>", "<http://knows>", "<http://bob>", None),
    ("<http://ann>", "<http://knows>", "<http://cem>", None),
    ("<http://bob>", "<http://knows>", "<http://cem>", None),
    ("<http://ann>", "<http://name>", '"Ann"', None),
    ("<http://ann>", "<http://knows>", "<http://bob>", None),
    ("<http://ann>", "<http://age>", '"42"^^<http://www.w3.org/2001/XMLSchema#integer>', "<http://g>"),
]


def answers(store: Store, relation: Relation, variables: tuple[str, ...]) -> Counter[tuple[str | None, ...]]:
    if not variables:
        return Counter({(): relation.total})
    columns = [store.decode(relation.columns[variable]) for variable in variables]
    result: Counter[tuple[str | None, ...]] = Counter()
    for row, count in zip(zip(*columns), relation.multiplicities().tolist()):
        result[row] += count
    return result


def brute_force(quads: list[Quad], pattern: tuple[str, str, str, str | None]) -> Counter[tuple[str | None, ...]]:
    """The answers of a pattern of terms and ``?variables`` over the set of quads."""
    result: Counter[tuple[str | None, ...]] = Counter()
    for quad in set(quads):
        bindings: dict[str, str | None] = {}
        for node, term in zip(pattern, quad):
            if node is None or not node.startswith("?"):
                if node != term:
                    break
            elif term is None or bindings.setdefault(node, term) != term:
                break
        else:
            result[tuple(bindings[v] for v in dict.fromkeys(n for n in pattern if n and n.startswith("?")))] += 1
    return result


def static_pattern(pattern: tuple[str, str, str, str | None]) -> StaticPattern:
    s, p, o, g = (None if n is None else n[1:] if n.startswith("?") else encode_one(n, PUBLIC) for n in pattern)
    assert s is not None and p is not None and o is not None
    return StaticPattern(s, p, o, g)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(quads_of, st.data())
def test_every_kind_of_pattern_matches_as_brute_force_does(
    tmp_path_factory: pytest.TempPathFactory, quads: list[Quad], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("store") / "s"
    store = build_store(path, quads, durable=False)
    assert store.triples == len(set(quads))
    node = st.sampled_from(["?x", "?y", "?z", *NODES])
    patterns = st.tuples(
        node, st.sampled_from(["?x", "?y", "?z", *PREDICATES]), node, st.sampled_from([*GRAPHS, "<http://absent>", "?x", "?g"])
    )
    for pattern in data.draw(st.lists(patterns, min_size=20, max_size=20)):
        relation = store.match(static_pattern(pattern))
        expected = brute_force(quads, pattern)
        variables = static_pattern(pattern).variables
        assert set(relation.variables) == set(variables)
        found = answers(store, relation, variables)
        assert +found == +expected, pattern
    shutil.rmtree(path.parent)


def test_all_shapes_of_one_example(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", EXAMPLE)
    for shape in itertools.product(
        ("?s", "<http://ann>"), ("?p", "<http://knows>"), ("?o", "<http://cem>", "?s"), (None, "?g", "<http://g>")
    ):
        pattern = static_pattern(shape)
        assert +answers(store, store.match(pattern), pattern.variables) == brute_force(EXAMPLE, shape), shape


def test_a_partition_is_mapped_and_indexed_both_ways(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", EXAMPLE)
    relation = store.match(static_pattern(("?who", "<http://knows>", "?whom", None)))
    assert relation.rows == 3
    assert relation.indexes == (("who",), ("whom",))
    assert not relation.columns["who"].flags.owndata
    assert relation.index(("who",)).rows is None
    assert relation.columns["whom"] is store.partition(0, encode_one("<http://knows>", PUBLIC)).columns["o"]
    assert (
        store.match(static_pattern(("?a", "<http://knows>", "?b", None))).index(("a", "b")).columns[0] is relation.columns["who"]
    )


def test_files_of_a_store_do_not_stay_open(tmp_path: Path) -> None:
    """Each partition has several, and many systems allow a process 1,024."""
    build_store(tmp_path / "s", [(f"<http://{i}>", f"<http://p{i}>", "<http://o>", None) for i in range(60)])
    store = open_store(tmp_path / "s")
    before = len([*Path("/proc/self/fd").iterdir()])
    found = [store.match(StaticPattern("s", f"<http://p{i}>", "o")) for i in range(60)]
    looked_up = [relation.index(("s",)).lookup(relation.columns["s"]) for relation in found]
    assert len(looked_up) == 60
    assert len([*Path("/proc/self/fd").iterdir()]) < before + 10


def test_a_store_describes_itself(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", EXAMPLE, graphs=["<http://empty>"])
    again = open_store(tmp_path / "s")
    assert (again.triples, again.scheme, again.fingerprint) == (5, store.scheme, store.fingerprint)
    assert sorted(str(text) for text in store.decode(store.named_graphs())) == ["<http://empty>", "<http://g>"]
    assert store.predicates() == {encode_one("<http://knows>", PUBLIC): 3, encode_one("<http://name>", PUBLIC): 1}
    assert store.terms == 9
    assert not [path for path in tmp_path.iterdir() if path.name != "s"]


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    first = build_store(tmp_path / "a", EXAMPLE)
    assert build_store(tmp_path / "b", EXAMPLE[::-1]).fingerprint == first.fingerprint
    assert build_store(tmp_path / "c", EXAMPLE[1:4]).fingerprint != first.fingerprint
    assert build_store(tmp_path / "d", EXAMPLE, scheme=IdScheme.of_seed(7)).fingerprint != first.fingerprint
    assert build_store(tmp_path / "e", EXAMPLE, graphs=["<http://empty>"]).fingerprint != first.fingerprint


def test_decode_and_contains(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", EXAMPLE)
    integer = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    ids = encode(["<http://bob>", integer, "<http://unknown>", '"Ann"', "<http://bob>"], PUBLIC)
    assert store.decode(ids) == ["<http://bob>", integer, None, '"Ann"', "<http://bob>"]
    assert store.contains(ids).tolist() == [True, True, False, True, True]
    assert store.decode(np.array([0, 2**62], np.int64))[0] is None


def test_an_empty_store(tmp_path: Path) -> None:
    store = build_store(tmp_path / "s", [])
    assert store.triples == 0
    assert store.match(StaticPattern("s", "p", "o")).rows == 0
    assert store.match(StaticPattern(1, 2, 3)).rows == 0
    assert store.decode(encode(["<http://a>"], PUBLIC)) == [None]


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_terms_with_one_id_get_others(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cqels_opt.rdf.ids.HASH_BITS", bits)
    quads = [(f"<s{i % 5}>", "<p>", f"<o{i}>", None) for i in range(2 ** (bits - 2))]
    store = build_store(tmp_path / "s", quads)
    assert store.scheme.displaced
    ids = encode([text for quad in quads for text in quad if text], store.scheme)
    assert store.decode(ids) == [text for quad in quads for text in quad if text]
    found = store.match(StaticPattern("s", encode_one("<p>", store.scheme), "o"))
    assert sorted(zip(store.decode(found.columns["s"]), store.decode(found.columns["o"]))) == sorted(
        (s, o) for s, _, o, _ in quads
    )
    assert open_store(tmp_path / "s").scheme == store.scheme
    assert check(tmp_path / "s") == []


def test_too_few_ids_for_the_terms_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cqels_opt.rdf.ids.HASH_BITS", 2)
    with pytest.raises(RunError, match="no id is left"):
        build_store(tmp_path / "s", [(f"<s{i}>", "<p>", "<o>", None) for i in range(9)])
    assert not list(tmp_path.iterdir())


def test_each_store_has_a_key_of_its_own_which_a_load_in_its_place_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CQELS_OPT_TERM_KEY")
    one, other = (build_store(tmp_path / name, EXAMPLE) for name in "ab")
    assert len({one.scheme.key, other.scheme.key, PUBLIC.key}) == 3
    again = build_store(tmp_path / "a", EXAMPLE)
    assert (again.scheme, again.fingerprint) == (one.scheme, one.fingerprint)
    monkeypatch.setenv("CQELS_OPT_TERM_KEY", "secret")
    with pytest.raises(InputError, match="32 hexadecimal digits"):
        build_store(tmp_path / "c", EXAMPLE)


# ------------------------------------------------------------------ where a store may be written
def test_a_store_replaces_a_store_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "s"
    old = build_store(target, EXAMPLE)
    kept = old.match(static_pattern(("?s", "<http://knows>", "?o", None)))
    subjects = kept.columns["s"].tolist()
    build_store(target, EXAMPLE[:1])
    assert open_store(target).triples == 1
    assert kept.rows == 3 and kept.columns["s"].tolist() == subjects
    with pytest.raises(StoreError, match="the store was changed by another load: open it again"):
        old.match(static_pattern(("?s", "<http://name>", "?o", None)))
    assert [path.name for path in target.parent.iterdir()] == ["s"]
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("x")
    for name in ("file", "folder"):
        with pytest.raises(StoreError, match="name a"):
            build_store(tmp_path / name, EXAMPLE)
    assert (tmp_path / "folder" / "mine").read_text() == "x"


def test_a_partition_that_was_replaced_under_an_open_store_is_noticed(tmp_path: Path) -> None:
    old = build_store(tmp_path / "s", EXAMPLE)
    build_store(tmp_path / "s", [("<http://x>", "<http://knows>", "<http://y>", None)])
    with pytest.raises(StoreError, match="changed"):
        old.match(static_pattern(("?s", "<http://knows>", "?o", None)))


# ------------------------------------------------------------------ damage
def one(path: Path, pattern: str) -> Path:
    return next(iter(sorted(path.rglob(pattern))))


def drop_dictionary(path: Path) -> None:
    one(path, "dictionary/**/*.text.npy").unlink()


def cut_dictionary(path: Path) -> None:
    file = one(path, "dictionary/**/*.ids.npy")
    file.write_bytes(file.read_bytes()[:-8])


def drop_partition(path: Path) -> None:
    shutil.rmtree(one(path, "graphs/**/relation.json").parent)


def drop_column(path: Path) -> None:
    one(path, "graphs/**/c1.npy").unlink()


def cut_column(path: Path) -> None:
    file = one(path, "graphs/**/c1.npy")
    file.write_bytes(file.read_bytes()[:-8])


def change_count(path: Path) -> None:
    header = json.loads((path / "store.json").read_text())
    (path / "store.json").write_text(json.dumps(header | {"triples": 77}))


def cut_header(path: Path) -> None:
    (path / "store.json").write_text((path / "store.json").read_text()[:100])


def drop_header(path: Path) -> None:
    (path / "store.json").unlink()


def other_header(path: Path) -> None:
    (path / "store.json").write_text("[1, 2]")


def empty_header(path: Path) -> None:
    write_header(path / "store.json", {"format": "cqels-opt store", "version": VERSION})


def older(path: Path) -> None:
    change_version(path, VERSION - 1)


def newer(path: Path) -> None:
    change_version(path, VERSION + 1)


def change_version(path: Path, version: int) -> None:
    header = json.loads((path / "store.json").read_text())
    (path / "store.json").write_text(json.dumps(header | {"version": version}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop_dictionary, r"text\.npy is missing: the store is damaged"),
        (cut_dictionary, "bytes instead of"),
        (drop_partition, r"no relation\.json"),
        (drop_column, r"c1\.npy is missing"),
        (cut_column, "bytes instead of"),
        (change_count, "checksum"),
        (cut_header, "damaged"),
        (drop_header, r"no store\.json"),
        (other_header, "not the header"),
        (empty_header, "damaged"),
        (older, f"version {VERSION - 1}, this cqels-opt reads version {VERSION}: load the data again"),
        (newer, f"version {VERSION + 1}.*newer cqels-opt"),
    ],
)
def test_opening_a_damaged_store_is_a_clear_error(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    build_store(tmp_path / "s", EXAMPLE)
    damage(tmp_path / "s")
    with pytest.raises(StoreError, match=message) as caught:
        open_store(tmp_path / "s")
    assert "\n" not in str(caught.value)


def test_opening_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="does not exist"):
        open_store(tmp_path / "nothing")
    with pytest.raises(StoreError, match="not a folder"):
        open_store(tmp_path / "file")


def test_a_merge_of_graphs_has_each_triple_once(tmp_path: Path) -> None:
    """Of no graph, of one, and of two that have a triple in common."""
    triples = [("<http://a>", "<http://p>", "<http://b>"), ("<http://a>", "<http://p>", "<http://c>")]
    quads = [(*triples[0], "<http://g>"), (*triples[0], "<http://h>"), (*triples[1], "<http://h>"), (*triples[1], None)]
    store = build_store(tmp_path / "store", quads)
    pattern = StaticPattern("x", encode_one("<http://p>", store.scheme), "y")
    graphs = [encode_one(graph, store.scheme) for graph in ("<http://g>", "<http://h>", "<http://none>")]
    for some, expected in (([], []), (graphs[:1], triples[:1]), (graphs, triples)):
        found = answers(store, store.match_merged(pattern, some), ("x", "y"))
        assert found == Counter({(s, o): 1 for s, _, o in expected})


@pytest.mark.parametrize(("most", "has_directory"), [(3000, True), (2999, False)])
def test_a_large_dictionary_has_no_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, has_directory: bool
) -> None:
    """Those of all its parts together would take much memory."""
    monkeypatch.setattr(dictionary, "MOST_TERMS", most)
    texts = pa.array([f"<http://example.org/{number}>" for number in range(3000)])
    ids = encode(texts.to_pylist(), PUBLIC)
    part = dictionary.write_part(tmp_path, "part", ids, texts)
    assert part is not None
    found = dictionary.Dictionary.open(tmp_path, [part])
    for _ in range(4):
        assert found.decode(ids) == texts.to_pylist()
    assert (found.parts[0].search.directory is not None) == has_directory
