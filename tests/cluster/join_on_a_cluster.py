"""Runs an AdaptiveJoin over micro-batches on a Spark master, in a process of its own; an executor is killed within a batch.

Usage: join_on_a_cluster.py FOLDER MASTER BATCH. In the first task of that batch that filters rows its executor is killed with SIGKILL.
Printed as JSON are the rows of the answers, the process id of the executor that was struck, and those that were seen afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import on_a_cluster
from pyspark import cloudpickle
from spark.test_adaptive_join import KNOWS, PLACES, STREAM, Collected, cut, in_milliseconds, meetings, rows_of

from cqels_opt.spark.session import make_session


def main(folder: Path, master: str, doomed: int) -> None:
    cloudpickle.register_pickle_by_value(on_a_cluster)
    armed, log = folder / "armed", folder / "executors"

    def strike(who: int) -> bool:
        """True of each row; where it is armed, it goes off once."""
        executor = on_a_cluster.above(b"CoarseGrainedExecutorBackend")
        try:
            armed.unlink()
        except FileNotFoundError:
            if log.exists():
                with log.open("a") as file:
                    file.write(f"{executor}\n")
            return True
        log.write_text(f"{executor}\n")
        os.kill(executor, signal.SIGKILL)
        signal.pause()
        return False

    spark = make_session(master, folder)
    spark.udf.register("strike", strike, "boolean")
    places, knows = (
        spark.createDataFrame(PLACES, "loc string, name string"),
        spark.createDataFrame(KNOWS, "one int, other bigint, since int"),
    )
    sink = Collected()
    join = meetings(spark, places, knows).where("strike(here.who)")
    function = join.batch(sink, state=folder / "state", trace=folder / "trace.jsonl")
    for number, rows in enumerate(cut(rows_of(1, 40), 3)):
        if number == doomed:
            armed.touch()
        function(spark.createDataFrame(rows, STREAM), number)
    struck, *others = log.read_text().split()
    print(
        json.dumps({"rows": [*in_milliseconds(sink.rows).elements()], "struck": struck, "others": sorted({*others} - {struck})})
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
