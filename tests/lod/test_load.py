from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cqels_opt.errors import CqelsOptError, DataError, StoreError
from cqels_opt.lod import load as loader
from cqels_opt.lod import loading
from cqels_opt.lod.build import build_store
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.rdf.ids import PUBLIC, CollisionError, encode_one
from cqels_opt.rdf.static import Failures, StaticSource, pieces
from cqels_opt.spark.load import load

Quad = tuple[str | None, ...]


def quads_of(store: Store) -> set[Quad]:
    found: set[Quad] = set()
    for graph in (None, "g"):
        relation = store.match(StaticPattern("s", "p", "o", graph))
        columns = [store.decode(relation.columns[variable]) for variable in relation.variables]
        found |= set(zip(*columns, [None] * relation.rows) if graph is None else zip(*columns))
    return found


def some_lines(count: int, seed: int = 1) -> list[str]:
    """Quads with duplicates, inline and hashed objects, blank nodes and named graphs."""
    draw = random.Random(seed)
    objects = [
        lambda: f"<http://e/{draw.randrange(50)}>",
        lambda: f'"{draw.randrange(50)}"^^<http://www.w3.org/2001/XMLSchema#integer>',
        lambda: f'"text {draw.randrange(50)}"@EN',
        lambda: f"_:b{draw.randrange(9)}",
    ]
    return [
        f"<http://e/{draw.randrange(50)}> <http://p/{draw.randrange(5)}> {draw.choice(objects)()} "
        + draw.choice(["", "", f"<http://g/{draw.randrange(3)}> "])
        + "."
        for _ in range(count)
    ]


def in_one_process(path: Path, sources: list[StaticSource]) -> Store:
    from cqels_opt.rdf.static import read_all

    quads = [quad for quads in read_all(sources, Failures(skip=True)) for quad in zip(quads.s, quads.p, quads.o, quads.g)]
    return build_store(path, quads)


