"""NumPy types of the structs that the host and the kernels exchange, made from the sources of the kernels.

`tests/kernels/gpu/test_layouts.py` compares them with what the compiler lays out.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np

#: The folder of the headers that several solvers include.
HEADERS = Path(__file__).parents[1] / "headers"
_TYPES = {"word32": "u4", "word64": "u8", "float": "f4", "double": "f8"}
#: The words of a grid barrier, `BarrierWords` of `grid_barrier.cuh`.
_BARRIER = [("arrived", "u4"), ("poison", "u4")]


@cache
def struct_type(source: Path, name: str, **lengths: int) -> np.dtype:
    """Return the type of the struct `name`, which `source` declares.

    A pointer is a uint64. `lengths` gives the values of names that stand for the lengths of arrays.
    """
    body = re.search(
        rf"^struct {name} \{{\n(.*?)(?:__device__|^\}};)", source.read_text("utf-8"), re.M | re.S
    )
    assert body is not None, f"{source} declares no struct {name}"
    fields: list[tuple] = []
    for declaration in re.sub("//.*", "", body[1]).split(";")[:-1]:
        kind, names = declaration.strip().removeprefix("const ").split(" ", 1)
        if kind == "BarrierWords":
            fields += _BARRIER
            continue
        for field in names.split(", "):
            array = re.fullmatch(r"(\w+)\[(\w+)\]", field)
            type_ = "u8" if kind.endswith("*") else _TYPES[kind]
            if array is None:
                fields.append((field, type_))
            else:
                fields.append((array[1], type_, lengths.get(array[2]) or int(array[2])))
    return np.dtype(fields, align=True)
