import pickle

import pytest

from sssp_pipeline import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SsspError("a", hint="b"), 1),
        (errors.InputError("a"), 2),
        (errors.PathTooLongError(3, "x", "uint32", "uint64"), 2),
        (errors.RefutedError("a", hint="b"), 3),
    ],
)
def test_errors_travel_between_processes(error, code):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.message, copy.hint, copy.exit_code) == (error.message, error.hint, code)
    assert str(copy) == error.message


def test_a_suggestion_is_made_only_where_one_is_close():
    assert errors.did_you_mean("adss", ["adds", "dijkstra"]) == "did you mean `adds`? "
    assert errors.did_you_mean("zzz", ["adds", "dijkstra"]) == ""
