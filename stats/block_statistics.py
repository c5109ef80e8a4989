"""The statistics of one block of joins: its relations, what moved with the last step, and a view for each delta source.

A view satisfies the protocol that ``plans`` declares (``cardinality``, ``distinct``, ``join_size``, ``selectivity``; None where
nothing was observed) without importing it. In the view of a delta source, that source means its delta, and every other occurrence
its old content, or old and new where the delta rule's order puts it before the source (DESIGN §3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cqels_opt.stats.feedback import HALF_LIFE, Observations
from cqels_opt.stats.frozen import FrozenStatistics
from cqels_opt.stats.join_statistics import StaticPair, WindowPair
from cqels_opt.stats.relations import Key, StaticRelation, StatisticChange, WindowedRelation
from cqels_opt.stats.slots import SlotCounts
from cqels_opt.stats.window import BOTH, BUDGET, Content, WindowStatistics

OLD: tuple[Content] = ("old",)
DELTA: tuple[Content] = ("delta",)
Meaning: TypeAlias = Mapping[str, tuple[Content, ...]]
JoinSize: TypeAlias = Callable[[Meaning, "int | None"], float]


class BlockStatistics:
    """The statistics of a block of joins.

    ``relations`` are in the order of the query; ``static_joins`` are join sizes known from the load; ``budget`` bounds the
    counters of each occurrence and variable, see :class:`WindowStatistics`. ``keys`` names the statistics that :meth:`changed`
    watches (distinct values only where they have to stand in for a join size), and ``marks`` has what they were.

    A step is :meth:`advance`, then :meth:`for_source` for each source with a delta, then :meth:`observe` what ran.
    """

    def __init__(
        self,
        relations: Sequence[StaticRelation | WindowedRelation],
        *,
        filters: Iterable[str] = (),
        static_joins: Mapping[tuple[str, str, str], float] | None = None,
        half_life: float = HALF_LIFE,
        budget: int = BUDGET,
    ) -> None:
        self.relations = {relation.name: relation for relation in relations}
        if len(self.relations) < len(relations):
            raise ValueError("two relations of a block have one name")
        self.filters = tuple(filters)
        self.frontier: int | None = None
        self.epoch = 0
        self.windows = {
            r.name: WindowStatistics(r.variables, r.intervals, moving=r.moving, budget=budget)
            for r in relations
            if isinstance(r, WindowedRelation)
        }
        self.observations = Observations(half_life)
        self._static_joins = dict(static_joins or {})
        self._static_pairs: dict[Key, StaticPair] = {}
        self.pairs: dict[Key, JoinSize | None] = {}
        for i, left in enumerate(relations):
            for right in relations[i + 1 :]:
                for variable in [v for v in left.variables if v in right.variables]:
                    self.pairs[Key("join_size", (left.name, right.name, variable))] = self._pair(left, right, variable)
        self.keys: tuple[Key, ...] = ()
        self.watch(self.relations)
        self.marks: dict[str, dict[Key, float | None]] = {}
        self.lately: dict[str, dict[Key, float]] = {}

    # ------------------------------------------------------------------ static relations come and go
    def declare(self, relation: StaticRelation) -> None:
        """A further static relation; its join sizes are counted from what the windows hold. :meth:`watch` decides whether it is watched.

        So other sub-results can be weighed, and taken, while the windows go on (CQELS report, §4.2).
        """
        if relation.name in self.relations:
            raise ValueError(f"there is a relation {relation.name!r} already")
        for other in self.relations.values():
            for variable in [v for v in other.variables if v in relation.variables]:
                self.pairs[Key("join_size", (other.name, relation.name, variable))] = self._pair(other, relation, variable)
        self.relations[relation.name] = relation

    def forget(self, name: str) -> None:
        """A static relation, which is not watched, goes, with its join sizes."""
        if name in self.windows or Key("cardinality", (name,)) in self.keys:
            raise ValueError(f"{name} is in use")
        del self.relations[name]
        for key in [key for key in self.pairs if name in key.relations]:
            del self.pairs[key]
            if key in self._static_pairs:
                self._static_pairs.pop(key).close()

    def replace(self, relation: StaticRelation, static_joins: Mapping[tuple[str, str, str], float] | None = None) -> None:
        """Another version of a static relation that is there; its join sizes are counted again, what was observed stays."""
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
        """Watch these relations, which are those of the plans, and no others."""
        pairs = {key: pair for key, pair in self.pairs.items() if set(key.relations) <= set(names)}
        unknown = {(name, key.names[2]): None for key, pair in pairs.items() if pair is None for name in key.relations}
        self.keys = (
            *(Key("cardinality", (name,)) for name in self.relations if name in names),
            *pairs,
            *(Key("distinct", (name, variable)) for name, variable in unknown),
            *(Key("selectivity", (name,)) for name in self.filters),
        )

    # ------------------------------------------------------------------ a step
    def advance(self, new: Mapping[str, SlotCounts | Sequence[SlotCounts]], frontier_before: int, frontier: int) -> None:
        """A micro-batch: what had expired at ``frontier_before`` leaves, the delta before becomes old, ``new`` is the delta now.

        ``new`` has the slots of each occurrence (none: no delta); several of one occurrence are parts, see :func:`slot_parts`.
        ``frontier`` is where this step leads; what expires by it leaves with the next: the plans of this one still join with it.
        A slot of the delta that comes again takes its own place, so that a replayed micro-batch changes nothing.
        """
        unknown = set(new) - set(self.windows)
        if unknown:
            raise ValueError(f"no such occurrence: {', '.join(sorted(unknown))}")
        self._remember()
        replayed = False
        for name, window in self.windows.items():
            slots = _several(new.get(name, ()))
            replayed |= window.retract(slot.slot for slot in slots)
            window.settle(frontier_before)
            window.expire(frontier_before)
            window.arrive(slots)
        self.frontier = frontier
        self.epoch += not replayed

    def begin(self, frontier_before: int) -> None:
        """A step whose delta is not known yet: the delta before becomes old. :meth:`expected` says what the plans will see."""
        self._remember()
        for window in self.windows.values():
            window.settle(frontier_before)
            window.expire(frontier_before)

    def observe(self, filter_name: str, rows_in: float, rows_out: float) -> None:
        """A filter (or any operator by name) was given rows and kept some."""
        self.observations.observe(filter_name, rows_in, rows_out)

    # ------------------------------------------------------------------ what the optimizer reads
    def for_source(self, source: str, order: Sequence[str] = ()) -> StatisticsView:
        """The statistics as the delta plan of ``source`` sees them.

        ``order`` is the delta rule's order of occurrences: those before ``source`` in it are old and new, the others old. It
        defaults to the order of the query.
        """
        if source not in self.windows:
            raise ValueError(f"no such occurrence: {source}")
        order = list(order) or list(self.windows)
        if sorted(order) != sorted(self.windows):
            raise ValueError(f"the order {order} is not one of the occurrences {list(self.windows)}")
        before = order[: order.index(source)]
        meaning = {name: DELTA if name == source else BOTH if name in before else OLD for name in self.windows}
        return self.view(meaning, self.begins(source))

    def begins(self, *sources: str) -> int | None:
        """When the first row of the sources' deltas becomes valid; None where there is none."""
        chunks = [chunk for source in sources for chunk in self.windows[source].chunks("delta")]
        return min((chunk.first_start for chunk in chunks if chunk.rows), default=None)

    def view(self, meaning: Meaning, since: int | None = None) -> StatisticsView:
        """The statistics where each occurrence stands for the contents that are given for it, but for what has ended at ``since``."""
        return StatisticsView(self, meaning, since)

    def changed(self, source: str, order: Sequence[str] = (), *, tolerance: float = 0.0) -> dict[Key, StatisticChange]:
        """The statistics of a source that moved since it was last marked, by more than ``tolerance`` (relative)."""
        view, marks = self.for_source(source, order), self.marks.get(source, {})
        moves = {key: StatisticChange(marks.get(key), view.value(key)) for key in self.keys}
        return {key: moved for key, moved in moves.items() if _differ(moved, tolerance)}

    def mark(self, source: str, order: Sequence[str] = ()) -> None:
        """A plan has been chosen for the source: :meth:`changed` compares with the statistics of now."""
        view = self.for_source(source, order)
        self.marks[source] = {key: view.value(key) for key in self.keys}

    def expected(self, source: str, order: Sequence[str] = ()) -> FrozenStatistics:
        """What the delta plan of ``source`` can expect after :meth:`begin`.

        The delta has the rows of the last one that was not empty, and as selective joins (size over the product of the rows).
        """
        view, lately = self.for_source(source, order), self.lately.get(source, {})
        values = view.values()
        for key in values:
            if source in key.relations:
                values[key] = lately.get(key)
                if key.kind == "join_size" and key in lately:
                    values[key] = lately[key] * (view.cardinality(key.other(source)) or 0.0)
        return FrozenStatistics(values)

    # ------------------------------------------------------------------ inside
    def _remember(self) -> None:
        """Of each delta that is there: its rows and distinct values, and its join sizes for a row of the other relation."""
        for source, window in self.windows.items():
            if not window.card("delta"):
                continue
            view = self.view({name: DELTA if name == source else OLD for name in self.windows})
            lately = self.lately.setdefault(source, {})
            for key in self.keys:
                if source not in key.relations:
                    continue
                value = view.value(key)
                if key.kind == "join_size":
                    other = view.cardinality(key.other(source))
                    value = value / other if value is not None and other else None
                if value is not None:
                    lately[key] = value

    def _pair(
        self, left: StaticRelation | WindowedRelation, right: StaticRelation | WindowedRelation, variable: str
    ) -> JoinSize | None:
        """The join size of two relations, as a function of what each occurrence means; None where it is not known."""
        if isinstance(left, WindowedRelation) and isinstance(right, WindowedRelation):
            windows = WindowPair(self.windows[left.name], self.windows[right.name], variable)
            return lambda meaning, since: windows.size(meaning[left.name], meaning[right.name], since)
        if isinstance(left, StaticRelation) and isinstance(right, StaticRelation):
            size = self._static_joins.get(
                (left.name, right.name, variable), self._static_joins.get((right.name, left.name, variable))
            )
            return None if size is None else lambda *_: size
        stream, static = (left, right) if isinstance(left, WindowedRelation) else (right, left)
        assert isinstance(static, StaticRelation)
        fanout = static.fanouts.get(variable)
        if fanout is None:
            return None
        pair = StaticPair(self.windows[stream.name], variable, fanout, f"{static.name}?{variable}")
        self._static_pairs[Key("join_size", (left.name, right.name, variable))] = pair
        return lambda meaning, since: pair.size(*meaning[stream.name], since=since)


