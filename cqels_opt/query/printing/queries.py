"""A whole query as text: header, form, windows and body."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.query.algebra import Ask, Construct, Dataset, DefaultGraph, Describe, GraphsMerged, Merged, Query, Source
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.printing.layout import laid_out
from cqels_opt.query.printing.patterns import inside, triples
from cqels_opt.query.printing.selects import select
from cqels_opt.query.printing.style import Style
from cqels_opt.query.printing.writing import Whole, Writing, found_in


def to_text(query: Query, dialect: str) -> str:
    """The query in a dialect. QueryError gives the reason where the dialect cannot express a window or a pattern of it.

    The text has what the query's own text has: windows, patterns, output. A profile or an option (``--report``) of the run
    is not part of it, and the dialect's own profile may differ.
    """
    style = find(dialect, query.file).style
    whole = Whole(query)
    writing = Writing(whole, dialect, DefaultGraph(), style.opened, style.ending, inside, whole.names)
    style.check(writing)
    writing.default = _default(writing, style)
    lines = [f"BASE <{query.base.strip('<>')}>"] if query.base else []
    lines += filter(None, [style.header(writing)])
    static = writing.default.default if isinstance(writing.default, Merged) else writing.default
    dataset = query.dataset or Dataset(static.names if isinstance(static, GraphsMerged) else (), ())
    clauses = "".join(f"\nFROM {name}" for name in dataset.default)
    clauses += "".join(f"\nFROM NAMED {name}" for name in dataset.named)
    clauses += "".join(f"\n{clause}" for window in query.windows if (clause := style.window(writing, window)))
    lines.append(select(writing, query.body, _head(writing, style), f"{clauses}\n" if clauses else "", style.operator(writing)))
    return laid_out("\n".join(lines)) + "\n"


def _default(writing: Writing, style: Style) -> Source:
    """Where patterns outside GRAPH are matched: in the windows that the dialect merges, else in what FROM says."""
    default = style.default(writing) if writing.query.windows else DefaultGraph()
    return default if isinstance(default, Merged) else next(iter(found_in(writing.query.body, GraphsMerged)), default)


def _head(writing: Writing, style: Style) -> str | None:
    """The words before the windows; None for SELECT, whose head contains its items."""
    operator = style.operator(writing)
    match writing.query.form:
        case Construct(template):
            blank = {name: text for name, text in writing.names.items() if not name.startswith("_:") or text.startswith("_:")}
            return f"CONSTRUCT{operator} {{ {triples(replace(writing, names=blank), template)} }}"
        case Ask():
            return f"ASK{operator}"
        case Describe(nodes):
            return f"DESCRIBE{operator} {' '.join(map(writing.node, nodes)) or '*'}"
    return None
