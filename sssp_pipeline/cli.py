"""The command line: parse, call, print.

Nothing heavy is imported before a command needs it, so that `--help` is instant and works anywhere.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sssp_pipeline import __version__, interrupts
from sssp_pipeline.console import (
    Console,
    LogFormat,
    Loudness,
    columns,
    console,
    open_streams,
    table,
)
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline.storage.redaction import without_secrets

if TYPE_CHECKING:
    from sssp_pipeline.workflow.models import Workflow

#: What a shell reports for a command ended by Ctrl-C.
EXIT_INTERRUPTED = 130
PROGRAM = "sssp-pipeline"

app = typer.Typer(
    name=PROGRAM,
    help="Exact shortest paths from many sources over big graphs: edge lists in, distances in Parquet out.",
    epilog="Example: sssp-pipeline run roads.csv --from 17 --out results",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Typer's own options guess the shell from the environment; the options of `_top` name it.
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(
    help="Measure solvers on graphs, and show what was measured as the papers do.",
    epilog="Example: sssp-pipeline bench run bench.yaml --output measured",
    no_args_is_help=True,
)
app.add_typer(bench, name="bench")


def _completed(incomplete: str) -> list[str]:
    from sssp_pipeline.completion import overrides

    return overrides(incomplete)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="WORKFLOW|EDGES…",
        help="A workflow file, whose name ends in .yaml or .yml; or edge lists, with --from. `-` and pipes are a "
        "workflow without --from, and an edge list with it.",
    ),
]
From = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="SOURCES",
        help="Where paths begin, for edge lists: an id (may be repeated), a file of ids, `all`, `random:64` or "
        "`top-degree:10`. `id:17` is an id and `file:17` a file, whatever there is.",
    ),
]
To = Annotated[
    list[str],
    typer.Option(
        "--to", metavar="TARGETS", help="Where paths end, in the forms of --from; left out, every vertex."
    ),
]
Out = Annotated[
    str | None, typer.Option("--out", metavar="FOLDER", help="Folder or URL of the results, for edge lists.")
]
SaveWorkflow = Annotated[
    Path | None,
    typer.Option(
        "--save-workflow", metavar="FILE", help="Also write a workflow file that does the same; must be new."
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the workflow: solve.delta=500.",
        autocompletion=_completed,
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Remove the earlier run from the output folder first, other files not."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, for programs; also what went wrong.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show more, such as how solvers compare.")]
Log = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        metavar="text|json",
        envvar="SSSP_LOG_FORMAT",
        help="What goes to standard error: text, or a JSON object a line; also set by SSSP_LOG_FORMAT.",
    ),
]


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("-V", "--version", help="Print the release and exit.")] = False,
    install_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(metavar="bash|zsh|fish", help="Let this shell complete commands, options and values."),
    ] = None,
    show_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(metavar="bash|zsh|fish", help="Print what --install-completion would install."),
    ] = None,
) -> None:
    if version:
        _print(__version__)
        raise typer.Exit
    if install_completion or show_completion:
        from sssp_pipeline import completion

        if install_completion:
            with _told("text"):
                _print(completion.install(install_completion, PROGRAM))
        if show_completion:
            _print(completion.script(show_completion, PROGRAM))
        raise typer.Exit


@app.command(epilog="Example: sssp-pipeline run roads.csv --from 17 --from 42 --to depots.txt --out results")
def run(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Overwrite = False,
    save_workflow: SaveWorkflow = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Do all of it: ingest, solve, verify, report. Running it again goes on where it stopped."""
    with _told(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress)
        _get_ready()
        from sssp_pipeline.pipeline.run import run as run_pipeline

        folder, record = run_pipeline(workflow, progress, overwrite=overwrite)
        _show_run(folder.url, record, quiet, as_json)


