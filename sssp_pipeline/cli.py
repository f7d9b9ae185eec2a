"""The command line: which commands there are, and how the process of one begins and ends.

A command imports what it needs when it runs, so that `--help` is instant and needs no GPU.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from typing import Annotated, Literal, NoReturn

import typer

from sssp_pipeline import __version__
from sssp_pipeline.base import interrupts
from sssp_pipeline.commands import bench, first_steps, stages, stored
from sssp_pipeline.commands.command_line import OnceCommand, OnceGroup
from sssp_pipeline.commands.console import open_streams
from sssp_pipeline.commands.session import PROGRAM, print_answer, process, reporting, stdout_failure

#: The commands in the order of `--help`, each with an example.
COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (stages.run, "run roads.csv --from 17 --from 42 --to depots.txt --out results"),
    (stages.solve, "solve workflow.yaml --set solve.solver=dijkstra"),
    (stages.ingest, "ingest workflow.yaml --set graph.directed=false"),
    (stages.plan, "plan roads.csv --from random:1000 --out results"),
    (stored.verify, "verify results --certificate"),
    (stored.export, "export results skims.parquet --columns otaz,dtaz,TIME"),
    (stored.path, "path results --from 17 --to 42 --geojson"),
    (stored.paths, "paths results pairs.csv paths.parquet"),
    (stored.isochrones, "isochrones results areas.parquet --limits 600,1200"),
    (stored.inspect, "inspect results"),
    (stored.stores, "stores --remove roads-graph-02eb58a7"),
    (first_steps.solvers, "solvers"),
    (first_steps.doctor, "doctor"),
    (first_steps.init, "init roads.yaml"),
)
BENCH_COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (bench.run, "bench run bench.yaml --graph roads --set runs=3"),
    (bench.report, "bench report bench/lines.jsonl --output page"),
)


def _example(words: str) -> str:
    return f"Example: {PROGRAM} {words}"


app = typer.Typer(
    name=PROGRAM,
    cls=OnceGroup,
    help="Exact shortest paths from many sources over big graphs: edge lists in, distances in Parquet out.",
    epilog=_example("run roads.csv --from 17 --out results"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Typer's own options guess the shell. The options of `_top` name it.
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
        print_answer(__version__)
        raise typer.Exit
    if install_completion or show_completion:
        from sssp_pipeline.commands import shell_completion as completion

        if install_completion:
            with reporting("text"):
                print_answer(completion.install(install_completion, PROGRAM))
        if show_completion:
            print_answer(completion.script(show_completion, PROGRAM))
        raise typer.Exit


for _command, _words in COMMANDS:
    app.command(cls=OnceCommand, epilog=_example(_words))(_command)
_bench = typer.Typer(
    help="Measure solvers on graphs, and make tables and figures like those of the papers.",
    epilog=_example("bench run bench.yaml --output measured"),
    no_args_is_help=True,
)
for _command, _words in BENCH_COMMANDS:
    _bench.command(cls=OnceCommand, epilog=_example(_words))(_command)
app.add_typer(_bench, name="bench")


def _keep_only(words: list[str]) -> None:
    """Keep the command that `words` begin with, if they do: Typer prepares all commands, and only one is run."""
    typed = [info for info in app.registered_commands if getattr(info.callback, "__name__", "") in words[:1]]
    if typed:
        app.registered_commands, app.registered_groups = typed, []


def end_process(exit_code: int) -> NoReturn:
    """End the process. Python's own exit waits for threads, which still work after an error, and is slower."""
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(exit_code)


def main() -> None:
    """Run the command line and exit with a code that the README documents."""
    import gc

    process.is_own, process.began = True, time.perf_counter()
    sys.unraisablehook = interrupts.unraisable
    # Imports make 250,000 objects that live on. Fewer collections save a tenth of a second.
    gc.set_threshold(300_000, 20, 20)
    # Otherwise pydantic searches all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Otherwise NumPy starts a thread on each core for its linear algebra, which no command uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_streams()
    if f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE" in os.environ:
        from sssp_pipeline.commands import shell_completion as completion

        print_answer(completion.answer(app, PROGRAM))
        return
    _keep_only(sys.argv[1:])
    exit_code = 0
    try:
        app(prog_name=PROGRAM)
    except SystemExit as ended:
        exit_code = int(ended.code or 0)
    sys.stdout.flush()
    end_process(exit_code or (1 if stdout_failure() else 0))


if __name__ == "__main__":
    main()