@dataclass(frozen=True, slots=True)
class StatisticsView:
    """What the optimizer reads for one delta source: a live view, so it says what holds after the last step.

    ``meaning`` is what each occurrence stands for: its delta, its old content, or both. Of these, rows that have ended at ``since``, when
    the delta begins, are no more: nothing meets them.
    """

    block: BlockStatistics
    meaning: Meaning
    since: int | None = None

    def cardinality(self, relation: str) -> float | None:
        """card(Ω) (report §5), exact; None for a relation that the block does not have."""
        found = self.block.relations.get(relation)
        if isinstance(found, StaticRelation):
            return float(found.rows)
        if found is None:
            return None
        window, contents = self.block.windows[relation], self.meaning[relation]
        gone = window.ended(self.since, *contents) if self.since is not None else []  # of the delta itself none
        return float(window.card(*contents) - sum(rows for _, rows in gone))

    def distinct(self, relation: str, variable: str) -> float | None:
        """The distinct values of a variable in a relation."""
        found = self.block.relations.get(relation)
        if found is None or variable not in found.variables:
            return None
        if isinstance(found, StaticRelation):
            known = found.distincts.get(variable)
            return None if known is None else float(known)
        return min(self.block.windows[relation].distinct(variable, *self.meaning[relation]), self.cardinality(relation) or 0.0)

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """Σ_c f1(c)·f2(c), between windows times the share of pairs whose intervals overlap; symmetric."""
        pairs = self.block.pairs
        pair = pairs.get(Key("join_size", (left, right, variable))) or pairs.get(Key("join_size", (right, left, variable)))
        return None if pair is None else pair(self.meaning, self.since)

    def selectivity(self, filter_name: str) -> float | None:
        """The share of rows that a filter has kept lately."""
        return self.block.observations.ratio(filter_name)

    def freeze(self) -> FrozenStatistics:
        """The numbers of now, to travel with a task."""
        return FrozenStatistics(self.values())

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

    def values(self, keys: Collection[Key] | None = None) -> dict[Key, float | None]:
        """Many statistics by name; without ``keys`` all of the block."""
        return {key: self.value(key) for key in (self.block.keys if keys is None else keys)}


def _several(slots: SlotCounts | Sequence[SlotCounts]) -> Sequence[SlotCounts]:
    return [slots] if isinstance(slots, SlotCounts) else slots


def _differ(moved: StatisticChange, tolerance: float) -> bool:
    was, now = moved
    if was is None or now is None:
        return was is not now
    return abs(now - was) > tolerance * max(abs(was), abs(now))