@app.command(epilog="Example: sssp-pipeline solve workflow.yaml --set solve.solver=dijkstra")
def solve(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Overwrite = False,
    save_workflow: SaveWorkflow = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Solve on a graph store that is there already, without verify and report."""
    with _told(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress, needs_input=False)
        _get_ready()
        from sssp_pipeline.pipeline.run import run as run_pipeline

        folder, record = run_pipeline(workflow, progress, may_ingest=False, finish=False, overwrite=overwrite)
        _show_run(folder.url, record, quiet, as_json)


@app.command(epilog="Example: sssp-pipeline ingest workflow.yaml --set graph.directed=false")
def ingest(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    remove_old_versions: Annotated[
        bool, typer.Option("--remove-old-versions", help="Keep the newest version of the graph alone.")
    ] = False,
    save_workflow: SaveWorkflow = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Turn the workflow's edge lists into a graph store, and stop there."""
    with _told(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress)
        _get_ready()
        from sssp_pipeline.pipeline.run import ingest_stage
        from sssp_pipeline.pipeline.storage import files as storage

        stored = ingest_stage(workflow, progress, remove_old_versions=remove_old_versions)
        if as_json:
            _print(stored.manifest.model_dump_json())
        elif not quiet:
            _print(storage.redacted(stored.store))


@app.command(epilog="Example: sssp-pipeline plan roads.csv --from random:1000 --out results")
def plan(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    save_workflow: SaveWorkflow = None,
    probe: Annotated[
        int, typer.Option(min=0, help="Sources to solve for the estimate of time; 0 for none.")
    ] = 2,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Tell what a run would do, and about how long it would take; ingests the graph if that is not done."""
    with _told(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress)
        _get_ready()
        from sssp_pipeline.pipeline.run import outlook

        facts = outlook(workflow, probe, progress)
        progress.settle()
        _print(json.dumps(facts) if as_json else table(facts))


@app.command(epilog="Example: sssp-pipeline verify results --certificate")
def verify(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="Folder (output.path) of a finished run.")],
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Prove every distance of every source, instead of a sample.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Graph store, when it is not where the run found it.")
    ] = None,
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
    """Read the distances of a finished run back and prove or refute them; exit code 3 when refuted."""
    with _told(log, quiet, verbose, as_json) as progress:
        _get_ready()
        from sssp_pipeline.pipeline.finished import verify_run
        from sssp_pipeline.pipeline.results.outputs import recorded_output
        from sssp_pipeline.pipeline.storage.files import redacted
        from sssp_pipeline.workflow.cluster import cluster_named

        progress.about(run=redacted(run_folder))
        where = None if cluster is None else cluster_named(cluster)
        record = verify_run(run_folder, store, "certificate" if certificate else "sample", progress, where)
        what = recorded_output(record).judged
        if as_json or not quiet:
            _print(json.dumps(record["verify"]) if as_json else f"every checked {what} is exact")


@app.command(epilog="Example: sssp-pipeline inspect results")
def inspect(
    url: Annotated[
        str,
        typer.Argument(metavar="STORE|RUN|EDGES", help="A graph store, a run folder, or an edge list."),
    ],
    overrides: Overrides = [],  # noqa: B006
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Show what is in a graph store or a run folder, or how an edge list would be read; --set is for edge lists."""
    with _told(log, as_json=as_json):
        from sssp_pipeline.pipeline import inspect as inspection
        from sssp_pipeline.pipeline.storage import files as storage

        if storage.is_file(url):
            from sssp_pipeline.workflow.options import workflow_from_options

            facts = inspection.describe_input(
                workflow_from_options([url], ["0"], (), "unused", overrides).graph
            )
        elif overrides:
            raise InputError(
                f"`--set` says how an edge list is read, and `{storage.redacted(url)}` is a folder or missing",
                hint="leave it out, or name an edge list",
            )
        else:
            facts = inspection.describe(url)
        _print(json.dumps(facts) if as_json else table(facts))


@app.command(epilog="Example: sssp-pipeline solvers")
def solvers(as_json: Json = False) -> None:
    """List the solvers."""
    with _told("text", as_json=as_json):
        from sssp_pipeline.kernels import SOLVERS

        rows = [{"name": s.name, "device": s.device, "summary": s.summary} for s in SOLVERS.values()]
        _print(json.dumps(rows) if as_json else columns([tuple(row.values()) for row in rows]))


@app.command(epilog="Example: sssp-pipeline doctor")
def doctor(as_json: Json = False) -> None:
    """Tell what works on this machine, what does not, and what to do about it; exit code 1 if something is broken."""
    with _told("text", as_json=as_json):
        from dataclasses import asdict

        from sssp_pipeline.pipeline.machine import diagnose

        checks = diagnose()
        if as_json:
            _print(json.dumps([asdict(c) for c in checks]))
        else:
            rows = [(c.state, c.name, c.detail + (f"\nhint: {c.hint}" if c.hint else "")) for c in checks]
            _print(columns(rows))
    if any(c.state == "broken" for c in checks):
        raise typer.Exit(1)


@app.command(epilog="Example: sssp-pipeline init roads.yaml")
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("workflow.yaml"),
) -> None:
    """Write a commented workflow file to start from."""
    with _told("text"):
        if path.suffix.lower() not in (".yaml", ".yml"):
            raise InputError(
                f"`{path}` would not be taken for a workflow file", hint="name it with .yaml at its end"
            )
        template = resources.files("sssp_pipeline").joinpath("workflow/template.yaml").read_text()
        _write_new(path, template)
        _print(
            f"wrote {path}; set graph.input and output.path in it, then: sssp-pipeline run {shlex.quote(str(path))}"
        )


@bench.command("run", epilog="Example: sssp-pipeline bench run bench.yaml --graph roads --set runs=3")
def bench_run(
    file: Annotated[str, typer.Argument(metavar="BENCH", help="Path or URL of the bench file.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the lines and of the graph stores.")
    ] = Path("bench"),
    graphs: Annotated[
        list[str], typer.Option("--graph", metavar="NAME", help="Take this graph alone; may be repeated.")
    ] = [],  # noqa: B006
    overrides: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the bench file: runs=3."),
    ] = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Measure what is measured already, too.")] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Read or make the graphs, store them, and stop there.")
    ] = False,
    log: Log = "text",
) -> None:
    """Check and time every solver on every graph. Running it again goes on where it stopped."""
    with _told(log) as progress:
        from sssp_pipeline.bench.matrix import run_bench
        from sssp_pipeline.bench.variants import load_bench

        asked = load_bench(file, overrides)
        progress.about(run=str(output), name=asked.name)
        written = run_bench(asked, output, progress, graphs=graphs, again=again, prepare_only=prepare)
        progress.settle()
        _print(str(written))


