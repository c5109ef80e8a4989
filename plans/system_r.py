"""The number of rows of a join from numbers of distinct values (Selinger et al. 1979, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping


def join_rows(rows: float, values: dict[str, float], following: float, distinct: Mapping[str, float]) -> float:
    """The rows of a join of ``rows`` rows with ``following`` ones: their product, divided for each shared variable by the larger number of
    distinct values.

    ``values`` has the distinct values by variable of the first relation; it becomes that of the join.
    """
    rows *= following
    for variable, number in distinct.items():
        if variable in values:
            rows /= max(values[variable], number, 1)
        values[variable] = min(values.get(variable, number), number)
    return rows
