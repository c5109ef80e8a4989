"""Many concurrent queries: Q1' to Q4' of the CQELS report for 10 to 5,000 people (§6.2, Tables 2 and 3), and 100 different ones.

Instances of a query differ in one person's name. With ``adaptive`` they share one plan with their constants in a relation;
``sub-results`` likewise, but in the written order without optimizer (the report's "CQELS w/o opt."); with ``apart`` each instance
has its own plan and results over shared slots. Each run is a separate process without Spark, which reports its peak memory.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow.parquet as parquet

from cqels_opt.bench import apart
from cqels_opt.bench.answers import digest_of_lines
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import megabytes
from cqels_opt.bench.concurrent_tables import measured_growth, published_growth
from cqels_opt.bench.local import load
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.social import PLACES_GRAPH, STREAM, social
from cqels_opt.compiler.multi_query_sharing import Member, alone
from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.errors import RunError
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.runtime.local_runner import LocalRunner
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.run_state import COMMIT_EVERY, DriverOptions
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.replay import ReplayPlan, ReplaySource, cut

SEED = 1
ASKED = ("Q1'", "Q2'", "Q3'", "Q4'")
INSTANCES = (10, 100, 1_000, 5_000)
APART = 100
"""The maximum number of queries that are also run with separate plans."""
DIFFERENT = 100
SECOND = 1_000  # milliseconds per batch
WARM_UP = 3  # batches, including the filling one
CONTENDERS = ("adaptive", "sub-results", "apart")


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the world: people, places, elements per second of stream time, and counted batches."""

    authors: int
    places: int
    rate: int
    counted: int
    window: int = 30


FULL, QUICK = Scale(20_000, 500, 1_000, 10), Scale(6_000, 150, 200, 6)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: milliseconds of its batches, registration time, peak memory of its process, and its answers as a bag.

    ``cpu`` has the CPU milliseconds of the batches.
    """

    query: str
    instances: int
    contender: str
    milliseconds: tuple[float, ...]
    registered_s: float
    memory_mb: float
    programs: int
    answers: int
    digest: str
    cpu: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """The inputs of every run."""

    store: Path
    replay: ReplayPlan


def world(folder: Path, scale: Scale) -> World:
    """The report's world, its stream cut into batches of a second; the first batch fills the windows."""
    running = scale.rate * (scale.counted + WARM_UP - 1)
    made = social(
        folder,
        seed=SEED,
        authors=scale.authors,
        places=scale.places,
        elements=scale.rate * scale.window + running,
        rate=float(scale.rate),
        stream_format="parquet",
    )
    store = load(folder / "store", made.sources)
    source = ReplaySource(f"<{STREAM}>", (made.stream,))
    return World(store, cut([source], folder / "replay", BatchSize(duration=SECOND, first=scale.window * SECOND)))


# ------------------------------------------------------------------ queries
def instances(query: str, number: int, authors: int) -> list[Member]:
    """A query of the report for ``number`` people from one random sequence, so that smaller sets are subsets of larger ones."""
    text = (QUERIES / f"{query[:2].lower()}-prime.rq").read_text(encoding="utf-8")
    people = random.Random(SEED).sample(range(authors), number)
    return [member_of(record_of(text.replace("$Author Name$", f"Author {i}"), f"of-{i}")) for i in people]


_HEAD = """PREFIX loc: <http://deri.org/ns/loc#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
PREFIX dcterms: <http://purl.org/dc/terms/>
"""
_ONE = {"?name": "?person foaf:name ?name.", "?room": f"GRAPH <{PLACES_GRAPH}> {{?place loc:name ?room}}"}
_SOME = {
    "": "",
    "?paper": "?person dc:creator ?paper.",
    "?other": "?person dc:creator ?work. ?other dc:creator ?work. FILTER(?other != ?person)",
    "?cited": "?mine dc:creator ?person. ?mine dcterms:references ?cited.",
}
_WINDOWS = ("NOW", "RANGE 5 seconds", "RANGE 15 seconds", "RANGE 30 seconds")


