#!/usr/bin/env bash
# Compares this project with SciPy, NetworKit, igraph and NetworkX, in under 8 minutes on two idle cores:
#   benchmarks/others.sh FOLDER    with the folder of the real graphs
# PATH has a Python with this project, scipy, pandas, networkx, igraph and networkit.
set -euo pipefail
cd "$(dirname "$0")"
python dijkstra.py --data "$1" --sources 16
python jobs.py --seconds 10
