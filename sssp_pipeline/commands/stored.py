"""The commands that read what an earlier one wrote.

These are `verify`, `inspect`, `stores`, `export`, `path`, `paths` and `isochrones`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.commands.options import Coordinates, Json, Log, MovedStore, Overrides, Quiet, Run, Verbose
from sssp_pipeline.commands.session import prepare_imports, print_answer, reporting
from sssp_pipeline.commands.tables import columns, path_text, table
from sssp_pipeline.storage.redaction import redacted


def verify(
    run_folder: Run,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Prove every distance of every source, instead of a sample.")
    ] = False,
    store: MovedStore = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="`here` for threads of this process, or the address of a Dask scheduler, "
            "in place of the workflow's cluster.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Read the distances of a finished run and check them. The exit code is 3 if one is wrong."""
    with reporting(log, quiet, verbose, as_json) as progress:
        prepare_imports()
        from sssp_pipeline.pipeline.results.outputs.outputs import recorded_output
        from sssp_pipeline.pipeline.run.completed_run import verify_run
        from sssp_pipeline.workflow.cluster import cluster_named

        progress.about(run=redacted(run_folder))
        where = None if cluster is None else cluster_named(cluster)
        record = verify_run(run_folder, store, "certificate" if certificate else "sample", progress, where)
        verdict = recorded_output(record).verdict(record["graph"]["weights"]["dtype"])
        if as_json or not quiet:
            print_answer(json.dumps(record["verify"]) if as_json else f"every checked {verdict}")


def inspect(
    url: Annotated[
        str, typer.Argument(metavar="STORE|RUN|EDGES", help="A graph store, a run folder, or an edge list.")
    ],
    overrides: Overrides = [],  # noqa: B006
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Show the content of a graph store or a run folder, or how an edge list would be read. --set is for edge lists."""
    with reporting(log, as_json=as_json):
        from sssp_pipeline.pipeline.run.inspect import describe

        facts = describe(url, overrides)
        print_answer(json.dumps(facts) if as_json else table(facts))


def stores(
    folder: Annotated[
        str | None, typer.Argument(metavar="[FOLDER]", help="Where to look. Default: the current folder.")
    ] = None,
    remove: Annotated[
        list[str],
        typer.Option(
            "--remove", metavar="STORE", help="Remove this graph store, as listed. May be repeated."
        ),
    ] = [],  # noqa: B006
    log: Log = "text",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the graph stores below a folder with input, size and last use, or remove some of them.

    A store that a run or an ingest on this machine uses is not removed. Runs that were solved on a removed store stay,
    but have no more paths, and cannot be verified.
    """
    with reporting(log, quiet, as_json=as_json) as progress:
        from sssp_pipeline.base.progress import in_bytes, plural
        from sssp_pipeline.pipeline.graph_store import stores as of_folder

        if not remove:
            found = of_folder.find_stores("." if folder is None else folder)
            if as_json:
                print_answer(json.dumps([store.facts() for store in found]))
                return
            if found:
                rows = [store.row() for store in found]
                print_answer(columns([("store", "size", "last used", "input"), *rows]))
            total = in_bytes(sum(store.bytes for store in found))
            progress.say(f"{plural(len(found), 'graph store')}, {total}" if found else "no graph store here")
            return
        if folder is not None:
            raise InputError(
                f"`{redacted(folder)}` is given beside `--remove`",
                hint="name each graph store by its path: `--remove STORE`",
            )
        chosen = list(dict.fromkeys(remove))
        for store in chosen:
            of_folder.check_is_store(store)
        freed = {redacted(store): of_folder.remove_store(store) for store in chosen}
        if as_json:
            print_answer(json.dumps([{"store": store, "bytes": n} for store, n in freed.items()]))
        elif not quiet:
            print_answer("\n".join(f"removed {store}: {in_bytes(n)}" for store, n in freed.items()))


def export(
    given: Annotated[
        str,
        typer.Argument(metavar="RUN|STORE", help="Folder (output.path) of a finished run, or a graph store."),
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="What to write. Of a run: `.parquet`, `.csv`, `.csv.gz`, `.npy`, `.zarr` or `.omx`. Of a graph store: "
            "`.mtx`, `.npz`, `.graph`, `.metis` or `.parquet`; or `.gr` with --format.",
        ),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Names of the columns in a table. Default: source,vertex,distance of a run, source,target,weight of a "
            "graph store.",
        ),
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Of a run: leave out the pairs without a path; only in a table.")
    ] = False,
    unreached: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="Of a run: number for pairs without a path. Default: NULL, in arrays infinity."
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Of a graph store: dimacs, galois, matrix-market, metis, parquet or scipy-npz, where the name of FILE "
            "does not tell.",
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a graph store with several weights: the one to write."),
    ] = None,
    vertices: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of a graph store: also write a table of the vertices (`.parquet`) with number, id and coordinates.",
        ),
    ] = None,
    log: Log = "text",
    quiet: Quiet = False,
) -> None:
    """Write the distances or the answers of a finished run, or the graph of a graph store, to one file.

    The distances are a matrix with a row for each source; as `.zarr` they are a group. Answers are a table.
    """
    with reporting(log, quiet) as progress:
        prepare_imports()
        from sssp_pipeline.pipeline.graph_store.store import is_store

        names = None if columns is None else columns.split(",")
        of_store = {"--format": file_format, "--weight": weight, "--vertices": vertices}
        if is_store(given):
            _refuse(given, "a graph store", "a run", {"--sparse": sparse or None, "--unreached": unreached})
            from sssp_pipeline.api.graphs.graphs import open_store

            progress.about(store=redacted(given))
            progress.stage("export")
            chosen = {} if names is None else {"columns": names}
            stored = open_store(given, weight=weight)
            written = stored.export(file, format=file_format, vertices=vertices, progress=progress, **chosen)
        else:
            _refuse(given, "no graph store", "a graph store", of_store)
            from sssp_pipeline.pipeline.results.exports.matrices.matrix_export import COLUMNS, export_matrix
            from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

            folder = RunFolder(given)
            if not folder.is_begun() and not folder.runs_of_weights():
                raise InputError(
                    f"`{redacted(given)}` is neither a run nor a graph store", hint="name the folder of one"
                )
            progress.about(run=redacted(given))
            progress.stage("export")
            export_matrix(
                folder, file, columns=names or COLUMNS, sparse=sparse, unreached=unreached, progress=progress
            )
            written = [file]
        if not quiet:
            for name in written:
                print_answer(redacted(name))


