"""From the checked syntax tree to SymPy objects, node by node, sizes checked before each step."""

from __future__ import annotations

import ast
import builtins
from typing import Any

import sympy
from sympy.logic.boolalg import Boolean

from specvet.tasks.physics.grammar.errors import domain, syntax, unsupported
from specvet.tasks.physics.grammar.sizes import SIZES, Sizes, check_number, check_power
from specvet.tasks.physics.grammar.spelling import RENAMED
from specvet.tasks.physics.grammar.tree import tree_of
from specvet.tasks.physics.grammar.words import WORDS, Word
from specvet.tasks.physics.grammar.words.arguments import expression, kind_of
from specvet.tasks.physics.grammar.words.elementary import condition
from specvet.tasks.physics.grammar.words.measures import CONSTANTS, UNITS, constant

NAMES = {"pi": sympy.pi, "oo": sympy.oo, "EulerGamma": sympy.EulerGamma, "Catalan": sympy.Catalan}
"""Names with a value. E, I, e, c, G, h are symbols: energy, current, charge."""

SPELLED = {python: name for name, python in RENAMED.items()}

RELATIONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne, ast.Lt: sympy.Lt, ast.LtE: sympy.Le, ast.Gt: sympy.Gt, ast.GtE: sympy.Ge,
}  # fmt: skip


def build(text: str, sizes: Sizes = SIZES, plain: bool = False) -> Any:
    """The value of `text`: an expression, equation, matrix, or a list, tuple or dict of them. Raises GrammarError.

    Args:
        plain: only words that neither solve nor integrate.
    """
    value = _Builder(sizes, plain).value(tree_of(text, sizes))
    check_defined(value)
    return value


