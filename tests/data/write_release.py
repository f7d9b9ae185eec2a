"""Write what tests/release/test_earlier_releases.py reads: `python tests/data/write_release.py` in a new folder.

It is run for a release before its tag. After the tag the files of a release never change.
"""

from pathlib import Path

import sssp_pipeline as sp

EDGES = "from,to,minutes,rush\nA,B,4,5\nB,C,3.5,9\nC,A,2,2\nC,D,1.25,3\nD,E,6,6\nE,B,2,8\nF,A,7,7\n"


def write() -> None:
    Path("roads.csv").write_text(EDGES, encoding="utf-8")
    one = {"input": "roads.csv", "store": "store", "weights": {"column": "minutes"}}
    several = [{"name": name, "column": name} for name in ("minutes", "rush")]
    two = {"input": "roads.csv", "store": "several-weights", "weights": {"several": several}}
    some, every = {"ids": ["A", "F"]}, {"all": True}
    for name, graph, sources, solve, output in (
        ("distances", one, some, {"predecessors": True}, {}),
        ("wide", one, every, {"hierarchy": "build"}, {"layout": "wide"}),
        (
            "reduced",
            one,
            every,
            {},
            {"distances": "reduced", "reduce": {"values": ["closeness", "max_distance"]}},
        ),
        ("nearest", one, every, {}, {"distances": "nearest", "nearest": {"k": 2}}),
    ):
        workflow = {"graph": graph, "sources": sources, "solve": solve, "output": {"path": name, **output}}
        sp.run({**workflow, "report": False})
    sp.run_each({"graph": two, "sources": some, "output": {"path": "several"}, "report": False})


if __name__ == "__main__":
    write()
