"""The names of the files of a run folder.

```
<run>/run.json                       written last
<run>/distances/batch-*.parquet      one file for each batch, written whole or not at all
<run>/distances/wide-*.parquet       only of earlier releases, in the wide layout (`layouts/wide.py`)
<run>/distances/pairs-*.parquet      of a run of pairs, written when all batches are there (`pairs_output.py`)
<run>/metrics.parquet                one row for each search: for each source, or each target of a run backward
<run>/sources.parquet                one row for each source, of a run backward (`turned_output.py`)
<run>/snapped.parquet                one row for each point that stands for a source or a target
<run>/vertices.parquet               one row for each vertex, of a run that has numbers over all sources
<run>/edges.parquet                  one row for each edge, of a run that has their betweenness or flow
<run>/report.html
<run>/_output.u32                    targets or amounts, if `verify` needs them and no other file has them
<run>/_run/                          only while the run is unfinished: its identity, its starts, its targets, a
                                     commit for each batch, and what the batches have of each vertex or edge, of pairs,
                                     or of a target
<run>/_lease/                        only in an object store: names the process that is writing to the folder
```

Spark, Dask and DuckDB do not read names that begin with `_`.
"""

from __future__ import annotations

import re

from sssp_pipeline.storage.files import TEMP_PREFIX

#: What hints say: about a run that cannot be repaired, about known damage, and about a damaged file of a finished run.
OVERWRITE = "`sssp-pipeline run WORKFLOW --overwrite` solves it anew"
AGAIN = "`sssp-pipeline run WORKFLOW` solves what is damaged again"
REPAIR = "`sssp-pipeline verify RUN` finds all damage, then `sssp-pipeline run WORKFLOW` solves it again"
#: The key of an identity that says how files are written (`DistanceLayout.writer`).
WRITER = "writer"
#: What the writer of a run with sums along paths has in addition. Other bytes in the files of `paths_part` need another
#: value.
WRITER_OF_PATHS = "paths-2"
#: The key of the identity and of run.json that says from which end was searched. Identities of runs forward lack it.
DIRECTION, FORWARD, BACKWARD = "direction", "forward", "backward"
RUN_FILE = "run.json"
REPORT_FILE = "report.html"
METRICS_FILE = "metrics.parquet"
SOURCES_FILE = "sources.parquet"
SNAPPED_FILE = "snapped.parquet"
VERTICES_FILE = "vertices.parquet"
EDGES_FILE = "edges.parquet"
#: The folder of what only an unfinished run needs.
UNFINISHED = "_run"
IDENTITY = f"{UNFINISHED}/identity.json"
STARTED = f"{UNFINISHED}/started.json"
TARGETS = f"{UNFINISHED}/targets.u32"
#: The input of the output (`RowOutput.words`), if it stays after the run. If not, it is in `TARGETS`.
OUTPUT_INPUT = "_output.u32"
#: The names of the files of batches, and of the wide files of earlier releases, in their folders.
BATCH = re.compile(r"batch-(\d{5,})\.parquet")
COMMIT = re.compile(r"batch-(\d{5,})\.commit")
WIDE = re.compile(r"wide-\d{5,}\.parquet")
#: The files of a run of pairs.
OF_PAIRS = re.compile(r"distances/pairs-\d{5,}\.parquet")
#: Every path below the folder that a run may write; earlier releases wrote `merged.json` and tiles.
OURS = re.compile(
    rf"run\.json|(metrics|sources|snapped|vertices|edges)\.parquet|report\.html|{re.escape(OUTPUT_INPUT)}"
    rf"|distances/({BATCH.pattern}|{WIDE.pattern})|{OF_PAIRS.pattern}|_run/(pairs|turned)-\d{{5,}}\.bin"
    rf"|_run/((identity|started|merged)\.json|targets\.u32|{COMMIT.pattern}|batch-\d{{5,}}\.tiles|(vertices|paths)-\d{{5,}}\.u64)"
    rf"|((distances|_run)/)?{re.escape(TEMP_PREFIX)}.*"
)


def batch_file(batch: int) -> str:
    """Return the path, below the run folder, of the Parquet file of a batch."""
    return f"distances/batch-{batch:05d}.parquet"


def part_file(batch: int) -> str:
    """Return the path, below the run folder, of what a batch has of each vertex until `VERTICES_FILE` is made of it."""
    return f"_run/vertices-{batch:05d}.u64"


def paths_part(batch: int) -> str:
    """Return the path, below the run folder, of what a batch sums along paths until the tables are made of it."""
    return f"_run/paths-{batch:05d}.u64"


def pairs_part(batch: int) -> str:
    """Return the path, below the run folder, of the distances of the pairs of a batch until `pairs_file` has them."""
    return f"_run/pairs-{batch:05d}.bin"


def turned_part(batch: int) -> str:
    """Return the path, below the run folder, of what a batch of targets stores until the files of the run are made."""
    return f"_run/turned-{batch:05d}.bin"


def pairs_file(number: int) -> str:
    """Return the path, below the run folder, of some pairs in the order of their file."""
    return f"distances/pairs-{number:05d}.parquet"


def commit_file(batch: int) -> str:
    """Return the path, below the run folder, of the commit of a batch (`commits.py`)."""
    return f"{UNFINISHED}/batch-{batch:05d}.commit"
