"""A run that writes a commit record every few batches repeats the batches since the last one after a kill: with the queries, limits and
static data that they had.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from local_runs import Cut
from random_cases import FIXED, Maker, make
from store_update_cases import Living, changes

from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.errors import InputError, RunWarning
from cqels_opt.lod.build import build_store
from cqels_opt.rdf.quads import Quad
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.state.remote_checkpoint import REACHED
from cqels_opt.storage import documents
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

TEXT = "PREFIX : <urn:> SELECT ?o FROM NAMED :S [NOW] AS ?w {{ GRAPH ?w {{ ?s :{} ?o }} }}"
BATCHES = 7  # the answers of the elements of batch k come with batch k + 1


def rows(batch: int) -> pa.Table:
    """One element for query p and one for q; in batch 3 ten for p."""
    triples = [("p", n) for n in range(10 if batch == 3 else 1)] + [("q", 0)]
    same = {"stream": 0, "partition": 0, "s": f"<urn:s{batch}>", "g": None, "t": 1000 * batch, "late": False}
    numbered = enumerate(triples, 100 * batch)
    return pa.Table.from_pylist(
        [same | {"p": f"<urn:{p}>", "o": f'"{n}"', "offset": place, "line": place} for place, (p, n) in numbered], ELEMENT_ROWS
    )


class Run:
    """A run of queries over one checkpoint, whose process may be killed."""

    def __init__(self, folder: Path, names: Collection[str], limits: Limits = NO_LIMITS) -> None:
        build_store(folder / "store", [])
        self.folder, self.names, self.sink = folder, names, LocalSink()
        self.programs = Programs(folder / "store", folder / "queries")
        self.options = DriverOptions(limits=limits, named=True, commit_every=math.inf)
        self.driver = self.opened()

    def opened(self) -> Driver:
        catalog = QueryCatalog([query(name) for name in self.names], self.folder / "state", self.programs)
        programs, frontier = catalog.programs(), Frontier(("<urn:S>",))
        return Driver(self.folder / "state", programs, LocalRunner(), self.sink, frontier, self.options, catalog=catalog)

    @property
    def catalog(self) -> QueryCatalog:
        assert self.driver.catalog is not None
        return self.driver.catalog

    def upto(self, batch: int) -> None:
        """The batches that are not done, up to this one."""
        for number in range(self.driver.state.batch + 1, batch + 1):
            self.driver.batch(number, rows(number))

    def times(self, name: str) -> list[int]:
        """The times of a query's answers."""
        return [json.loads(line)["time"] for line in self.sink.lines if f'"query": "{name}"' in line]


def query(name: str) -> Member:
    return member_of(record_of(TEXT.format(name[0]), name))


