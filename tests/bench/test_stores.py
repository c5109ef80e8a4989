"""The library of papers is as documented at any size, and the measurements of a store are complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cqels_opt.bench import papers
from cqels_opt.bench.social import CREATOR
from cqels_opt.bench.stores import PROBES, measured_store, show
from cqels_opt.lod.build import build_store
from cqels_opt.rdf.static import Failures, StaticSource, read_all


def quads(path: Path) -> list[tuple[str, str, str, str | None]]:
    parts = read_all([StaticSource(path)], Failures(skip=False))
    return [quad for part in parts for quad in zip(part.s, part.p, part.o, part.g)]


def test_triples_are_as_many_as_asked_for_and_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = papers.write_papers(tmp_path / "a.nt", papers.papers_for(5000))
    assert abs(count - 5000) <= 10
    read = quads(tmp_path / "a.nt")
    assert len(read) == count
    by = Counter(p for _, p, _, _ in read)
    assert by[f"<{CREATOR}>"] == 6 * by[f"<{papers.TITLE}>"]
    both = {(s, o) for s, p, o, _ in read if p == f"<{CREATOR}>"}
    assert both == {(o, s) for s, o in both}
    papers.write_papers(tmp_path / "b.nt", papers.papers_for(5000))
    assert (tmp_path / "a.nt").read_bytes() == (tmp_path / "b.nt").read_bytes()
    monkeypatch.setattr(papers, "BLOCK", 64)
    assert papers.write_papers(tmp_path / "c.nt", papers.papers_for(5000)) == count
    assert sum(1 for _, p, _, _ in quads(tmp_path / "c.nt") if p == f"<{papers.NAME}>") == by[f"<{papers.NAME}>"]


def test_what_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = papers.papers_for(2000)
    papers.write_papers(tmp_path / "a.nt", count)
    build_store(tmp_path / "store", quads(tmp_path / "a.nt"))
    found = measured_store(tmp_path / "store", count)
    assert found["keys"] > count and found["matches"] >= 2 * PROBES  # three authors, two of whom may be the same
    loaded = {"triples": 2000, "source_bytes": 10**6, "seconds": 1.0, "triples_per_second": 2000.0, "task_bytes": 10**6}
    show({"results": [{**loaded, **found}]})
    assert "2,000" in capsys.readouterr().out
