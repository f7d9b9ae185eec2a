"""Lines are read as they were written; of several about the same, the right one counts."""

from __future__ import annotations

import pytest
from made_lines import LINES, ON, facts, line

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.bench.lines import append, newest, read, resume


def dated(day: int, *arguments, **other):
    return line(*arguments, on=ON.model_copy(update={"date": f"2026-01-{day:02d}T00:00:00+00:00"}), **other)


def test_lines_are_read_as_they_were_written(tmp_path):
    for one in LINES:
        append(tmp_path / "l.jsonl", one)
    assert read(str(tmp_path / "l.jsonl")) == LINES


def test_what_is_no_line_is_named(tmp_path):
    at = tmp_path / "l.jsonl"
    for text, what in (
        ("{}\n", "bench: Field required"),
        ("nonsense\n", "Invalid JSON: expected ident at line 1 column 2"),
        (LINES[0].model_dump_json().replace("bench 1", "bench 2") + "\n", "format: Input should be"),
    ):
        at.write_text(LINES[0].model_dump_json() + "\n" + text)
        with pytest.raises(InputError) as caught:
            read(str(at))
        assert caught.value.message.startswith(f"`{at}` line 2 is no line of a bench: {what}")
        assert caught.value.hint == "name files that `sssp-pipeline bench run` wrote"


def test_what_a_later_release_adds_is_passed_over(tmp_path):
    text = LINES[0].model_dump_json()
    (tmp_path / "l.jsonl").write_text(text[:-1] + ', "more": 1}\n')
    assert read(str(tmp_path / "l.jsonl")) == LINES[:1]


def test_a_line_cut_off_is_left_out_and_removed_before_others_follow(tmp_path):
    at = tmp_path / "l.jsonl"
    assert resume(at) == []
    append(at, LINES[0])
    whole = at.read_text()
    at.write_text(whole + whole[:50])
    assert read(str(at)) == LINES[:1]
    assert at.read_text() != whole
    assert resume(at) == LINES[:1]
    assert at.read_text() == whole


def test_labels_tell_options_and_sources_together():
    assert line("road", "adds", 1).label == "adds"
    assert line("road", "adds", 1, changed={"a": True, "b": 3}, together=8).label == "adds a=true b=3 x8"


def test_the_newest_line_counts():
    old, new = dated(1, "road", "adds", 5), dated(2, "road", "adds", 6)
    assert newest([new, old]) == newest([old, new]) == [new]


def test_an_unsupported_variant_hides_none_that_was_measured_and_a_failed_one_does():
    measured, missing = dated(1, "road", "adds", 5), dated(2, "road", "adds", reason="no GPU")
    assert newest([measured, missing]) == [measured]
    assert newest([missing]) == [missing]
    failed = dated(3, "road", "adds", state="failed", reason="it gave up")
    assert newest([measured, missing, failed]) == [failed]


def test_lines_of_another_graph_of_the_same_name_are_left_out():
    old = dated(1, "road", "near-far", 5)
    new = dated(2, "road", "adds", 6, graph=facts("road", content="y"))
    other = dated(1, "web", "adds", 7)
    assert newest([old, new, other]) == [other, new]
