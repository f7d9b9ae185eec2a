"""Shown: what of a URL, or of what a library says, may stand in messages, logs and files; secrets never do."""

from __future__ import annotations

import os
import re
from functools import lru_cache

#: The URL of standard input.
STANDARD_INPUT = "-"
_WITH_QUERIES = ("http", "https")
_WITH_USERS = (*_WITH_QUERIES, "ftp", "sftp", "ssh", "smb")
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"
_URL = re.compile(_SCHEME + r"://[^\s'\"`<>()\[\]]+")
#: Between the URLs of a chain, such as `zip://a.txt::https://host/a.zip`; an IPv6 address has `::` too.
_CHAINED = re.compile(f"::(?={_SCHEME}://)")
_WITH_PORT = re.compile(r".*:[0-9]*")
#: Names of environment variables. Not `PWD`, `PATH` and the like.
_SECRET_NAME = re.compile(
    r"SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|SAS|CONNECTION_STRING|KEYS?(_|$)|(^|_)PAT(_|$)|_PWD$"
)
#: Signatures and keys in the query of a URL and in a connection string.
_SECRET_PARAMETER = re.compile(
    r"([?&;][^?&;=\s]*(?:sig|secret|token|password|key|credential)[^?&;=\s]*=)[^&;\s'\"`]+", re.IGNORECASE
)
#: Shorter values would be found in innocent text.
_SECRET_CHARACTERS = 8


def redacted(url: str) -> str:
    """Return `url` without the user name, password and query it may carry, to be shown or stored."""
    if url == STANDARD_INPUT:
        return "standard input"
    if "://" not in url:
        # What no terminal can show, a NUL or half a character, would end the message with a traceback.
        return url.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return _without_values("::".join(map(_redacted_link, _CHAINED.split(url))))


def _redacted_link(url: str) -> str:
    """Return one URL of a chain without its secrets."""
    scheme, mark, rest = url.partition("://")
    kind = scheme.lower()
    place, slash, path = rest.partition("/")
    if ":" in place and "@" not in place and "@" in path and not _WITH_PORT.fullmatch(place):
        # A password with a slash in it, as keys of S3 may have.
        place, slash, path = ":@" + rest.rpartition("@")[2], "", ""
    user, at, host = place.rpartition("@")
    # What stands before an @ without a password may be a part of the place, such as an Azure container.
    shown = (host if ":" in user or kind in _WITH_USERS else user + at + host) + slash + path
    # Some stores sign a URL in its query; in others `?` belongs to a name or a glob.
    if kind in _WITH_QUERIES:
        return scheme + mark + re.split("[?#]", shown)[0]
    return scheme + mark + _SECRET_PARAMETER.sub(r"\1***", shown)


def told(error: BaseException | str) -> str:
    """Return in one line what `error` says, without the secrets of URLs and of the environment."""
    return without_secrets(" ".join((str(error) or type(error).__name__).split()))


def without_secrets(text: str) -> str:
    """Return `text` without the secrets of URLs, of connection strings and of the environment."""
    text = _URL.sub(lambda found: redacted(found[0]), _without_values(text))
    return _SECRET_PARAMETER.sub(r"\1***", text)


def _without_values(text: str) -> str:
    """Return `text` without the values of environment variables whose names say that they are secret."""
    for name, value in os.environ.items():
        is_shown = _is_secret(name) and len(value) >= _SECRET_CHARACTERS and value in text
        # The path of a file of keys is no secret.
        if is_shown and not os.path.exists(value):  # noqa: PTH110 - a key may be too long for a path
            text = text.replace(value, "***")
    return text


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name.upper()) is not None
