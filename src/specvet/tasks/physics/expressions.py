r"""Expressions as people write them in answers, read into small trees: `mg\sin\theta`, `\frac{1}{2}mv_0^2`, `2√3`.

Nothing here runs what it reads: a recursive descent over at most 2,000 characters and 40 levels builds tuples of plain
data, and `values.py` computes them in floats. Handwriting is not a language, so a text can have several readings; a
`Convention` picks one, and `Parser.ambiguous` tells that another convention would have read it otherwise.

- `a/bc` is `(a/b)·c`, or with `wide_denominator` `a/(b·c)`.
- `\sin ab/c` is `sin(a·b)/c`, or with a `narrow` argument `sin(a)·b/c`, with a `long` one `sin(a·b/c)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from specvet.tasks.physics.plain import GREEK_NAMES
from specvet.tasks.physics.reasons import Reason, UnreadError
from specvet.tasks.physics.trees import NO_NAMES, Apply, Expression, Number, Symbol, Vocabulary, canonical, split_name

DEEPEST = 40
MOST_ATOMS = 200
"""Numbers, symbols and groups; trees lean to one side, so this bounds their depth too."""
LARGEST_EXPONENT = 400
"""Of a power of ten in a number; floats end near 308."""

FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "asin": "asin", "acos": "acos",
    "atan": "atan", "ln": "log", "log": "log", "exp": "exp", "abs": "abs", "Abs": "abs",
}  # fmt: skip
"""`log` is the natural logarithm, as in the sympy tool; `log_{10}` and `\\lg` have base 10."""
_WORDS = frozenset(FUNCTIONS) | GREEK_NAMES | {"lamda", "sqrt"}
_INVERSE = {"sin": "asin", "cos": "acos", "tan": "atan"}
_UNITLIKE = {"sec", "cot", "csc", "log", "abs", "Abs"}  # `5 sec` is a time

_MIXED = re.compile(
    r"(\d{1,9}) (\d{1,9}) ?/ ?(\d{1,9})(?![\d.])|(\d{1,9}) ?\\frac ?\{ ?(\d{1,9}) ?\} ?\{ ?(\d{1,9}) ?\}"
)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:(?:,\d{3})+|(?: \d{3})+)(?![\d]|,\d)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+(?![\d.]))?")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_SUBSCRIPT = re.compile(r" ?_ ?(?:\{([^{}]*)\}|(\\[A-Za-z]+)|([0-9]+)|([A-Za-z][A-Za-z0-9]*))")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Convention:
    wide_denominator: bool = False
    argument: Literal["usual", "narrow", "long"] = "usual"


_ARGUMENTS: tuple[Literal["usual", "narrow", "long"], ...] = ("usual", "narrow", "long")
CONVENTIONS = tuple(Convention(wide, argument) for argument in _ARGUMENTS for wide in (False, True))
"""The usual one first."""


class Parser:
    """One reading of one text (as `plain` gives it).

    `numeric` knows constants and functions only, and stops where something else begins: `end` is then the place where
    a unit may stand. `identifiers` takes whole identifiers for symbols, as a program does. Raises UnreadError.
    """

    def __init__(
        self,
        text: str,
        vocabulary: Vocabulary = NO_NAMES,
        convention: Convention = Convention(),
        *,
        numeric: bool = False,
        identifiers: bool = False,
    ) -> None:
        self.text, self.vocabulary, self.convention = text, vocabulary, convention
        self.numeric, self.identifiers = numeric, identifiers
        self.ambiguous = self.uncertain = False
        self.end = self._depth = self._function = self._atoms = 0
        self._latex = "\\" in text or "{" in text
        self._words = sorted({*_WORDS, *vocabulary.written}, key=len, reverse=True)

    def whole(self) -> Expression:
        """The text as one expression."""
        tree = self.sum()
        if self._peek():
            raise UnreadError(Reason.UNREAD)
        return tree

    def sum(self) -> Expression:
        self._depth += 1
        if self._depth > 2 * DEEPEST:
            raise UnreadError(Reason.TOO_LARGE)
        tree = self._product()
        while (sign := self._peek()) and sign in "+-±":
            mark = self._mark()
            self._take(sign)
            try:
                right = self._product()
            except UnreadError as e:
                self._stop(e, mark)
                break
            if sign == "±":
                self.uncertain = True
            else:
                tree = Apply(sign, (tree, right))
        self._depth -= 1
        return tree

    def _product(self) -> Expression:
        tree = self._signed()
        while sign := self._peek():
            mark = self._mark()
            try:
                if sign == "*":
                    self._take(sign)
                    tree = Apply("*", (tree, self._signed()))
                elif sign == "/":
                    self._take(sign)
                    tree = Apply("/", (tree, self._denominator()))
                elif self._implicit(tree):
                    tree = Apply("*", (tree, self._power()))
                else:
                    break
            except UnreadError as e:
                self._stop(e, mark)
                break
        return tree

    def _denominator(self) -> Expression:
        tree = self._signed()
        while self._peek() and self._implicit(tree):
            mark = self._mark()
            try:
                factor = self._power()
            except UnreadError as e:
                self._stop(e, mark)
                break
            self.ambiguous = True
            if not self.convention.wide_denominator:
                self.end = mark[0]
                break
            tree = Apply("*", (tree, factor))
        return tree

    def _mark(self) -> tuple[int, int, int]:
        return self.end, self._depth, self._function

    def _stop(self, error: UnreadError, mark: tuple[int, int, int]) -> None:
        """A number ends where its unit begins; anywhere else, and at a size or comma, it is a fault."""
        if not self.numeric or error.reason is not Reason.UNREAD:
            raise error
        self.end, self._depth, self._function = mark

    def _signed(self) -> Expression:
        minus = False
        while (sign := self._peek()) and sign in "+-":
            self._take(sign)
            minus ^= sign == "-"
        tree = self._power()
        return Apply("neg", (tree,)) if minus else tree

    def _power(self) -> Expression:
        self._depth += 1
        if self._depth > 2 * DEEPEST:
            raise UnreadError(Reason.TOO_LARGE)
        tree = self._postfix(self._atom())
        if self._peek() == "^":
            mark = self._mark()
            self._take("^")
            try:
                tree = Apply("^", (tree, self._signed()))
            except UnreadError as e:
                self._stop(e, mark)
        self._depth -= 1
        return tree

    def _postfix(self, tree: Expression) -> Expression:
        if self._function and self._peek() == "°":
            self._take("°")
            return Apply("*", (tree, Apply("/", (Symbol("pi"), Number(Fraction(180))))))
        return tree

    def _implicit(self, before: Expression) -> bool:
        """Whether a factor without a sign begins here."""
        here = self._peek()
        if here.isdigit() or here == ".":
            return (not isinstance(before, Number) and not self.numeric) or self.text.startswith("10^", self.end)
        return here in "(\\" or here.isalpha() or (here in "[{" and not self.numeric)

    def _atom(self) -> Expression:
        self._atoms += 1
        if self._atoms > MOST_ATOMS:
            raise UnreadError(Reason.TOO_LARGE)
        here = self._peek()
        if here.isdigit() or here == ".":
            return self._number()
        if here in ("(", "[", "{"):
            return self._group(here, {"(": ")", "[": "]", "{": "}"}[here])
        if here == "|":
            return Apply("abs", (self._group("|", "|"),))
        if here == "±":
            raise UnreadError(Reason.TWO_SIGNS)
        if command := _COMMAND.match(self.text, self.end):
            name = command[1]
            if name in ("frac", "sqrt", "lg", *FUNCTIONS) or name in GREEK_NAMES or name == "lamda":
                return self._named(name, command.end())
            raise UnreadError(Reason.UNREAD)
        if here.isalpha() and here.isascii():
            return self._letters()
        raise UnreadError(Reason.UNREAD)

    def _group(self, opening: str, closing: str) -> Expression:
        self._take(opening)
        tree = self.sum()
        if self._peek() != closing:
            raise UnreadError(Reason.UNREAD)
        self._take(closing)
        return tree

    def _number(self) -> Expression:
        if self.numeric and (found := _MIXED.match(self.text, self.end)):
            whole, above, below = (int(part) for part in found.groups() if part is not None)
            if above < below and not self.text.startswith("^", found.end()):
                self.end = found.end()
                return Number(whole + Fraction(above, below))
        found = _GROUPED.match(self.text, self.end)
        if found is None:
            found = _NUMBER.match(self.text, self.end)
            if found is None:
                raise UnreadError(Reason.UNREAD)
            if re.match(r" ?, ?\d", self.text[found.end() : found.end() + 4]):
                raise UnreadError(Reason.NUMBER_COMMA)
        self.end = found.end()
        return _number(re.sub("[, ]", "", found[0]))

    def _letters(self) -> Expression:
        start = self.end
        if self.identifiers and (found := _IDENTIFIER.match(self.text, start)):
            self.end = found.end()
            if found[0] in FUNCTIONS or found[0] in ("sqrt", "log10"):
                return self._named(found[0], self.end)
            return self._symbol(split_name(found[0]))
        for word in self._words:
            if not self.text.startswith(word, start):
                continue
            if word in self.vocabulary.written:
                self.end = start + len(word)
                if not re.match(r"\d|_", self.text[self.end : self.end + 1]):
                    return self._symbol(self.vocabulary.written[word])
                if "_" not in self.vocabulary.written[word]:
                    return self._subscripted(word)
                self.end = start
            elif not self.vocabulary.letters.issuperset(word):
                return self._named(word, start + len(word))
        self.end = start + 1
        return self._subscripted(self.text[start])

    def _named(self, name: str, end: int) -> Expression:
        start, self.end = self.end, end
        if name == "frac":
            above = self._argument()
            return Apply("/", (above, self._argument()))
        if name == "sqrt":
            return self._root(tight=self.text[start] == "\\" and self.text[end : end + 1] != " ")
        if name in ("lg", "log10"):
            return self._call("log", ten=True)
        if name in FUNCTIONS:
            if self.numeric and name in _UNITLIKE and self.text[start] != "\\" and self._peek() != "(":
                self.end = start
                raise UnreadError(Reason.UNREAD)
            return self._call(FUNCTIONS[name])
        return self._subscripted(name)

    def _argument(self) -> Expression:
        """What LaTeX takes for an argument: a group, or one sign: `\\frac12`."""
        here = self._peek()
        if here == "{":
            return self._group("{", "}")
        if here.isdigit():
            self.end += 1
            return Number(Fraction(int(here)))
        return self._atom()

    def _root(self, tight: bool) -> Expression:
        """`\\sqrt23` is √2·3 in LaTeX; `√23` comes as `\\sqrt 23`, with a space."""
        index: Expression = Number(Fraction(2))
        if self._peek() == "[":
            index = self._group("[", "]")
        radicand = self._argument() if tight or not self._peek().isdigit() else self._number()
        return Apply("^", (radicand, Apply("/", (Number(Fraction(1)), index))))

    def _call(self, function: str, ten: bool = False) -> Expression:
        power: Expression | None = None
        if function == "log" and (base := re.match(r" ?_ ?(?:\{ ?10 ?\}|10)", self.text[self.end : self.end + 9])):
            self.end += base.end()
            ten = True
        if self._peek() == "^":
            self._take("^")
            power = self._signed()
            if power in (Apply("neg", (Number(Fraction(1)),)), Number(Fraction(-1))) and function in _INVERSE:
                function, power = _INVERSE[function], None
        self._function += 1
        tree = Apply(function, (self._operand(),))
        self._function -= 1
        if ten:
            tree = Apply("/", (tree, Apply("log", (Number(Fraction(10)),))))
        return tree if power is None else Apply("^", (tree, power))

    def _operand(self) -> Expression:
        here = self._peek()
        if here in ("(", "{", "["):
            return self._group(here, {"(": ")", "[": "]", "{": "}"}[here])
        tree = self._power()
        narrow = not isinstance(tree, Number)
        while (here := self._peek()) and (here.isalpha() or here == "\\") and not self._at_function():
            mark = self._mark()
            try:
                factor = self._power()
            except UnreadError as e:
                self._stop(e, mark)
                break
            if narrow:
                self.ambiguous = True
                if self.convention.argument == "narrow":
                    self.end = mark[0]
                    break
            tree, narrow = Apply("*", (tree, factor)), True
        if self._peek() == "/":
            self.ambiguous = True
            if self.convention.argument == "long":
                self._take("/")
                tree = Apply("/", (tree, self._signed()))
        return tree

    def _at_function(self) -> bool:
        found = re.match(r"\\?([A-Za-z]+)", self.text[self.end : self.end + 12])
        return found is not None and any(found[1].startswith(name) for name in (*FUNCTIONS, "frac", "sqrt"))

    def _subscripted(self, base: str) -> Expression:
        """The symbol of a base that was just read, with the subscript and primes that follow."""
        below = ""
        if found := _SUBSCRIPT.match(self.text, self.end):
            group, command, digits, run = found.groups()
            below, self.end = group or command or digits or run or "", found.end()
            if run and self._latex and canonical(base, run) not in self.vocabulary.written:
                below, self.end = run[0], found.start(4) + 1
        elif len(base) == 1 or base in GREEK_NAMES - {"pi"} or base in self.vocabulary.written:
            digits_only = re.match(r"\d+", self.text[self.end : self.end + 4])
            if digits_only and not self.numeric:
                below, self.end = digits_only[0], self.end + digits_only.end()
        return self._symbol(canonical(base, below))

    def _is_euler(self, start: int) -> bool:
        """`e^2` and a closing `/e` are Euler's number; `5 e` is a charge."""
        return self._peek() == "^" or (not self._peek() and self.text[:start].rstrip().endswith("/"))

    def _symbol(self, name: str) -> Expression:
        start = self.end - 1
        if primes := re.match("'+", self.text[self.end : self.end + 3]):
            self.end += primes.end()
            name += "_prime" * primes.end()
        name = self.vocabulary.aliases.get(name, name)
        if self.numeric and name != "pi" and not (name == "e" and self._is_euler(start)):
            raise UnreadError(Reason.UNREAD)
        return Symbol(name)

    def _peek(self) -> str:
        while self.end < len(self.text) and self.text[self.end] == " ":
            self.end += 1
        return self.text[self.end : self.end + 1]

    def _take(self, sign: str) -> None:
        self.end += len(sign)


def _number(text: str) -> Number:
    mantissa, _, exponent = text.lower().partition("e")
    digits = exponent.lstrip("+-").lstrip("0")
    if len(digits) > 3 or int(digits or 0) > LARGEST_EXPONENT or len(mantissa) > LARGEST_EXPONENT:
        raise UnreadError(Reason.TOO_LARGE)
    return Number(Fraction(text), "." in mantissa or bool(exponent))
