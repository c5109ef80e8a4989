"""The independent evaluation of ``cqels-opt verify``: :func:`judge` over :func:`read_inputs`, and its parts."""

from cqels_opt.verify.compare import Difference, compare, read_answers, report
from cqels_opt.verify.evaluate import evaluate, stepwise
from cqels_opt.verify.inputs import InputReading, drop_late, read_elements, read_inputs, read_static
from cqels_opt.verify.judge import Verdict, judge
from cqels_opt.verify.model import Answers, Element, Inputs, Options, Refreshed

__all__ = [
    "Answers",
    "Difference",
    "Element",
    "InputReading",
    "Inputs",
    "Options",
    "Refreshed",
    "Verdict",
    "compare",
    "drop_late",
    "evaluate",
    "judge",
    "read_answers",
    "read_elements",
    "read_inputs",
    "read_static",
    "report",
    "stepwise",
]
