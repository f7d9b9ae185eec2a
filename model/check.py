"""Checks the model of the `adds` queue with spin, exhaustively: `python model/check.py [case …]`.

The protocol must hold in every configuration, and each mutation of it must be found out. Prints a line a case
and exits with 1 if any of them came out otherwise. Needs `spin` and a C compiler (Debian: `apt-get install spin gcc`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).parent / "adds_queue.pml"
#: What a mutation must be found out by.
UNWRITTEN = "id!=0"
WORKING = "working[b]==0"
NEVER_ENDS = "acceptance cycle"
#: Seconds for one search; the largest takes 7 s on one core.
PATIENCE_S = 120


@dataclass(frozen=True)
class Case:
    """A configuration of the model, or a mutation of the protocol.

    Attributes
    ----------
    options
        What is defined for the model.
    found
        Part of the fault that spin must report; None where the protocol must hold.
    """

    options: tuple[str, ...]
    found: str | None = None

    @property
    def is_liveness(self) -> bool:
        return "LIVENESS" in self.options


@dataclass(frozen=True)
class Outcome:
    """What spin said: the faults it found, None if none, and how many states it visited."""

    fault: str | None
    states: int
    seconds: float


LIVE = ("LIVENESS", "MAX_WORDS=3")
CASES = {
    "2 workers": Case(()),
    "3 workers": Case(("N_WORKERS=3", "MAX_WORDS=3")),
    "2 head buckets of 3": Case(("N_BUCKETS=3", "N_HEADS=2", "MAX_WORDS=3", "N_BLOCKS=6")),
    "chains": Case(("CHAIN=2", "MAX_WORDS=3")),
    "rebinning": Case(("REBIN", "MAX_WORDS=2")),
    "chains and rebinning": Case(("CHAIN=1", "REBIN", "MAX_WORDS=2")),
    "everybody leaves": Case(LIVE),
    "everybody leaves with chains and rebinning": Case(("LIVENESS", "CHAIN=1", "REBIN", "MAX_WORDS=2")),
    "everybody leaves an exhausted pool": Case((*LIVE, "N_BLOCKS=2")),
    "flags read late": Case(("LATE_FLAGS", "MAX_WORDS=3")),
    "F1 dropped": Case(("DROP_F1",), UNWRITTEN),
    "F2 dropped": Case(("DROP_F2",), UNWRITTEN),
    "F5 dropped": Case(("DROP_F5",), WORKING),
    "F6 dropped": Case(("DROP_F6",), "own_waiting[b]==0"),
    "F7 dropped": Case((*LIVE, "DROP_F7"), NEVER_ENDS),
    "completed when assigned": Case(("COUNT_AT_ASSIGN",), WORKING),
    "freed when read": Case(("FREE_WHEN_READ",), WORKING),
    "end without looking at flags": Case(("END_IGNORES_FLAGS",), "waiting[b]==0"),
    "one sweep, flags read late": Case(("ONE_SWEEP", "LATE_FLAGS"), "waiting[b]==0"),
    "completed before the chain": Case(("CHAIN=1", "CHAIN_AFTER_COMPLETED"), WORKING),
    "completed before a word goes back": Case(("REBIN", "MAX_WORDS=3", "REBIN_AFTER_COMPLETED"), WORKING),
    "no mapping ahead": Case((*LIVE, "NO_MAPPING_AHEAD"), NEVER_ENDS),
    "no poison": Case((*LIVE, "NO_POISON", "N_BLOCKS=2"), NEVER_ENDS),
}


def missing() -> str | None:
    """Return what of the tools is not installed, or None."""
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            return f"`{tool}` is not installed (Debian: `apt-get install spin gcc`)"
    return None


def check(case: Case) -> Outcome:
    """Return what an exhaustive search of `case` finds.

    Raises
    ------
    RuntimeError
        The search was not exhaustive: a tool failed, or memory or depth ran out.
    """
    began = time.monotonic()
    kind = "-DNFAIR=5" if case.is_liveness else "-DSAFETY"
    with tempfile.TemporaryDirectory() as folder:

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            if done.returncode != 0:
                raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
            return done.stdout

        run("spin", *(f"-D{option}" for option in case.options), "-a", str(MODEL))
        run("gcc", "-O1", "-w", kind, "-DCOLLAPSE", "-DMEMLIM=3000", "-o", "pan", "pan.c")
        said = run("./pan", "-m200000", *(("-a", "-f") if case.is_liveness else ()))
    errors, states = re.search(r"errors: (\d+)", said), re.search(r"(\d+) states, stored", said)
    fault = re.search(r"^pan:1: (.*) \(at depth", said, re.MULTILINE)
    if errors is None or states is None or (errors[1] != "0") != (fault is not None):
        raise RuntimeError(f"spin's answer is not understood: {said}")
    if fault is None and ("Search not completed" in said or "max search depth too small" in said):
        raise RuntimeError(f"the search was not exhaustive: {said}")
    return Outcome(fault[1] if fault else None, int(states[1]), time.monotonic() - began)


def verdict(case: Case, outcome: Outcome) -> str | None:
    """Return what is wrong with `outcome`, or None if it is what `case` wants."""
    if case.found is None:
        return None if outcome.fault is None else f"the protocol is broken: {outcome.fault}"
    if outcome.fault is None:
        return "the mutation was not found out"
    squeezed = outcome.fault.replace("(", "").replace(")", "")
    return None if case.found in squeezed else f"found out by `{outcome.fault}`, wanted `{case.found}`"


def main(names: list[str]) -> int:
    """Check the named cases, or all; return the exit code."""
    if (lacks := missing()) is not None:
        sys.stderr.write(f"error: {lacks}\n")
        return 1
    failed = 0
    for name in names or CASES:
        outcome = check(CASES[name])
        wrong = verdict(CASES[name], outcome)
        failed += wrong is not None
        sys.stdout.write(
            f"{name}: {wrong or 'as it should be'} ({outcome.states} states, {outcome.seconds:.1f} s)\n"
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
