"""``cqels-opt bench physical-joins``: each physical operator forced, for small and large inputs, and the optimizer's choice.

The query joins the current locations with names of people and places: two joins, one into an index of the varied size. The
seconds are those of the second stage through Spark (``execute`` of the trace), the minimum of the counted batches. The study also
shows the cost model's choices that one machine cannot measure: more task slots, and indexes that exceed an executor's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from cqels_opt.bench.answers import digest_of_lines
from cqels_opt.bench.apart import empty_folder, scratch_folder
from cqels_opt.bench.local import load
from cqels_opt.bench.on_spark import run_on_spark
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import STREAM, social
from cqels_opt.cli.options import JOINS
from cqels_opt.errors import RunError
from cqels_opt.plans import operators, parse_plan
from cqels_opt.plans.join_methods import Machine, PhysicalCostModel, RelationPlacement
from cqels_opt.plans.physical import physical
from cqels_opt.plans.plan import relations
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.windows.batch_size import BatchSize

SEED = 5
BATCHES = 4  # the first does not count: it maps files and writes Spark's tables
FORCED = tuple(way for way in JOINS if way not in ("auto", "spark"))
QUERY = """PREFIX loc: <http://deri.org/ns/loc#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
SELECT ?name ?locName
FROM NAMED <http://deri.org/locstreams> [NOW] AS ?now
WHERE {
  GRAPH ?now {?person loc:at ?loc}.
  GRAPH <http://deri.org/localization/> {?loc loc:name ?locName}
  ?person foaf:name ?name.
}"""


def study(quick: bool) -> dict[str, Any]:
    """The seconds of each method for each size, and the choices of the model."""
    deltas, indexes = ((100, 10_000), (10_000,)) if quick else ((100, 10_000, 1_000_000), (10_000, 1_000_000))
    with scratch_folder() as folder:
        (folder / "query.rq").write_text(QUERY, encoding="utf-8")
        with make_session(None, folder) as spark:
            measured = [row for index in indexes for row in _measured(spark, folder, index, deltas)]
    return {"seed": SEED, "measured": measured, "chosen": list(_chosen())}


def _measured(spark: SparkSession, folder: Path, index: int, deltas: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    world = empty_folder(folder / "world")
    most = BATCHES * max(deltas)
    files = social(
        world, seed=SEED, authors=index, papers=10, coauthor_pairs=20, elements=most, rate=1000.0, stream_format="parquet"
    )
    store = load(world / "store", files.sources)
    for delta in deltas:
        stream = world / f"stream-{delta}.parquet"
        parquet.write_table(parquet.read_table(files.stream).slice(0, BATCHES * delta), stream)
        found, digests = dict[str, float](), dict[str, str]()
        used: list[str] = []
        for way in (FORCED[0], "auto", *FORCED):  # the very first run warms up the JVM and its workers, and is repeated
            run = empty_folder(folder / "run")
            size, query = BatchSize(count=delta), folder / "query.rq"
            _, records = run_on_spark(spark, query, [(STREAM, stream)], size, run, store=store, joins=way)
            found[way] = min(record.ms.execute for record in records[1:]) / 1000
            digests[way] = digest_of_lines(run / "answers.jsonl")
            if way == "auto":
                used = sorted({o.by or o.op for d in records[-1].deltas for o in d.operators if o.op != "scan"})
        if len(set(digests.values())) > 1:
            raise RunError(f"the ways to join give different answers: {digests}; this is a bug")
        best = min(FORCED, key=found.__getitem__)
        yield {
            "index": index,
            "delta": delta,
            "seconds": found,
            "best": best,
            "chosen": used,
            "over best": found["auto"] / found[best],
        }


def _chosen() -> Iterator[dict[str, Any]]:
    """The model's choices for a bushy part that is built, and for an index that is too large, by the number of slots and rows."""
    bushy, chain = parse_plan("delta » a[?x] » (b » c[?z])[?y]"), parse_plan("delta » a[?x] » b[?y]")
    for slots in (2, 16, 100):
        for rows in (1e4, 1e6, 1e8):
            held = {name: RelationPlacement(rows, 2) for name in relations(bushy)}
            large = {"a": RelationPlacement(1e8, 2), "b": RelationPlacement(1e4, 2)}
            cluster = Machine(slots, executors=max(1, slots // 2), memory=large["a"].bytes / 2)
            for case, plan, sizes, machine, placed in (
                ("a bushy part of so many rows", bushy, [rows] * 5, Machine(slots), held),
                ("an index twice an executor's room", chain, [rows] * 3, cluster, large),
            ):
                way = physical(plan, operators(plan), sizes, PhysicalCostModel(machine, slots, relations=placed))
                yield {"case": case, "slots": slots, "rows": rows, "by": [str(by) for by in way.by if by]}


def show(found: Mapping[str, Any]) -> None:
    """A study as tables."""
    title = "Milliseconds of the second stage, the least of the batches that count; each operator forced, and the choice"
    shown = table(*numbers("index", "delta", *FORCED, "auto", "over the best"), "chosen", title=title)
    for row in found["measured"]:
        cells = [f"{1000 * row['seconds'][way]:,.0f}" for way in (*FORCED, "auto")]
        shown.add_row(f"{row['index']:,}", f"{row['delta']:,}", *cells, f"{row['over best']:.2f}×", ", ".join(row["chosen"]))
    title = "What the cost model chooses for a delta of so many rows, by task slots"
    model = table("case", *numbers("slots", "rows"), "operators", title=title)
    for row in found["chosen"]:
        model.add_row(row["case"], str(row["slots"]), f"{row['rows']:,.0f}", " » ".join(row["by"]))
    screen = console()
    screen.print(shown)
    screen.print(model)
    ratios = np.array([row["over best"] for row in found["measured"]])
    screen.print(f"the choice takes at most {ratios.max():.2f} times the best operator that is forced")