def different(number: int) -> list[Member]:
    """Distinct queries over one stream: their windows, joins and aggregates differ."""
    found: list[Member] = []
    for ones, some, window, counting in product(((), ("?name",), ("?room",), ("?name", "?room")), _SOME, _WINDOWS, (False, True)):
        parts = [_ONE[variable] for variable in ones] + [_SOME[some]]
        select = "?place (COUNT(*) AS ?n)" if counting else f"?person ?place {' '.join(ones)} {some}"
        body = f"GRAPH ?w {{?person loc:at ?place}} {' '.join(parts)}"
        text = (
            f"{_HEAD}SELECT {select}\nFROM NAMED <{STREAM}> [{window}] AS ?w\n"
            f"WHERE {{ {body} }}{' GROUP BY ?place' if counting else ''}"
        )
        found.append(member_of(record_of(text, f"d{len(found)}")))
    return found[:number]


# ------------------------------------------------------------------ a run
def measured(found: World, query: str, members: Sequence[Member], contender: str, folder: Path) -> Ran:
    """Runs the queries from the first batch to the last in this process."""
    programs = Programs(found.store, folder / "queries")
    mode = PlannerOptions("first", view_selection=False, split=False) if contender == "sub-results" else PlannerOptions()
    sink = FileSink(folder / "answers.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    again = [member_of(member.record) for member in members]  # registration includes parsing
    if contender == "apart":
        catalog, compiled = None, [programs.of(alone(member)) for member in again]
        pages = [programs.page(alone(member), folder / "state") for member in again]
    else:
        catalog, pages = QueryCatalog(again, folder / "state", programs), []
        compiled = catalog.programs()
    registered = time.perf_counter() - began
    options = DriverOptions(plan=mode, named=True, commit_every=COMMIT_EVERY)  # as `cqels-opt run` into a file of lines
    frontier, held = finite_frontier(found.replay, 0, eager=False), [page for page in pages if page is not None]
    driver = Driver(folder / "state", compiled, LocalRunner(), sink, frontier, options, pages=held, catalog=catalog)
    took, cpu = [], []
    for number in range(len(found.replay.chunks)):
        rows = parquet.read_table(found.replay.path(number)).cast(ELEMENT_ROWS)
        before, worked = time.perf_counter(), time.process_time()
        driver.batch(number, rows)
        took.append(1000 * (time.perf_counter() - before))
        cpu.append(1000 * (time.process_time() - worked))
    answers = driver.state.totals["answers"]
    driver.close()
    counted = tuple(took[WARM_UP:])
    memory = megabytes("VmHWM")  # ru_maxrss would include the parent process at fork
    digest = digest_of_lines(folder / "answers.jsonl")
    worked_ms = tuple(cpu[WARM_UP:])
    return Ran(query, len(members), contender, counted, registered, memory, len(compiled), answers, digest, worked_ms)


def run_to_file(found: World, query: str, number: int, contender: str, scale: Scale, folder: Path) -> None:
    """A run in a separate process, which writes its result next to its folder."""
    members = different(number) if query == "different" else instances(query, number, scale.authors)
    if contender == "one by one":
        ran = _one_by_one(found, members, folder)
    else:
        ran = measured(found, query, members, contender, folder)
    folder.with_suffix(".json").write_text(json.dumps(asdict(ran)), encoding="utf-8")


def _one_by_one(found: World, members: Sequence[Member], folder: Path) -> Ran:
    """Runs each query separately, one after the other: the milliseconds of a batch are the sum over all runs."""
    runs = [measured(found, "different", [member], "one by one", folder / member.id) for member in members]
    whole = folder / "answers.jsonl"
    with whole.open("wb") as out:
        for member in members:
            out.write((folder / member.id / "answers.jsonl").read_bytes())
    return replace(
        runs[0],
        instances=len(members),
        milliseconds=tuple(map(sum, zip(*(run.milliseconds for run in runs)))),
        cpu=tuple(map(sum, zip(*(run.cpu for run in runs)))),
        registered_s=sum(run.registered_s for run in runs),
        memory_mb=max(run.memory_mb for run in runs),
        programs=len(members),
        answers=sum(run.answers for run in runs),
        digest=digest_of_lines(whole),
    )


# ------------------------------------------------------------------ the study
def study(quick: bool) -> dict[str, Any]:
    """All queries with all numbers of instances by all contenders, and the different ones; ``quick``: a small subset."""
    scale = QUICK if quick else FULL
    plan = [(q, n, "adaptive") for q in ASKED for n in INSTANCES]
    if quick:
        plan += [(q, INSTANCES[0], "apart") for q in ASKED]
    else:
        plan += [(q, n, c) for q in ASKED for n in INSTANCES for c in CONTENDERS[1:] if c != "apart" or n <= APART]
    plan += [("different", DIFFERENT // 5 if quick else DIFFERENT, contender) for contender in ("adaptive", "one by one")]
    runs: list[Ran] = []
    with scratch_folder() as folder:
        found = world(folder / "world", scale)
        for place, (query, number, contender) in enumerate(plan):
            own = folder / f"run{place}"
            apart.wait(apart.start(run_to_file, found, query, number, contender, scale, own))
            runs.append(Ran(**json.loads(own.with_suffix(".json").read_text(encoding="utf-8"))))
    _check(runs)
    return {
        "seed": SEED,
        "world": asdict(scale),
        "concurrent": [_as_json(run, runs) for run in runs],
        "different": to_mean_of_one(runs),
    }


def _as_json(run: Ran, runs: Sequence[Ran]) -> dict[str, Any]:
    compared = sum((other.query, other.instances) == (run.query, run.instances) for other in runs) > 1
    return {
        "query": run.query,
        "instances": run.instances,
        "contender": run.contender,
        "ms": round(median(run.milliseconds), 2),
        "cpu_ms": round(fmean(run.cpu), 2),
        "memory_mb": round(run.memory_mb),
        "milliseconds": {"median": median(run.milliseconds), "least": min(run.milliseconds), "most": max(run.milliseconds)},
        "registered_s": round(run.registered_s, 2),
        "programs": run.programs,
        "answers": run.answers,
        "verified": compared and run.answers > 0,
    }


def _check(runs: Sequence[Ran]) -> None:
    """RunError unless all contenders have equal answers; no measurements are reported before."""
    first: dict[tuple[str, int], Ran] = {}
    for run in runs:
        other = first.setdefault((run.query, run.instances), run)
        if other.digest != run.digest:
            raise RunError(
                f"{run.query} × {run.instances}: {run.contender} gives other answers than {other.contender}: this is a bug"
            )


def to_mean_of_one(runs: Sequence[Ran]) -> dict[str, dict[str, float]]:
    """The different queries: mean milliseconds per batch, of all together and of one alone, and their ratio.

    One alone is the mean over all of them: the first query is the cheapest, and would overstate the ratio. ``wall`` and ``cpu``.
    """
    by_contender = {run.contender: run for run in runs if run.query == "different"}
    together, apart_ = by_contender["adaptive"], by_contender["one by one"]
    found = {}
    for name, all_of_them, sums in (("wall", together.milliseconds, apart_.milliseconds), ("cpu", together.cpu, apart_.cpu)):
        one = fmean(sums) / apart_.instances
        found[name] = {"together_ms": fmean(all_of_them), "one_ms": one, "ratio": fmean(all_of_them) / one}
    return found


def show(found: dict[str, Any]) -> None:
    """Prints a table: milliseconds per batch, and the ratio to ten instances next to the report's; below it the different queries."""
    size = found["world"]
    shown = table(
        "query",
        "queries",
        "contender",
        "ms per batch",
        "× those of 10",
        "the report's ×",
        "registered",
        "programs",
        "memory",
        "answers",
        title=f"{size['authors']:,} people, {size['rate']:,} elements a batch of a second, without Spark",
    )
    rows = found["concurrent"]
    for row in rows:
        query, contender, many = row["query"], row["contender"], row["instances"]
        ratio, printed = measured_growth(query, rows, contender).get(many), published_growth(query, contender).get(many)
        shown.add_row(
            query,
            f"{many:,}",
            contender,
            f"{row['ms']:,.1f}",
            f"{ratio:.2f}" if ratio else "",
            f"{printed:.1f}" if printed else "",
            f"{row['registered_s']:.1f} s",
            f"{row['programs']:,}",
            f"{row['memory_mb']:,} MB",
            f"{row['answers']:,}",
        )
    console().print(shown)
    number = next(row["instances"] for row in rows if row["query"] == "different")
    for name, of in found["different"].items():
        console().print(
            f"{number} different queries, {name}: {of['together_ms']:,.1f} ms per batch, {of['ratio']:.1f} × one alone "
            f"({of['one_ms']:.1f} ms, the mean of all)"
        )
