"""Runs of contenders in this process, over stores and streams in folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event

import pytest

from cqels_opt.bench.contenders.engine import wait_for_background_jobs
from cqels_opt.bench.local import compiled, load
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.run_state import IN_THREADS

QUERY = "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S STEP PT1S] WHERE {{ WINDOW <w> {{ ?x <p> ?y }} {static} }}"


@pytest.mark.parametrize("static", ["?y <q> ?z .", "?y <q>+ ?z ."])
def test_a_program_is_compiled_once_as_long_as_its_folder_is_there(static: str, tmp_path: Path) -> None:
    """Another test or scenario may have files of the same names after the folder is deleted."""
    folder = tmp_path / "world"
    for rows in (1, 2):
        data = tmp_path / f"{rows}.nt"
        data.write_text("".join(f"<http://x.org/{n}> <http://x.org/q> <http://x.org/z> .\n" for n in range(rows)))
        store = load(folder / "store", [StaticSource(data)])
        text = "BASE <http://x.org/> " + QUERY.format(static=static)
        program = compiled("q", text, store, folder / "q")
        assert compiled("q", text, store, folder / "q") is program
        (block,) = program.blocks
        assert [part.rows for part in block.statics] == [rows]
        shutil.rmtree(folder)


def test_background_jobs_end_before_the_next_contenders_turn() -> None:
    goes_on, done = Event(), list[str]()
    for name in ("compaction", "deletion", "views"):
        getattr(IN_THREADS, name)(lambda name=name: done.append(name) if goes_on.wait(60) else None)
    assert done == []  # they run in threads
    goes_on.set()
    wait_for_background_jobs()
    assert sorted(done) == ["compaction", "deletion", "views"]
