"""The lines that count, by graph and variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.bench.lines import GraphFacts, Line, Timing, newest


class Results:
    """The lines that count, by graph and variant, in the order in which these first occur.

    Raises
    ------
    InputError
        The lines come from several GPUs, or from several CPUs.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = newest(lines)
        for device, what in (("gpu", "GPUs"), ("cpu", "processors")):
            of = sorted({line.processor for line in self.lines if line.device == device and line.timing})
            if len(of) > 1:
                raise InputError(
                    f"the lines were measured on {len(of)} {what}: {'; '.join(of)}",
                    hint="make a report of each: name files that hold the lines of one",
                )
        self.graphs: dict[str, GraphFacts] = {line.graph.name: line.graph for line in self.lines}
        self._by_key = {(line.graph.name, line.label): line for line in self.lines}
        #: The variants with a measurement on at least one graph.
        self.variants = list(dict.fromkeys(line.label for line in self.lines if line.timing))

    def timing(self, graph: str, variant: str | None) -> Timing | None:
        """Return the measurement, or None."""
        line = self._by_key.get((graph, variant or ""))
        return line.timing if line else None

    def speedup(self, graph: str, variant: str, over: str) -> float | None:
        """Return how many times as fast `variant` is as `over`, by their medians; None where one was not measured."""
        fast, slow = self.timing(graph, variant), self.timing(graph, over)
        return slow.median_ms / fast.median_ms if fast and slow else None

    def work(self, graph: str, variant: str, over: str) -> float | None:
        """Return the ratio of vertices processed, `variant` to `over`; None where one was not measured."""
        one, other = self.timing(graph, variant), self.timing(graph, over)
        return one.work / other.work if one and other else None

    def speedups(self, variant: str, over: str) -> list[float]:
        """Return the speed-ups on all graphs on which both were measured."""
        return [s for graph in self.graphs if (s := self.speedup(graph, variant, over)) is not None]

    def works(self, variant: str, over: str) -> list[float]:
        """Return the ratios of work on all graphs on which both were measured."""
        return [w for graph in self.graphs if (w := self.work(graph, variant, over)) is not None]

    def effects(self) -> Iterator[tuple[Line, Line, str]]:
        """Yield pairs of measured lines that differ in one option only: default, other, the option's name."""
        for line in self.lines:
            for option in line.changed if line.timing else ():
                others = {name: value for name, value in line.changed.items() if name != option}
                same = line.graph.name, line.solver, line.together
                for other in self.lines:
                    is_same = (other.graph.name, other.solver, other.together) == same
                    if other.timing and is_same and other.changed == others:
                        yield other, line, option
