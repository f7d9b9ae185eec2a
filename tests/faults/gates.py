"""Makes a Dask worker stop where a test wants it to: `dask worker` loads this first (`distributed.worker.preload`).

A gate is a file, named after a moment and a batch, in the folder `SSSP_TEST_GATES`. A thread that comes to one takes
it, by renaming it after its process and itself, and waits until that file is gone. The moments are

solved    a task is solved, and nothing of it is written yet
writing   the distances of a batch are in their temporary file, which has not been renamed yet

A worker that comes to a file `deadly-<batch>` with that batch solved ends there, as if the batch had killed it. While
there is a file `full`, each worker uses nine tenths of its memory limit, as far as Dask can tell.
"""

import os
import threading
import time
from pathlib import Path

from distributed import Worker

from sssp_pipeline.pipeline.results.folder import run_folder
from sssp_pipeline.pipeline.results.layouts.long import LongLayout
from sssp_pipeline.pipeline.solving import solve_task as worker_side

GATES = Path(os.environ["SSSP_TEST_GATES"])
at = threading.local()


def stop(moment: str, batch: int) -> None:
    taken = GATES / f"{moment}-{batch}.{os.getpid()}.{threading.get_ident()}"
    try:
        (GATES / f"{moment}-{batch}").rename(taken)
    except FileNotFoundError:
        return
    while taken.exists():
        time.sleep(0.02)


def dask_setup(worker: Worker) -> None:
    memory = worker.monitor.get_process_memory
    full = int(0.9 * worker.memory_manager.memory_limit)
    worker.monitor.get_process_memory = lambda: full if (GATES / "full").exists() else memory()
    solve_task, folder = worker_side.solve_task, worker_side.RunFolder
    commit, write = run_folder.RunFolder.commit_batch, LongLayout.write

    def solving(task):
        at.batch = task.batches[0][0]
        return solve_task(task)

    def solved(url, *identity):
        if (GATES / f"deadly-{at.batch}").exists():
            os._exit(1)
        stop("solved", at.batch)
        return folder(url, *identity)

    def committing(self, batch, *rest):
        at.batch = batch
        return commit(self, batch, *rest)

    def writing(layout, handle, *rest):
        write(layout, handle, *rest)
        stop("writing", at.batch)

    # Tasks name the function that solves them, so that this one is found.
    worker_side.solve_task, worker_side.RunFolder = solving, solved
    run_folder.RunFolder.commit_batch, LongLayout.write = committing, writing
