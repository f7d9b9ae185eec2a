"""Shown: what of a URL, or of what a library says, may stand in messages, logs and files; secrets never do."""

from __future__ import annotations

import os
import re

#: The URL of standard input.
STANDARD_INPUT = "-"
_WITH_QUERIES = ("http", "https")
_WITH_USERS = (*_WITH_QUERIES, "ftp", "sftp", "ssh", "smb")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"`<>()\[\]]+")
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSWORD|PASSPHRASE|ACCOUNT_KEY|SAS|CONNECTION_STRING")
#: Shorter values would be found in innocent text.
_SECRET_CHARACTERS = 8


def redacted(url: str) -> str:
    """Return `url` without the user name, password and query it may carry, to be shown or stored."""
    if url == STANDARD_INPUT:
        return "standard input"
    scheme, mark, rest = url.partition("://")
    if not mark:
        # What no terminal can show, a NUL or half a character, would end the message with a traceback.
        return url.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    # What stands before an @ without a password may be a part of the place, such as an Azure container.
    shown = (host if ":" in user or scheme in _WITH_USERS else user + at + host) + slash + path
    # Some stores sign a URL in its query; in others `?` belongs to a name or a glob.
    return scheme + mark + (shown.partition("?")[0] if scheme in _WITH_QUERIES else shown)


def told(error: BaseException | str) -> str:
    """Return in one line what `error` says, without the secrets of URLs and of the environment."""
    text = str(error) or type(error).__name__
    for name, value in os.environ.items():
        if len(value) >= _SECRET_CHARACTERS and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return _URL.sub(lambda found: redacted(found[0]), " ".join(text.split()))