def check_defined(value: Any) -> None:
    """Refuse a result that stands for no value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | sympy.MatrixBase):
        for item in value:
            check_defined(item)
    elif isinstance(value, sympy.Basic) and value.has(sympy.zoo, sympy.nan):
        raise domain("the value is undefined (division by zero, or the difference of infinities)")


class _Builder:
    def __init__(self, sizes: Sizes, plain: bool) -> None:
        self.sizes = sizes
        self.plain = plain
        self.units = 0
        """Words around the node whose names are units."""
        self.functions = 0
        """Words around the node in which y(t) is an unknown function."""

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return self._number(node.value)
            case ast.Name():
                return self._name(SPELLED.get(node.id, node.id))
            case ast.BinOp():
                return self._operation(node.op, self.value(node.left), self.value(node.right))
            case ast.UnaryOp():
                return self._sign(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.BoolOp():
                parts = [condition(self.value(part)) for part in node.values]
                return sympy.And(*parts) if isinstance(node.op, ast.And) else sympy.Or(*parts)
            case ast.List():
                return [self.value(item) for item in node.elts]
            case ast.Tuple():
                return tuple(self.value(item) for item in node.elts)
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._item(self.value(node.value), self.value(node.slice))
        raise unsupported(f"{type(node).__name__} is not supported")

    def _number(self, value: object) -> Any:
        if isinstance(value, bool):
            return sympy.true if value else sympy.false
        if isinstance(value, int):
            return sympy.Integer(value)
        if isinstance(value, float):
            return sympy.Float(value)
        assert isinstance(value, complex)
        part = value.imag
        return sympy.I * (sympy.Integer(int(part)) if part == int(part) else sympy.Float(part))

    def _name(self, name: str) -> Any:
        if name in CONSTANTS:
            return constant(name)
        if name in NAMES:
            return NAMES[name]
        if self.units:
            if name in UNITS:
                return UNITS[name]
            raise unsupported(f"'{name}' is no unit here; units are m, s, kg, N, J, eV, km, hour, … and 1/s, m/s**2")
        if name in WORDS and not WORDS[name].symbol_too:
            raise syntax(f"{name} is a function; write {WORDS[name].usage}")
        return sympy.Symbol(name)

    def _operation(self, operator: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(operator, ast.BitAnd | ast.BitOr):
            both = condition(left), condition(right)
            return sympy.And(*both) if isinstance(operator, ast.BitAnd) else sympy.Or(*both)
        if isinstance(left, sympy.MatrixBase) or isinstance(right, sympy.MatrixBase):
            return _matrix_operation(operator, left, right)
        left, right = expression(left), expression(right)
        if isinstance(operator, ast.Pow):
            if left.is_zero and right.is_negative:
                raise domain("division by zero")
            check_power(left, right, self.sizes)
            return check_number(left**right, self.sizes)
        if isinstance(operator, ast.Div):
            if right.is_zero:
                raise domain("division by zero")
            return check_number(left / right, self.sizes)
        if isinstance(operator, ast.Mult):
            return check_number(left * right, self.sizes)
        return check_number(left + right if isinstance(operator, ast.Add) else left - right, self.sizes)

    def _sign(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return sympy.Not(condition(value))
        if not isinstance(value, sympy.MatrixBase):
            value = expression(value)
        return -value if isinstance(node.op, ast.USub) else value

    def _comparison(self, node: ast.Compare) -> Any:
        sides = [self.value(side) for side in (node.left, *node.comparators)]
        if len(sides) == 2 and all(isinstance(side, sympy.MatrixBase) for side in sides):
            return sympy.Eq(*sides) if isinstance(node.ops[0], ast.Eq) else sympy.Ne(*sides)
        sides = [expression(side) for side in sides]
        found = []
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            ordered = not isinstance(operator, ast.Eq | ast.NotEq)
            if ordered and (left.is_extended_real is False or right.is_extended_real is False):
                raise domain("complex numbers have no order")
            found.append(RELATIONS[type(operator)](left, right))
        return found[0] if len(found) == 1 else sympy.And(*found)

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            raise unsupported("only a named function can be called; write the sign of a product")
        if node.keywords:
            raise unsupported("keyword arguments are not supported")
        name = SPELLED.get(node.func.id, node.func.id)
        word = WORDS.get(name)
        if word is None:
            return self._unknown_function(name, node.args)
        if self.plain and not word.plain:
            raise unsupported(f"{name} is not supported in a plain expression")
        self.units += word.units
        self.functions += word.unknown_functions
        try:
            return self._checked(word, [self.value(argument) for argument in node.args])
        finally:
            self.units -= word.units
            self.functions -= word.unknown_functions

    def _checked(self, word: Word, arguments: list[Any]) -> Any:
        return check_number(word(*arguments), self.sizes)

    def _unknown_function(self, name: str, arguments: list[ast.expr]) -> Any:
        free = name not in NAMES and not hasattr(builtins, name)
        if self.functions and free and len(name) <= 12 and len(arguments) == 1:
            return sympy.Function(sympy.Symbol(name).name)(expression(self.value(arguments[0])))
        near = [known for known in WORDS if known.lower() == name.lower()]
        hint = f"; write {WORDS[near[0]].usage}" if near else f"; write {name}*(…) for a product"
        raise unsupported(f"there is no function {name}{hint}")

    def _item(self, container: Any, index: Any) -> Any:
        if isinstance(container, dict):
            if index in container:
                return container[index]
            raise domain("the solution has no such unknown")
        if isinstance(container, sympy.MatrixBase) and isinstance(index, tuple) and len(index) == 2:
            row, column = index
            if _inside(row, container.rows) and _inside(column, container.cols):
                return container[int(row), int(column)]
        elif isinstance(container, list | tuple | sympy.MatrixBase) and _inside(index, len(container)):
            return container[int(index)]
        if not isinstance(container, list | tuple | sympy.MatrixBase):
            raise domain(f"[…] picks from a list or matrix, not from {kind_of(container)}")
        raise domain(f"no such element: the list has {len(container)}, counted from 0")


def _inside(index: Any, n: int) -> bool:
    return isinstance(index, sympy.Integer) and -n <= index < n


def _matrix_operation(operator: ast.operator, left: Any, right: Any) -> Any:
    matrices = isinstance(left, sympy.MatrixBase), isinstance(right, sympy.MatrixBase)
    if isinstance(left, Boolean) or isinstance(right, Boolean) or isinstance(left, list) or isinstance(right, list):
        raise domain("a matrix is combined with matrices and numbers only")
    if all(matrices):
        if isinstance(operator, ast.Add | ast.Sub):
            if left.shape != right.shape:
                raise domain("matrices of unequal shape have no sum")
            return left + right if isinstance(operator, ast.Add) else left - right
        if isinstance(operator, ast.Mult):
            if left.cols != right.rows:
                raise domain(f"a matrix of {left.cols} columns times one of {right.rows} rows is no product")
            product = left * right
            return product[0] if product.shape == (1, 1) else product
        raise domain("matrices are not divided; write A*inv(B)")
    if isinstance(operator, ast.Mult):
        return left * expression(right) if matrices[0] else right * expression(left)
    if isinstance(operator, ast.Div) and matrices[0]:
        if expression(right).is_zero:
            raise domain("division by zero")
        return left / right
    if isinstance(operator, ast.Pow) and matrices[0] and left.rows == left.cols:
        if isinstance(right, sympy.Integer) and -SIZES.order <= right <= SIZES.order:
            return left ** int(right)
        raise unsupported(f"a matrix is raised to an integer power up to {SIZES.order}")
    raise domain("a number is not added to a matrix")
