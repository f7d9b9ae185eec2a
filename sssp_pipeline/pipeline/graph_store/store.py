"""Graph store: a CSR graph as Parquet files, and the manifest that commits them.

```
<store>/manifest.json                      written last; names every part with its rows, range and checksums
<store>/versions/<content id>.json         manifest of an older version, kept when a changed input was ingested
<store>/row_offsets/part-<id>-*.parquet    row_offset int64, V+1 values in order
<store>/edges/part-<id>-*.parquet          col_index uint32, weight; CSR order; a part is a range of vertices
<store>/vertices/part-<id>-*.parquet       original_id (only if ids were remapped), x, y (only if given)
<store>/edge_weights/part-<id>-*.parquet   weight; only in a store with several weights, whose edges/ has none
<store>/hierarchy/                         what `phast` prepares, if it was made (`hierarchy_record.py`)
```

A store holds one graph: one input, read with one set of options. If the content of the input changes, the graph gets a
new version. The older version stays until the user removes it, so that runs on it can be verified.

`<id>` is different for every ingest. So one write of the manifest replaces a graph, and no reader sees half of it.
Parts that no manifest names were left by a killed ingest. The next ingest removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from sssp_pipeline.base.error_text import Either, Text
from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.progress import shortened
from sssp_pipeline.pipeline.graph_store import hierarchy_record
from sssp_pipeline.pipeline.graph_store.manifest import (
    FORMAT,
    PART_PATTERN,
    VERSION,
    VERSION_OF_NAMED,
    Manifest,
    StoreManifest,
    damaged_record,
    place_in_record,
)
from sssp_pipeline.storage import files
from sssp_pipeline.storage.records import CHECKSUM, NoRecordError, record_content

MANIFEST = "manifest.json"
#: File with the first rows of the input that were left out because they are not edges.
SKIPPED = "skipped.txt"
#: Raise this number when a release makes another graph of the same input and options. Stores with
#: another number are then ingested again.
READER = 4
#: The hint for a damaged store.
INGEST_AGAIN = "remove the folder of the graph store and make it again with `sssp-pipeline ingest` or `run`"
#: What begins the name of the folder of an ingest by tasks in the store. It is removed as a half-written file is.
INGEST_FOLDER = f"{files.TEMP_PREFIX}ingest-"
PART_FOLDERS = ("row_offsets", "edges", "edge_weights", "vertices", hierarchy_record.FOLDER)
PART_PATH = re.compile(PART_PATTERN)
VERSIONS_FOLDER = "versions"
VERSION_FILE = re.compile(r"versions/([0-9a-f]{64})\.json")
_ANOTHER_FOLDER = Text(Either("name another `graph.store`, or leave it out", "name another folder"))


def is_store(url: str) -> bool:
    """Return whether the folder `url` has the manifest of a graph store, which is not read."""
    return files.exists(files.join(url, MANIFEST))


def read_manifest(store: str, content_id: str | None = None, weight: str | None = None) -> Manifest:
    """Return the manifest of a graph in the store at the URL `store`: of the newest version, or that with `content_id`.

    Parameters
    ----------
    store
        The store.
    content_id
        Of the graph, in any version of the store and with any of its weights.
    weight
        The name of the weight if the store has several. It is not needed with a `content_id`.

    Raises
    ------
    InputError
        There is no store, it has another format version, the manifest is damaged, the store has no graph
        `content_id`, or no weight of this name.
    """
    newest = read_newest(store)
    if content_id is None:
        return graph_with(weight, newest, store)
    for version in (newest, *older_versions(store, newest).values()):
        for graph in version.by_weight.values():
            if graph.content_id == content_id:
                return graph
    raise InputError(
        f"`{files.redacted(store)}` holds no version of the graph with content id `{content_id}`",
        hint="name the store that the run was solved on",
    )


def read_newest(store: str) -> StoreManifest:
    """Return the newest manifest of the graph store at the URL `store`, with all its weights.

    Raises
    ------
    InputError
        There is no store, it has another format version, or the manifest is damaged.
    """
    url = files.join(store, MANIFEST)
    if (text := files.read_if_there(url)) is None:
        raise InputError(
            f"`{files.redacted(store)}` is not a graph store: it has no {MANIFEST}",
            hint="make one with `sssp-pipeline ingest`",
        )
    return parse_manifest(text, store, url)


def graph_with(weight: str | None, manifest: StoreManifest | Manifest, store: str) -> Manifest:
    """Return the graph of a store with the weight of this name; None means the only weight.

    Raises
    ------
    InputError
        The store has no such weight, or several and no name is given.
    """
    found = manifest.by_weight.get(weight)
    if found is not None:
        return found
    place, names = f"the graph store `{files.redacted(store)}`", [name for name in manifest.by_weight if name]
    if not names:
        raise InputError(f"{place} has one weight without a name, not `{weight}`", hint="leave out the name")
    if weight is None:
        raise InputError(
            f"{place} has several weights: {', '.join(names)}",
            hint=f'name one of them, in Python `weight="{names[0]}"`',
        )
    raise InputError(
        f"{place} has no weight `{weight}`", hint=f"{did_you_mean(weight, names)}It has: {', '.join(names)}"
    )


def older_versions(store: str, newest: StoreManifest) -> dict[str, StoreManifest]:
    """Return the manifests of the older versions in a store, by content id."""
    names = files.list_files(files.join(store, VERSIONS_FOLDER))
    found = (VERSION_FILE.fullmatch(f"{VERSIONS_FOLDER}/{name}") for name in names)
    ids = [m[1] for m in found if m and m[1] != newest.content_id]
    urls = {content_id: version_url(store, content_id) for content_id in ids}
    return {content_id: parse_manifest(files.read_bytes(url), store, url) for content_id, url in urls.items()}


def remove_older_versions(store: str) -> None:
    """Remove all versions of the graph except the newest; the caller holds the store."""
    newest = read_newest(store)
    for content_id in older_versions(store, newest):
        files.remove(version_url(store, content_id))
    files.remove_if_empty(files.join(store, VERSIONS_FOLDER))
    files.sync(files.join(store, VERSIONS_FOLDER))  # no version may come back without its parts
    keep_versions(store, [newest])


def keep_versions(store: str, versions: Iterable[StoreManifest]) -> None:
    """Remove the parts and the hierarchies of a store that none of these versions has; the caller holds the store."""
    versions = list(versions)
    ids = [graph.content_id for version in versions for graph in version.by_weight.values()]
    kept = {part.path for version in versions for part in version.parts}
    remove_parts(store, kept | hierarchy_record.keep_hierarchies(store, ids), PART_FOLDERS)


def remove_parts(store: str, kept: set[str], folders: Sequence[str]) -> None:
    """Remove the parts of these folders of a store whose paths are not in `kept`."""
    for name in files.list_files(store):
        if PART_PATH.fullmatch(name) and name.partition("/")[0] in folders and name not in kept:
            files.remove(files.join(store, name))
    files.remove_if_empty(files.join(store, hierarchy_record.FOLDER))


def version_url(store: str, content_id: str) -> str:
    """Return the URL of the manifest of an older version."""
    return files.join(store, VERSIONS_FOLDER, f"{content_id}.json")


def parse_manifest(text: bytes, store: str, url: str) -> StoreManifest:
    """Return the manifest in `text`, the content of the file `url` of a store; raises as `read_manifest`."""

    def of_another_release(problem: str) -> InputError:
        return InputError(
            f"`{files.redacted(store)}` is a graph store of {problem}",
            hint=f"{INGEST_AGAIN}, or use the release that wrote it",
        )

    foreign = InputError(
        f"`{files.redacted(url)}` is not the manifest of a graph store", hint=_ANOTHER_FOLDER
    )
    try:
        content = record_content(text)
        if content.get("format") != FORMAT:
            raise foreign
        if content.get("version") not in (VERSION, VERSION_OF_NAMED):
            raise of_another_release(
                f"format {content.get('version')}, this release reads formats {VERSION} and {VERSION_OF_NAMED}"
            )
        return StoreManifest.of_file(content)
    except NoRecordError as error:
        if FORMAT.encode() in text:
            raise of_another_release(f"another release: its {MANIFEST} lacks `{CHECKSUM}`") from error
        raise foreign from error
    except ValidationError as error:
        found = {"missing": "lacks", "extra_forbidden": "has an unknown"}.get(error.errors()[0]["type"])
        if found is not None:
            problem = f"another release: its {MANIFEST} {found} `{place_in_record(error)}`"
            raise of_another_release(problem) from error
        raise damaged_record(url, error, INGEST_AGAIN) from error
    except InputError:
        raise
    except ValueError as error:
        raise damaged_record(url, error, INGEST_AGAIN) from error


def newest_version(store: str) -> StoreManifest | None:
    """Return the newest manifest of the graph store at the URL `store`; None if the folder is empty or missing.

    Files left by a killed ingest do not count. A folder with a manifest may contain other files; they are never
    removed.

    Raises
    ------
    InputError
        The folder has no manifest, but other files; or as `read_manifest`.
    """
    if is_store(store):
        return read_newest(store)
    foreign = [name for name in files.list_names(store) if not _is_leftover(store, name)]
    if foreign:
        raise InputError(
            f"`{files.redacted(store)}` is not empty and is not a graph store: it has {shortened(foreign)}",
            hint="name an empty or a new folder as `graph.store`",
        )
    return None


def is_complete(store: str, manifest: StoreManifest) -> bool:
    """Return whether every part exists and has the size given in the manifest; its content is not read."""
    sizes = files.file_sizes(store)
    return all(sizes.get(part.path) == part.bytes for part in manifest.parts)


def _is_leftover(store: str, name: str) -> bool:
    """Return whether an ingest that was killed may have left `name` in the folder `store`."""
    if name in PART_FOLDERS:
        below = files.list_files(files.join(store, name))
        return all(PART_PATH.fullmatch(f"{name}/{file}") or files.TEMP_PREFIX in file for file in below)
    return name in ("_lease", SKIPPED) or name.startswith(files.TEMP_PREFIX)
