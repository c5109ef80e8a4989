"""Chains and nests that the grammar takes and the planner does not: one sentence, as for any other query that cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_run import World, register
from random_cases import EX

from cqels_opt.errors import QueryError

MANY = 4000


@pytest.mark.parametrize(
    "body",
    [
        " ".join(f"BIND({i} AS ?v{i})" for i in range(MANY)),
        " UNION ".join(["{ ?a :near ?c }"] * MANY),
        "OPTIONAL { ?a :near ?c } " * MANY,
    ],
    ids=["binds", "unions", "optionals"],
)
def test_too_large_a_query(body: str, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="the query is too large"):
        register(f"PREFIX : <{EX}> SELECT ?a {{ STREAM :S [NOW] {{ ?a :at ?x }} {body} }}", World({f"{EX}S": [[]]}), tmp_path)