@bench.command("report", epilog="Example: sssp-pipeline bench report bench/lines.jsonl --output page")
def bench_report(
    lines: Annotated[list[str], typer.Argument(metavar="LINES…", help="Files that `bench run` wrote.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the page, its tables and its figures.")
    ],
    baseline: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Over which speed-ups are given.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Which is compared with each other one.")
    ] = None,
    log: Log = "text",
) -> None:
    """Make the papers' tables and figures from lines: a Markdown page, CSV and, with matplotlib, SVG."""
    with _told(log) as progress:
        from sssp_pipeline.bench.report import write_report

        written = write_report(lines, output, progress, baseline=baseline, subject=subject)
        progress.settle()
        _print(str(written))


#: Whether this process does nothing but run one command.
_is_own_process = False


def _get_ready() -> None:
    """Prepare the imports of a command that reads or solves graphs."""
    if _is_own_process:
        from sssp_pipeline.lazy import leave_out_optional_packages

        leave_out_optional_packages()


def main() -> None:
    """Run the command line, and end with the exit code that the README documents."""
    import gc

    global _is_own_process
    _is_own_process = True
    # The imports make 250,000 objects that stay; looking at them again and again takes a tenth of a second.
    gc.set_threshold(300_000, 20, 20)
    # Pydantic would look through all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    open_streams()
    if f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE" in os.environ:
        from sssp_pipeline import completion

        _print(completion.answer(app, PROGRAM))
        return
    exit_code: int | str | None = 0
    try:
        app(prog_name=PROGRAM)
    except SystemExit as ended:
        exit_code = ended.code
    sys.stdout.flush()
    # Python's last collection would look at all that numba has made, for a third of a second.
    gc.freeze()
    sys.exit(exit_code or (1 if _stdout_failure() else 0))


