"""Redaction: URLs and error texts without their secrets, for messages, logs and files."""

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
#: A place as scp and rsync write it, with a password: `user:password@host:/x`, `//user:password@host/x`. The drive of
#: Windows does not match.
_COPY_PLACE = re.compile(r"(?<![^\s'\"`<>()\[\]=,])(//)?[^\s:/@'\"`=,\\]+:[^\s'\"`\\]*@(?=[^\s/:@'\"`]+[:/])")
#: The `::` between the URLs of a chain, such as `zip://a.txt::https://host/a.zip`. The `::` of an IPv6 address does not
#: match.
_CHAINED = re.compile(f"::(?={_SCHEME}://)")
_WITH_PORT = re.compile(r".*:[0-9]*")
#: Names of environment variables with secret values. `PWD`, `PATH` and the like do not match.
_SECRET_NAME = re.compile(
    r"SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|SAS|CONNECTION_STRING|KEYS?(_|$)|(^|_)PAT(_|$)|_PWD$"
)
#: Parameters with signatures or keys, in the query of a URL or in a connection string.
_SECRET_PARAMETER = re.compile(
    r"([?&;][^?&;=\s]*(?:sig|secret|token|password|key|credential)[^?&;=\s]*=)[^&;\s'\"`]+", re.IGNORECASE
)
#: Secret values with fewer characters are not searched for: they also occur in harmless text.
_SECRET_CHARACTERS = 8


def redacted(url: str) -> str:
    """Return `url` without user name, password and query, so that it may be printed or stored."""
    if url == STANDARD_INPUT:
        return "standard input"
    if "://" not in url:
        # A NUL or an invalid character would make printing the message fail.
        url = _COPY_PLACE.sub(lambda found: found[1] or "", url)
        return url.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return _without_environment_secrets("::".join(map(_redacted_link, _CHAINED.split(url))))


def _redacted_link(url: str) -> str:
    """Return one URL of a chain without its secrets."""
    scheme, mark, rest = url.partition("://")
    kind = scheme.lower()
    place, slash, path = rest.partition("/")
    if ":" in place and "@" not in place and "@" in path and not _WITH_PORT.fullmatch(place):
        # The password has a slash in it, as S3 keys may have.
        place, slash, path = ":@" + rest.rpartition("@")[2], "", ""
    user, at, host = place.rpartition("@")
    # Text before an @ that is no password may belong to the location, such as an Azure container.
    location = (host if ":" in user or kind in _WITH_USERS else user + at + host) + slash + path
    # HTTP URLs may have a signature in their query. In other URLs `?` may be a part of a name or a glob.
    if kind in _WITH_QUERIES:
        return scheme + mark + re.split("[?#]", location)[0]
    return scheme + mark + _SECRET_PARAMETER.sub(r"\1***", location)


def error_text(error: BaseException | str) -> str:
    """Return the text of `error` in one line, without secrets from URLs and the environment."""
    return without_secrets(" ".join((str(error) or type(error).__name__).split()))


def without_secrets(text: str) -> str:
    """Return `text` without secrets from URLs, connection strings and the environment."""
    text = _URL.sub(lambda found: redacted(found[0]), _without_environment_secrets(text))
    text = _COPY_PLACE.sub(lambda found: found[1] or "", text)
    return _SECRET_PARAMETER.sub(r"\1***", text)


def without_password(text: str) -> str:
    """Return a value as a record may keep it: a URL, or a place as scp writes it, without its secrets."""
    return redacted(text) if "://" in text else _COPY_PLACE.sub(lambda found: found[1] or "", text)


def _without_environment_secrets(text: str) -> str:
    """Return `text` with `***` for the values of environment variables with names that mean a secret."""
    # Values of other variables are not read: that takes as long as the rest of a line of the log.
    for name in filter(_is_secret, os.environ):
        value = os.environ.get(name, "")
        is_exposed = len(value) >= _SECRET_CHARACTERS and value in text
        # The path of a file with keys is not secret.
        if is_exposed and not os.path.exists(value):  # noqa: PTH110 - a key may be too long for a path
            text = text.replace(value, "***")
    return text


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name.upper()) is not None
