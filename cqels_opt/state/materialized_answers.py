"""The materialized answers of a query: the bag of its answers at the instant reported last.

RSTREAM emits the whole bag at every instant. The bag of a step is the materialized bag plus the changes of the step, so nothing that a
step does not concern is computed again. The bag is state: a file that the commit record names, with a page of the terms in it that
expressions made.
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
from cqels_opt.stats.frequencies import distinct_values
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

PAGES = 8  # of terms in the keys of a GROUP BY that is kept as sums, before they are merged


def advanced(held: Rows, changing: Rows, variables: Sequence[str], places: int) -> Rows:
    """The bag at the places of a step, from the bag at the first place and the changing rows.

    Each held answer, and each beginning or end of a changing row, is an event: at a place, the multiplicity of an answer changes. The
    running sum of an answer's events is its multiplicity from each event to the next.
    """
    size = len(held)
    columns = [np.concatenate(pair) for pair in zip(held.values(variables), changing.values(variables))]
    answer, first = group_ids(columns, size + len(changing))
    own = answer[size:]
    begins, ends = changing.start > 0, changing.end < places
    events = [answer[:size] * places, (own * places + changing.start)[begins], (own * places + changing.end)[ends]]
    change = np.concatenate([held.n, changing.n[begins], -changing.n[ends]])
    key, event = np.unique(np.concatenate(events), return_inverse=True)
    owner, start = key // places, key % places
    last = np.append(owner[1:] != owner[:-1], True)[: len(key)]
    end = np.where(last, places, np.roll(start, -1))

    def running(changes: Ints) -> Ints:
        """The running sum of changes by event, from the first event of each answer."""
        amount = np.zeros(len(key), np.int64)
        np.add.at(amount, event, changes)
        total = np.cumsum(amount)
        before = np.append(0, total[last])  # the sum over the answers before this one
        found: Ints = total - before[np.cumsum(last) - last]
        return found

    n = summed(change, running)
    rows = Rows({v: column[first][owner] for v, column in zip(variables, columns)}, start, end, n)
    return rows.take(n > 0)


@dataclass(frozen=True, slots=True)
class MaterializedAnswers:
    """The materialized answers of one program, in its state folder."""

    files: ResultFiles

    def held(self, step: EvaluationStep, share: KeyFilter) -> Rows:
        """The answers of a share before a step."""
        return share.within(concat([empty(self.files.output), *(run.rows for _, run in self.files.runs(step))]))

    def replace(
        self, step: EvaluationStep, rows: Rows, terms: TermTable, name: str, store: Store | None = None
    ) -> tuple[list[SlotFile], list[str]]:
        """Writes the answers after a step: (files written, paths of the files that they replace).

        The terms that expressions made are written with them; given a ``store``, all terms that it does not have.
        """
        size = len(rows)
        kept = Rows(rows.columns, np.full(size, BEFORE_TIME), np.full(size, FOREVER), rows.n)
        written = self.files.write(step, kept, name)
        pages = step.select("terms", shape=self.files.label)
        made = distinct_values(
            np.concatenate([np.array(list(terms.made), np.int64), *(worker_cache.page(step.path / f.path).ids for f in pages)])
        )
        used = distinct_values(np.concatenate([made[:0], *rows.columns.values()]))
        wanted = _hashed(np.intersect1d(made, used) if store is None else used[~store.contains(used)])
        if len(wanted):
            path = f"results/{step.batch:08d}-{self.files.label.replace('/', '-')}-{name}-terms.arrow"
            write_page(step.path / path, wanted, [text or "" for text in terms.texts(wanted)])
            written.append(SlotFile("terms", path, "", self.files.label, len(wanted), greatest=int(FOREVER)))
        return written, self.paths(step)

    def paths(self, step: EvaluationStep) -> list[str]:
        """The files of the answers before a step."""
        return [file.path for kind in ("result", "terms") for file in step.select(kind, shape=self.files.label)]


def kept_keys(
    step: EvaluationStep, label: str, name: str, keys: Sequence[Ints], terms: TermTable, stale: Callable[[], Ints]
) -> tuple[list[SlotFile], list[str]]:
    """Writes the terms that expressions made in the keys of groups: (files written, paths of the files that they replace).

    A later step needs them to notice another term with the same id. ``stale`` returns the keys of all groups; it is called when the pages
    are merged into one.
    """
    made = np.array(sorted(terms.made), np.int64)
    pages = step.select("terms", shape=label)
    known = [worker_cache.page(step.path / f.path).ids for f in pages]
    used = _hashed(np.intersect1d(made, distinct_values(np.concatenate([made[:0], *keys]))))
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
    """The ids of terms that are not inline values."""
    return ids[[text is None for text in inline_texts(ids)]] if len(ids) else ids
