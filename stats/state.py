"""The statistics of a block as bytes for a checkpoint, and as a readable summary for people and the trace.

After a restart with :func:`save`'s bytes the statistics continue as if nothing had happened. The arrays of a slot, its *body*, hardly
ever change: a caller that saves the statistics with every batch stores each body once, and gives its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from cqels_opt.stats.block_statistics import BlockStatistics
from cqels_opt.stats.frequencies import FrequencyTable, ValueCounts
from cqels_opt.stats.frequency_sketch import ALL, BoundedCounts, RetainedFrequencies
from cqels_opt.stats.interval_overlap import spans
from cqels_opt.stats.packing import Tree, pack, unpack
from cqels_opt.stats.relations import Key
from cqels_opt.stats.slot_statistics import BodyPlace, SavedSlot, SlotStatistics
from cqels_opt.stats.slots import SlotCounts, timed
from cqels_opt.stats.window import BOTH, WindowStatistics

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


# ------------------------------------------------------------------ slots
def save_slot(slot: SlotCounts) -> bytes:
    """The counts of a slot as bytes."""
    values: dict[str, Tree] = {variable: [tallied.values, tallied.counts] for variable, tallied in slot.values.items()}
    return pack({"slot": slot.slot, "times": slot.times, "rows": slot.rows, "values": values})


def load_slot(data: bytes) -> SlotCounts:
    """The counts of a slot from :func:`save_slot`'s bytes; ValueError if they are damaged."""
    tree = cast("dict[str, Any]", unpack(data))
    values = {variable: FrequencyTable(*tallied) for variable, tallied in tree["values"].items()}
    return SlotCounts(tree["slot"], tree["times"], tree["rows"], values)


# ------------------------------------------------------------------ the whole
PutBody: TypeAlias = Callable[[bytes, "BodyPlace | None"], BodyPlace]
"""Stores the body of a slot, unless it is still at the place where it was stored before; returns its place."""
GetBody: TypeAlias = Callable[[BodyPlace], bytes]
"""The body at a place."""


def save(statistics: BlockStatistics) -> bytes:
    """The state of the statistics as bytes."""
    bodies: list[Tree] = []

    def inline(body: bytes, before: BodyPlace | None) -> BodyPlace:
        bodies.append(body)
        return (len(bodies) - 1,)

    windows = {name: save_window(window, inline) for name, window in statistics.windows.items()}
    return pack(cast("Tree", {**statistics.state(), "windows": windows, "bodies": bodies}))


def load(data: bytes, into: BlockStatistics) -> None:
    """Restores the state into new statistics of the same relations. ValueError if it is damaged, or of other relations."""
    tree = cast("dict[str, Any]", unpack(data))
    if set(tree["windows"]) != set(into.windows):
        raise ValueError(f"these statistics are of {sorted(tree['windows'])}, not of {sorted(into.windows)}")
    for name, window in into.windows.items():
        load_window(tree["windows"][name], window, lambda place: cast("bytes", tree["bodies"][place[0]]))
    into.resume(tree)


def save_window(window: WindowStatistics, put: PutBody) -> bytes:
    """The state of a window as bytes, without the bodies of its slots, which ``put`` stores."""
    kept: dict[str, Tree] = {variable: [counts.kept.level, counts.kept.heavy] for variable, counts in window.counted.items()}
    old, delta = (b"[%s]" % b",".join([_held(held, put) for held in window.held(part)]) for part in BOTH)
    return pack({"frontier": window.frontier, "epoch": window.epoch, "kept": kept, "old": old, "delta": delta})


def load_window(data: bytes, into: WindowStatistics, get: GetBody) -> None:
    """Restores the state into a new window of the same variables. ValueError if it is damaged, or of other variables."""
    tree = cast("dict[str, Any]", unpack(data))
    _resume(into, tree, get)
    if into.frontier is not None:
        into.expire(into.frontier)
    into.epoch = tree["epoch"]


