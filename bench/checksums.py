"""Measures the share of checksums in a batch, without Spark: ``python -m cqels_opt.bench.checksums [ELEMENTS [BATCHES]]``.

It times the functions of :mod:`cqels_opt.storage` that hash or verify, and prints their share of the CPU time of all batches, with answers
and trace in files.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from time import process_time
from typing import Any, Final
from unittest.mock import patch

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import load, prepare
from cqels_opt.bench.soak import BATCH, QUERY, STREAM, write
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.storage import checksum, sealed_files
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.batch_size import BatchSize

TIMED: Final[tuple[tuple[Any, str], ...]] = (
    (checksum, "digest"),
    (checksum, "identity"),
    (checksum, "digest_of_blocks"),
    (checksum.Hasher, "update"),
    (checksum.Blocks, "verify"),
    (checksum.Blocks, "verify_span"),
    (sealed_files, "_checked_header"),
)
"""The functions that hash, verify, or check whether a file has been verified."""


class Stopwatch:
    """The seconds in some functions, counting nested calls once, and the number of hashed bytes."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    def over(self, owner: Any, name: str) -> AbstractContextManager[Any]:
        """Times a function while the context is open."""
        function = getattr(owner, name)

        @wraps(function)
        def timed(*args: Any, **keywords: Any) -> Any:
            self._depth += 1
            began = process_time()
            try:
                return function(*args, **keywords)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += process_time() - began

        return patch.object(owner, name, timed)


def main(elements: int = 1000, batches: int = 60) -> None:
    """Runs the batches and prints the share."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for owner, name in TIMED:
            stack.enter_context(watch.over(owner, name))
        folder = stack.enter_context(scratch_folder("checksums"))
        world = write(folder / "world", -(-elements * batches // BATCH))
        store = load(folder / "store", [StaticSource(world.static)])
        query = prepare("q", QUERY, store, {STREAM: world.stream}, folder / "query", BatchSize(count=elements))
        driver = query.driver(folder / "state", FileSink(folder / "answers.jsonl"), TraceFile(folder / "trace.jsonl"))
        seconds = watch.seconds = 0.0
        for number, rows in enumerate(query.chunks()):
            began = process_time()
            driver.batch(number, rows)
            seconds += process_time() - began
        put_out = (folder / "answers.jsonl").stat().st_size
    print(
        f"{number + 1} batches of {elements:,} elements: {1000 * seconds / (number + 1):.1f} ms of CPU a batch, of which checksums "
        f"{1000 * watch.seconds / (number + 1):.3f} ms ({100 * watch.seconds / seconds:.2f} %), answers {put_out / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
