"""Columns of quads, dictionary-encoded: the distinct terms, and the codes of each quad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Quad: TypeAlias = "tuple[str, str, str, str | None]"
Codes: TypeAlias = "NDArray[np.int32]"

#: The code of the default graph.
NO_GRAPH: Final = -1


@dataclass(frozen=True, slots=True)
class Quads:
    """Quads of canonical terms: ``codes`` has four rows (s, p, o, g) with one index into ``terms`` per quad."""

    terms: pa.StringArray
    codes: Codes

    @classmethod
    def of(cls, quads: Sequence[Quad]) -> Quads:
        """Quads as columns; graph None is the default graph."""
        columns = zip(*quads) if quads else ((), (), (), ())
        return cls.of_columns(*(pa.array(column, pa.string()) for column in columns))

    @classmethod
    def of_columns(cls, *columns: pa.StringArray) -> Quads:
        """Quads from columns s, p, o and g; graph null is the default graph."""
        coded = pa.concat_arrays(columns).dictionary_encode()
        codes = coded.indices.fill_null(NO_GRAPH).to_numpy(zero_copy_only=False)
        return cls(cast("pa.StringArray", coded.dictionary), codes.astype(np.int32, copy=False).reshape(4, len(columns[0])))

    @classmethod
    def concat(cls, parts: Sequence[Quads]) -> Quads:
        """The concatenation of quads, in order; a term of several parts is stored several times."""
        starts = np.cumsum([0, *(len(part.terms) for part in parts[:-1])])
        codes = [np.where(part.codes == NO_GRAPH, NO_GRAPH, part.codes + start) for part, start in zip(parts, starts)]
        return cls(pa.concat_arrays([part.terms for part in parts]), np.concatenate(codes, axis=1).astype(np.int32, copy=False))

    def take(self, rows: NDArray[Any]) -> Quads:
        """The quads at these positions, or where a mask is true."""
        return Quads(self.terms, self.codes[:, rows])

    def compacted(self) -> Quads:
        """The same quads without unused terms."""
        used = np.zeros(len(self.terms) + 1, np.bool_)
        used[self.codes] = True
        used[NO_GRAPH] = False
        places = np.cumsum(used, dtype=np.int32) - 1
        places[NO_GRAPH] = NO_GRAPH
        return Quads(self.terms.filter(pa.array(used[:-1])), places[self.codes])

    def __len__(self) -> int:
        return int(self.codes.shape[1])

    @property
    def s(self) -> list[str]:
        """The subjects' texts."""
        return cast("list[str]", self._texts(0))

    @property
    def p(self) -> list[str]:
        """The predicates' texts."""
        return cast("list[str]", self._texts(1))

    @property
    def o(self) -> list[str]:
        """The objects' texts."""
        return cast("list[str]", self._texts(2))

    @property
    def g(self) -> list[str | None]:
        """The graphs' texts, None for the default graph."""
        return self._texts(3)

    def _texts(self, column: int) -> list[str | None]:
        codes = self.codes[column]
        return self.terms.take(pa.array(codes, mask=codes == NO_GRAPH)).to_pylist()
