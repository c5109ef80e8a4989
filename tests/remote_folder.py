"""A folder as an object store for fsspec: objects appear whole, and are created only if there is none. Each process notes what it reads."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

PROTOCOL = "remote"
LOG = "REMOTE_FOLDER_LOG"  # the file in which every process notes what it reads


class RemoteFolder(LocalFileSystem):  # type: ignore[misc]
    protocol = PROTOCOL

    def __init__(self, **options: Any) -> None:
        super().__init__(auto_mkdir=True, **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{PROTOCOL}://")))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        target = Path(self._strip_protocol(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.parent / f"{uuid.uuid4().hex}.part"
        part.write_bytes(value)
        try:
            if mode == "create":
                target.hardlink_to(part)
            else:
                part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        return [name for name in super().find(path, *args, **options) if not name.endswith(".part")]

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        opened = super()._open(path, mode, **options)
        if mode == "rb" and (log := os.environ.get(LOG)):
            with Path(log).open("a") as file:
                file.write(f"{os.getpid()} {Path(path).stat().st_size} {path}\n")
        return opened


def installed(folder: Path) -> dict[str, str]:
    """The variables with which other processes find this file system, through a package in a folder."""
    about = folder / "remote_folder-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: remote-folder\nVersion: 0\n")
    (about / "entry_points.txt").write_text(f"[fsspec.specs]\n{PROTOCOL} = {__name__}:{RemoteFolder.__name__}\n")
    found = os.environ.get("PYTHONPATH")
    paths = [str(Path(__file__).parent), str(folder), *([found] if found else [])]
    return {"PYTHONPATH": os.pathsep.join(paths), LOG: str(folder / "reads")}


fsspec.register_implementation(PROTOCOL, RemoteFolder, clobber=True)
