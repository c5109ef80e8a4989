"""Explanations of W3C tests that fail because our semantics differ."""

from __future__ import annotations

from typing import Final

from cqels_opt.bench.w3c.running import Outcome

MEANT_OTHERWISE: Final = {
    "1.0 open-world/date-1.rq": "SPARQL 1.1 compares as XPath does, with an implicit time zone, here UTC; the test has XSD's partial order",
    "1.2 expression/not-not.rq": "SPARQL 1.1: a string with a language has a boolean value, and of an ill-typed boolean it is false",
}
"""By test: where SEMANTICS or a later version of SPARQL differs."""


def explanation(outcome: Outcome) -> str | None:
    """Why a test fails, if known."""
    return MEANT_OTHERWISE.get(outcome.test.label)
