"""The components of many triple terms at once: one regular expression handles those whose subject is not a triple term, which
most are.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.rdf.terms import OPENING, relabelled, triple_parts

_FLAT: Final = r"^<<\( (?P<s><[^<>]*>|_:[^ ]+) (?P<p><[^<>]*>) (?P<o>.+) \)>>$"


def quoted_among(terms: pa.StringArray) -> pa.StringArray:
    """The triple terms among canonical terms."""
    found: pa.StringArray = terms.filter(pc.starts_with(terms, OPENING))
    return found


def may_have_blank_nodes(terms: Any) -> Any:
    """Which canonical terms are blank nodes, or triple terms that may have one in them."""
    return pc.or_(pc.starts_with(terms, "_:"), may_have_blank_nodes_inside(terms))


def may_have_blank_nodes_inside(terms: Any) -> Any:
    """Which terms are triple terms that may have a blank node in them: their text has ``_:``, perhaps in a literal."""
    return pc.and_(pc.starts_with(terms, OPENING), pc.match_substring(terms, "_:"))


def have_blank_nodes(terms: pa.StringArray) -> bool:
    """Whether a canonical term is a blank node, or a triple term with one in it."""
    some = map(str, terms.filter(may_have_blank_nodes(terms)).to_pylist())
    return any(relabelled(term, lambda label: "") != term for term in some)


def parts_of(terms: pa.StringArray) -> pa.StringArray:
    """The subjects of canonical triple terms, followed by their predicates and by their objects."""
    taken: Any = pc.extract_regex(terms, _FLAT)
    columns = [pc.struct_field(taken, name) for name in "spo"]
    others: Any = pc.is_null(taken)
    if pc.any(others).as_py():
        rest = [triple_parts(str(term)) for term in terms.filter(others).to_pylist()]
        columns = [
            pc.replace_with_mask(column, others, pa.array([parts[place] for parts in rest], pa.string()))
            for place, column in enumerate(columns)
        ]
    parts: pa.StringArray = pa.concat_arrays(columns)
    return parts
