"""The folder and the session of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cqels_opt.errors import InputError
from cqels_opt.spark.jvm import JvmSettings
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.spark.session import DeferredSession


@contextmanager
def workplace(checkpoint: Path | None) -> Iterator[Path]:
    """The checkpoint, or a temporary folder for this run."""
    if checkpoint is not None:
        if checkpoint.exists() and not checkpoint.is_dir():
            raise InputError(f"--checkpoint {checkpoint}: not a folder")
        checkpoint.mkdir(parents=True, exist_ok=True)
        yield checkpoint.absolute()
        return
    with scratch_folder() as folder:
        yield folder


@contextmanager
def open_session(folder: Path, settings: JvmSettings, at_once: bool = False) -> Iterator[DeferredSession]:
    """A session that is stopped at the end; with ``at_once`` it starts now, otherwise when it is needed."""
    session = DeferredSession(folder, settings)
    if at_once:
        session.begin()
    try:
        yield session
    finally:
        session.stop()
