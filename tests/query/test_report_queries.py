"""The algebra of the report's queries in the corrected form of bench/report_queries. UPDATE_GOLDENS=1 rewrites the goldens."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Bgp, InWindow, Join, NamedGraph, Project, TriplePattern, Variable, Window, WindowClause
from cqels_opt.query.parser import parse

from .show import show_query

QUERIES = Path(__file__).resolve().parents[2] / "bench" / "report_queries"
GOLDENS = Path(__file__).parent / "goldens"
NAMES = ["q1", "q2", "q3", "q4", "q1-prime", "q2-prime", "q3-prime", "q4-prime"]
PREFIXES = """PREFIX loc: <http://deri.org/ns/loc#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
PREFIX dcterms: <http://purl.org/dc/terms/>
"""


def test_q1_is_three_patterns_in_three_sources() -> None:
    query = parse((QUERIES / "q1.rq").read_text(encoding="utf-8"))
    person, loc, name, loc_name = map(Variable, ("person", "loc", "name", "locName"))
    at = Bgp((TriplePattern(person, "<http://deri.org/ns/loc#at>", loc),), InWindow("ls30"))
    places = NamedGraph("<http://deri.org/localization/>")
    named = Bgp((TriplePattern(loc, "<http://deri.org/ns/loc#name>", loc_name),), places)
    people = Bgp((TriplePattern(person, "<http://xmlns.com/foaf/0.1/name>", name),))
    assert query.body == Project(Join(Join(at, named), people), (name, loc_name))
    assert query.windows == (Window("ls30", "<http://deri.org/locstreams>", "range", 30_000),)
    assert query.variables == (name, loc_name)
    clause = "FROM NAMED <http://deri.org/locstreams> [RANGE 30 seconds] AS ?ls30"
    start = query.text.index(clause)
    assert query.clauses == (WindowClause("ls30", start, start + len(clause)),)


@pytest.mark.parametrize("name", NAMES)
def test_algebra(name: str) -> None:
    query = parse((QUERIES / f"{name}.rq").read_text(encoding="utf-8"), file=f"{name}.rq")
    shown, golden = show_query(query), GOLDENS / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


PRINTED_Q4 = """SELECT ?person1 ?person2 max(?numPub)
FROM NAMED <http://deri.org/locstreams> [NOW] as ?lsnow
FROM NAMED <http://deri.org/locstreams> [RANGE 30 seconds] as ?ls30
WHERE {
  GRAPH ?lsnow {?person1 loc:at ?loc}.
  GRAPH ?ls30 {?person2 loc:at ?loc}.
  { SELECT ?person1 ?person2 (count(?p2) AS ?numPub)
    WHERE {
      ?p1 dc:creator ?person1 .?p2 dc:creator ?person2. ?p1 dcterms:references ?p2
    }
  }
  GROUP BY ?person1 ?person2
}
GROUP BY ?person2
"""


def test_q4_as_printed_says_what_to_write() -> None:
    with pytest.raises(QueryError) as error:
        parse(PREFIXES + PRINTED_Q4)
    assert "GROUP BY belongs after the '}' of the WHERE that it groups" in error.value.message
    assert (error.value.line, error.value.column) == (16, 3)
    regrouped = PRINTED_Q4.replace("    }\n  }\n  GROUP BY ?person1 ?person2\n", "    } GROUP BY ?person1 ?person2\n  }\n")
    with pytest.raises(QueryError, match=re.escape("write (MAX(?numPub) AS ?max)")):
        parse(PREFIXES + regrouped)
    named = regrouped.replace("max(?numPub)", "(MAX(?numPub) AS ?max)")
    with pytest.raises(QueryError, match=r"\?person1 is not a group key"):
        parse(PREFIXES + named)
    assert parse(PREFIXES + named.replace("?person1 ?person2 (MAX", "?person2 (MAX")).windows


def test_nested_aggregates_of_q4_prime_say_what_to_write() -> None:
    text = "SELECT ?l max(count(?a)) { ?a loc:at ?l } GROUP BY ?l"
    with pytest.raises(QueryError, match=r"aggregates do not nest: .*sub-select"):
        parse(PREFIXES + text)


def test_the_shown_error_of_the_readme_is_the_real_one() -> None:
    readme = (QUERIES.parents[1] / "docs" / "report-queries.md").read_text(encoding="utf-8")
    shown = re.search(r"```\n(.*?)\n```", readme, re.DOTALL)
    assert shown is not None
    with pytest.raises(QueryError) as error:
        parse("\n".join(PREFIXES.splitlines()[:3]) + "\nSELECT ?person1 ?person2 max(?numPub)\n{ ?a ?b ?c }", file="q4.rq")
    assert error.value.report() == shown[1]
