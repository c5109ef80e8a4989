"""Opening a store, in a folder or at a URI: as the class that its header asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cqels_opt.errors import StoreError
from cqels_opt.lod import object_store_cache
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header
from cqels_opt.lod.locations import is_uri
from cqels_opt.lod.store import Store, array_bytes
from cqels_opt.lod.void_store import Described


def open_store(place: Path | str) -> Store:
    """Opens a store. Its data are read when they are used.

    Raises StoreError if it is absent, damaged or of a newer version.
    """
    if is_uri(place):
        source = object_store_cache.RemoteStore.at(str(place))
        return _opened(source.folder, read_header(source.header_file(), FORMAT, VERSION), source)
    path = Path(place)
    if not path.is_dir():
        raise StoreError(
            f"{path} is not a folder: there is no store" if path.exists() else f"{path} does not exist: there is no store"
        )
    while True:
        header = read_header(path / HEADER, FORMAT, VERSION)
        try:
            return _opened(path, header)
        except StoreError:
            if read_header(path / HEADER, FORMAT, VERSION)["checksum"] == header["checksum"]:
                raise
            # a load has replaced the store since then and deleted its data: read the new header


def _opened(path: Path, header: Mapping[str, Any], source: object_store_cache.RemoteStore | None = None) -> Store:
    kind: type[Store] = Described if "described" in header else Store
    try:
        store = kind(path, header, source)
    except (KeyError, TypeError) as error:
        raise StoreError(f"{path / HEADER} is damaged: {error!r}") from error
    if source is None:
        for entry in store.entries.values():
            if array_bytes(store.data / entry.folder) != entry.size:
                store.partition(entry.graph, entry.predicate)
                raise StoreError(
                    f"{store.data / entry.folder} does not have its {entry.size} bytes: the store is damaged, load it again"
                )
    return store