def _stdout_failure() -> OSError | None:
    """Return why standard output could not be written; a reader that has seen enough, as `head`, is no failure."""
    failure: OSError | None = getattr(sys.stdout, "failure", None)
    return None if isinstance(failure, BrokenPipeError) else failure


def _print(text: str) -> None:
    """Write a command's answer to standard output; raise `SsspError` where that fails."""
    print(text, flush=True)
    if (failure := _stdout_failure()) is not None:
        raise SsspError(
            f"standard output cannot be written: {failure.strerror}",
            hint="lead standard output elsewhere, and run the same command again",
        )


def _load(
    inputs: list[str],
    sources: list[str],
    targets: list[str],
    out: str | None,
    overrides: list[str],
    save_as: Path | None,
    progress: Console,
    needs_input: bool = True,
) -> Workflow:
    """Return the workflow in a file, or the one that options describe; write it to `save_as` if that is given."""
    from sssp_pipeline.pipeline.storage.redaction import redacted

    files = {redacted(url): why for url in inputs if (why := _why_a_workflow(url, bool(sources)))}
    options = {"--from": sources, "--to": targets, "--out": out}
    given = [option for option, value in options.items() if value]
    for file, why in files.items():
        edges_too = "" if why == _BY_NAME else "for an edge list add `--from ID`; "
        if given:
            keys = {
                "--from": "sources={ids: [17]}",
                "--to": "output.targets={ids: [17]}",
                "--out": "output.path=FOLDER",
            }
            raise InputError(
                f"`{file}` is a workflow file {why}, and `{given[0]}` belongs to edge lists",
                hint=f"{edges_too}with a workflow file, write `--set '{keys[given[0]]}'`",
            )
        if len(inputs) > 1:
            raise InputError(
                f"`{file}` is a workflow file {why}, and it is one of {len(inputs)} inputs",
                hint=f"{edges_too}name one workflow file; `graph.input` in it may list several edge lists",
            )
    if not files and not sources:
        raise InputError(
            f"`{redacted(inputs[0])}` is no workflow file by its name, and no `--from` says where paths begin",
            hint="for an edge list add `--from ID`; the name of a workflow file ends in .yaml or .yml",
        )
    if save_as is not None and save_as.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(
            f"`{save_as}` would not be taken for a workflow file", hint="name it with .yaml at its end"
        )
    if files:
        _check_there(inputs, "check the path; `sssp-pipeline init` writes a workflow to start from")
    elif needs_input:
        _check_there(inputs)

    from sssp_pipeline.workflow.options import workflow_from_options
    from sssp_pipeline.workflow.yaml_file import load_workflow
    from sssp_pipeline.workflow.yaml_text import workflow_yaml

    if files:
        loaded = load_workflow(inputs[0], overrides)
        if needs_input:
            _check_there(loaded.graph.inputs, "correct `graph.input`, which names it, or create it")
    else:
        loaded = workflow_from_options(inputs, sources, targets, out, overrides)
    if loaded.is_dated:
        _to_go_on.extend(["--set", f"output.path={loaded.resolved()['output']['path']}"])
    progress.about(run=redacted(loaded.output.path), name=loaded.name)
    if save_as is not None:
        _write_new(save_as, workflow_yaml(loaded))
    return loaded


#: Why an input is taken for a workflow file, in words.
_BY_NAME, _WITHOUT_FROM = "by its name", "without `--from`"


def _why_a_workflow(url: str, has_from: bool) -> str | None:
    """Return why `url` is a workflow file; None if it is an edge list.

    A name that ends in `.yaml` or `.yml` is a workflow file. Standard input and pipes have no name that tells: they are
    a workflow file without `--from`, and an edge list with it.
    """
    path = re.split("[?#]", url)[0] if "://" in url else url
    if path.lower().endswith((".yaml", ".yml")):
        return _BY_NAME
    if has_from:
        return None
    from sssp_pipeline.pipeline.storage.pipes import is_pipe

    return _WITHOUT_FROM if is_pipe(url) else None


def _check_there(paths: Sequence[str], hint: str = "check the path, or the bucket and key") -> None:
    """Raise `InputError` if a local file is missing, before anything is imported that takes long.

    Whatever may be more than a plain path is left to `storage`.
    """
    for path in paths:
        if not re.search(r"[:*?\[]", path) and path != "-" and not os.path.exists(path):  # noqa: PTH110
            raise InputError(f"`{path}` does not exist", hint=hint)


