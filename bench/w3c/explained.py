"""Why some of the W3C's tests do not pass: what is meant otherwise here, and what is not there yet."""

from __future__ import annotations

from typing import Final

from cqels_opt.bench.w3c.running import Outcome

_LATER = "triple terms (SPARQL 1.2) are not supported yet"
MEANT_OTHERWISE: Final = {
    "1.0 open-world/date-1.rq": "SPARQL 1.1 compares as XPath does, with an implicit time zone, here UTC; the test has XSD's partial order",
    "1.2 expression/not-not.rq": "SPARQL 1.1: a string with a language has a boolean value, and of an ill-typed boolean it is false",
}
"""By test: where SEMANTICS or a later version of SPARQL says something else."""


def explanation(outcome: Outcome) -> str | None:
    """Why a test does not pass, if that is known."""
    if outcome.problem is not None and "quoted triples" in outcome.problem:
        return _LATER
    if "triple-term" in outcome.test.category:
        return _LATER
    return MEANT_OTHERWISE.get(outcome.test.label)
