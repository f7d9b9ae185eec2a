"""What a user sees of an interrupt that Python drops."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys
from sssp_pipeline.base import interrupts

sys.unraisablehook = interrupts.unraisable
interrupts.install()

class Busy:
    def __del__(self):
        {raised}

Busy()
interrupts.check()
"""


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        # The finaliser's own traceback is not printed; the one of `check` is.
        ("signal.raise_signal(signal.SIGINT)", -2, "in check"),
        ("raise ValueError('lost')", 0, "ValueError: lost"),
    ],
)
def test_an_interrupt_in_a_finaliser_is_raised_later_and_not_printed(raised, code, told):
    program = PROGRAM.format(raised=raised)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode in (code, 130 if code else code)
    assert told in done.stderr
    assert ("Exception ignored" in done.stderr) == (code == 0)
