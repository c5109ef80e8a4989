"""The standing answers of a query: how often each holds at the instant reported last.

RSTREAM puts the whole bag out at every instant. What stands and what changes give it, so nothing that a step does not touch is
computed again. The bag is state: a file that the commit record names, with a page of the terms in it that expressions made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cqels_opt.lod.multiplicities import summed
from cqels_opt.lod.store import Store
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.rows import Ints, Rows, concat, empty, group_ids
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.operators.term_table import TermTable, write_page
from cqels_opt.rdf.ids import inline_texts
from cqels_opt.state import worker_cache
from cqels_opt.state.result_store import ResultFiles
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

PAGES = 8  # of the keys of a group that is kept as sums, before they become one


def advanced(standing: Rows, changing: Rows, variables: Sequence[str], places: int) -> Rows:
    """The bag at the places of a step, from what stands at the first of them and the rows that change."""
    size = len(standing)
    columns = [np.concatenate(pair) for pair in zip(standing.values(variables), changing.values(variables))]
    group, first = group_ids(columns, size + len(changing))
    own = group[size:]
    begins, ends = changing.start > 0, changing.end < places
    event = np.concatenate([group[:size] * places, (own * places + changing.start)[begins], (own * places + changing.end)[ends]])
    change = np.concatenate([standing.n, changing.n[begins], -changing.n[ends]])
    key, inverse = np.unique(event, return_inverse=True)
    owner, start = key // places, key % places
    last = np.append(owner[1:] != owner[:-1], True)[: len(key)]
    end = np.where(last, places, np.roll(start, -1))

    def adding(some: Ints) -> Ints:
        amount = np.zeros(len(key), np.int64)
        np.add.at(amount, inverse, some)
        running = np.cumsum(amount)
        before = np.append(0, running[last])  # what the answers before this one add up to
        found: Ints = running - before[np.cumsum(last) - last]
        return found

    n = summed(change, adding)
    rows = Rows({v: column[first][owner] for v, column in zip(variables, columns)}, start, end, n)
    return rows.take(n > 0)


@dataclass(frozen=True, slots=True)
class MaterializedAnswers:
    """The standing answers of one program, in its state folder."""

    files: ResultFiles

    def held(self, step: EvaluationStep, share: KeyFilter) -> Rows:
        """The answers of a share that stand before a step."""
        return share.within(concat([empty(self.files.output), *(segment.rows for _, segment in self.files.segments(step))]))

    def replace(
        self, step: EvaluationStep, rows: Rows, terms: TermTable, name: str, store: Store | None = None
    ) -> tuple[list[SlotFile], list[str]]:
        """Keeps the rows that stand after a step: (files written, paths of those that they replace).

        Of terms those that expressions made; or, given a ``store``, all that this one does not have.
        """
        size = len(rows)
        kept = Rows(rows.columns, np.full(size, BEFORE_TIME), np.full(size, FOREVER), rows.n)
        written = self.files.write(step, kept, name)
        pages = step.select("terms", shape=self.files.label)
        made = np.unique(
            np.concatenate([np.array(list(terms.made), np.int64), *(worker_cache.page(step.path / f.path).ids for f in pages)])
        )
        used = np.unique(np.concatenate([made[:0], *rows.columns.values()]))
        wanted = _hashed(np.intersect1d(made, used) if store is None else used[~store.contains(used)])
        if len(wanted):
            path = f"results/{step.batch:08d}-{self.files.label.replace('/', '-')}-{name}-terms.arrow"
            write_page(step.path / path, wanted, [text or "" for text in terms.texts(wanted)])
            written.append(SlotFile("terms", path, "", self.files.label, len(wanted), greatest=int(FOREVER)))
        return written, self.paths(step)

    def paths(self, step: EvaluationStep) -> list[str]:
        """The files that a step finds."""
        return [file.path for kind in ("result", "terms") for file in step.select(kind, shape=self.files.label)]


def kept_keys(
    step: EvaluationStep, label: str, name: str, keys: Sequence[Ints], terms: TermTable, stale: Callable[[], Ints]
) -> tuple[list[SlotFile], list[str]]:
    """Keeps the terms that expressions made of groups' keys: (files written, paths of those that they replace).

    A later step that makes another term with the id of one of them must find that. ``stale`` gives the keys of all groups, for when there
    are so many pages that they become one.
    """
    made = np.array(sorted(terms.made), np.int64)
    pages = step.select("terms", shape=label)
    known = [worker_cache.page(step.path / f.path).ids for f in pages]
    used = _hashed(np.intersect1d(made, np.unique(np.concatenate([made[:0], *keys]))))
    new = np.setdiff1d(used, np.concatenate([made[:0], *known]))
    replaced: list[str] = []
    if len(pages) >= PAGES:
        new, replaced = np.union1d(used, np.intersect1d(np.concatenate(known), stale())), [f.path for f in pages]
    if not len(new):
        return [], replaced
    path = f"results/{step.batch:08d}-{label.replace('/', '-')}-{name}-terms.arrow"
    write_page(step.path / path, new, [text or "" for text in terms.texts(new)])
    return [SlotFile("terms", path, "", label, len(new), greatest=step.upto)], replaced


def _hashed(ids: Ints) -> Ints:
    """The ids that do not hold their term themselves."""
    return ids[[text is None for text in inline_texts(ids)]] if len(ids) else ids
