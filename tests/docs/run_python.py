"""Run the Python blocks of a page, a line of JSON each on standard input, in one namespace.

Prints for each block, as a line of JSON, a list of `[code, value in the comment, value]` for the expressions that have
a value in a comment: behind them, or on the lines below.
"""

import ast
import contextlib
import io
import json
import sys


def value_in_comment(lines: list[bytes], expression: ast.stmt) -> str | None:
    """Return what the comment behind `expression`, or on the lines below, says; None without a comment."""
    behind = lines[expression.end_lineno - 1][expression.end_col_offset :].strip()
    if behind.startswith(b"#"):
        return behind[1:].decode().strip()
    below = []
    for line in lines[expression.end_lineno :]:
        if not line.startswith(b"#"):
            break
        below.append(line.removeprefix(b"#").removeprefix(b" ").decode())
    return "\n".join(below) or None


def run(code: str, names: dict) -> list[tuple[str, str, str]]:
    """Run a block and return its expressions, what comments say of them, and their values."""
    lines = code.encode().splitlines()
    compared = []
    for statement in ast.parse(code).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "block", "exec"), names)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = eval(compile(ast.Expression(statement.value), "block", "eval"), names)
        if (expected := value_in_comment(lines, statement)) is not None:
            compared.append(
                (ast.unparse(statement), expected, printed.getvalue() if value is None else repr(value))
            )
    return compared


if __name__ == "__main__":
    names: dict = {"__name__": "__main__"}
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), names)), flush=True)
