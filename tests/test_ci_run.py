"""`.ci/run` with a `make` that only writes down its targets: exit codes, and that nothing goes on after the end."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.medium

CI = Path(__file__).parents[1] / ".ci" / "run"
#: Waits in the target `WAITS` and fails in `FAILS` with code 7.
MAKE = """#!/bin/bash
for target in "$@"; do
    case $target in *=*) continue ;; esac
    echo "$target" >>"$NOTES/begun"
    [ "$target" != "$WAITS" ] || { echo $$ >"$NOTES/pid" && sleep 60; }
    [ "$target" != "$FAILS" ] || exit 7
    echo "$target" >>"$NOTES/done"
done
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that starts a copy of `.ci/run`."""
    for name, text in {
        **dict.fromkeys(("python3.11", "python3.13", "apt-get", "npm"), "#!/bin/bash\n"),
        "make": MAKE,
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    copy = tmp_path / "checkout" / ".ci" / "run"
    copy.parent.mkdir(parents=True)
    copy.write_text(CI.read_text())
    (tmp_path / "logs").mkdir()
    (tmp_path / "done").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "logs"))
    monkeypatch.setenv("NOTES", str(tmp_path))
    monkeypatch.setenv("WAITS", "")
    monkeypatch.setenv("FAILS", "")
    # A shell cannot trap a signal that was ignored when it began.
    command = ["env", "--default-signal", "bash", str(copy)]
    return partial(subprocess.Popen, command, stdout=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.parametrize("fails", ["", "lint", "test-lowest", "test-most", "test-slow"])
def test_the_exit_code_is_that_of_the_part_that_fails(start, tmp_path, monkeypatch, fails):
    monkeypatch.setenv("FAILS", fails)
    assert start().wait(timeout=60) == (7 if fails else 0)
    begun = (tmp_path / "begun").read_text().split()
    if fails != "lint":
        assert {"test-lowest", "test-most", "test-slow"} < set(begun)
    assert not list((tmp_path / "logs").iterdir())


def test_without_the_oldest_python_nothing_passes(start, tmp_path, monkeypatch):
    (tmp_path / "python3.11").write_text("#!/bin/bash\nexit 127\n")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    process = start(stderr=subprocess.PIPE, text=True)
    assert process.communicate(timeout=60)[1] == (
        "error: there is no Python 3.11 to test the lowest versions with\n\n"
        "hint: install it, for example with pyenv\n"
    )
    assert process.returncode == 1
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("waits", ["lint", "test-lowest", "test-slow"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_all_parts(start, tmp_path, monkeypatch, wait_until, waits, name):
    monkeypatch.setenv("WAITS", waits)
    process = start()
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    process.send_signal(getattr(signal, name))
    assert process.wait(timeout=20) == 128 + getattr(signal, name)
    assert waits not in (tmp_path / "done").read_text().split()
    wait_until(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists())
    assert not list((tmp_path / "logs").iterdir())
