"""Damage: a file of an ingest does not hold what was written there."""

from __future__ import annotations

from sssp_pipeline.base.errors import SsspError


class DamagedFileError(SsspError):
    """A file that an ingest, this one or one before it, has written is missing or has changed; exit code 1.

    Parameters
    ----------
    place
        Words that name the file.
    """

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place} is damaged: it is not what this ingest wrote",
            hint="check the disk, then run the same command again",
        )
        self.place = place
        #: Whether what the file belongs to was discarded, so that another attempt makes it again.
        self.was_discarded = False

    def __reduce__(self) -> tuple:
        return type(self), (self.place,)
