"""``engine.adaptive`` with its state at a URI: another object continues with the answers of brute force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import remote_folder
from spark.test_adaptive_messages import MET, Collected, S, answers, at, frame_of, value

import cqels_opt as cq
from cqels_opt.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_another_object_continues(spark: SparkSession, tmp_path: Path) -> None:
    """The second object repeats the last batch of the first one, which is refused from then on."""
    elements = [at(i) for i in range(24)]
    records = [("people", 0, i, e.t, value(e, "nq")) for i, e in enumerate(elements)]
    batches = [records[:9], records[9:16], records[16:20], records[20:]]
    sink, started = Collected(), []
    for first in (0, 2):
        adaptive = cq.Engine(spark).adaptive(MET, sink, f"{remote_folder.PROTOCOL}://{tmp_path}/bucket/state", payload="nq")
        started.append(adaptive)
        for number, batch in list(enumerate(batches))[first : 3 + first]:
            adaptive(frame_of(spark, batch), number)
    found = sink.answers(adaptive.query.columns)
    assert found and found == answers(MET, {S: elements}, elements[-1].t - 1)
    assert list((tmp_path / "bucket" / "state").rglob("slot-*"))
    with pytest.raises(CheckpointError, match="another query of this process works with this state folder"):
        started[0](frame_of(spark, batches[3]), 3)
