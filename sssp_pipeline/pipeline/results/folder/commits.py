"""Commits: a small file for each batch, written after the other files of the batch.

A commit has the metrics of the batch, and names its other files with their length and checksum:

```
digest    the SHA-256 of the rest, in hexadecimal, and a line feed
head      a line of JSON: the number of the batch, the run, and the files
metrics   as `BatchMetrics.to_bytes` makes them
```

So a batch needs no more files, and no more requests to an object store, than without checksums. Nothing of a commit is
parsed before its digest is found to be right. `docs/design/0025-commits-and-repair.md` has the idea.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sssp_pipeline.storage.file_sums import FileSum


@dataclass(frozen=True)
class Commit:
    """The content of a commit."""

    batch: int
    #: `run_digest` of the run that solved the batch.
    run: str
    #: The other files of the batch, by their path below the run folder.
    files: dict[str, FileSum]
    metrics: bytes | memoryview

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        head = json.dumps({"batch": self.batch, "run": self.run, "files": self.files}).encode()
        return b"\n".join((_digest(head, b"\n", self.metrics), head, self.metrics))

    @staticmethod
    def of_bytes(content: bytes) -> Commit:
        """Return the commit that a file holds. Its metrics are a view of `content`, and keep it in memory.

        Raises
        ------
        ValueError
            The file is damaged.
        """
        begin = content.find(b"\n") + 1
        rest = memoryview(content)[begin:]
        if content[:begin] != _digest(rest) + b"\n":
            raise ValueError("its checksum does not match")
        end = content.index(b"\n", begin)
        found, metrics = json.loads(content[begin:end]), memoryview(content)[end + 1 :]
        sums = {name: FileSum(*values) for name, values in found["files"].items()}
        return Commit(found["batch"], found["run"], sums, metrics)


def run_digest(identity: dict[str, Any]) -> str:
    """Return what stands for the run with this `identity` in commits."""
    return _digest(json.dumps(identity, sort_keys=True).encode()).decode()


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()
