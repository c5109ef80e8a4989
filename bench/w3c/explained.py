"""Why some of the W3C's tests do not pass: what is meant otherwise here."""

from __future__ import annotations

from typing import Final

from cqels_opt.bench.w3c.running import Outcome

MEANT_OTHERWISE: Final = {
    "1.0 open-world/date-1.rq": "SPARQL 1.1 compares as XPath does, with an implicit time zone, here UTC; the test has XSD's partial order",
    "1.2 expression/not-not.rq": "SPARQL 1.1: a string with a language has a boolean value, and of an ill-typed boolean it is false",
}
"""By test: where SEMANTICS or a later version of SPARQL says something else."""


def explanation(outcome: Outcome) -> str | None:
    """Why a test does not pass, if that is known."""
    return MEANT_OTHERWISE.get(outcome.test.label)