@pytest.fixture
def two_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every input as a large one."""
    monkeypatch.setattr(loader, "SMALL", 0)
    monkeypatch.setattr(loader, "_PIECE", (1000, 1000))
    monkeypatch.setattr(loader, "_BUCKET", 1000)
    monkeypatch.setattr(loader, "_RANGE", 4000)


@pytest.fixture
def sources(tmp_path: Path) -> list[StaticSource]:
    (tmp_path / "a.nq").write_text("\n".join(some_lines(300)))
    (tmp_path / "b.nq.gz").write_bytes(gzip.compress("\n".join(some_lines(60, 2)).encode()))
    (tmp_path / "c.ttl").write_text("@prefix : <http://e/> . :1 :p [ :q 1, 2.50, true ] .")
    pq.write_table(pa.table({"s": ["<http://e/1>"], "p": ["<http://p/1>"], "o": ['"x"']}), tmp_path / "d.parquet")
    return [StaticSource(tmp_path / "a.nq"), StaticSource(tmp_path / "b.nq.gz"), StaticSource(tmp_path / "c.ttl", "http://g/c"),
            StaticSource(tmp_path / "d.parquet")]  # fmt: skip


def test_a_small_load_needs_no_job(spark: SparkSession, tmp_path: Path, sources: list[StaticSource]) -> None:
    spark.sparkContext.setJobGroup("small load", "small load")
    report = load(spark, sources, tmp_path / "store")
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("small load")
    assert not jobs
    store = open_store(tmp_path / "store")
    expected = in_one_process(tmp_path / "other", sources)
    assert quads_of(store) == quads_of(expected)
    assert (report.triples, report.fingerprint, report.read, report.skipped) == (store.triples, expected.fingerprint, 366 - 1, 0)
    assert report.graphs == 4
    assert [source["graph"] for source in store.sources] == [None, None, "http://g/c", None]


@pytest.mark.long
def test_a_large_load_gives_the_same_store(
    spark: SparkSession, tmp_path: Path, sources: list[StaticSource], two_stages: None
) -> None:
    spark.sparkContext.setJobGroup("other", "other")
    told: list[tuple[int, int]] = []
    report = load(spark, sources, tmp_path / "store", progress=lambda done, of: told.append((done, of)))
    expected = in_one_process(tmp_path / "other", sources)
    store = open_store(tmp_path / "store")
    assert len(store.dictionary.parts) > 3
    assert quads_of(store) == quads_of(expected)
    assert (report.triples, report.terms, report.graphs) == (expected.triples, expected.terms, 4)
    assert told[0][0] == 0 and told[-1][0] == told[-1][1] and len({of for _, of in told}) == 1
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "other"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["other", "store"]


@pytest.mark.long
@pytest.mark.usefixtures("two_stages")
@pytest.mark.parametrize("line", [1, 120, 300])
def test_line_numbers_are_right_in_every_piece(spark: SparkSession, tmp_path: Path, line: int) -> None:
    lines = some_lines(300)
    lines[line - 1] = "<http://e/1> <http://p> oops ."
    (tmp_path / "a.nq").write_text("\n".join(lines))
    with pytest.raises(DataError, match=rf"a\.nq:{line}: column 25: expected an object") as caught:
        load(spark, [StaticSource(tmp_path / "a.nq")], tmp_path / "store")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.nq"]
    report = load(spark, [StaticSource(tmp_path / "a.nq")], tmp_path / "store", on_error="skip")
    assert (report.skipped, report.read) == (1, 299)
    assert f"a.nq:{line}: column 25" in str(report.failures[0])


def test_the_first_mistake_in_order_is_reported(spark: SparkSession, tmp_path: Path, two_stages: None) -> None:
    lines = some_lines(300)
    lines[30] = lines[250] = "x"
    (tmp_path / "a.nq").write_text("\n".join(lines))
    (tmp_path / "b.nt").write_text("y")
    with pytest.raises(DataError, match=r"a\.nq:31: "):
        load(spark, [StaticSource(tmp_path / "a.nq"), StaticSource(tmp_path / "b.nt")], tmp_path / "store")


def test_mistakes_of_a_small_load(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<s> <p> <o> .\n<s> <p> .\n")
    with pytest.raises(DataError, match=r"a\.nt:2: column 9: expected an object"):
        load(spark, [StaticSource(tmp_path / "a.nt")], tmp_path / "store")
    report = load(spark, [StaticSource(tmp_path / "a.nt", "http://g")], tmp_path / "store", on_error="skip")
    assert (report.triples, report.skipped) == (1, 1)


def test_what_cannot_be_loaded(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<s> <p> <o> .")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").touch()
    cases: list[tuple[str, str | None, str, type[CqelsOptError]]] = [
        ("absent.nt", None, "no such file", DataError),
        ("a.csv", None, "unknown format", DataError),
        ("a.nt", "no iri", "the name of a graph", DataError),
    ]
    for name, graph, message, kind in cases:
        with pytest.raises(kind, match=message):
            load(spark, [StaticSource(tmp_path / name, graph)], tmp_path / "store")
    with pytest.raises(StoreError, match="other files in it"):
        load(spark, [StaticSource(tmp_path / "a.nt")], tmp_path / "folder")
    with pytest.raises(StoreError, match="is a file"):
        load(spark, [StaticSource(tmp_path / "a.nt")], tmp_path / "a.nt")


def test_nothing_to_load_is_an_empty_store_with_its_named_graphs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("")
    report = load(spark, [StaticSource(tmp_path / "a.nt", "http://g")], tmp_path / "store")
    store = open_store(tmp_path / "store")
    assert (report.triples, store.decode(store.named_graphs())) == (0, ["<http://g>"])
    assert load(spark, [], tmp_path / "none").triples == 0


# ------------------------------------------------------------------ the tasks, without Spark
def test_collisions_between_tasks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files whose terms have one id: neither task can see it, the one that gathers does."""
    spills = []
    monkeypatch.setattr("cqels_opt.lod.build.encode", lambda texts, scheme: np.arange(len(texts)) | 1 << 60)
    for name in ("a", "b"):
        (tmp_path / f"{name}.nt").write_text(f"<{name}> <p> <o> .")
        outcome = loading.spill_pieces(
            pieces(StaticSource(tmp_path / f"{name}.nt"), 0, 1 << 30), tmp_path, PUBLIC, False, loading.Cuts(4, 1, 2)
        )
        assert outcome.spill is not None
        spills.append(outcome.spill)
    with pytest.raises(CollisionError, match="<b>"):
        for number in range(loading.dictionary_ranges(2)):
            slices = [spill.terms(number) for spill in spills if spill.terms(number).end > spill.terms(number).start]
            if slices:
                loading.gather_terms(slices, tmp_path, str(number))


