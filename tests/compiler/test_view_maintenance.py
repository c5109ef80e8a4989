"""Sub-results of an updated store, made of those of before and what changed: the same tables as those made of the whole store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.compiler import view_maintenance as kept
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.view_maintenance import ViewMaintenance
from cqels_opt.lod import changes
from cqels_opt.lod.build import build_store
from cqels_opt.lod.changes import applied, change_of_join, difference, projected
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.relation import Relation, join, restrict
from cqels_opt.lod.snapshots import version_at
from cqels_opt.lod.update import update
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.windows.instants import Policy, Report

EX = "http://ex.org/"
CO_AUTHORS = f"""PREFIX : <{EX}>
SELECT ?p ?q FROM NAMED :S [RANGE 5s] AS ?w {{ GRAPH ?w {{ ?p :at ?x }} ?a :wrote ?p . ?a :wrote ?q }}"""
pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20, unique=True)


def relation(variables: str, rows: list[tuple[int, int]]) -> Relation:
    columns = np.array(sorted(rows), np.int64).reshape(-1, 2)
    return Relation.build({v: np.ascontiguousarray(columns[:, i]) for i, v in enumerate(variables)})


def bag(found: Relation, variables: str) -> Counter[tuple[int, ...]]:
    columns = [found.columns[v].tolist() for v in variables]
    rows = zip(*columns) if columns else [()] * found.rows
    counted: Counter[tuple[int, ...]] = Counter()
    for row, n in zip(rows, found.multiplicities().tolist()):
        counted[row] += n
    return counted


@given(pairs, pairs, pairs, pairs, st.sampled_from(["xz", "x", "xyz", "y", ""]), st.integers(1, 8))
def test_the_change_of_a_join_is_what_makes_the_new_one_of_the_old_one(
    a: list[tuple[int, int]], b: list[tuple[int, int]], c: list[tuple[int, int]], d: list[tuple[int, int]], names: str, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "BLOCK", block)
        one, other, left, right = relation("xy", a), relation("yz", b), relation("xy", c), relation("yz", d)
        of_left, of_right = difference(one, left), difference(other, right)
    assert bag(applied(one, of_left), "xy") == bag(left, "xy")
    narrow = bag(restrict(one, "x"), "x")
    narrow.update(bag(projected(of_left, "x"), "x"))
    assert Counter({row: n for row, n in narrow.items() if n}) == bag(restrict(left, "x"), "x")
    change = change_of_join(left, right, of_left, of_right, names)
    before, after = restrict(join(one, other), names), restrict(join(left, right), names)
    found = bag(before, names)
    found.update(bag(change, names))
    assert Counter({row: n for row, n in found.items() if n}) == bag(after, names)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_sub_results_are_the_same_either_way(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("maintenance")

    def triples(rows: list[tuple[int, int]]) -> list[tuple[str, str, str]]:
        return [(f"<{EX}a{s}>", f"<{EX}wrote>", f"<{EX}p{o}>") for s, o in rows]

    build_store(folder / "s", [(*t, None) for t in triples(data.draw(pairs))], durable=False)
    before = version_at(folder / "s").place
    compiled(Path(before), folder / "before", None)
    files = []
    for name in ("come", "gone"):
        path = folder / f"{name}.nt"
        path.write_text("".join(f"{' '.join(t)} .\n" for t in triples(data.draw(pairs))))
        files.append([StaticSource(path)])
    update(folder / "s", *files, durable=False)
    after = Path(version_at(folder / "s").place)
    without = compiled(after, folder / "whole", None)
    with_maintenance = compiled(after, folder / "kept", ViewMaintenance.read(before, folder / "before"))
    assert without == with_maintenance


def compiled(store: Path, folder: Path, how: ViewMaintenance | None) -> list[Counter[tuple[int, ...]]]:
    """The sub-results of CO_AUTHORS, as bags."""
    folder.mkdir()
    report = Report(Policy(content_change=True), {}, {})
    program = Compiler(parse(CO_AUTHORS), str(store), folder, report, maintenance=how).compile("q", "istream")
    opened = open_store(store)
    found = []
    for static in program.blocks[0].statics:
        made = Relation.open(Path(static.at)) if isinstance(static.at, str) else opened.match(static.at)
        found.append(bag(made, "".join(sorted(made.variables))))
    return found


def test_a_small_change_is_worked_in_and_a_large_one_is_not(tmp_path: Path) -> None:
    papers = [(f"<{EX}a{i % 10}>", f"<{EX}wrote>", f"<{EX}p{i % 40}>", None) for i in range(400)]
    build_store(
        tmp_path / "s", [*papers, *((f"<{EX}a{i}>", f"<{EX}wrote>", f"<{EX}p{j}>", None) for i in range(30) for j in range(9))]
    )
    before = version_at(tmp_path / "s").place
    compiled(Path(before), tmp_path / "before", None)
    (tmp_path / "come.nt").write_text(f"<{EX}a3> <{EX}wrote> <{EX}p77> .\n")
    update(tmp_path / "s", [StaticSource(tmp_path / "come.nt")])
    small = ViewMaintenance.read(before, tmp_path / "before")
    assert small is not None
    compiled(Path(version_at(tmp_path / "s").place), tmp_path / "small", small)
    assert small.kept == 1
    (tmp_path / "gone.nt").write_text("".join(f"<{EX}a{i}> <{EX}wrote> <{EX}p{j}> .\n" for i in range(30) for j in range(9)))
    update(tmp_path / "s", remove=[StaticSource(tmp_path / "gone.nt")])
    large = ViewMaintenance.read(before, tmp_path / "before")
    assert large is not None
    compiled(Path(version_at(tmp_path / "s").place), tmp_path / "large", large)
    assert large.kept == 0


def test_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    (tmp_path / kept.RECIPES).write_text("{")
    assert ViewMaintenance.read("store", tmp_path) is None
    assert ViewMaintenance.read("store", tmp_path / "nowhere") is None
