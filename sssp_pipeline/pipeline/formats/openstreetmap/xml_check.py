"""OpenStreetMap XML: a check of what libosmium passes over."""

from __future__ import annotations

import re
from pathlib import Path

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage import files

#: How JOSM marks a way that is deleted in the editor, and not on the server.
_DELETED = re.compile(rb"<way\b[^<]*?\saction\s*=\s*(?:'delete'|\"delete\")[^<]*")
_ID = re.compile(rb"\sid\s*=\s*['\"](-?\d+)")
_BLOCK_BYTES = 16 << 20
#: No element that begins a way is longer.
_ELEMENT_BYTES = 64 << 10


def check_no_way_is_deleted(url: str, path: str) -> None:
    """Raise `InputError` if a way in the XML file `path`, which has the content of `url`, is marked as deleted."""
    with Path(path).open("rb") as stream:
        block = b""
        while read := stream.read(_BLOCK_BYTES):
            block = block[-_ELEMENT_BYTES:] + read
            if b"action" in block and (found := _DELETED.search(block)):
                named = _ID.search(found[0])
                way = f"way {named[1].decode()}" if named else "a way"
                raise InputError(
                    f"`{files.redacted(url)}` has {way}, which JOSM has marked as deleted",
                    hint="upload the changes, or purge the deleted ways in JOSM, and save the file again",
                )
