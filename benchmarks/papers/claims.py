"""The numbers that the papers report about their own systems. None of them was measured here.

Each system of a paper corresponds to a solver of this project. The papers' machines and graphs differ from ours. So
compare how a system does beside the other systems of the same machine, and not the times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ADDS_PAPER = 'Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021'
HBF_PAPER = (
    'Busato, Bombieri, "An efficient implementation of the Bellman-Ford algorithm for Kepler GPU architectures", '
    "TPDS 2016"
)
ADAPTIVE_PAPER = (
    'Suzuki, Kan, Hayashi, Yoshikawa, "Accelerating SSSP algorithm on GPU with adaptive thread creation"'
)


#: Table 3, RTX 2080 Ti: how many of 226 graphs have a speed-up of ADDS in each range of `SPEEDUP_ENDS`. By the paper's
#: name of the other system: the corresponding solver, None where there is none, and the counts.
ADDS_TABLE_3: dict[str, tuple[str | None, tuple[int, ...]]] = {
    "NF": ("near-far", (8, 13, 27, 44, 54, 59, 21)),
    "Gun-NF": ("near-far", (20, 2, 10, 14, 27, 40, 113)),
    "Gun-BF": ("frontier-bellman-ford", (16, 3, 8, 8, 20, 49, 122)),
    "NV": (None, (18, 4, 7, 12, 13, 24, 148)),
    "CPU-DS": ("parallel-delta-stepping", (7, 2, 1, 8, 28, 38, 142)),
    "Dijkstra": ("dijkstra", (2, 0, 0, 0, 3, 14, 207)),
}
#: Table 4: how many of 226 graphs have a ratio of processed vertices, ADDS over the other system, in each range of
#: `WORK_ENDS`.
ADDS_TABLE_4: dict[str, tuple[str, tuple[int, ...]]] = {
    "NF": ("near-far", (10, 22, 13, 24, 75, 70, 12)),
    "Gun-NF": ("near-far", (50, 25, 38, 35, 34, 36, 8)),
    "Gun-BF": ("frontier-bellman-ford", (61, 21, 20, 28, 64, 25, 7)),
    "CPU-DS": ("parallel-delta-stepping", (18, 21, 29, 18, 39, 37, 64)),
    "Dijkstra": ("dijkstra", (0, 0, 0, 0, 30, 49, 147)),
}
#: Table 5: how many graphs have a speed-up over NF in each range, and the mean of section 6.2 or 6.5.
ADDS_TABLE_5: dict[str, tuple[tuple[int, ...], float]] = {
    "ADDS, RTX 2080 Ti": ((8, 13, 27, 44, 54, 59, 21), 2.9),
    "ADDS, RTX 3090": ((8, 11, 16, 23, 66, 73, 25), 3.5),
    "static delta, RTX 3090": ((32, 18, 28, 29, 57, 44, 14), 2.4),
    "two buckets, RTX 3090": ((22, 22, 52, 40, 35, 37, 14), 2.2),
}
#: Figures 11 to 15, RTX 2080 Ti: the kind of graph, the speed-up over NF, and the vertices processed by ADDS over those
#: of NF, which the paper gives inverted.
ADDS_FIGURES_11_TO_15: dict[str, tuple[str, float, float]] = {
    "road-USA": ("road", 3.09, 1 / 0.19),
    "BenElechi1": ("mesh", 4.0, 1 / 2.12),
    "msdoor": ("mesh", 5.57, 1 / 4.0),
    "c-big": ("other", 1.6, 1 / 3.35),
    "rmat22": ("R-MAT", 2.29, 1 / 2.18),
}

#: The systems of table 2 of H-BF's paper, in its order, and the corresponding solvers.
HBF_SYSTEMS: dict[str, str] = {
    "Bellman-Ford, queue, one thread": "queue-bellman-ford",
    "Boost Dijkstra": "dijkstra",
    "LoneStar": "bellman-ford",
    "WorkFront Sweep / Near-Far": "near-far",
    "H-BF": "frontier-bellman-ford",
}
#: Table 2, GTX 780: milliseconds, and millions of edges a second, of each of these systems.
HBF_TABLE_2: dict[str, tuple[tuple[float, float], ...]] = {
    "asia.osm": ((32_000, 0.8), (5_200, 4.9), (280_000, 0.1), (12_700, 2), (3_400, 7.5)),
    "USA-road-d.CAL": ((20_600, 0.2), (588, 7.9), (3_900, 1.2), (4_600, 1), (720, 6.4)),
    "delaunay_n20": ((3_200, 2.0), (581, 10.8), (902, 7.0), (420, 15), (105, 60)),
    "msdoor": ((1_200, 17.2), (676, 30.6), (1_900, 10.8), (206, 100), (36, 570)),
    "circuit5M_dc": ((3_200, 6.0), (4_100, 4.7), (657, 29.2), (240, 80), (68, 282)),
    "rmat.3Mv.20Me": ((6_400, 3.1), (4_000, 5.0), (520, 38.5), (133, 150), (99, 201)),
    "flickr": ((887, 11.1), (963, 10.2), (1_200, 8.2), (49, 200), (32, 307)),
}


@dataclass(frozen=True)
class Claim:
    """A paper's mean speed-up of one system over another.

    Attributes
    ----------
    faster, slower
        The paper's systems.
    variants
        The corresponding variants of solvers.
    times
        How many times as fast.
    where
        The place in the paper, the machine and the graphs.
    """

    faster: str
    slower: str
    variants: tuple[str, str]
    times: float
    where: str


CLAIMS = (
    Claim("ADDS", "NF", ("adds", "near-far"), 2.9, "ADDS paper, section 6.2: RTX 2080 Ti, 226 graphs"),
    Claim("ADDS", "NF", ("adds", "near-far"), 3.5, "ADDS paper, section 6.5: RTX 3090"),
    Claim("ADDS", "Gun-NF", ("adds", "near-far"), 5.8, "ADDS paper, section 6.2: RTX 2080 Ti, 226 graphs"),
    Claim(
        "ADDS",
        "Gun-BF",
        ("adds", "frontier-bellman-ford"),
        9.6,
        "ADDS paper, section 6.2: RTX 2080 Ti, 226 graphs",
    ),
    Claim(
        "ADDS",
        "CPU-DS",
        ("adds", "parallel-delta-stepping"),
        14.2,
        "ADDS paper, section 6.2: RTX 2080 Ti and Core i9-7900X",
    ),
    Claim(
        "ADDS",
        "Dijkstra",
        ("adds", "dijkstra"),
        34.4,
        "ADDS paper, section 6.2: RTX 2080 Ti and one thread of a Core i9-7900X",
    ),
    *(
        Claim(
            "H-BF",
            system,
            ("frontier-bellman-ford", solver),
            math.prod(times[i][0] / times[-1][0] for times in HBF_TABLE_2.values()) ** (1 / len(HBF_TABLE_2)),
            f"H-BF's paper, geometric mean over the {len(HBF_TABLE_2)} graphs of table 2: GTX 780 and Phenom II X6",
        )
        for i, (system, solver) in enumerate(list(HBF_SYSTEMS.items())[:-1])
    ),
    Claim(
        "adaptive threads",
        "threads for all vertices",
        ("adaptive-threads", "adaptive-threads mode=all"),
        1.18,
        "paper on adaptive threads, abstract: roads of Kanto",
    ),
)


@dataclass(frozen=True)
class OptimisationClaim:
    """A row of table 3 of H-BF's paper, GTX 780: milliseconds of the sequential solver, without and with."""

    graph: str
    optimisation: str
    sequential_ms: float
    without_ms: float
    with_ms: float


HBF_TABLE_3 = (
    OptimisationClaim("hugetrace_00000", "warp workload", 82_000, 4_100, 1_400),
    OptimisationClaim("wiki-talk", "edge classification", 1_000, 65, 17 + 2),
    OptimisationClaim("as-Skitter", "dynamic parallelism and dynamic virtual warps", 2_500, 199, 77),
    OptimisationClaim("random_2Mv.128Me", "64-bit atomic instructions", 84_000, 1_445, 760),
)
