"""A relation-to-stream operator of another package, end to end: ``examples/extending/stream_operator.py`` through its entry point."""

from __future__ import annotations

import json
import random
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from added_parts import install
from local_runs import Cut, Settings, register
from random_cases import make, seeds_with_answers

from cqels_opt.cli.grammar import parse as parse_command
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.errors import InputError
from cqels_opt.query.parser import parse
from cqels_opt.verify import Options
from cqels_opt.verify.evaluate import stepwise

GROUP = "cqels_opt.stream_operators"
EX = "http://ex.org/"
JOIN = f"""PREFIX : <{EX}>
SELECT ?a ?x FROM NAMED :S [RANGE 2 s] AS ?u FROM NAMED :T [RANGE 3 s SLIDE 1 s] AS ?z
WHERE {{ GRAPH ?u {{ ?a ?does ?x }} GRAPH ?z {{ ?b ?did ?y }} }}"""
GROUPED = JOIN.replace("SELECT ?a ?x", "SELECT ?x (COUNT(*) AS ?n)") + " GROUP BY ?x"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the example, as if it was installed; and one whose entry point is no operator."""
    install(
        monkeypatch, EntryPoint("changed", "stream_operator:Changed", GROUP), EntryPoint("broken", "collections:Counter", GROUP)
    )


@pytest.mark.parametrize("seed", seeds_with_answers(5))
@pytest.mark.parametrize("text", [JOIN, GROUPED], ids=["join", "group"])
def test_answers_are_those_of_the_definition(text: str, seed: int, tmp_path: Path) -> None:
    """The bags at all instants are those of the independent evaluation; the operator emits their differences, both ways."""
    rng, world = random.Random(seed), make(seed).world
    query = parse(text)
    expected: Counter[tuple[int, frozenset[tuple[str, str]]]] = Counter()
    before: Counter[frozenset[tuple[str, str]]] = Counter()
    for at, _, now in stepwise(query, world.inputs(), Options(operator="rstream", drain=True)):
        for row, n in ((now - before) + (before - now)).items():
            expected[at, row] += n
        before = now
    assert expected
    registered = register(query, world, tmp_path, Settings("changed", drain=True))
    for plan in ("adaptive", "random"):
        parts = rng.choice([None, 3])
        outcome = registered.run(Cut(rng.choice(["1", "4", "700ms"]), plan, rng.choice([1, 2]), parts, seed))
        assert {json.loads(line)["op"] for line in outcome.lines} == {"~"}
        assert Counter({(at, row): n for (at, _, row), n in outcome.answers.items()}) == expected


def test_options_name_it() -> None:
    _, run = parse_command(["run", __file__, "--output-operator", "changed"])
    assert run.output_operator == "changed"
    assert query_semantics(parse(JOIN), operator="changed").operator == "changed"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", r"no installed package adds 'absent' to the entry points cqels_opt\.stream_operators"),
        ("broken", r"'broken' of cqels_opt\.stream_operators is .*, not a subclass of StreamOperator"),
    ],
)
def test_a_wrong_operator_is_one_clear_sentence(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        register(JOIN, make(1).world, tmp_path, Settings(name))