def test_cuts_into_ranges_make_the_same_partitions(tmp_path: Path) -> None:
    """Gathered range by range, as for data too large for a task, or at once: the same files."""
    (tmp_path / "a.nq").write_text("\n".join(some_lines(400)))
    parts = pieces(StaticSource(tmp_path / "a.nq"), 0, 3000)
    made = []
    for subjects in (1, 8):
        cuts = loading.Cuts(3, subjects, 1)
        spills = [loading.spill_pieces([part], tmp_path, PUBLIC, False, cuts).spill for part in parts]
        entries = {}
        for bucket in range(3):
            ranges = list(zip(*(spill.quads(bucket) for spill in spills if spill is not None)))
            for entry in loading.gather_quads(ranges, tmp_path).partitions:
                entries[entry.graph, entry.predicate] = entry
        made.append(entries)
    assert made[0] == made[1]
    assert sum(entry.triples for entry in made[0].values()) == len(set(some_lines(400)))


def test_what_a_task_holds_does_not_grow_with_the_data() -> None:
    """Were all quads of one predicate, a range of subjects would still be small; and there are few cuts for the driver to know."""
    for size in (1 << 25, 1 << 30, 10 << 30, 100 << 30):
        cuts = loader.cuts_for(size, cores=2)
        assert size / cuts.subjects <= 256 << 20
        assert size / cuts.terms <= 256 << 20
        assert cuts.buckets * cuts.subjects <= 16 * max(1, size >> 27)


@pytest.mark.long
@pytest.mark.parametrize("large", [False, True])
def test_a_load_gives_a_second_id_to_one_of_two_terms(
    spark: SparkSession, tmp_path: Path, large: bool, request: pytest.FixtureRequest
) -> None:
    """The terms stand in files that different tasks read; the least of them keeps its id."""
    if large:
        request.getfixturevalue("two_stages")
    one, other = "<http://a.org/zrcn1imlm5dc>", "<http://a.org/hb4mggqwr1rn>"
    for name, term in (("a", one), ("b", other)):
        (tmp_path / f"{name}.nq").write_text("\n".join([*some_lines(100), f'{term} <http://p> "{name}" .']))
    load(spark, [StaticSource(tmp_path / "a.nq"), StaticSource(tmp_path / "b.nq")], tmp_path / "store", scheme=PUBLIC)
    store = open_store(tmp_path / "store")
    assert [text for text, _ in store.scheme.displaced] == [one]
    for term, name in ((one, "a"), (other, "b")):
        found = store.match(StaticPattern(encode_one(term, store.scheme), "p", "o"))
        assert store.decode(found.columns["o"]) == [f'"{name}"']
    assert sorted(path.name for path in (tmp_path / "store").iterdir() if path.is_dir()) == [store.data.name]


def test_a_task_may_run_twice(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<s> <p> <o> .")
    whole = pieces(StaticSource(tmp_path / "a.nt"), 0, 1 << 30)
    first, second = (loading.load_pieces(whole, tmp_path, PUBLIC, False) for _ in range(2))
    assert first.folder != second.folder
    assert first.partitions == second.partitions and first.parts == second.parts


def test_ranges_follow_the_order_of_ids() -> None:
    ids = np.sort(np.array([encode_one(term, PUBLIC) for term in ("<a>", "<b>", "<c>", "_:a", "_:b", '"a"', '"b"', '"c"')]))
    for ranges in (1, 2, 8):
        numbers = loading.range_of(ids, ranges)
        assert (np.diff(numbers) >= 0).all()
        assert numbers.min() >= 0 and numbers.max() < loading.dictionary_ranges(ranges)
