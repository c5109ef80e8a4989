"""``cqels-opt load --update``. It needs neither Java nor Spark, because a change is small compared to the store."""

from __future__ import annotations

import time

from cqels_opt.cli.options import UpdateOptions
from cqels_opt.cli.run_results import UpdateSummary
from cqels_opt.cli.warnings_console import warn
from cqels_opt.lod.update import update as next_version
from cqels_opt.rdf.static import StaticSource


def update(options: UpdateOptions) -> UpdateSummary:
    """Writes the next version of a store."""
    began = time.monotonic()
    add = [*(StaticSource(path) for path in options.add), *(StaticSource(path, iri) for iri, path in options.graphs)]
    done = next_version(options.store, add, [StaticSource(path) for path in options.remove], on_error=options.on_error)
    for reason in done.reasons:
        warn(reason)
    return UpdateSummary(done.store, done.number, done.added, done.removed, done.triples, done.skipped, time.monotonic() - began)
