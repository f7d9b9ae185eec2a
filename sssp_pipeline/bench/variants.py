"""Reads a bench file, and lists the variants of solvers that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.bench.spec import Bench, BenchGraph, BenchSolver
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.workflow.contradictions import graph_contradictions
from sssp_pipeline.workflow.section import Path
from sssp_pipeline.workflow.yaml_file import load_file


@dataclass(frozen=True)
class Variant:
    """A solver with its options."""

    #: The solver with its options.
    solver: Solver
    #: The value of each of its options, defaults too.
    options: Mapping[str, Value]
    #: Sources in one call.
    together: int
    #: The `options` that differ from their defaults.
    changed: Mapping[str, Value] = field(init=False)

    def __post_init__(self) -> None:
        defaults = {tunable.name: tunable.default for tunable in self.solver.tunables}
        changed = {name: value for name, value in self.options.items() if value != defaults[name]}
        object.__setattr__(self, "changed", changed)

    @property
    def label(self) -> str:
        return label(self.solver.name, self.changed, self.together)


def label(solver: str, changed: Mapping[str, Value], together: int) -> str:
    """Return the name of a variant: `adds`, `adds-slots x256`, `solver option=false`."""
    words = [f"{name}={str(v).lower() if isinstance(v, bool) else v}" for name, v in changed.items()]
    return " ".join([solver, *words, *([f"x{together}"] if together > 1 else [])])


def load_bench(url: str, overrides: Sequence[str] = ()) -> Bench:
    """Return the bench in the YAML file at `url`; `overrides` as for a workflow.

    Raises
    ------
    InputError
        The file cannot be read, is not YAML, or does not describe a bench; the message has a line for each fault.
    """
    hint = "docs/reference/bench.md says what a bench file holds"
    return load_file(url, Bench, contradictions, overrides, hint=hint)


def variants_of(bench: Bench) -> list[Variant]:
    """Return the variants of `bench`, each once, in its order."""
    return list(_labelled(bench.solvers).values())


def contradictions(data: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield place, message and hint of every fault in `data` that the types of a `Bench` do not exclude.

    Values of a wrong type are skipped: the models report them.
    """
    graphs, solvers = (given if isinstance(given := data.get(k), list) else [] for k in ("graphs", "solvers"))
    names: list[Any] = []
    for i, graph in enumerate(graphs):
        if not isinstance(graph, Mapping):
            continue
        name = graph.get("name")
        if name in names:
            yield ("graphs", i, "name"), f"two graphs are called `{name}`", "give each a name of its own"
        names.append(name)
        described = graph.get("graph")
        # Otherwise the missing key may be a misspelt one.
        is_known = not graph.keys() - BenchGraph.model_fields.keys()
        if is_known and (described is None) == (graph.get("store") is None):
            has = "neither `graph` nor `store`" if described is None else "both `graph` and `store`"
            yield ("graphs", i), f"graph `{name}` has {has}", "give one of them"
        if isinstance(described, Mapping):
            for path, what, hint in graph_contradictions(described):
                yield ("graphs", i, *path), what, hint
    fits = True
    for i, given in enumerate(solvers):
        for path, what, hint in _solver_faults(given):
            fits = False
            yield ("solvers", i, *path), what, hint
    if not fits or not solvers:
        return
    try:
        labels = list(_labelled([s if isinstance(s, str) else BenchSolver(**s) for s in solvers]))
    except (TypeError, ValueError):  # a wrong type, which the models report
        return
    for key in ("baseline", "subject"):
        named = data.get(key)
        if isinstance(named, str) and named not in labels:
            hint = did_you_mean(named, labels) + "Variants: " + ", ".join(f"`{known}`" for known in labels)
            yield (key,), f"`{key}` is `{named}`, and no variant is called so", hint


def _solver_faults(given: Any) -> Iterator[tuple[Path, str, str]]:
    """Yield the faults of an entry of `solvers`, each with its place in the entry."""
    is_section = isinstance(given, Mapping)
    name = given.get("solver") if is_section else given
    options = given.get("options", {}) if is_section else {}
    if not isinstance(name, str) or not isinstance(options, Mapping):
        return
    try:
        solver_named(name)
    except InputError as error:
        yield ("solver",) if is_section else (), error.message, error.hint or ""
        return
    fits = all(isinstance(value, Value) for values in options.values() for value in _listed(values))
    for option, values in options.items():
        for value in _listed(values):
            if not isinstance(value, Value):
                continue
            try:
                solver_named(name, {option: value})
            except InputError as error:
                fits = False
                yield ("options", option), error.message, error.hint or ""
                break
    if not fits:
        return
    for chosen in _combinations(options):
        try:
            solver_named(name, chosen)
        except InputError as error:
            yield ("options",), error.message, error.hint or ""
            return


def _labelled(solvers: Sequence[str | BenchSolver]) -> dict[str, Variant]:
    """Return the variants of `solvers` by label; the entries have no faults."""
    found: dict[str, Variant] = {}
    for given in solvers:
        entry = BenchSolver(solver=given) if isinstance(given, str) else given
        for chosen in _combinations(entry.options):
            solver = solver_named(entry.solver, chosen)
            options = {t.name: t.default for t in solver.tunables} | chosen
            variant = Variant(solver, options, entry.together)
            found.setdefault(variant.label, variant)
    return found


def _combinations(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for values in product(*map(_listed, options.values())):
        yield dict(zip(options, values, strict=True))


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list | tuple) else (values,)