def _refuse(given: str, what: str, owner: str, options: dict[str, Any]) -> None:
    """Raise `InputError` if one of the `options`, which go with `owner`, is set."""
    if name := next((name for name, value in options.items() if value is not None), None):
        raise InputError(
            f"`{name}` goes with {owner}, and `{redacted(given)}` is {what}", hint=f"leave out `{name}`"
        )


def path(
    run_folder: Run,
    source: Annotated[
        str, typer.Option("--from", metavar="ID", help="Where the path begins: a source of the run.")
    ],
    target: Annotated[str, typer.Option("--to", metavar="ID", help="Where the path ends: any vertex.")],
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="WEIGHT|STORE",
            help="Also add up other weights along the path: another weight of the graph store, or those of another "
            "graph store with the same ids.",
        ),
    ] = None,
    store: MovedStore = None,
    as_geojson: Annotated[
        bool,
        typer.Option("--geojson", help="Print a Feature of GeoJSON. The graph store must have coordinates."),
    ] = False,
    coordinates: Coordinates = "auto",
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Show a shortest path of a finished run: its length and the ids of its vertices."""
    with reporting(log, as_json=as_json) as progress:
        if as_json and as_geojson:
            raise InputError("`--json` and `--geojson` contradict each other", hint="leave one of them out")
        if coordinates != "auto" and not as_geojson:
            raise InputError("`--coordinates` goes with `--geojson`", hint="add `--geojson`, or leave it out")
        prepare_imports()
        from sssp_pipeline.api.runs.of_words import path_of_words
        from sssp_pipeline.api.runs.stored_run import open_run

        progress.about(run=redacted(run_folder))
        progress.stage("find path")
        found = path_of_words(open_run(run_folder), source, target, store)
        if as_geojson:
            feature = found.geojson(cost, coordinates=coordinates)
            if coordinates == "auto":
                unit = feature["properties"]["coordinates"]
                progress.say(f"coordinates read as longitude and latitude in {unit}")
            print_answer(json.dumps(feature))
        else:
            facts = found.to_dict(cost)
            print_answer(json.dumps(facts) if as_json else path_text(facts))


def paths(
    run_folder: Run,
    pairs: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="CSV, text, Parquet or Arrow file with a column of sources and one of targets. "
            "`-` is standard input.",
        ),
    ],
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="What to write: `.parquet`, `.csv`, `.csv.gz` or `.geojson`."),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Columns of PAIRS. Default: source and target, from and to, or the like; without a "
            "header the first two.",
        ),
    ] = None,
    store: MovedStore = None,
    coordinates: Coordinates = "auto",
    log: Log = "text",
    quiet: Quiet = False,
) -> None:
    """Write a shortest path of a finished run for each pair in a file, with one search for each source."""
    with reporting(log, quiet) as progress:
        if coordinates != "auto" and not file.endswith(".geojson"):
            raise InputError("`--coordinates` goes with a `.geojson` file", hint="leave it out")
        prepare_imports()
        from sssp_pipeline.api.runs.of_words import paths_of_words
        from sssp_pipeline.api.runs.stored_run import open_run

        progress.about(run=redacted(run_folder))
        progress.stage("find paths")
        paths_of_words(open_run(run_folder), pairs, columns, store).write(file, progress, coordinates)
        if not quiet:
            print_answer(redacted(file))


def isochrones(
    run_folder: Run,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="What to write: `.parquet` (GeoParquet), `.geojson` or `.gpkg`."),
    ],
    limits: Annotated[
        str, typer.Option(metavar="A,B,…", help="Largest distances, in the unit of the weights.")
    ],
    sources: Annotated[
        list[str],
        typer.Option(
            "--from", metavar="ID", help="A source of the run; may be repeated. Default: every source."
        ),
    ] = [],  # noqa: B006
    buffer_m: Annotated[
        float, typer.Option(metavar="METRES", help="How far a place may be from a reached road.")
    ] = 100,
    coordinates: Coordinates = "auto",
    store: MovedStore = None,
    log: Log = "text",
    quiet: Quiet = False,
) -> None:
    """Write the area that is reached within each limit, for each source of a finished run."""
    with reporting(log, quiet) as progress:
        prepare_imports()
        from sssp_pipeline.api.runs.of_words import isochrones_of_words
        from sssp_pipeline.api.runs.stored_run import open_run

        progress.about(run=redacted(run_folder))
        progress.stage("isochrones")
        areas = isochrones_of_words(open_run(run_folder), limits, sources, buffer_m, coordinates, store)
        if coordinates == "auto":
            progress.say(f"coordinates read as longitude and latitude in {areas.coordinates}")
        areas.write(file, progress)
        if not quiet:
            print_answer(redacted(file))
