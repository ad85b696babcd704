"""Values as text in the words of the grammar, so that what the tool says can be written back to it."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from specvet.tasks.physics.grammar.errors import too_large


class _Printer(StrPrinter):  # type: ignore[misc]
    """SymPy's own text, but for E and I, which are symbols here, and units, which are marked only beside names."""

    _default_settings = {**StrPrinter._default_settings, "mixed": False}  # noqa: RUF012

    def _print_Exp1(self, _: Any) -> str:  # noqa: N802
        return "exp(1)"

    def _print_ImaginaryUnit(self, _: Any) -> str:  # noqa: N802
        return "1j"

    def _print_Order(self, order: Any) -> str:  # noqa: N802
        return f"O({self._print(order.expr)})"

    def _print_MatrixBase(self, matrix: Any) -> str:  # noqa: N802
        return f"Matrix({self._print(matrix.tolist())})"

    def _print_UnitSymbol(self, unit: Any) -> str:  # noqa: N802
        return f"unit({unit.name})" if self._settings["mixed"] else str(unit.name)


def text_of(value: Any) -> str:
    """`value` on one line. Raises GrammarError (too_large) for a number of more digits than Python prints."""
    printer = _Printer({"full_prec": False, "mixed": _has_names(value)})
    try:
        return " ".join(str(printer.doprint(value)).split())
    except ValueError as error:
        if "digits" not in str(error):
            raise
        raise too_large("a number here has more than 4300 digits; use N(…)") from None


def _has_names(value: Any) -> bool:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return any(_has_names(item) for item in value)
    return any(type(x) is sympy.Symbol for x in getattr(value, "free_symbols", ()))