def _held(held: SlotStatistics, put: PutBody) -> bytes:
    """A slot without its body as JSON, which is made once for each place of the body."""
    body, saved = _body(held), held.saved
    place = put(body, saved.place if saved is not None and saved.body is body else None)
    if saved is None or saved.body is not body or saved.place != place or saved.known != held.known:
        text = json.dumps({"slots": held.slots, "total": held.total, "known": held.known, "at": place}, separators=(",", ":"))
        saved = held.saved = SavedSlot(body, dict(held.known), place, text.encode())
    return saved.text


def _body(held: SlotStatistics) -> bytes:
    """The arrays of a slot, packed once: they change only when the window exceeds its budget of counters."""
    now = [(counts.counts, counts.counts.version) for counts in held.counts.values()]
    if held.packed is None or held.packed[0] != now:
        values: dict[str, Tree] = {variable: [*counts.tally(), counts.rows] for variable, counts in held.counts.items()}
        held.packed = now, pack({"times": held.times, "rows": held.rows, "values": values})
    return held.packed[1]


def _resume(window: WindowStatistics, tree: dict[str, Any], get: GetBody) -> None:
    frontier: int | None = tree["frontier"]
    if set(tree["kept"]) - set(window.variables) or set(window.variables) - {*tree["kept"], *map(timed, tree["kept"])}:
        raise ValueError(f"these statistics are of the variables {sorted(tree['kept'])}, not of {sorted(window.variables)}")
    kept = dict.fromkeys(window.variables, ALL)  # of earlier versions: without the columns of values with times
    kept |= {variable: RetainedFrequencies(heavy, level) for variable, (level, heavy) in tree["kept"].items() if level}
    old = [_holding(window, one, get, kept) for one in json.loads(tree["old"])]
    for held in old:
        held.spans = held.spans if frontier is None else held.spans.after(frontier)
    exact = dict.fromkeys(window.variables, ALL)
    delta = [_holding(window, one, get, exact) for one in json.loads(tree["delta"])]
    window.resume(old, delta, kept, frontier)


def _holding(
    window: WindowStatistics, tree: dict[str, Any], get: GetBody, kept: Mapping[str, RetainedFrequencies]
) -> SlotStatistics:
    body = cast("dict[str, Any]", unpack(get(tuple(tree["at"]))))
    counts = {variable: BoundedCounts() for variable in window.variables}
    for variable, (values, n, rows) in body["values"].items():
        counts[variable] = BoundedCounts(ValueCounts(FrequencyTable(values, n)), kept[variable], rows)
    times, rows = body["times"], body["rows"]
    live = spans(*window.intervals(times), rows)
    return SlotStatistics(tuple(tree["slots"]), times, rows, counts, live, tree["total"], dict(tree["known"]))


# ------------------------------------------------------------------ for people
def summary(statistics: BlockStatistics) -> dict[str, Json]:
    """The current statistics as JSON, for ``run.statistics()`` and the trace.

    ``relations``: rows and distinct values; for occurrences also rows of the delta, slots, and the level of the sketch (0: exact).
    ``joins``: join sizes by name, over old and new content. ``filters``: the share of rows kept, and the number of observations.
    """
    view = statistics.view(dict.fromkeys(statistics.windows, BOTH))
    relations: dict[str, Json] = {}
    for name, relation in statistics.relations.items():
        if Key("cardinality", (name,)) not in statistics.keys:
            continue
        distinct: dict[str, Json] = {variable: view.distinct(name, variable) for variable in relation.variables}
        relations[name] = {"rows": view.cardinality(name), "distinct": distinct}
        window = statistics.windows.get(name)
        if window is not None:
            relations[name] = {
                "rows": window.card(),
                "delta": window.card("delta"),
                "slots": len(window.chunks()),
                "distinct": distinct,
                "level": {variable: counts.kept.level for variable, counts in window.counted.items()},
            }
    ratios = statistics.observations.ratios
    return {
        "frontier": statistics.frontier,
        "epoch": statistics.epoch,
        "relations": relations,
        "joins": {str(key): view.value(key) for key in statistics.keys if key.kind == "join_size"},
        "filters": {name: {"kept": ratio.value, "observations": ratio.observations} for name, ratio in ratios.items()},
    }
