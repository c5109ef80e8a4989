"""The verdict on a run's answers, with a second engine where they differ from the independent evaluation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from cqels_opt.errors import RunError
from cqels_opt.query.algebra import Query
from cqels_opt.verify.compare import Difference, compare, report
from cqels_opt.verify.evaluate import chosen, confused, evaluate, held_at, moments
from cqels_opt.verify.model import Answers, Inputs, Options
from cqels_opt.verify.moment import Moment, moment
from cqels_opt.verify.on_pyoxigraph import stored
from cqels_opt.verify.rewrite import concatenations


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison.

    ``differences`` are confirmed. ``outvoted`` are those at instants where the second engine agrees with the run's answers:
    pyoxigraph and rdflib each deviate from SPARQL 1.1 in places. ``instants`` counts the instants of E, all of which were
    compared, ``rows`` the expected rows; ``evaluator`` is the first engine.
    """

    instants: int
    rows: int
    evaluator: str
    differences: tuple[Difference, ...]
    outvoted: tuple[Difference, ...]
    first: Moment | None = None

    @property
    def equal(self) -> bool:
        """Whether there are no confirmed differences."""
        return not self.differences

    def text(self, limit: int = 10) -> str:
        """The verdict for people."""
        lines = [
            f"{self.rows} rows expected by {self.evaluator} at {self.instants} instants: {'equal' if self.equal else 'different'}"
        ]
        if self.differences:
            lines.append(report(self.differences, limit))
        if self.first is not None:
            lines.append(self.first.text(limit))
        if self.outvoted:
            lines.append(
                f"at {len(self.outvoted)} more instants {self.evaluator} differs, and the second engine agrees with the answers"
            )
        return "\n".join(lines)


def judge(query: Query, inputs: Inputs, options: Options, got: Answers) -> Verdict:
    """Compares a run's answers with the independent evaluation; with ``evaluator="auto"`` the majority decides.

    RunError if no engine can evaluate the query, or if pyoxigraph alone can, does not distinguish terms of the input, and differs.
    """
    concatenated = concatenations(query)
    first = chosen(query, inputs, options)
    try:
        expected = evaluate(query, inputs, replace(options, evaluator=first))
    except RunError:
        if options.evaluator != "auto" or first == "pyoxigraph":
            raise
        expected = evaluate(query, inputs, replace(options, evaluator="pyoxigraph"))
        if compare(_as_stored(expected), _as_stored(got), concatenated):
            raise
        return Verdict(len(moments(query, inputs, options)), sum(expected.values()), "pyoxigraph", (), ())
    differences = compare(expected, got, concatenated)
    agreed: set[int] = set()
    if differences and options.evaluator == "auto":
        agreed = _second_opinion(query, inputs, options, got, first, {d.time for d in differences}, concatenated)
    confirmed = tuple(d for d in differences if d.time not in agreed)
    if confirmed and options.evaluator == "auto" and first == "pyoxigraph" and (terms := confused(query, inputs)):
        raise RunError(f"pyoxigraph reads {' and '.join(terms)} as one term, and rdflib cannot evaluate the query")
    outvoted = tuple(d for d in differences if d.time in agreed)
    details = None
    if confirmed:
        at = confirmed[0].time
        details = moment(at, expected, got, held_at(query, inputs, options, at))
    return Verdict(len(moments(query, inputs, options)), sum(expected.values()), first, confirmed, outvoted, details)


def _second_opinion(
    query: Query, inputs: Inputs, options: Options, got: Answers, first: str, times: set[int], concatenated: dict[str, str]
) -> set[int]:
    """The instants among ``times`` at which the other engine agrees with the run's answers, pyoxigraph up to the form of values."""
    other = replace(options, evaluator="pyoxigraph" if first == "rdflib" else "rdflib")
    try:
        again = evaluate(query, inputs, other, only=times)
    except RunError:
        return set()
    actual: Answers = Counter({key: count for key, count in got.items() if key[0] in times})
    if other.evaluator == "pyoxigraph":
        again, actual = _as_stored(again), _as_stored(actual)
    return times - {d.time for d in compare(again, actual, concatenated)}


def _as_stored(answers: Answers) -> Answers:
    """Answers in which values have the form of pyoxigraph's store."""
    found: Answers = Counter()
    for (time, op, row), count in answers.items():
        found[time, op, frozenset((name, stored(term)) for name, term in row)] += count
    return found
