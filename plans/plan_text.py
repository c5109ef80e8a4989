"""The canonical text of plans, and its parser.

The text is the same in EXPLAIN, in the trace and for ``--plan fixed:``. For example, ``lsnow » loc_name[?loc] » (name#2 » ls30[?person2])
[?loc ?person1]`` scans the delta of ``lsnow``, probes ``loc_name`` on ``?loc``, and joins with the result of ``name#2 » ls30``, which is
evaluated first (a bushy part). ``[]`` is a cross product. ``e1 » e2[?b] & e3[?a]`` joins ``e2`` and ``e3`` at once (a multiway join).
With ``|`` the rows of the delta that match at least N rows of a relation on a variable take the second plan, and the others the first.
White space is free, and ``>>`` may be typed for ``»``. A plan begins with its delta source. The canonical text has the variables, and the
relations of a multiway join, in alphabetical order and single spaces.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal

from lark import Lark, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args

from cqels_opt.plans.plan import Cut, Join, Multiway, Plan, PlanError, Probe, Scan, Split, brackets

GRAMMAR = r"""
plans: named (";" named)* ";"?
named: SOURCE ":" planned
?planned: plan | plan "|" cut ":" plan -> split
cut: CUT "[" VARIABLE+ "]" AT_LEAST NUMBER
?plan: RELATION -> scan
    | plan ARROW RELATION on -> probe
    | plan ARROW RELATION on (AMPERSAND RELATION on)+ -> multiway
    | plan ARROW "(" plan ")" on -> join
on: "[" VARIABLE* "]"

ARROW: "»" | ">>"
// Any characters but white space and : ; » ( ) [ ] ? , |. A variable may begin with ?_: as a blank node.
SOURCE: /((?!>>)[^\s:;»()\[\]?,|])+/
RELATION: SOURCE
CUT: SOURCE
VARIABLE: /\?(_:)?[^\s:;»()\[\]?,|]+/
AMPERSAND: "&"
AT_LEAST: />=(?!(?!>>)[^\s:;»()\[\]?,|])/
NUMBER: /\d+(?!(?!>>)[^\s:;»()\[\]?,|])/
%ignore /\s+/
"""

Start = Literal["plan", "planned", "plans"]

EXPECTED = {
    "SOURCE": "the name of a delta source",
    "RELATION": "the name of a relation",
    "CUT": "the relation that the delta is split by",
    "VARIABLE": "a variable",
    "AT_LEAST": "'>='",
    "NUMBER": "a number of rows",
    "ARROW": "'»'",
    "AMPERSAND": "'&'",
    "VBAR": "'|'",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LPAR": "'('",
    "RPAR": "')'",
    "$END": "the end of the plan",
}
"""What error messages call each terminal, in the order in which they list them."""


@v_args(inline=True)
class _Builder(Transformer[Any, Any]):
    """Builds plans while the text is parsed."""

    def scan(self, relation: str) -> Plan:
        return Scan(str(relation))

    def probe(self, left: Plan, arrow: str, relation: str, on: tuple[str, ...]) -> Plan:
        return Probe(left, str(relation), on)

    def multiway(self, left: Plan, arrow: str, *sides: Any) -> Plan:
        names, keys = [str(name) for name in sides[::3]], sides[1::3]
        if len(set(names)) < len(names):
            raise PlanError(f"plan: {' & '.join(names)} names a relation twice")
        return Multiway.of(left, dict(zip(names, keys)))

    def join(self, left: Plan, arrow: str, build: Plan, on: tuple[str, ...]) -> Plan:
        return Join(left, build, on)

    def on(self, *variables: str) -> tuple[str, ...]:
        return tuple(sorted({variable[1:] for variable in variables}))

    def cut(self, relation: str, *rest: str) -> Cut:
        on = self.on(*rest[:-2])
        if len(on) != 1:
            raise PlanError(f"plan: a delta is split by one variable, not by {relation}{brackets(on)}")
        return Cut(str(relation), on[0], int(rest[-1]))

    def split(self, few: Plan, cut: Cut, many: Plan) -> Split:
        return Split(few, cut, many)

    def named(self, source: str, planned: Plan | Split) -> tuple[str, Plan | Split]:
        return str(source), planned

    def plans(self, *named: tuple[str, Plan | Split]) -> tuple[tuple[str, Plan | Split], ...]:
        return named


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", start=["plan", "planned", "plans"], transformer=_Builder())


@lru_cache(1024)
def _parsed(text: str, start: Start) -> Any:
    """Parses a text. Tasks parse the plans of every step again, and few of them are new; the plans never change."""
    try:
        return _parser().parse(text, start)
    except UnexpectedInput as error:
        raise PlanError(_message(error, text)) from None


def _message(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedCharacters):
        place = error.pos_in_stream or 0
        return f"plan, column {place + 1}: {text[place]!r} is not expected here; a plan reads like 'w » a[?x] » b[?y]'"
    assert isinstance(error, UnexpectedToken)
    accepted = error.accepts or {"$END"}  # the state after a whole plan lists no terminals
    *others, last = (phrase for terminal, phrase in EXPECTED.items() if terminal in accepted)
    expected = f"{', '.join(others)} or {last}" if others else last
    at_end = error.token.type == "$END"
    found, place = ("the end", len(text)) if at_end else (repr(str(error.token)), error.token.start_pos or 0)
    return f"plan, column {place + 1}: {expected} expected, but {found} found in {text.strip()!r}"


def parse_plan(text: str) -> Plan:
    """The plan of one delta source from its text. Raises :class:`PlanError` that names the column."""
    plan: Plan = _parsed(text, "plan")
    return plan


def parse_planned(text: str) -> Plan | Split:
    """The plan of one delta source, which may be split. Raises :class:`PlanError` that names the column."""
    planned: Plan | Split = _parsed(text, "planned")
    return planned


def parse_plans(text: str) -> dict[str, Plan | Split]:
    """The plans of ``source: plan; source: plan``. Raises :class:`PlanError` that names the column."""
    plans: dict[str, Plan | Split] = {}
    for source, planned in _parsed(text, "plans"):
        if source in plans:
            raise PlanError(f"plans: delta source {source!r} has two plans")
        plans[source] = planned
    return plans