def _write_new(path: Path, text: str) -> None:
    """Write `text` to a file that is not there yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"`{path}` exists already", hint="name another file") from None
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be written: {error.strerror}", hint="name a file in a folder that you may write"
        ) from error
    except UnicodeEncodeError as error:
        path.unlink()
        raise InputError(
            f"`{path}` cannot be written: a value is not UTF-8", hint="name files in UTF-8 only"
        ) from error


@contextmanager
def _told(
    log: LogFormat, quiet: bool = False, verbose: bool = False, as_json: bool = False
) -> Iterator[Console]:
    """Give a console; turn expected errors into messages and exit codes, and Ctrl-C into how to go on.

    With `as_json` standard output gets an object that says what went wrong.
    """
    interrupts.install()
    loudness: Loudness = "quiet" if quiet else "verbose" if verbose else "normal"
    told = console(log, loudness=loudness)

    def failed(message: str, hint: str | None, exit_code: int) -> typer.Exit:
        message, hint = without_secrets(message), hint and without_secrets(hint)
        told.failed(message, hint, exit_code)
        if as_json:
            _print_failure(message, hint, exit_code)
        return typer.Exit(exit_code)

    try:
        with told:
            if quiet and verbose:
                raise InputError(
                    "`--quiet` and `--verbose` contradict each other", hint="leave one of them out"
                )
            _check_words()
            yield told
        told.succeeded()
    except SsspError as error:
        raise failed(error.message, error.hint, error.exit_code) from None
    except MemoryError as error:
        raise failed(
            f"not enough memory: {error or 'no more can be had'}",
            "a machine with more memory, or a smaller graph or batch",
            exit_code=1,
        ) from None
    except KeyboardInterrupt:
        told.interrupted(_same_command(), EXIT_INTERRUPTED)
        if as_json:
            _print_failure("interrupted", "run the same command again to go on", EXIT_INTERRUPTED)
        # A second Ctrl-C comes here while threads still solve: what they have not committed counts for nothing.
        os._exit(EXIT_INTERRUPTED)
    except Exception as error:
        if as_json:
            _print_failure(without_secrets(f"{type(error).__name__}: {error}"), "report this as a bug", 1)
        told.crashed(error)
        raise typer.Exit(1) from None


def _check_words() -> None:
    """Raise `InputError` for a word of the command line that is not text: no file of this name could be opened."""
    for word in sys.argv[1:]:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode(errors="backslashreplace").decode()
            raise InputError(
                f"`{shown}` is not UTF-8 in this locale", hint="use a UTF-8 locale: `export LC_ALL=C.UTF-8`"
            ) from None


def _print_failure(message: str, hint: str | None, exit_code: int) -> None:
    print(json.dumps({"error": message, "hint": hint, "exit_code": exit_code}), flush=True)


#: Options that a command must not repeat when it goes on, and how many values each takes: what they ask for is done.
_ONCE = {"--save-workflow": 1, "--overwrite": 0}


#: What the command needs beside its words to go on: the folder in which a run with a date in its path has begun.
_to_go_on: list[str] = []


def _same_command() -> str:
    """Return the command as it was called, without the options `_ONCE`."""
    words: list[str] = []
    left_out = 0
    for word in sys.argv[1:]:
        option, equals, _ = word.partition("=")
        if left_out:
            left_out -= 1
        elif option in _ONCE:
            left_out = 0 if equals else _ONCE[option]
        else:
            words.append(word)
    return shlex.join([PROGRAM, *words, *_to_go_on])


def _show_run(url: str, record: dict[str, Any], quiet: bool, as_json: bool) -> None:
    if as_json:
        _print(json.dumps(record))
    if as_json or quiet:
        return
    from sssp_pipeline.pipeline.results.outputs import recorded_output
    from sssp_pipeline.pipeline.storage.files import redacted

    url = redacted(url).rstrip("/")
    _print(f"results: {url}")
    _print(f'query: duckdb -c "{recorded_output(record).query(url)}"')


if __name__ == "__main__":
    main()
