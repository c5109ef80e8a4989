"""The published figures of the CQELS report (§6.2): Tables 2 and 3, and the ratios stated in its text; Figure 5 has no data."""

from __future__ import annotations

from collections.abc import Mapping

# Milliseconds by the number of query instances; None where System X ran out of memory.
Q1_PRIME: Mapping[int, Mapping[str, float | None]] = {
    10: {"System X": 4.8, "CQELS": 1.2},
    100: {"System X": 12.3, "CQELS": 1.9},
    200: {"System X": 18.8, "CQELS": 3.8},
    300: {"System X": 34.6, "CQELS": 4.2},
    500: {"System X": 51.3, "CQELS": 7.4},
    1000: {"System X": 90.4, "CQELS": 14.5},
    2000: {"System X": 235.3, "CQELS": 25.6},
    3000: {"System X": 685.3, "CQELS": 41.3},
    4000: {"System X": 1356, "CQELS": 54.9},
    5000: {"System X": 3567, "CQELS": 70.1},
}
"""Table 2."""

Q2_PRIME: Mapping[int, Mapping[str, float | None]] = {
    10: {"System X": 302, "CQELS without optimizer": 116, "CQELS": 64},
    100: {"System X": 778, "CQELS without optimizer": 215, "CQELS": 105},
    200: {"System X": 892, "CQELS without optimizer": 274, "CQELS": 129},
    300: {"System X": 956, "CQELS without optimizer": 358, "CQELS": 153},
    500: {"System X": 1105, "CQELS without optimizer": 484, "CQELS": 225},
    1000: {"System X": 3486, "CQELS without optimizer": 872, "CQELS": 420},
    1200: {"System X": 5120, "CQELS without optimizer": 961, "CQELS": 456},
    2000: {"System X": None, "CQELS without optimizer": 1523, "CQELS": 699},
    3000: {"System X": None, "CQELS without optimizer": 2368, "CQELS": 1070},
    4000: {"System X": None, "CQELS without optimizer": 2974, "CQELS": 1403},
    5000: {"System X": None, "CQELS without optimizer": 3688, "CQELS": 1551},
}
"""Table 3. Those of Q3' and Q4' "were omitted since they are similar to those of Q2'"."""

CONCURRENT = {"Q1'": Q1_PRIME, "Q2'": Q2_PRIME}
"""By query."""

PREPROCESSING = {"Q1": 3.0, "Q2": 8.0, "Q3": 1 / 0.115, "Q4": 8.0}
"""System X over sub-results alone: "for Q1 … by 300% on average", "for Q2, Q3 and Q4 … over 8 times faster", "for Q3 … about 11.5%"."""

OPTIMIZER = {"Q1": 1.0, "Q2": 2.0, "Q3": 2.0, "Q4": 2.0}
"""Sub-results alone over sub-results and optimizer: none for Q1, which has one plan; "roughly cut by half" for the others."""

WHOLE = {"Q3": 1 / 0.06}
"""System X over CQELS: "the execution time of query Q3 with our CQELS model is only 6% of the original time"."""
