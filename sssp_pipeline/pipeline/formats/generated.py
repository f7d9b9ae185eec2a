"""Generated graphs: `generated:road?vertices=262144&seed=7`.

The part after `generated:` is the name of a generator. The query has its parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

import numpy as np

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.generators import GENERATORS, IN_PARTS, SCHEME, EdgesInParts, GeneratedEdges
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions, Result
from sssp_pipeline.pipeline.formats.parsing.declared import declared_reading
from sssp_pipeline.storage import files

#: The graphs that are in use, by their URLs: ingest opens its input twice, and makes it once.
_in_use: WeakValueDictionary[str, GeneratedEdges | EdgesInParts] = WeakValueDictionary()


def open_generated(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list of the generator that the only URL in `urls` names.

    Raises
    ------
    InputError
        There are several URLs, the generator or a parameter is unknown, or a parameter has an impossible value.
    """
    if len(urls) > 1:
        raise InputError(
            f"`{urls[0]}` cannot be read together with another input", hint="name one generated graph"
        )
    if options.format != "auto":
        raise InputError(
            f"`{urls[0]}` is a generated graph, not a file in format {options.format}",
            hint="remove `graph.format`",
        )
    if options.coordinates is not None:
        raise InputError(
            f"coordinates are given in `{files.redacted(options.coordinates)}`, "
            "but a generated edge list has its own or none",
            hint="remove `graph.coordinates`",
        )
    name, _, query = urls[0].removeprefix(SCHEME).partition("?")
    if name not in GENERATORS:
        raise InputError(
            f"`{urls[0]}`: unknown generator `{name}`",
            hint=did_you_mean(name, sorted(GENERATORS)) + "Generators: " + ", ".join(sorted(GENERATORS)),
        )
    if (made := _in_use.get(urls[0])) is None:
        make: Callable[..., GeneratedEdges | EdgesInParts] = IN_PARTS.get(name, GENERATORS[name])
        made = _in_use[urls[0]] = make(**_parameters(urls[0], GENERATORS[name], query))
    has_weights = options.weight_column != "none"
    rows = max(1, options.block_bytes // 16)

    def read_and_work(work: Callable[[EdgeChunk], Result], n_threads: int) -> Iterator[Result]:
        def make_and_work(first: int) -> Result:
            end = min(first + rows, made.n_edges)
            src, dst = (each.astype(np.int64) for each in made.some_ends(first, end))
            return work(EdgeChunk(src, dst, made.some_weights(first, end) if has_weights else None))

        return map_in_order(make_and_work, iter(range(0, made.n_edges, rows)), n_threads)

    return InputEdges(
        declared_reading("generated", "the generator numbers its vertices from 0"),
        has_weights,
        partial(read_and_work, lambda chunk: chunk),
        read_and_work,
        n_vertices=made.n_vertices,
        weight_dtype=np.dtype(np.uint32) if has_weights else None,
        read_coordinates=lambda: made.coordinates,
    )


def _parameters(url: str, generator: Callable, query: str) -> dict[str, int | float]:
    known = list(inspect.signature(generator).parameters)
    given: dict[str, int | float] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            raise InputError(
                f"`{url}`: unknown parameter `{key}`",
                hint=did_you_mean(key, known) + "Parameters: " + ", ".join(known),
            )
        if key in given:
            raise InputError(f"`{url}`: `{key}` is given twice", hint="give each parameter once")
        for number in (int, float):
            with suppress(ValueError):
                given[key] = number(text)
                break
        else:
            raise InputError(f"`{url}`: `{text}` is not a value for `{key}`", hint="parameters are numbers")
    return given
