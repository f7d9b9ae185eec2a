"""Mounts: whether a local folder is on a disk of this machine, or on a filesystem that other machines may share."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: The mounts of Linux: device numbers, the root, the place, options, and the type after a dash.
_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT = re.compile(r"\S+ \S+ \S+ \S+ (?P<place>\S+) .*? - (?P<type>\S+)")
#: A character of a place that would end a word, as three octal digits.
_ESCAPED = re.compile(r"\\([0-7]{3})")
#: Filesystems on which only this machine can write. All others may be shared: NFS, Lustre, CephFS, CIFS, FUSE, …
_OF_ONE_HOST = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "zfs", "f2fs", "jfs", "reiserfs", "nilfs2"),
        *("tmpfs", "ramfs", "rootfs", "overlay", "aufs", "ecryptfs"),
        *("vfat", "exfat", "ntfs", "ntfs3", "fuseblk"),
    )
)


def is_of_one_host(path: str) -> bool:
    """Return whether only this machine can write to the filesystem of the local `path`, which need not exist yet.

    Without a list of mounts, as on macOS, this is taken to be so.
    """
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return True
    path = os.path.realpath(path)
    best, kind = "", ""
    for found in filter(None, map(_MOUNT.match, lines)):
        place = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), found["place"])
        # A later mount on the same place hides the earlier one.
        if len(place) >= len(best) and (path == place or path.startswith(place.rstrip("/") + "/")):
            best, kind = place, found["type"]
    return kind in _OF_ONE_HOST
