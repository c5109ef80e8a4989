"""From the algebra back to text, in any dialect that can express it: reading the text again gives an equal algebra.

Names that the parser made (of group keys, of graphs, of blank nodes without a label) are others then. IRIs are written out.
"""

from cqels_opt.query.printing.queries import to_text

__all__ = ["to_text"]
