"""Which run, or which function of ``foreachBatch``, of this process works with a folder of state."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from cqels_opt.errors import CheckpointError
from cqels_opt.lod.locations import shown

REFUSAL: Final = "another query of this process works with this state folder by now; give each its own"

_owners: WeakValueDictionary[Path | str, Claim] = WeakValueDictionary()
_claiming = threading.Lock()


class Claim:
    """A claim on a state folder, made before the folder is read.

    The newest claim of a process owns the folder, so that a notebook cell can run again: the new claim waits for the current
    batch, and the previous owner then refuses further batches. ``lock`` is held during a batch and while the state of the last
    batch is read; a sink may also read it.
    """

    def __init__(self, state: Path | None, uri: str | None = None, refusal: str = REFUSAL) -> None:
        """With a ``uri``, the folder is a copy of the state there. ``refusal`` is what :meth:`check` says of the folder."""
        self._refusal = refusal
        self.state, self.lock = state.resolve() if state is not None else None, threading.RLock()
        self._owned = uri.rstrip("/") if uri is not None else self.state
        if self._owned is not None:
            with _claiming:
                before = _owners.get(self._owned)
                _owners[self._owned] = self
            if before is not None:
                before.wait()

    def wait(self) -> None:
        """Waits until no batch is running. A batch that begins later is refused, because it checks the claim first."""
        with self.lock:
            return

    def check(self) -> None:
        """Raises CheckpointError if a newer claim exists."""
        if not self.is_newest:
            raise CheckpointError(f"{shown(str(self._owned))}: {self._refusal}")

    @property
    def is_newest(self) -> bool:
        """Whether no newer claim exists."""
        return self._owned is None or _owners.get(self._owned, self) is self
