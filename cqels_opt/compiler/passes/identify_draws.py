"""RAND(), UUID(), STRUUID() and BNODE() draw values by query, instant and row (SEMANTICS §6)."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from cqels_opt.compiler.passes.traversal import map_calls
from cqels_opt.query import algebra as a
from cqels_opt.query.functions import SEEDED
from cqels_opt.storage.checksum import text_digest


def identify_draws(body: a.Algebra, query: a.Query) -> a.Algebra:
    """Gives each call that draws values an identity among the calls of all queries: a digest of the query's text, and its number.

    ::

        before: (extend ?x (RAND) (filter (< (RAND) (RAND)) (bgp (?a :p ?b))))
        after:  (extend ?x (RAND#3) (filter (< (RAND#1) (RAND#2)) (bgp (?a :p ?b))))
    """
    digest, numbers = text_digest(query.text), count(1)

    def identified(call: a.Call) -> a.Call:
        return replace(call, draw=f"{digest}#{next(numbers)}") if call.function in SEEDED else call

    found: a.Algebra = map_calls(identified, body)
    return found
