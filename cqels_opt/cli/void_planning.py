"""VoID descriptions of static data in commands. Planning with a description needs neither Java nor Spark nor the data."""

from __future__ import annotations

from pathlib import Path

from cqels_opt.cli.options import ExplainOptions
from cqels_opt.cli.planning_mode import mode
from cqels_opt.cli.query_requests import query_requests, registration_options, warn_of_mistakes
from cqels_opt.cli.warnings_console import warn
from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.void_store import describe, disagreement, in_store
from cqels_opt.planner.explain import explained
from cqels_opt.rdf.void import Description, read_description
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.spark.scratch import scratch_folder


def explain(options: ExplainOptions) -> str:
    """The plans of queries over data of which only a description exists, with estimates from it."""
    assert options.void is not None
    description, run = read_description(options.void), options.run
    if warning := description.warning(str(options.void)):
        warn(warning)
    with scratch_folder() as folder:
        programs = Programs(describe(folder / "described", description), folder / "queries")
        requests = query_requests(run)
        queries = [registration_options(query, run) | {"text": query.text} for query in requests]
        members = [member_of(record_of(**{**q, "id": q["id"] or f"q{number}"})) for number, q in enumerate(queries, 1)]
        found = QueryCatalog(members, folder / "state", programs).programs()
        warn_of_mistakes(requests)
        return explained(found, mode(run), options.format, 1000 if options.all else 3)


def warn_of_disagreement(place: Path | str, description: Description | None = None, where: str | None = None) -> None:
    """Warns, once, if a description contradicts the store; by default, the description in the store's own data."""
    store = open_store(place)
    description = in_store(store) if description is None else description
    if warning := disagreement(store, description, where or "the static data describe themselves"):
        warn(warning)
