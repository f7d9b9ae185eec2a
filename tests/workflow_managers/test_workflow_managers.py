"""The examples of the page on workflow managers, each in its manager: a killed run continues, unusable input stops.

`SSSP_MANAGERS` names a folder with a virtual environment for each manager, by its name. Without it, managers are looked
for on the `PATH`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "workflow-managers.md"
#: How each manager runs its example, and how often it calls a command that ends with code 2.
MANAGERS = {
    "snakemake": (["snakemake", "-s", "roads.smk", "--cores", "2"], 4),
    "airflow": (["airflow", "dags", "test", "roads"], 1),
    "prefect": (["python", "roads_prefect.py"], 1),
    "dagster": (["dagster", "asset", "materialize", "--select", "*", "-f", "roads_dagster.py"], 1),
}
#: Takes the place of `sssp-pipeline`. It counts its calls, and kills the first run after some batches.
COMMAND = """\
import os, signal, subprocess, sys, time
from pathlib import Path

calls = Path("calls")
is_first = not calls.exists()
with calls.open("a") as log:
    log.write(" ".join(sys.argv[1:]) + chr(10))
many = ["--set", "sources.random.count=300", "--set", "solve.solver=dijkstra", "--set", "solve.batch=1"]
run = subprocess.Popen([os.environ["REAL_COMMAND"], *sys.argv[1:], *many])
while is_first and run.poll() is None:
    if len(list(Path("roads", "distances").glob("batch-*"))) > 4:
        run.kill()
        run.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
sys.exit(run.wait())
"""


def program(manager: str) -> Path:
    """Return the folder of the programs of a manager; skip the test if it is not installed."""
    if folder := os.environ.get("SSSP_MANAGERS"):
        found = Path(folder, manager, "bin").absolute()
        if (found / manager).exists():
            return found
    elif on_path := shutil.which(manager):
        return Path(on_path).parent
    pytest.skip(f"{manager} is not installed: `SSSP_MANAGERS` names a folder of virtual environments")


@pytest.fixture(params=MANAGERS)
def call(request, tmp_path):
    """Give a function that runs the example of a manager, and the folder in which it does."""
    bin_ = program(request.param)
    blocks = re.findall(r"```\w+\n(?:#|//) (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    ours = tmp_path / "bin" / "sssp-pipeline"
    ours.parent.mkdir()
    ours.write_text(f"#!{sys.executable}\n{COMMAND}")
    ours.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{ours.parent}:{bin_}:{os.environ['PATH']}",
        "REAL_COMMAND": str(Path(sysconfig.get_path("scripts"), "sssp-pipeline")),
        **{name: str(tmp_path / "home") for name in ("AIRFLOW_HOME", "PREFECT_HOME", "DAGSTER_HOME")},
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    }
    (tmp_path / "home").mkdir()

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    if request.param == "airflow":
        assert run("airflow", "db", "migrate").returncode == 0
        assert run("airflow", "dags", "reserialize").returncode == 0
    command, calls_on_2 = MANAGERS[request.param]
    return lambda: run(*command), tmp_path, calls_on_2


def test_a_killed_run_is_tried_again_and_continues(call):
    run, folder, _ = call
    done = run()
    assert (folder / "calls").read_text().splitlines() == 2 * ["run roads.yaml --json"], (
        done.stdout + done.stderr
    )
    record = json.loads((folder / "roads" / "run.json").read_text())
    assert record["starts"][1]["batches_before"] > 0
    assert (folder / "largest.txt").read_text() == f"{record['overall']['largest_distance']}\n"
    assert done.returncode == 0


def test_unusable_input_ends_the_workflow(call):
    run, folder, calls_on_2 = call
    workflow = folder / "roads.yaml"
    workflow.write_text(workflow.read_text() + "verify: perhaps\n")
    done = run()
    assert len((folder / "calls").read_text().splitlines()) == calls_on_2, done.stdout + done.stderr
    assert "`verify` is `perhaps`" in done.stdout + done.stderr
    assert not (folder / "largest.txt").exists()
