"""The commands that read a finished run: `export`, `path` and `isochrones`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sssp_pipeline.cli_options import Coordinates, Json, Log, MovedStore, Quiet, Run
from sssp_pipeline.cli_session import prepare_imports, print_answer, reporting
from sssp_pipeline.console import path_text
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage.redaction import redacted


def export(
    run_folder: Run,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What to write: `.parquet`, `.npy` or `.zarr`.")
    ],
    columns: Annotated[
        str, typer.Option(metavar="A,B,C", help="Names in a Parquet file: of source, vertex and distance.")
    ] = "source,vertex,distance",
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Leave out the pairs without a path; only for Parquet.")
    ] = False,
    unreached: Annotated[
        float | None,
        typer.Option(metavar="N", help="Number for pairs without a path. Default: NULL, in arrays infinity."),
    ] = None,
    log: Log = "text",
    quiet: Quiet = False,
) -> None:
    """Write the distances of a finished run to one file or Zarr group: a matrix with a row for each source."""
    with reporting(log, quiet) as progress:
        prepare_imports()
        from sssp_pipeline.pipeline.results.matrix_export import export_matrix
        from sssp_pipeline.pipeline.results.run_folder import RunFolder

        progress.about(run=redacted(run_folder))
        progress.stage("export")
        names = columns.split(",")
        export_matrix(
            RunFolder(run_folder), file, columns=names, sparse=sparse, unreached=unreached, progress=progress
        )
        if not quiet:
            print_answer(redacted(file))


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
        from sssp_pipeline.api.of_words import path_of_words
        from sssp_pipeline.api.stored_run import open_run

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


def isochrones(
    run_folder: Run,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The GeoParquet file to write.")],
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
    """Write the area that is reached within each limit, for each source of a finished run, as GeoParquet."""
    with reporting(log, quiet) as progress:
        prepare_imports()
        from sssp_pipeline.api.of_words import isochrones_of_words
        from sssp_pipeline.api.stored_run import open_run

        progress.about(run=redacted(run_folder))
        progress.stage("isochrones")
        areas = isochrones_of_words(open_run(run_folder), limits, sources, buffer_m, coordinates, store)
        if coordinates == "auto":
            progress.say(f"coordinates read as longitude and latitude in {areas.coordinates}")
        areas.write(file, progress)
        if not quiet:
            print_answer(redacted(file))
