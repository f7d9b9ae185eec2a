"""What every command shares: its process, its console, its answer and its exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.shown import lines_as_text
from sssp_pipeline.commands.command_line import check_words, resume_command
from sssp_pipeline.commands.console import Console, LogFormat, Loudness, console
from sssp_pipeline.storage.redaction import without_secrets

#: The exit code after Ctrl-C, as shells report it.
EXIT_INTERRUPTED = 130
PROGRAM = "sssp-pipeline"


@dataclass
class Process:
    """What a process knows of the command that it runs."""

    #: Whether it runs one command and nothing else.
    is_own: bool = False
    #: When it began its command, as `time.perf_counter()` says it; None if it does other things too.
    began: float | None = None
    #: The folder of a run with a date in its path, which an interrupted run continues; None without a date.
    dated_folder: str | None = None
    #: The console of the command. Its moving line is removed before an answer is printed.
    console: Console | None = None


process = Process()


def prepare_imports() -> None:
    """Leave out optional packages in a process that runs one command; importing them is slow."""
    if process.is_own:
        from sssp_pipeline.base.lazy import leave_out_optional_packages

        leave_out_optional_packages()


def stdout_failure() -> OSError | None:
    """Return why standard output could not be written. A reader such as `head` that closes early is no failure."""
    failure: OSError | None = getattr(sys.stdout, "failure", None)
    return None if isinstance(failure, BrokenPipeError) else failure


def print_answer(text: str) -> None:
    """Write the answer of a command to standard output; raise `SsspError` if that fails.

    JSON is to be ASCII, as `json.dumps` writes it: then all of it is shown as it is.
    """
    if process.console is not None:
        process.console.settle()
    print(lines_as_text(text), flush=True)
    if (failure := stdout_failure()) is not None:
        raise SsspError(
            f"standard output cannot be written: {failure.strerror}",
            hint="send standard output elsewhere, and run the same command again",
        )


#: What Python and the loader of libraries say if the system gives them no memory, which are no `MemoryError`.
_NO_MORE = ("can't start new thread", "failed to map segment from shared object", "Cannot allocate memory")


@contextmanager
def reporting(
    log: LogFormat, quiet: bool = False, verbose: bool = False, as_json: bool = False
) -> Iterator[Console]:
    """Give a console. Turn errors into messages and exit codes, and Ctrl-C into the command that continues.

    With `as_json` an error is also written to standard output as a JSON object.
    """
    interrupts.install()
    loudness: Loudness = "quiet" if quiet else "verbose" if verbose else "normal"
    shell = process.console = console(log, loudness=loudness)

    def failed(message: str, hint: str | None, exit_code: int) -> typer.Exit:
        message, hint = without_secrets(message), hint and without_secrets(hint)
        shell.failed(message, hint, exit_code)
        if as_json:
            _print_failure(message, hint, exit_code)
        return typer.Exit(exit_code)

    try:
        with shell:
            if quiet and verbose:
                raise InputError(
                    "`--quiet` and `--verbose` contradict each other", hint="leave one of them out"
                )
            check_words(sys.argv[1:])
            yield shell
        shell.succeeded()
    except SsspError as error:
        raise failed(error.message, error.hint, error.exit_code) from None
    except MemoryError as error:
        raise failed(
            f"not enough memory: {error or 'an allocation failed'}",
            "use a machine with more memory, a smaller graph, or a smaller `solve.batch` or `output.columns_per_file`",
            exit_code=1,
        ) from None
    except KeyboardInterrupt:
        again = resume_command(PROGRAM, sys.argv[1:], process.dated_folder)
        shell.interrupted(again, EXIT_INTERRUPTED)
        if as_json:
            _print_failure("interrupted", "run the same command again to go on", EXIT_INTERRUPTED)
        from sssp_pipeline.pipeline.solving.workers import fork_server

        fork_server.remove_socket()
        # After a second Ctrl-C threads still solve. A normal exit would wait for them.
        os._exit(EXIT_INTERRUPTED)
    except Exception as error:
        if any(text in str(error) for text in _NO_MORE):
            hint = (
                "raise the limits of this process, which `ulimit -a` shows, or use a machine with more memory"
            )
            raise failed(f"the system gives no more memory or threads: {error}", hint, exit_code=1) from None
        if as_json:
            _print_failure(without_secrets(f"{type(error).__name__}: {error}"), "report this as a bug", 1)
        shell.crashed(error)
        raise typer.Exit(1) from None


def _print_failure(message: str, hint: str | None, exit_code: int) -> None:
    print(json.dumps({"error": message, "hint": hint, "exit_code": exit_code}), flush=True)
