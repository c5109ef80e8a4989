"""What the commands do with VoID descriptions of static data. Plans over a description need neither Java nor Spark, nor the data."""

from __future__ import annotations

from pathlib import Path

from cqels_opt.cli.options import ExplainOptions
from cqels_opt.cli.query_requests import meant, query_requests, warn_of_never_true
from cqels_opt.cli.warnings_console import warn
from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.void_store import describe, disagreement, in_store
from cqels_opt.planner.explain import explained
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.rdf.void import Description, read_description
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.spark.scratch import scratch_folder


def explain(options: ExplainOptions) -> str:
    """The plans of queries over data that only their description is there of, with estimates after it."""
    assert options.void is not None
    said, run = read_description(options.void), options.run
    if warning := said.warning(str(options.void)):
        warn(warning)
    mode = plan_mode(run.plan, run.fixed, run.cost_model, run.constants, run.joins, run.filters)
    with scratch_folder() as folder:
        programs = Programs(describe(folder / "described", said), folder / "queries")
        asked = query_requests(run)
        queries = [meant(query, run) | {"text": query.text} for query in asked]
        members = [member_of(record_of(**{**q, "id": q["id"] or f"q{number}"})) for number, q in enumerate(queries, 1)]
        found = QueryCatalog(members, folder / "state", programs).programs()
        warn_of_never_true(asked)
        return explained(found, mode, options.format, 1000 if options.all else 3)


def told(place: Path | str, said: Description | None = None, where: str | None = None) -> None:
    """Warns, once, of a description that says otherwise than a store has it: by default of the one that stands in its data."""
    store = open_store(place)
    said = in_store(store) if said is None else said
    if warning := disagreement(store, said, where or "the static data describe themselves"):
        warn(warning)
