"""The parts of triple terms: three relations of the store, from the id of a triple term to its subject, predicate and object.

They are vertical partitions like all others, in a graph of their own that no ``GRAPH ?g`` ranges over. So a quoted-triple pattern
over static data becomes a few ordinary patterns, joined by the optimizer like any other (``rsp-ql-star-2019`` §8.1 has a reference
dictionary, which answers in one direction).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.rdf.quads import Quads
from cqels_opt.rdf.quoted import parts_of, quoted_among

TERMS_GRAPH: Final = "<urn:cqels-opt:triple-terms>"
PARTS: Final = tuple(f"<urn:cqels-opt:triple-terms#{name}>" for name in ("subject", "predicate", "object"))


def parts_of_terms(terms: pa.StringArray) -> Quads | None:
    """A quad for each part of the triple terms among distinct terms, and of those inside them; None if there are none."""
    found: list[Quads] = []
    while len(quoted := quoted_among(terms)):
        parts = parts_of(quoted)
        names = pa.array([name for name in PARTS for _ in range(len(quoted))])
        whole = pa.concat_arrays([quoted] * 3)
        found.append(Quads.of_columns(whole, names, parts, pa.array([TERMS_GRAPH] * len(parts))))
        terms = pc.unique(parts)
    return Quads.concat(found) if found else None
