"""The query languages: which dialect is a text written in, and how does each differ from SPARQL 1.1?

A dialect is a module that states only its differences: a fragment of grammar (``<name>.lark``) and what its clauses declare.
"""

from __future__ import annotations

import re
from typing import Final

from cqels_opt.query.dialects import cqels, csparql, rspql, sparqlstream, streaming_sparql
from cqels_opt.query.reading import Dialect

_IN_ORDER_OF_RECOGNITION = (streaming_sparql, rspql, sparqlstream, cqels, csparql)
DIALECTS: Final[dict[str, Dialect]] = {
    module.DIALECT.name: module.DIALECT for module in (cqels, rspql, csparql, sparqlstream, streaming_sparql)
}
"""By name."""

_NOT_WORDS = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""  # strings
    r"""|<[^\s<>"{}|^`\\]*>|\#[^\n]*""",  # IRIs and comments
    re.DOTALL,
)


def recognise(text: str) -> Dialect:
    """The dialect of a text, by what only one of them writes; ``cqels`` where nothing tells."""
    words = _NOT_WORDS.sub(lambda found: {"#": " ", "<": " <> "}.get(found[0][0], '""'), text)
    words = re.sub(r"\s+", " ", words)
    found = (module.DIALECT for module in _IN_ORDER_OF_RECOGNITION if module.DIALECT.recognise.search(words))
    return next(found, cqels.DIALECT)
