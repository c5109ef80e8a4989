"""ASK: one row that says whether there is a solution."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.operators import query_forms
from cqels_opt.query import algebra as a


def count_for_ask(body: a.Algebra, query: a.Query) -> a.Algebra:
    """Compares the number of solutions of an ASK with zero; the body of any other query form stays as it is.

    In an ASK query::

        before: (bgp (?a :p ?b))
        after:  (project (?.boolean) (extend ?.boolean (> ?.solutions 0) (group () ((count ?.solutions)) (bgp (?a :p ?b)))))
    """
    return query_forms.body(replace(query, body=body))
