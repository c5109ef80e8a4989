"""``cqels-opt load``: a store of static files, loaded by Spark or by this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from cqels_opt.cli.options import LoadOptions
from cqels_opt.cli.run_results import LoadSummary
from cqels_opt.cli.void_planning import warn_of_disagreement
from cqels_opt.cli.warnings_console import warn
from cqels_opt.local.loading import loaded
from cqels_opt.lod import load as loading
from cqels_opt.runtime.static_data import static_sources
from cqels_opt.trace.progress import bytes_progress


def load_locally(options: LoadOptions) -> LoadSummary:
    """Loads files in this process."""
    return load_by(loaded, options)


def load_by(load: Callable[..., loading.LoadReport], options: LoadOptions) -> LoadSummary:
    """Loads files into a store with a function of their sources and the store."""
    began = time.monotonic()
    with bytes_progress() as progress:
        report = load(static_sources(options.paths, options.graphs), options.store, on_error=options.on_error, progress=progress)
    warn_of_disagreement(options.store)
    for failure in report.failures:
        warn(str(failure))
    return LoadSummary(options.store, report.triples, report.skipped, time.monotonic() - began)
