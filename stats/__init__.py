"""Statistics that follow the windows: cardinalities, value counts and join sizes, changed by ± as slots enter and leave.

Pure Python and numpy; no Spark, no files, no clock. The optimizer reads them through :class:`StatisticsView` (CQELS report, §5).
"""

from cqels_opt.stats.block_statistics import BlockStatistics, StatisticsView
from cqels_opt.stats.degree_view import DegreeView
from cqels_opt.stats.feedback import Observations
from cqels_opt.stats.frequencies import Fanout, FrequencyTable, ValueCounts, tally
from cqels_opt.stats.frequency_sketch import BoundedCounts, DegreeNorms
from cqels_opt.stats.interval_overlap import IntervalSet, overlapping, spans
from cqels_opt.stats.join_statistics import StaticPair, WindowPair
from cqels_opt.stats.relations import Key, StaticRelation, WindowedRelation
from cqels_opt.stats.shared_windows import SharedWindows
from cqels_opt.stats.slot_statistics import BodyPlace
from cqels_opt.stats.slots import SlotCounts, slot_counts, slot_parts, with_instants
from cqels_opt.stats.state import load, load_slot, load_window, save, save_slot, save_window, summary
from cqels_opt.stats.window import WindowStatistics

__all__ = [
    "BlockStatistics",
    "BodyPlace",
    "BoundedCounts",
    "DegreeNorms",
    "DegreeView",
    "Fanout",
    "FrequencyTable",
    "IntervalSet",
    "Key",
    "Observations",
    "SharedWindows",
    "SlotCounts",
    "StaticPair",
    "StaticRelation",
    "StatisticsView",
    "ValueCounts",
    "WindowPair",
    "WindowStatistics",
    "WindowedRelation",
    "load",
    "load_slot",
    "load_window",
    "overlapping",
    "save",
    "save_slot",
    "save_window",
    "slot_counts",
    "slot_parts",
    "spans",
    "summary",
    "tally",
    "with_instants",
]
