"""Python source that runs without this package: a module with everything that it imports from the package copied into it."""

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path

from actdeny_train.types import ParseStatus

PACKAGE = "actdeny_train"


def standalone(module: str) -> str:
    """Return the source of ``module``, each import from this package replaced by what it imports, everything once.

    A module that is imported from must itself need nothing else of the package than such modules and ``ParseStatus``.
    """
    source = _inline(module, set())
    compile(source, module, "exec")
    return source


def _inline(module: str, seen: set[str]) -> str:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, module
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        replaced = _replacement(node, seen)
        if replaced is not None:
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = replaced.splitlines()
    return "\n".join(lines) + "\n"


def _replacement(node: ast.stmt, seen: set[str]) -> str | None:
    """Return what stands for a statement in a stand-alone file; None where it stays."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return ""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(PACKAGE):
        return None
    names = [alias.name for alias in node.names]
    if node.module == ParseStatus.__module__:
        assert names == [ParseStatus.__name__], f"only ParseStatus has a copy: {names}"
        return f"import enum\n\n\n{inspect.getsource(ParseStatus)}"
    assert node.module is not None
    if node.module in seen:
        return ""
    seen.add(node.module)
    return _without_docstring(_inline(node.module, seen))


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    assert isinstance(first, ast.Expr) and first.end_lineno is not None, "a module begins with its docstring"
    return "\n".join(source.splitlines()[first.end_lineno :]).strip() + "\n"
