"""Records: a changed byte is either noticed or changes nothing."""

from __future__ import annotations

import json

import pytest

from sssp_pipeline.storage.records import record_bytes, record_content

CONTENT = {"b": [1, 2.5, None, "ü"], "a": {"x": True, "n": 2**63}, "empty": {}}


def test_a_record_is_read_as_it_was_written():
    assert record_content(record_bytes(CONTENT)) == CONTENT


def test_every_flipped_bit_is_noticed_or_changes_nothing():
    data = record_bytes(CONTENT)
    noticed = 0
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            try:
                found = record_content(bytes(damaged))
            except ValueError:
                noticed += 1
            else:
                assert found == CONTENT  # white space, or a letter of an escape
    assert noticed > 6 * len(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[1]", "it is no object"),
        (b'{"a": 1}', "it has no checksum"),
        (b'{"a": 1, "checksum": "0"}', "its checksum does not match"),
        (b'{"a": 1, "checksum": 7}', "its checksum does not match"),
        (b"", "Expecting value"),
        (b"\xff\xfe", "codec can't decode"),
    ],
)
def test_what_is_no_record(data, why):
    with pytest.raises(ValueError, match=why):
        record_content(data)


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_record_that_is_nested_too_deeply():
    with pytest.raises(ValueError, match="it is nested too deeply"):
        record_content(b"[" * 100_000)


def test_a_layout_of_its_own_does_not_matter():
    assert record_content(json.dumps(json.loads(record_bytes(CONTENT))).encode()) == CONTENT


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        record_bytes({"a": float("nan")})
