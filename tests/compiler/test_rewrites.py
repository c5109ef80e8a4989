"""Every pass over the algebra and every rule over the logical plan does what the example in its docstring shows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqels_opt.compiler import passes, rules
from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.logical_blocks import LogicalPlan
from cqels_opt.compiler.passes import PASSES, Pass, apply_passes
from cqels_opt.compiler.passes.drop_disjoint_minus import drop_disjoint_minus
from cqels_opt.compiler.rules import CORRELATED_RULES, RULES, Rule
from cqels_opt.lod.build import build_store
from cqels_opt.query import algebra as a
from cqels_opt.query.parser import parse
from cqels_opt.windows.instants import Policy, Report

from .notation import algebra, algebra_tree, brackets, plan, plan_tree, written

ROOT = Path(__file__).resolve().parents[2]
QUERY = parse(
    "SELECT * FROM NAMED <http://ex.org/S> [NOW] AS ?w FROM NAMED <http://ex.org/S> [RANGE 1s] AS ?v { GRAPH ?w { ?a ?b ?c } }"
)
QUERIES = {
    "restrict_named_graphs": replace(QUERY, dataset=a.Dataset((), ("<http://ex.org/g1>", "<http://ex.org/g2>"))),
    "count_for_ask": replace(QUERY, form=a.Ask()),
}
"""The queries of the examples that are about more than a body."""


def example(rewrite: Callable[..., Any]) -> tuple[str, str]:
    """The texts before and after, from the docstring of a pass or rule."""
    found = re.search(r"before: (.*?)\n\s*after: (.*)", inspect.getdoc(rewrite) or "", re.DOTALL)
    assert found, f"{rewrite.__name__} has no example in its docstring"
    return found[1], found[2]


def name(rewrite: Callable[..., Any]) -> str:
    return rewrite.__name__


@pytest.mark.parametrize("rewrite", PASSES, ids=name)
def test_the_example_of_a_pass(rewrite: Pass) -> None:
    before, after = example(rewrite)
    query = QUERIES.get(rewrite.__name__, QUERY)
    got = rewrite(algebra(brackets(before)), query)
    assert written(algebra_tree(got)) == written(brackets(after))
    assert rewrite(got, QUERY) == got  # nothing is left to rewrite


@pytest.mark.parametrize(
    ("right", "dropped"),
    [
        ("(bgp (?c :q ?b))", False),
        ("(project (?c) (bgp (?c :q ?b)))", True),
        ("(project (?b ?c) (bgp (?c :q ?d)))", True),  # the sub-select names ?b, and does not bind it
        ("(extend ?b (+ ?c 1) (bgp (?c :q ?d)))", False),
        ("(minus (bgp (?c :q ?d)) (bgp (?b :q ?d)))", True),
    ],
)
def test_a_minus_is_dropped_where_its_sides_bind_no_common_variable(right: str, dropped: bool) -> None:
    before = algebra(brackets(f"(minus (bgp (?a :p ?b)) {right})"))
    assert isinstance(drop_disjoint_minus(before, QUERY), a.Bgp) == dropped


@pytest.mark.parametrize("innermost", ["?a", "RAND()"])
def test_passes_take_expressions_as_deep_as_the_parser_does(innermost: str) -> None:
    """One frame of the stack per level."""
    deep = "(" * 700 + innermost + " + 1)" * 700
    body = apply_passes(parse(f"SELECT ?x FROM NAMED <urn:S> [NOW] AS ?w {{ GRAPH ?w {{ ?a ?b ?c }} BIND({deep} AS ?x) }}"))
    assert isinstance(body, a.Project)


class OneRule(Compiler):
    """A compiler that does not rewrite what a rule makes."""

    def rewrite(self, plan: LogicalPlan) -> LogicalPlan:
        return plan


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    folder = tmp_path_factory.mktemp("rewrites")
    build_store(folder / "store", [])
    return OneRule(QUERY, str(folder / "store"), folder, Report(Policy(content_change=True)))


@pytest.mark.parametrize("rule", RULES, ids=name)
def test_the_example_of_a_rule(rule: Rule, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "fresh_number", lambda: 0)
    before, after = example(rule)
    got = rule(plan(brackets(before)), compiler)  # type: ignore[arg-type]
    assert got is not None
    assert written(plan_tree(got)) == written(brackets(after))


@pytest.mark.parametrize("rule", RULES, ids=name)
def test_a_rule_leaves_other_operators(rule: Rule, compiler: Compiler) -> None:
    for text in (
        "(join (values (?a) (:a)) (values (?b) (:b)))",
        "(minus (values (?a) (:a)) (values (?a) (:b)))",
        "(filter (> ?a 1) (values (?a) (:a)))",
        "(extend ?k (> ?a 1) (values (?a) (:a)))",
        "(project (?a) (values (?a ?b) (:a :b)))",
        "(union (block (?a :p ?b)) (block (?a :q ?b)))",
    ):
        assert rule(plan(brackets(text)), compiler) is None  # type: ignore[arg-type]


def public_rewrites(package: Any) -> set[str]:
    """The names of the modules of a package that have a function of the same name: its passes or rules."""
    modules = [file.stem for file in Path(package.__file__).parent.glob("[a-z]*.py")]
    return {module for module in modules if callable(getattr(package, module, None))}


@pytest.mark.parametrize(("package", "listed"), [(passes, PASSES), (rules, RULES)], ids=["passes", "rules"])
def test_every_rewrite_is_listed_and_alone_in_its_module(package: Any, listed: tuple[Callable[..., Any], ...]) -> None:
    assert public_rewrites(package) == {rewrite.__name__ for rewrite in listed}
    for rewrite in listed:
        assert rewrite.__module__ == f"{package.__name__}.{rewrite.__name__}"
        functions = [
            n for n, f in inspect.getmembers(inspect.getmodule(rewrite), inspect.isfunction) if f.__module__ == rewrite.__module__
        ]
        assert [n for n in functions if not n.startswith("_")] == [rewrite.__name__]
    assert set(CORRELATED_RULES) <= set(RULES)


def test_the_architecture_page_lists_every_rewrite() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Compiler passes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [rewrite.__name__ for rewrite in (*PASSES, *RULES)]
