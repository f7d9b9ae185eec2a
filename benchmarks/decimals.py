"""Random decimals in CSV files against Python's `fractions`.

    python benchmarks/decimals.py --count 10000 --runs 500 --seed 1

Each file is a small graph. Its weights have 0 to 12 places, large and small ones together. It is ingested and solved
from every vertex. The first `--runs` files also go through a whole run with a certificate, and the distances in its
Parquet files are compared too.

Each distance must be the exact decimal if all weights have at most 9 places and at most 2^52 without the point.
Otherwise it must be the least sum in float64 arithmetic. The type in the store must be the right one. `solve` may
refuse a path that is too long for the type, and a run must then go on with a wider type. Two other errors are right: an
integer that float64 does not hold next to decimals, and a path beyond 64 bits.

The program prints one JSON line: how often each outcome was seen, and what is `bad`. The short form is
`tests/input/test_random_decimals.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, PathTooLongError, ScaledTooLongError

Edges = list[tuple[int, int, str]]
Distances = dict[tuple[int, int], Any]

MOST_PLACES = 9
LARGEST_SCALED = 2**52
#: The longest path of scaled weights, without the point. float64 holds every integer up to it.
LONGEST_SCALED = 2**53


def decimal_text(chance: random.Random, places: int, digits: int) -> str:
    """Return a random decimal of up to `places` places and `digits` digits, in one of the usual spellings."""
    number = Decimal(chance.randrange(10 ** chance.randint(1, digits))).scaleb(-chance.randint(0, places))
    spelling, text = chance.randrange(8), f"{number:f}"
    if spelling == 0:
        return f"{number:e}"
    if spelling == 1:
        return text + "." * ("." not in text) + "0" * chance.randint(0, 4)
    if spelling == 2 and text.startswith("0."):
        return text[1:]
    return "+" * (spelling == 3) + text


def random_edges(chance: random.Random) -> Edges:
    """Return a chain with some more edges between its vertices."""
    places, digits = chance.randint(0, 12), chance.choice([3, 6, 10, 15, 17, 19])
    n = chance.randint(2, 12)
    ends = [(i, i + 1) for i in range(n - 1)]
    ends += [(chance.randrange(n), chance.randrange(n)) for _ in range(chance.randint(0, 2 * n))]
    share_of_large = chance.choice([0.1, 0.4, 1.0])
    lengths = [digits if chance.random() < share_of_large else 3 for _ in ends]
    return [(a, b, decimal_text(chance, places, n)) for (a, b), n in zip(ends, lengths, strict=True)]


def least_sums(edges: Edges, number: Callable[[str], Any]) -> Distances:
    """Return the length of each shortest path, summed from the source on in the type that `number` makes."""
    weights = [(a, b, number(text)) for a, b, text in edges]
    found: Distances = {}
    for source in {end for a, b, _ in edges for end in (a, b)}:
        lengths, changed = {source: number("0")}, True
        while changed:
            changed = False
            for a, b, weight in weights:
                if a in lengths and (b not in lengths or lengths[a] + weight < lengths[b]):
                    lengths[b], changed = lengths[a] + weight, True
        found |= {(source, vertex): length for vertex, length in lengths.items()}
    return found


class Expected:
    """What must be found in a graph, by the rules of `docs/guides/formats.md`."""

    def __init__(self, edges: Edges) -> None:
        texts = [text.lstrip("+") for _, _, text in edges]
        places = max(-int(Decimal(text).normalize().as_tuple().exponent) for text in texts)
        largest = max(map(Fraction, texts))
        self.scale = 10 ** max(places, 0)
        are_integers = all(map(str.isdigit, texts))
        self.is_exact = are_integers or (places <= MOST_PLACES and largest * self.scale <= LARGEST_SCALED)
        self.has_lost_integer = not self.is_exact and any(
            text.isdigit() and int(text) != float(text) for text in texts
        )
        self.exact, self.rounded = least_sums(edges, Fraction), least_sums(edges, float)
        self.longest = max(self.exact.values()) * self.scale
        #: Longer paths do not fit 64 bits, or a scale.
        self.limit = 2**64 - 2 if self.scale == 1 else LONGEST_SCALED
        #: Longer paths do not fit the type that the weights have at first.
        self.first_limit = 2**32 - 2 if largest * self.scale < 2**32 - 1 else self.limit

    def fault(self, found: Distances, dtype: str, scale: int | None) -> str | None:
        """Return the first fault of the distances `found`, or of the type of the weights; None if there is none."""
        is_float = dtype == "float64"
        must_be_float = not self.is_exact or (self.scale > 1 and self.longest > self.limit)
        if is_float != must_be_float:
            return f"the weights are {dtype}, the longest path times {self.scale} is {self.longest}"
        if not is_float and (scale or 1) != self.scale:
            return f"the scale is {scale}, not {self.scale}"
        wanted = self.rounded if is_float else self.exact
        if found.keys() != wanted.keys():
            return f"{len(found)} pairs, not {len(wanted)}"
        for pair, length in wanted.items():
            if (found[pair] if is_float else Fraction(repr(found[pair]))) != length:
                return f"{pair} is {found[pair]!r}, not {length}: {dtype}, scale {scale}"
        return None


def pairs_of(tables: list[Any]) -> Distances:
    """Return the distance of each source and vertex that has a path."""
    rows = (row for table in tables for row in table.to_pylist())
    return {(row["source"], row["vertex"]): row["distance"] for row in rows if row["distance"] is not None}


def outcome_of(folder: Path, expected: Expected, *, whole_run: bool) -> str:
    """Ingest and solve `e.csv` in `folder`, or run it, and return what was seen; it begins with `wrong` for a fault."""
    spec = {"input": folder / "e.csv", "store": folder / "graph"}
    try:
        if whole_run:
            output = {"path": folder / "out"}
            sp.run({"graph": spec, "sources": {"all": True}, "output": output, "verify": "certificate"})
            found = pairs_of([pq.read_table(file) for file in (folder / "out/distances").glob("*.parquet")])
            store = sp.open_store(folder / "graph")
        else:
            store = sp.ingest(spec["input"], spec["store"])
            found = pairs_of([sp.solve(store, sorted({s for s, _ in expected.exact})).to_arrow()])
    except (PathTooLongError, ScaledTooLongError) as error:
        limit = expected.limit if whole_run else expected.first_limit
        # A run goes on with float64 if a scale does not allow the path.
        is_right = expected.longest > limit and not (whole_run and expected.scale > 1)
        return "a path is too long" if is_right else f"wrong: {error}"
    except InputError as error:
        return "an integer that float64 does not hold" if expected.has_lost_integer else f"wrong: {error}"
    weights = store.manifest.weights
    fault = expected.fault(found, weights.dtype, weights.scale)
    kind = "float64" if weights.dtype == "float64" else "integers" if weights.scale is None else "scaled"
    return f"wrong: {fault}" if fault else f"right, {kind}"


def compare(folder: Path, count: int, runs: int, seed: int) -> dict[str, Any]:
    """Return how often each outcome was seen in `count` files, and the number and the fault of each bad one."""
    outcomes: Counter[str] = Counter()
    bad = []
    for number in range(count):
        edges = random_edges(random.Random(f"{seed} {number}"))
        expected = Expected(edges)
        for whole_run in (False, True)[: 1 + (number < runs)]:
            with tempfile.TemporaryDirectory(dir=folder) as inner:
                text = "from,to,km\n" + "".join(f"{a},{b},{weight}\n" for a, b, weight in edges)
                Path(inner, "e.csv").write_text(text)
                found = outcome_of(Path(inner), expected, whole_run=whole_run)
            outcomes["run: " * whole_run + found.partition(":")[0]] += 1
            if found.startswith("wrong"):
                bad.append([number, whole_run, found])
    return {
        "count": count,
        "runs": runs,
        "seed": seed,
        "outcomes": dict(sorted(outcomes.items())),
        "bad": bad,
    }


def main() -> None:
    """Print the counts as JSON; the exit code is 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder), given.count, given.runs, given.seed)
    print(json.dumps(found))
    raise SystemExit(bool(found["bad"]))


if __name__ == "__main__":
    main()
