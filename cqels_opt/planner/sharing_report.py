"""EXPLAIN of several queries: what they share (DESIGN §9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.instances import names_of
from cqels_opt.plans.figures import counted
from cqels_opt.windows.binding_slots import Shape

NAMED = 3  # the number of queries that are named of those that share a plan


def shared(programs: Sequence[CompiledProgram]) -> dict[str, Any]:
    """Templates with their queries, and the slots that several patterns read; empty where nothing is shared."""
    templates = {p.id: {"queries": p.instances.count, "among them": _some(p)} for p in programs if p.instances is not None}
    readers: Counter[Shape] = Counter(
        part.shape for p in programs for block in p.blocks for o in block.occurrences for part in o.parts
    )
    if len(programs) == 1 and not templates:
        return {}
    slots = {"kinds": len(readers), "patterns": readers.total()}
    return {"queries": sum(p.instances.count if p.instances else 1 for p in programs), "templates": templates, "slots": slots}


def text(programs: Sequence[CompiledProgram]) -> str:
    """The same as text; empty if nothing is shared."""
    found = shared(programs)
    if not found:
        return ""
    slots = found["slots"]
    lines = [
        f"shared: {found['queries']:,} queries, {counted(len(programs), 'plan')}; {counted(slots['kinds'], 'kind')} of binding slots for "
        f"{counted(slots['patterns'], 'pattern')}; one ingest, and one job of each kind per batch"
    ]
    for name, template in found["templates"].items():
        lines.append(
            f"  {name}: {template['queries']:,} queries that differ in constants only ({', '.join(template['among them'])}"
            f"{', …' if template['queries'] > NAMED else ''}): one plan, which joins their constants (instances)"
        )
    return "\n".join(lines)


def _some(program: CompiledProgram) -> list[str]:
    assert program.instances is not None
    return names_of(program.instances.names).some(NAMED)
