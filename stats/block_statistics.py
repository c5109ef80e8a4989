"""The statistics of one block of joins: its relations, the micro-batches that moved them, and a view for each delta source.

A :class:`StatisticsView` satisfies the protocol ``Statistics`` of the room ``plans`` (``cardinality``, ``distinct``, ``join_size``,
``selectivity``; None where nothing was observed) without importing it. The caller states which part of each occurrence's content a view
reads, because the delta rule is the optimizer's (``plans/delta.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cqels_opt.stats.feedback import DecayedRatio, Observations
from cqels_opt.stats.join_statistics import StaticPair
from cqels_opt.stats.relations import Key, StaticRelation, WindowedRelation
from cqels_opt.stats.shared_windows import SharedWindows
from cqels_opt.stats.slots import SlotCounts
from cqels_opt.stats.window import BUDGET, Part

DELTA: tuple[Part, ...] = ("delta",)
Contents: TypeAlias = Mapping[str, tuple[Part, ...]]
"""For each occurrence the parts of its content that are read."""
JoinSize: TypeAlias = Callable[[Contents, "int | None"], float]


class BlockStatistics:
    """The statistics of a block of joins.

    ``relations`` are in the order of the query; ``static_joins`` are join sizes known from the load; ``budget`` bounds the counters of each
    occurrence and variable, see :class:`WindowStatistics`. ``keys`` names the statistics that plans depend on (distinct values only where
    they replace an unknown join size). ``shared`` has the windows that other blocks read as well.

    A micro-batch is :meth:`advance`, then :meth:`view` for each source with a delta, then :meth:`observe` for each filter that ran.
    """

    def __init__(
        self,
        relations: Sequence[StaticRelation | WindowedRelation],
        *,
        filters: Iterable[str] = (),
        static_joins: Mapping[tuple[str, str, str], float] | None = None,
        budget: int = BUDGET,
        shared: SharedWindows | None = None,
    ) -> None:
        self.relations = {relation.name: relation for relation in relations}
        if len(self.relations) < len(relations):
            raise ValueError("two relations of a block have one name")
        self.filters = tuple(filters)
        self.frontier: int | None = None
        self.epoch = 0
        self._shared = SharedWindows() if shared is None else shared
        self.windows = {r.name: self._shared.window(r, budget) for r in relations if isinstance(r, WindowedRelation)}
        self._arrived: set[tuple[str, int]] = set()  # the slots of the delta, by occurrence
        self.observations = Observations()
        self._static_joins = dict(static_joins or {})
        self._static_pairs: dict[Key, StaticPair] = {}
        self.static_sizes = set[str]()  # the names under which slots keep the sizes of their joins with static relations
        self.pairs: dict[Key, JoinSize | None] = {}
        for i, left in enumerate(relations):
            for right in relations[i + 1 :]:
                for variable in [v for v in left.variables if v in right.variables]:
                    self.pairs[Key("join_size", (left.name, right.name, variable))] = self._pair(left, right, variable)
        self.keys: tuple[Key, ...] = ()
        self.watch(self.relations)

    # ------------------------------------------------------------------ static relations
    def declare(self, relation: StaticRelation) -> None:
        """Adds a static relation and counts its join sizes from what the windows hold. :meth:`watch` decides whether plans read it.

        So other sub-results can be weighed, and taken, while the windows move (CQELS report, §4.2).
        """
        if relation.name in self.relations:
            raise ValueError(f"there is a relation {relation.name!r} already")
        for other in self.relations.values():
            for variable in [v for v in other.variables if v in relation.variables]:
                self.pairs[Key("join_size", (other.name, relation.name, variable))] = self._pair(other, relation, variable)
        self.relations[relation.name] = relation

    def static_join_rows(self, left: str, right: str, variable: str) -> float | None:
        """The rows of the join of two static relations, as counted at the load; None if unknown."""
        known = self._static_joins
        return known.get((left, right, variable), known.get((right, left, variable)))

    def replace(self, relation: StaticRelation, static_joins: Mapping[tuple[str, str, str], float] | None = None) -> None:
        """Replaces a static relation by another version: its join sizes are counted again; observations of filters stay."""
        if relation.name not in self.relations or relation.name in self.windows:
            raise ValueError(f"there is no static relation {relation.name!r}")
        self._static_joins.update(static_joins or {})
        self.relations[relation.name] = relation
        for key in [key for key in self.pairs if relation.name in key.relations]:
            if key in self._static_pairs:
                self._static_pairs.pop(key).close()
            left, right, variable = key.names
            self.pairs[key] = self._pair(self.relations[left], self.relations[right], variable)

    def watch(self, names: Collection[str]) -> None:
        """Sets the relations that plans read, and so :attr:`keys`."""
        pairs = {key: pair for key, pair in self.pairs.items() if set(key.relations) <= set(names)}
        unknown = {(name, key.names[2]): None for key, pair in pairs.items() if pair is None for name in key.relations}
        self.keys = (
            *(Key("cardinality", (name,)) for name in self.relations if name in names),
            *pairs,
            *(Key("distinct", (name, variable)) for name, variable in unknown),
            *(Key("selectivity", (name,)) for name in self.filters),
        )

    # ------------------------------------------------------------------ a micro-batch
    def advance(self, new: Mapping[str, SlotCounts | Sequence[SlotCounts]], frontier_before: int, frontier: int) -> None:
        """Moves to a micro-batch: rows that ended by ``frontier_before`` leave, the last delta becomes old, ``new`` is the delta.

        ``new`` has the slots of each occurrence (none: no delta); several of one occurrence are parts, see :func:`slot_parts`.
        ``frontier`` is the end of this step. Rows that end by it leave with the next step: the plans of this one still join with them.
        A slot of the delta that arrives again replaces itself, so a replayed micro-batch changes nothing.
        """
        unknown = set(new) - set(self.windows)
        if unknown:
            raise ValueError(f"no such occurrence: {', '.join(sorted(unknown))}")
        slots = {name: _several(new.get(name, ())) for name in self.windows}
        arrived = {(name, slot.slot) for name, some in slots.items() for slot in some}
        for name, window in self.windows.items():
            window.advance(slots[name], frontier_before, frontier)
        self.frontier = frontier
        self.epoch += not arrived & self._arrived
        self._arrived = arrived

    def begin(self, content: Mapping[str, Sequence[SlotCounts]], frontier_before: int, frontier: int) -> None:
        """Counts the content of the windows as it is at ``frontier``, except of windows that other blocks have advanced."""
        for name, window in self.windows.items():
            if window.frontier is None:
                window.advance(content.get(name, ()), frontier_before, frontier)
        self.frontier = frontier
        self.epoch += 1

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint, as JSON, without the windows."""
        ratios = {name: [r.rows_in, r.rows_out, r.observations] for name, r in self.observations.ratios.items()}
        return {"frontier": self.frontier, "epoch": self.epoch, "ratios": ratios}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores :meth:`state`, after the windows."""
        self.frontier, self.epoch = state["frontier"], state["epoch"]
        self.observations.ratios = {name: DecayedRatio(*counts) for name, counts in state["ratios"].items()}
        self._arrived = {
            (name, slot) for name, window in self.windows.items() for held in window.held("delta") for slot in held.slots
        }

    def observe(self, filter_name: str, rows_in: float, rows_out: float) -> None:
        """Records how many rows a filter (or another operator, by name) received and kept."""
        self.observations.observe(filter_name, rows_in, rows_out)

    # ------------------------------------------------------------------ what the optimizer reads
    def view(self, contents: Contents) -> StatisticsView:
        """The statistics of a plan that reads these parts of each occurrence's content.

        Where an occurrence is read as its delta alone, it is the plan's source: rows that have ended when the first row of the delta begins
        meet nothing and are not counted.
        """
        if contents.keys() != self.windows.keys():
            raise ValueError(f"contents are given for {sorted(contents)}, but the occurrences are {sorted(self.windows)}")
        deltas = [chunk for name, parts in contents.items() if parts == DELTA for chunk in self.windows[name].chunks("delta")]
        return StatisticsView(self, contents, min((chunk.first_start for chunk in deltas if chunk.rows), default=None))

    # ------------------------------------------------------------------ inside
    def _pair(
        self, left: StaticRelation | WindowedRelation, right: StaticRelation | WindowedRelation, variable: str
    ) -> JoinSize | None:
        """The join size of two relations, as a function of the parts that are read of each occurrence; None where it is not known."""
        if isinstance(left, WindowedRelation) and isinstance(right, WindowedRelation):
            one, other = sorted((left, right), key=lambda r: (r.identity, r.column(variable)))  # the same for all blocks
            sides = [(self.windows[r.name], r.column(variable)) for r in (one, other)]
            windows = self._shared.pair(*sides[0], *sides[1])
            return lambda contents, since: windows.size(contents[one.name], contents[other.name], since)
        if isinstance(left, StaticRelation) and isinstance(right, StaticRelation):
            size = self.static_join_rows(left.name, right.name, variable)
            return None if size is None else lambda *_: size
        stream, static = (left, right) if isinstance(left, WindowedRelation) else (right, left)
        assert isinstance(static, StaticRelation)
        assert isinstance(stream, WindowedRelation)
        fanout = static.fanouts.get(variable)
        if fanout is None:
            return None
        window, column = self.windows[stream.name], stream.column(variable)
        if static.identity:
            pair = self._shared.static_pair(window, column, fanout, f"{static.identity}.{static.variables.index(variable)}")
        else:
            pair = StaticPair(window, column, fanout, f"{static.name}?{variable}", static.keeps_nulls)
            self._static_pairs[Key("join_size", (left.name, right.name, variable))] = pair
        self.static_sizes.add(pair.name)
        return lambda contents, since: pair.size(*contents[stream.name], since=since)


@dataclass(frozen=True, slots=True)
class StatisticsView:
    """What the optimizer reads for the plan of one delta source. The view is live: it gives the numbers after the last step.

    ``contents`` are the parts that are read of each occurrence. Rows that have ended at ``since``, when the delta begins, are not counted.
    """

    block: BlockStatistics
    contents: Contents
    since: int | None = None

    def cardinality(self, relation: str) -> float | None:
        """card(Ω) (report §5), exact; None for a relation that the block does not have."""
        found = self.block.relations.get(relation)
        if isinstance(found, StaticRelation):
            return float(found.rows)
        if found is None:
            return None
        return float(
            self.block.windows[relation].lasting(self.since, *self.contents[relation])
        )  # with all of the delta's own rows

    def distinct(self, relation: str, variable: str) -> float | None:
        """The distinct values of a variable in a relation."""
        found = self.block.relations.get(relation)
        if found is None or variable not in found.variables:
            return None
        if isinstance(found, StaticRelation):
            known = found.distincts.get(variable)
            return None if known is None else float(known)
        values = self.block.windows[relation].distinct(found.column(variable), *self.contents[relation])
        return min(values, self.cardinality(relation) or 0.0)

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """Σ_c f1(c)·f2(c), between windows times the share of pairs whose intervals overlap; symmetric."""
        pairs = self.block.pairs
        pair = pairs.get(Key("join_size", (left, right, variable))) or pairs.get(Key("join_size", (right, left, variable)))
        return None if pair is None else pair(self.contents, self.since)

    def selectivity(self, filter_name: str) -> float | None:
        """The share of rows that a filter kept, recent batches weighing more."""
        return self.block.observations.ratio(filter_name)

    def value(self, key: Key) -> float | None:
        """A statistic by its name."""
        match key.kind, key.names:
            case "cardinality", (relation,):
                return self.cardinality(relation)
            case "distinct", (relation, variable):
                return self.distinct(relation, variable)
            case "join_size", (left, right, variable):
                return self.join_size(left, right, variable)
            case "selectivity", (name,):
                return self.selectivity(name)
        raise ValueError(f"no statistic is named {key}")

    def values(self) -> dict[Key, float | None]:
        """The statistics that plans depend on, by name."""
        return {key: self.value(key) for key in self.block.keys}


def _several(slots: SlotCounts | Sequence[SlotCounts]) -> Sequence[SlotCounts]:
    return [slots] if isinstance(slots, SlotCounts) else slots
