"""How the operators above the joins of a program are kept up to date, for EXPLAIN."""

from __future__ import annotations

from cqels_opt.operators.algebra.operator import Maintenance, inputs_first
from cqels_opt.operators.algebra.scope import schema_of
from cqels_opt.operators.compiled_query import CompiledProgram

WAYS: dict[Maintenance, str] = {
    "by_key": "recomputed by key",
    "sums": "kept as sums",
    "whole": "recomputed whole",
    "steps": "followed from the bound ends",
}


def maintained(program: CompiledProgram) -> dict[str, list[str]]:
    """The operators that are not row by row, by the way in which they are kept up to date; inputs first."""
    found: dict[str, list[str]] = {way: [] for way in WAYS}
    schema = schema_of(program.blocks)
    for operator in inputs_first(program.tree):
        if (shown := operator.maintenance(schema)) is not None:
            way, text = shown
            found[way].append(text)
    return {way: texts for way, texts in found.items() if texts}


def text(program: CompiledProgram) -> str:
    """One line; empty where all operators above the joins are row by row."""
    found = maintained(program)
    ways = (f"{label}: {', '.join(found[way])}" for way, label in WAYS.items() if way in found)
    return "above the joins: " + "; ".join(ways) if found else ""
