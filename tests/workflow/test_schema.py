"""The JSON schema, and what it allows in words."""

from __future__ import annotations

import pytest

from sssp_pipeline.workflow.schema import schema, schema_at, wanted


def test_every_field_of_the_schema_is_described():
    nameless = [
        f"{owner}.{key}"
        for owner, section in [("top", schema()), *schema()["$defs"].items()]
        for key, value in section["properties"].items()
        if not value.get("description")
    ]
    assert nameless == []


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "boolean"}, "`true` or `false`"),
        ({"enum": ["a", "b", "c"]}, "`a`, `b` or `c`"),
        ({"const": 1}, "`1`"),
        ({"type": "integer", "exclusiveMinimum": 0}, "an integer above 0"),
        ({"type": "number", "minimum": 0}, "a number of at least 0"),
        ({"type": "integer", "minimum": 1, "maximum": 2000}, "an integer from 1 to 2,000"),
        (
            {"anyOf": [{"const": "auto"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}]},
            "`auto`, a number or `null`",
        ),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "a number between 0 and 1"),
        (schema_at(("graph", "columns")), "a section with `source`, `target`"),
    ],
)
def test_wanted_says_in_words_what_a_schema_allows(part, words):
    assert wanted(part) == words
