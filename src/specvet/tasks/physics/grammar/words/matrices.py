"""Matrices and vectors. A flat list is a column vector."""

from __future__ import annotations

from typing import Any

import sympy

from specvet.tasks.physics.grammar.errors import domain
from specvet.tasks.physics.grammar.sizes import SIZES
from specvet.tasks.physics.grammar.words.arguments import flat, integer, matrix
from specvet.tasks.physics.grammar.words.register import word

MATRICES = "matrices and vectors"


@word("Matrix([[a, b], [c, d]])", "matrix of rows; a flat list is a column", "Matrix([[1, 2], [3, 4]])*Matrix([1, 1])",
      MATRICES, "Vector")  # fmt: skip
def make(rows: Any) -> Any:
    return matrix(rows)


def _square(value: Any) -> Any:
    found = matrix(value)
    if found.rows != found.cols:
        raise domain(f"a square matrix is needed here, not one of {found.rows} by {found.cols}")
    return found


@word("det(A)", "determinant", "det([[1, 2], [3, 4]])", MATRICES, symbol_too=True)
def det(value: Any) -> Any:
    return _square(value).det()


@word("inv(A)", "inverse", "inv([[1, 2], [3, 4]])", MATRICES, symbol_too=True)
def inv(value: Any) -> Any:
    found = _square(value)
    if found.det() == 0:
        raise domain("the matrix is singular")
    return found.inv()


@word("transpose(A)", "rows as columns", "transpose([[1, 2], [3, 4]])", MATRICES)
def transpose(value: Any) -> Any:
    return matrix(value).T


@word("trace(A)", "sum of the diagonal", "trace([[1, 2], [3, 4]])", MATRICES, symbol_too=True)
def trace(value: Any) -> Any:
    return _square(value).trace()


@word("rank(A)", "rank", "rank([[1, 2], [2, 4]])", MATRICES, symbol_too=True)
def rank(value: Any) -> Any:
    return sympy.Integer(matrix(value).rank())


@word("rref(A)", "reduced row echelon form", "rref([[1, 2, 3], [4, 5, 6]])", MATRICES)
def rref(value: Any) -> Any:
    return matrix(value).rref()[0]


@word("eigenvals(A)", "eigenvalues, each with its multiplicity", "eigenvals([[2, 1], [1, 2]])", MATRICES)
def eigenvals(value: Any) -> Any:
    return dict(sorted(_square(value).eigenvals().items(), key=lambda item: sympy.default_sort_key(item[0])))


@word("eigenvects(A)", "(eigenvalue, multiplicity, [vectors])", "eigenvects([[2, 0], [0, 3]])", MATRICES)
def eigenvects(value: Any) -> Any:
    return [(root, sympy.Integer(n), list(vectors)) for root, n, vectors in _square(value).eigenvects()]


@word("dot(u, v)", "scalar product", "dot([1, 2, 3], [4, 5, 6])", MATRICES, symbol_too=True)
def dot(u: Any, v: Any) -> Any:
    a, b = flat_vector(u), flat_vector(v)
    if len(a) != len(b):
        raise domain(f"vectors of {len(a)} and {len(b)} components have no scalar product")
    return sympy.Add(*(x * y for x, y in zip(a, b, strict=True)))


@word("cross(u, v)", "vector product", "cross([1, 0, 0], [0, 1, 0])", MATRICES, symbol_too=True)
def cross(u: Any, v: Any) -> Any:
    a, b = flat_vector(u), flat_vector(v)
    if (len(a), len(b)) != (3, 3):
        raise domain("a vector product needs two vectors of 3 components")
    return sympy.Matrix(a).cross(sympy.Matrix(b))


@word("norm(v)", "length of a vector", "norm([3, 4])", MATRICES, symbol_too=True)
def norm(value: Any) -> Any:
    return sympy.sqrt(sympy.Add(*(sympy.Abs(x) ** 2 for x in flat_vector(value))))


def flat_vector(value: Any) -> list[Any]:
    found = matrix(value)
    if 1 not in found.shape:
        raise domain("a vector is needed here, such as [1, 2, 3]")
    return list(found)


@word("eye(n)", "unit matrix", "eye(2)", MATRICES)
def eye(n: Any) -> Any:
    return sympy.eye(integer(n, 1, SIZES.matrix, "the size of a matrix"))


@word("zeros(n[, m])", "matrix of zeros", "zeros(2, 1)", MATRICES)
def zeros(*shape: Any) -> Any:
    return sympy.zeros(*_shape(shape))


@word("ones(n[, m])", "matrix of ones", "ones(2, 1)", MATRICES)
def ones(*shape: Any) -> Any:
    return sympy.ones(*_shape(shape))


def _shape(shape: tuple[Any, ...]) -> tuple[int, int]:
    if len(shape) not in (1, 2):
        raise domain("a matrix has rows and columns; write zeros(2, 3)")
    rows, columns = (integer(n, 1, SIZES.matrix, "the size of a matrix") for n in (shape[0], shape[-1]))
    return rows, columns


@word("diag(a, b, …)", "diagonal matrix", "diag(1, 2)", MATRICES)
def diag(*values: Any) -> Any:
    entries = flat(values)
    integer(sympy.Integer(len(entries)), 1, SIZES.matrix, "the size of a matrix")
    return sympy.diag(*(matrix([x])[0] for x in entries))
