import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from sssp_pipeline.base import errors


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
    assert getattr(copy.hint, "parts", None) == getattr(error.hint, "parts", None)


def test_an_error_of_the_input_is_a_value_error():
    with pytest.raises(ValueError, match="a"):
        raise errors.InputError("a", hint="b")
    assert not issubclass(errors.RefutedError, ValueError)


def test_a_suggestion_is_made_only_where_one_is_close():
    assert errors.did_you_mean("adss", ["adds", "dijkstra"]) == "did you mean `adds`? "
    assert errors.did_you_mean("zzz", ["adds", "dijkstra"]) == ""


# ---- every error says what to do ----

PACKAGE = Path(errors.__file__).parents[1]
CLASSES = {"InputError", "SsspError", "UnsolvableError", "StoreUnavailableError", "RefutedError"}
#: Constructions whose hint may be None, by file and function, each with its reason.
MAY_LACK_A_HINT = {
    "workflow/validation.py combined": "shows the hint of a fault, which is never None",
    "pipeline/solving/workers/worker_checks.py run_on": "the error that lists such answers of workers has a hint",
    "bench/cases.py _naming": "adds the name of the graph to an error, and keeps its hint",
    "pipeline/planning/amounts.py read_amounts": "adds the name of the file to an error, and keeps its hint",
}


def missing_hints(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield function and line of each error that is made without a hint, or with one that may be None."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for holder, call in calls(tree, None):
        name = getattr(call.func, "id", getattr(call.func, "attr", None))
        if name not in CLASSES:
            continue
        given = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
        if not given or may_be_none(given[0], holder, functions):
            yield (holder.name if holder else ""), call.lineno


def calls(node: ast.AST, holder: ast.FunctionDef | None) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    """Yield every call below `node` with the innermost function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield holder, child
        inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else holder
        yield from calls(child, inner)


def may_be_none(
    value: ast.expr, holder: ast.FunctionDef | None, functions: dict[str, ast.FunctionDef]
) -> bool:
    """Return whether `value`, in the function `holder`, may be None or empty, as far as its text tells."""
    if isinstance(value, ast.Constant):
        return not value.value
    if isinstance(value, ast.IfExp):
        return any(may_be_none(branch, holder, functions) for branch in (value.body, value.orelse))
    if isinstance(value, ast.BoolOp):
        return may_be_none(value.values[-1], holder, functions)
    if isinstance(value, ast.Attribute):
        return value.attr == "hint"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in functions:
        returns = functions[value.func.id].returns
        return returns is None or "None" in ast.unparse(returns)
    if isinstance(value, ast.Name) and holder is not None:
        arguments = [*holder.args.args, *holder.args.kwonlyargs]
        kinds = [ast.unparse(a.annotation) for a in arguments if a.arg == value.id and a.annotation]
        return any("None" in kind for kind in kinds) or any(
            may_be_none(assigned.value, holder, functions)
            for assigned in ast.walk(holder)
            if isinstance(assigned, ast.Assign)
            and value.id in {target.id for target in assigned.targets if isinstance(target, ast.Name)}
            and value.id not in {name.id for name in ast.walk(assigned.value) if isinstance(name, ast.Name)}
        )
    return False


def test_no_block_takes_its_own_input_error_for_another_value_error():
    caught = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Try):
                continue
            kinds = [ast.unparse(handler.type) if handler.type else "" for handler in node.handlers]
            first = next((kind for kind in kinds if "ValueError" in kind or "InputError" in kind), "")
            raised = [child for child in ast.walk(ast.Module(node.body, [])) if isinstance(child, ast.Raise)]
            if "ValueError" in first and any("InputError(" in ast.unparse(child) for child in raised):
                caught.append(f"{path.name} line {node.lineno}")
    assert caught == []


def test_every_error_says_what_to_do():
    found = [
        f"{path.relative_to(PACKAGE)} {function} line {line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for function, line in missing_hints(ast.parse(path.read_text(encoding="utf-8")))
        if f"{path.relative_to(PACKAGE)} {function}" not in MAY_LACK_A_HINT
    ]
    assert found == []


LACKING = [
    "raise InputError('a')",
    "raise InputError('a', hint=None)",
    "raise errors.SsspError('a', hint='')",
    "raise InputError('a', hint='b' if x else None)",
    "raise InputError('a', hint=x or None)",
    "def f(hint: str | None):\n raise InputError('a', hint=hint)",
    "def f():\n hint = None\n raise InputError('a', hint=hint)",
    "def g() -> str | None: ...\nraise InputError('a', hint=g())",
]
HAVING = [
    "raise InputError('a', hint='b')",
    "def f(hint: str):\n return InputError('a', hint=hint)",
    "def g() -> str: ...\nraise InputError('a', hint=g() if x else 'b')",
]


def test_the_search_for_missing_hints_finds_them():
    for source in (*LACKING, *HAVING):
        assert bool(list(missing_hints(ast.parse(source)))) is (source in LACKING), source
