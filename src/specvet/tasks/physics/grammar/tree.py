"""The syntax tree: Python's own parser, a whitelist of nodes, and counts, before anything is built."""

from __future__ import annotations

import ast

from specvet.tasks.physics.grammar.errors import GrammarError, syntax, too_large, unsupported
from specvet.tasks.physics.grammar.sizes import SIZES, Sizes
from specvet.tasks.physics.grammar.spelling import spelled

BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.BitAnd, ast.BitOr)
UNARY = (ast.UAdd, ast.USub, ast.Not)
COMPARE = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Name, ast.Constant, ast.List,
    ast.Tuple, ast.Subscript, ast.Load, ast.And, ast.Or, *BINARY, *UNARY, *COMPARE,
)  # fmt: skip
REFUSED = {
    ast.Attribute: "methods and attributes are not supported: write det(A), not A.det()",
    ast.keyword: "keyword arguments are not supported",
    ast.Lambda: "lambda functions are not supported",
    ast.JoinedStr: "texts are not supported",
    ast.Starred: "write the arguments one by one",
    ast.FloorDiv: "write floor(a/b)",
}


def tree_of(text: object, sizes: Sizes = SIZES) -> ast.expr:
    """The checked syntax tree of an expression. Raises GrammarError (syntax, unsupported, too_large)."""
    if not isinstance(text, str):
        raise syntax("the expression must be a text")
    if len(text) > sizes.characters:
        raise too_large(f"the expression has {len(text)} characters, at most {sizes.characters} are read")
    line = spelled(text)
    try:
        tree = ast.parse(line, mode="eval")
    except (SyntaxError, ValueError):
        raise _not_python(text) from None
    except (RecursionError, MemoryError):
        raise too_large("the expression is nested too deeply") from None
    _check(tree, sizes)
    return tree.body


def _not_python(text: str) -> GrammarError:
    pairs = (("(", ")"), ("[", "]"))
    for left, right in pairs:
        if text.count(left) != text.count(right):
            return syntax(f"{text.count(left)} '{left}' but {text.count(right)} '{right}'")
    if "|" in text:
        return syntax("not an expression; write abs(x) for a modulus")
    return syntax("not an expression; write one line such as solve(2*x + 3 == 7, x)")


def _check(tree: ast.AST, sizes: Sizes) -> None:
    nodes = 0
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > sizes.depth:
            raise too_large(f"the expression is nested more than {sizes.depth} deep")
        following: list[ast.AST] = []
        for node in level:
            if not isinstance(node, ALLOWED):
                raise unsupported(REFUSED.get(type(node), f"{type(node).__name__} is not supported"))
            if isinstance(node, ast.Constant):
                _check_constant(node.value, sizes)
            nodes += not isinstance(node, ast.Load | ast.operator | ast.unaryop | ast.cmpop | ast.boolop)
            following += ast.iter_child_nodes(node)
        if nodes > sizes.nodes:
            raise too_large(f"the expression has more than {sizes.nodes} parts")
        level = following


def _check_constant(value: object, sizes: Sizes) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | complex):
        if isinstance(value, bool):
            return
        raise unsupported("texts are not supported; every name is a symbol already")
    if isinstance(value, int):
        if value.bit_length() > sizes.literal_digits * 3.33:
            raise too_large(f"a number has more than {sizes.literal_digits} digits; write it as a power of ten")
    elif abs(value) == float("inf"):
        raise too_large("a number is beyond 1e308")
