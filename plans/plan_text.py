"""The canonical text of plans, and reading it.

The text is the same in EXPLAIN, in the trace and for ``--plan fixed:``. Its grammar::

    plans    :  source ':' planned (';' source ':' planned)* ';'?
    planned  :  plan ('|' relation '[' variable ']' '>=' number ':' plan)?
    plan     :  relation step*
    step     :  '»' relation on            index probe into one relation (a cross product if ``on`` is empty)
             |  '»' '(' plan ')' on        the plan in brackets is evaluated first, then joined (a bushy part)
    on       :  '[' (variable ' ')* ']'    the variables joined on, each with its question mark; '[]' is a cross product
    relation, source : any characters but white space and  : ; » ( ) [ ] ? , | (a variable may begin with ?_: a blank node)

so ``lsnow » loc_name[?loc] » (name#2 » ls30[?person2])[?loc ?person1]`` scans the delta of ``lsnow``, probes ``loc_name``,
and joins with what ``name#2 » ls30`` gives. White space is free, and ``>>`` may be typed for ``»``. A plan begins with its
delta source. The canonical text has the variables in alphabetical order and single spaces. With ``|`` the rows
of the delta that match so many rows of that relation on the variable have the second plan, and the others the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cqels_opt.plans.plan import Cut, Join, Plan, PlanError, Probe, Scan, Split

_TOKEN = re.compile(r"\s*(?:(»|>>)|([:;()\[\]|])|(\?(?:_:)?[^\s:;»()\[\]?,|]+)|((?:(?!>>)[^\s:;»()\[\]?,|])+))")


class _Tokens:
    """The tokens of a text, with the column of each for messages."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, list[tuple[str, int]]()
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                place = position + len(text[position:]) - len(text[position:].lstrip())
                raise PlanError(
                    f"plan, column {place + 1}: {text[place]!r} is not expected here; a plan reads like 'w » a[?x] » b[?y]'"
                )
            token = "»" if match[1] else match[0].strip()
            self.found.append((token, match.end() - len(match[0].strip())))
            position = match.end()
        self.next = 0

    def peek(self) -> str:
        return self.found[self.next][0] if self.next < len(self.found) else ""

    def take(self) -> str:
        token = self.peek()
        self.next += 1
        return token

    def fail(self, wanted: str) -> PlanError:
        at = self.found[self.next][1] if self.next < len(self.found) else len(self.text)
        got = repr(self.peek()) if self.peek() else "the end"
        return PlanError(f"plan, column {at + 1}: {wanted} expected, but {got} found in {self.text.strip()!r}")

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.fail(repr(token))
        self.take()

    def name(self, what: str) -> str:
        if self.peek() in set("»:;()[]|") | {""} or self.peek().startswith("?"):
            raise self.fail(what)
        return self.take()


def _parse_plan(tokens: _Tokens) -> Plan:
    plan: Plan = Scan(tokens.name("the name of a relation"))
    while tokens.peek() == "»":
        tokens.take()
        if tokens.peek() == "(":
            tokens.take()
            build = _parse_plan(tokens)
            tokens.expect(")")
            plan = Join(plan, build, _parse_on(tokens))
        else:
            relation = tokens.name("the name of a relation or '('")
            plan = Probe(plan, relation, _parse_on(tokens))
    return plan


def _parse_planned(tokens: _Tokens) -> Plan | Split:
    few = _parse_plan(tokens)
    if tokens.peek() != "|":
        return few
    tokens.take()
    relation, on = tokens.name("the relation that the delta is split by"), _parse_on(tokens)
    if len(on) != 1:
        raise tokens.fail("'[?variable]' before this")
    tokens.expect(">=")
    if not tokens.peek().isdecimal():
        raise tokens.fail("a number of rows")
    at_least = int(tokens.take())
    tokens.expect(":")
    return Split(few, Cut(relation, on[0], at_least), _parse_plan(tokens))


def _parse_on(tokens: _Tokens) -> tuple[str, ...]:
    tokens.expect("[")
    on = []
    while tokens.peek().startswith("?"):
        on.append(tokens.take()[1:])
    if tokens.peek() != "]":
        raise tokens.fail("a variable or ']'")
    tokens.take()
    return tuple(sorted(set(on)))


def parse_plan(text: str) -> Plan:
    """The plan of one delta source from its text. Raises :class:`PlanError` that names the column."""
    tokens = _Tokens(text)
    plan = _parse_plan(tokens)
    if tokens.peek():
        raise tokens.fail("'»' or the end of the plan")
    return plan


def parse_planned(text: str) -> Plan | Split:
    """The plan of one delta source, which may be split. Raises :class:`PlanError` that names the column."""
    tokens = _Tokens(text)
    planned = _parse_planned(tokens)
    if tokens.peek():
        raise tokens.fail("'»', '|' or the end of the plan")
    return planned


def parse_plans(text: str) -> dict[str, Plan | Split]:
    """The plans of ``source: plan; source: plan``. Raises :class:`PlanError` that names the column."""
    tokens = _Tokens(text)
    plans: dict[str, Plan | Split] = {}
    while tokens.peek() or not plans:
        source = tokens.name("the name of a delta source")
        tokens.expect(":")
        if source in plans:
            raise PlanError(f"plans: delta source {source!r} has two plans")
        plans[source] = _parse_planned(tokens)
        if tokens.peek():
            if tokens.peek() != ";":
                raise tokens.fail("'»', ';' or the end of the plan")
            tokens.take()
    return plans


def plans_text(plans: Mapping[str, Plan | Split]) -> str:
    """The canonical text of several plans, in the mapping's order; :func:`parse_plans` reads it."""
    return "; ".join(f"{source}: {plan}" for source, plan in plans.items())
