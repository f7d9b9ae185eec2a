"""Records: small JSON objects in files, each with a checksum of its own content.

A record is an object whose last key is `checksum`: the SHA-256 of the rest, in hexadecimal. The rest is written for the
digest with sorted keys and without white space. So the layout of the file does not matter, and every value does.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

#: The key of the checksum.
CHECKSUM = "checksum"


class NoRecordError(ValueError):
    """The text is JSON, and no object with a checksum."""


def record_bytes(content: dict[str, Any]) -> bytes:
    """Return the text of the record with this `content`; its keys are strings, and its values are values of JSON.

    Raises
    ------
    ValueError
        A number is not finite.
    """
    plain = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**plain, CHECKSUM: _digest(plain)}, indent=1).encode()


def record_content(data: bytes) -> dict[str, Any]:
    """Return the content of a record.

    Raises
    ------
    NoRecordError
        It is no object, or has no checksum. The text says which.
    ValueError
        It is no JSON, or its checksum does not match.
    """
    try:
        content = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise NoRecordError("it is no object")
    if CHECKSUM not in content:
        raise NoRecordError("it has no checksum")
    if content.pop(CHECKSUM) != _digest(content):
        raise ValueError("its checksum does not match")
    return content


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
