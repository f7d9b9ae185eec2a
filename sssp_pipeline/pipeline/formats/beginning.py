"""The beginning of a file: what detection and the functions that recognise a format look at."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import cached_property

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.layout import FirstRows, cells_of_text, read_sample
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.formats.parsing.line_blocks import BYTE_ORDER_MARK
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed, zip_members
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.registries import FORMATS

_ZIP_MAGIC = b"PK\x03\x04"
_HEAD_BYTES = 4096


@dataclass(frozen=True, eq=False)
class Beginning:
    """The beginning of the file at `url`, read as far as it is asked for."""

    url: str
    options: ReadOptions

    @cached_property
    def arrays(self) -> list[str]:
        """The names of the members if the file is a zip file of NumPy arrays; empty if it is not."""
        with files.reading(self.url), files.open_read(self.url) as raw:
            if raw.read(len(_ZIP_MAGIC)) != _ZIP_MAGIC:
                return []
            try:
                names = zip_members(raw)
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
                return []  # `open_decompressed` says what is wrong with it
        return names if all(name.endswith(".npy") for name in names) else []

    @cached_property
    def head(self) -> bytes:
        """The first bytes, decompressed, except for a zip file of NumPy arrays."""
        if self.arrays:
            return _ZIP_MAGIC
        with open_decompressed(self.url, self.options.encoding) as stream:
            return stream.read(_HEAD_BYTES)

    @property
    def text(self) -> bytes:
        """The first bytes without a byte order mark."""
        return self.head.removeprefix(BYTE_ORDER_MARK)

    @property
    def is_binary(self) -> bool:
        """Whether the first bytes hold a zero, as no text does."""
        return b"\0" in self.head

    @cached_property
    def sample(self) -> FirstRows:
        """The first rows that are no comments."""
        return read_sample(self.url, self.options, True)

    @property
    def cells(self) -> list[list[str]]:
        """The cells of these rows, between white space."""
        return [cells_of_text(row) for row in self.sample.rows]


def unreadable_error(url: str, what: str, instead: str = "") -> InputError:
    """Return the error for a file that cannot be read; `instead` is what to set if it can."""
    return InputError(
        f"`{files.redacted(url)}` {what}",
        hint=f"set {instead} if it is" if instead else f"convert it; what is read: {_formats_in_words()}",
    )


def _formats_in_words() -> str:
    *others, last = (name + (f" ({known.note})" if known.note else "") for name, known in FORMATS.items())
    return f"{', '.join(others)} and {last}, plain or in gz, bz2, xz, zst, zip or tar"