@pytest.mark.parametrize("killed", [4, 5])
def test_a_failed_query_keeps_the_answers_before_its_failure(killed: int, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        run = Run(tmp_path, ["p", "q"], Limits(rows=5))
        run.upto(killed)
        run.driver = run.opened()
        run.upto(BATCHES - 1)
    assert run.catalog.names() == ["q"]
    assert run.times("p") == [0, 1000, 2000] and run.times("q") == [0, 1000, 2000, 3000, 4000, 5000]


@pytest.mark.parametrize("killed", [2, 3, 5])
def test_an_added_query_is_there_after_a_kill(killed: int, tmp_path: Path) -> None:
    """From the batch that recorded it, under a name that is taken, so that a program which adds it again gets an error."""
    run = Run(tmp_path, ["q"])
    run.upto(1)
    run.catalog.add([query("q2")])
    run.upto(killed)
    run.driver = run.opened()
    assert run.catalog.names() == ["q", "q2"]
    with pytest.raises(InputError, match="there is a query 'q2' already"):
        run.catalog.add([query("q2")])
    run.upto(BATCHES - 1)
    assert run.times("q2") == [1000, 2000, 3000, 4000, 5000]  # the elements of batch 1 are in its windows


def test_a_query_that_fails_while_batches_run_again_stays_failed(tmp_path: Path) -> None:
    """It goes when the batches that ran before have run again, and has no answers until then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        run = Run(tmp_path, ["p", "q"])
        run.upto(5)
        run.options = replace(run.options, limits=Limits(rows=5))
        run.driver = run.opened()
        run.upto(BATCHES - 1)
    assert run.catalog.names() == ["q"] and run.driver.quotas.failures["p"][0] == 4
    assert run.times("p") == [0, 1000, 2000] and run.times("q") == [0, 1000, 2000, 3000, 4000, 5000]


def test_a_failure_is_of_the_cut_in_which_it_happened(tmp_path: Path) -> None:
    """Input that grows is cut in other places after a kill: the batch of the failure does not run again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        run = Run(tmp_path, ["p", "q"], Limits(rows=5))
        run.upto(4)
        run.driver = run.opened()
        assert run.driver.state.batch == 4
        run.driver.batch(5, pa.concat_tables([rows(5), rows(6)]))
    assert run.times("p") == [0, 1000, 2000] and run.times("q") == [0, 1000, 2000, 3000, 4000, 5000]


def test_a_change_that_lies_ahead_is_not_made_twice(tmp_path: Path) -> None:
    """Checkpoints of earlier versions have changes of batches long after the last record."""
    run = Run(tmp_path, ["q"])
    run.upto(4)
    queries = tmp_path / "state" / "queries"
    queries.mkdir(exist_ok=True)
    (queries / "00000003.json").write_bytes(documents.encode("00000003.json", [query("q2").record]))
    (tmp_path / "state" / REACHED).unlink()
    run.driver = run.opened()
    run.catalog.add([query("q3")])
    run.upto(1)
    with pytest.raises(InputError, match="there is a query 'q2' already"):
        run.catalog.add([query("q2")])
    run.upto(BATCHES - 1)
    assert run.catalog.names() == ["q", "q2", "q3"]
    assert run.times("q2") == [2000, 3000, 4000, 5000] and run.times("q3") == [3000, 4000, 5000]


def test_changes_do_not_wait_for_input_that_is_gone(tmp_path: Path) -> None:
    """A run has read everything again when its source has nothing new."""
    run = Run(tmp_path, ["q"])
    run.upto(1)
    run.driver.log.note_reached(1 << 50)  # of an element that was far ahead
    run.driver = run.opened()
    run.catalog.add([query("q2")])
    run.upto(2)
    assert run.catalog.names() == ["q", "q2"] and not run.times("q2")
    run.driver.log.forget_reached()
    run.upto(BATCHES - 1)
    assert run.times("q2") == [2000, 3000, 4000, 5000]


def test_a_query_that_is_added_after_a_kill_waits_for_the_batches_that_run_again(tmp_path: Path) -> None:
    run = Run(tmp_path, ["q"])
    run.upto(4)
    run.driver = run.opened()
    run.catalog.add([query("q2")])
    run.upto(BATCHES - 1)
    assert run.times("q") == [0, 1000, 2000, 3000, 4000, 5000] and run.times("q2") == [4000, 5000]


@pytest.mark.parametrize("operator", ["istream", "dstream"])
@pytest.mark.parametrize("seed", range(4))
def test_batches_run_again_with_the_static_data_that_they_had(seed: int, operator: str, tmp_path: Path) -> None:
    """Also where the data are updated between a kill and the next start."""
    rng, made, case = random.Random(seed), Maker(seed), make(seed, Maker)
    how = Cut(rng.choice("12"), "adaptive", seed=seed)

    def run(folder: Path, updates: Mapping[int, tuple[list[Quad], list[Quad]]], kills: Collection[int]) -> Living:
        living = Living(case, how, folder, math.inf)
        chunks = living.source.chunks(how)
        for number in range(len(chunks)):
            if number in updates:
                living.update(*updates[number])
            for again in range(living.driver.state.batch + 1, number + 1):
                living.batch(again, chunks[again])
            if number in kills:
                living.driver = living.opened()
        return living

    chunks = len(Living(case, how, tmp_path / "first").source.chunks(how))
    held = {(*t, None) for t in case.world.default}
    updates = {
        n: changes(made, set(held), rng, lambda: [(*made.triple(FIXED), None)]) for n in range(1, chunks) if rng.random() < 0.3
    }
    kills = {n for n in range(chunks) if n + 1 in updates or rng.random() < 0.2}
    whole, killed = run(tmp_path / "whole", updates, ()), run(tmp_path / "killed", updates, kills)
    assert killed.sink.lines == whole.sink.lines and killed.later == whole.later
