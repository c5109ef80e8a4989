"""``cqels-opt verify``: runs queries, and compares their answers with the independent evaluation.

A module of its own, because rdflib and networkx take half a second to import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cqels_opt import verify as checking
from cqels_opt.cli.options import RunOptions, without_outputs
from cqels_opt.cli.query_requests import QueryRequest, query_requests
from cqels_opt.cli.run_results import VerifySummary
from cqels_opt.compiler.dialect_profile import policy_words, query_semantics, with_window_semantics
from cqels_opt.errors import InputError, RunError, first_line
from cqels_opt.query.algebra import Query
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.verify import Element, Inputs
from cqels_opt.verify import Options as Checked


def verify(options: RunOptions, run: Callable[[RunOptions], object]) -> VerifySummary:
    """Runs a query and compares every answer with an independent evaluation, instant by instant. ``run`` runs it on an engine."""
    if options.topics:
        raise InputError("verify reads files from beginning to end: a topic of Kafka has no end; keep its messages in a file")
    if options.follow or any(path.is_dir() for _, path in options.streams):
        raise InputError("verify reads files from beginning to end: a live source (--follow, or a folder) has no end")
    if options.store is not None:
        raise InputError(
            "verify evaluates static data from their files, since the store is a part of what it verifies: give the files by --static "
            "and --graph instead of --store"
        )
    with scratch_folder("verify") as scratch:
        out = scratch / "answers.jsonl"
        run(without_outputs(options, out))
        reading = checking.read_inputs(
            options.streams,
            options.static,
            options.graphs,
            lateness=options.lateness,
            time_predicate=options.time_predicate,
            on_error=options.on_error or "fail",
        )
        verdicts, got, unjudged = judged(options, reading.inputs, out)
    lines = [line for verdict in verdicts if not verdict.equal for line in verdict.text().splitlines()]
    differences = sum(len(verdict.differences) for verdict in verdicts)
    unknown = tuple(f"{name} cannot be judged: {why}" for name, why in unjudged.items())
    return VerifySummary(len({time for time, _, _ in got}), sum(got.values()), differences, tuple(lines), unknown)


def judged(options: RunOptions, inputs: Inputs, out: Path) -> tuple[list[checking.Verdict], checking.Answers, dict[str, str]]:
    """Verifies the answers in a file query by query; returns the verdicts, the answers that they are of, and the queries that cannot be
    judged, with the reasons.

    The graphs that the evaluation computes for one query are the elements of the stream that other queries read.
    """
    waiting, streams = query_requests(options), dict(inputs.streams)
    several = len(waiting) > 1
    read = {window.stream.strip("<>") for request in waiting for window in request.query.windows}
    until = max((e.t for iri, elements in streams.items() if iri in read for e in elements), default=None) if several else None
    verdicts, unjudged = list[checking.Verdict](), dict[str, str]()
    got: checking.Answers = Counter()
    while waiting:
        made = {_output(request) for request in waiting}
        request = next(a for a in waiting if not made & {window.stream.strip("<>") for window in a.query.windows})
        waiting.remove(request)
        query = with_window_semantics(request.query, options.profile, options.bounds)
        how = replace(_as_verified(request, query, options), until=until)
        known = Inputs(streams, inputs.default, inputs.graphs)
        mine = checking.read_answers(out, request.id if several else None)
        try:
            verdicts.append(checking.judge(query, known, how, mine))
            got.update(mine)
        except RunError as error:
            unjudged[request.id or "the query"] = first_line(error)
        if (output := _output(request)) in read:
            streams[output] = graphs_as_elements(checking.evaluate(query, known, how))
    return verdicts, got, unjudged


def _output(request: QueryRequest) -> str:
    return (request.query.output or "").strip("<>")


def graphs_as_elements(answers: checking.Answers) -> list[Element]:
    """The graphs that a query emits, as elements with the time of their instant."""
    found: dict[int, list[tuple[str, str, str]]] = {}
    for time, _, row in answers:
        cells = dict(row)
        found.setdefault(time, []).append((cells[".s"], cells[".p"], cells[".o"]))
    return [Element(time, tuple(triples)) for time, triples in sorted(found.items())]


def _as_verified(request: QueryRequest, query: Query, options: RunOptions) -> Checked:
    """The semantics of a query as options of the independent evaluation."""
    semantics = query_semantics(query, options.profile, request.report, options.output_operator, options.duplicates, request.t0)
    report = semantics.report
    return Checked(
        policy=policy_words(report.default),
        policies={name: policy_words(policy) for name, policy in report.by_window.items()},
        operator=semantics.operator,
        duplicates=semantics.duplicates,
        t0=report.origin(""),
        t0s={name: t0 for name, t0 in report.t0.items() if name},
        drain=options.drain,
    )
