"""The spelling of physics made one that Python can parse: `2πr²` becomes `2*pi*r**(2)`.

What stands for something else in mathematics than in Python is either rewritten or refused with what to write instead;
nothing is guessed in silence.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from specvet.tasks.physics.grammar.errors import GrammarError, syntax, too_large, unsupported

GREEK = dict(
    zip(
        "αβγδεζηθικλμνξορςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΡΣΤΥΦΧΨΩ",
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta",
            "eta",
            "theta",
            "iota",
            "kappa",
            "lambda",
            "mu",
            "nu",
            "xi",
            "omicron",
            "rho",
            "sigma",
            "sigma",
            "tau",
            "upsilon",
            "phi",
            "chi",
            "psi",
            "omega",
            "Alpha",
            "Beta",
            "Gamma",
            "Delta",
            "Epsilon",
            "Zeta",
            "Eta",
            "Theta",
            "Iota",
            "Kappa",
            "Lambda",
            "Mu",
            "Nu",
            "Xi",
            "Omicron",
            "Rho",
            "Sigma",
            "Tau",
            "Upsilon",
            "Phi",
            "Chi",
            "Psi",
            "Omega",
        ],
        strict=True,
    )
) | {"ϵ": "epsilon", "ϑ": "theta", "ϕ": "phi", "ϱ": "rho", "µ": "mu", "ħ": "hbar", "ℏ": "hbar", "ℓ": "ell"}

CHARACTERS = {
    **dict.fromkeys("−–—﹣－", "-"),
    **dict.fromkeys("×·⋅∙•∗＊⨯", "*"),
    **dict.fromkeys("÷∕⁄／", "/"),
    "＋": "+",
    "^": "**",
    "（": "(",
    "）": ")",
    "，": ",",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≡": "==",
    "∞": " oo ",
    "π": " pi ",
    "°": "*(pi/180)",
    "½": " (1/2)",
    "⅓": " (1/3)",
    "⅔": " (2/3)",
    "¼": " (1/4)",
    "¾": " (3/4)",
    **dict.fromkeys("\u00a0\u2009\u202f\u2002\u2003\u3000\t", " "),
    **dict.fromkeys("\u2061\u2062\u200b\ufeff", ""),
}
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉ₐₑᵢⱼₖₘₙₚₛₜₓ", "0123456789aeijkmnpstx", strict=True))

TOKEN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[jJ](?![A-Za-z_0-9]))?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<op>\*\*|==|<=|>=|!=|//|:=|[-+*/()\[\],<>&|√])"
    r"|(?P<space>\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

RENAMED = {"lambda": "lambda_"}
"""Names that Python keeps for itself and physics does not."""

KEYWORDS = frozenset(
    [
        "as",
        "assert",
        "async",
        "await",
        "break",
        "class",
        "continue",
        "def",
        "del",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "from",
        "global",
        "if",
        "import",
        "in",
        "is",
        "nonlocal",
        "pass",
        "raise",
        "return",
        "try",
        "while",
        "with",
        "yield",
        "None",
    ]
)
LOGIC = frozenset(("and", "or", "not"))
OPTIONS = frozenset(
    [
        "positive",
        "real",
        "integer",
        "nonnegative",
        "negative",
        "complex",
        "commutative",
        "cls",
        "dict",
        "set",
        "evaluate",
        "force",
        "simplify",
        "deep",
        "rational",
        "minimal",
        "check",
        "numerical",
        "ics",
        "hint",
        "n",
        "dir",
        "x0",
        "conds",
        "method",
        "modulus",
        "extension",
        "trig",
    ]
)
"""Keyword arguments that models give to SymPy."""

SAYS = {
    "'": "texts in quotes are not supported; every name is a symbol already: write x, not 'x'",
    '"': 'texts in quotes are not supported; every name is a symbol already: write x, not "x"',
    ";": "write one expression; programs are not supported",
    "{": "sets and dictionaries are not supported; write a list [ … ]",
    "}": "sets and dictionaries are not supported; write a list [ … ]",
    ":": "slices, dictionaries and lambda functions are not supported; write one expression",
    "!": "write factorial(n)",
    "%": "write a/100 for percent and Mod(a, b) for a remainder",
    "@": "write A*B for a product of matrices",
    "\\": "LaTeX is not supported; write sqrt(x), x/y, alpha",
    "$": "LaTeX is not supported; write the bare expression",
    "#": "comments are not supported",
    "`": "write the bare expression, without code marks",
    "~": "write Not(…)",
}


ENDS = (")", "]")


class Token(NamedTuple):
    kind: str
    text: str


def spelled(text: str) -> str:
    """`text` as one line that `ast` can parse. Raises GrammarError (syntax, unsupported)."""
    return " ".join(_python(_tokens(_characters(text.strip()))))


def _characters(text: str) -> str:
    """ASCII characters of the same meaning."""
    text = re.sub(r"(?<![\w.])(\d+)\s*([½⅓⅔¼¾])", r"(\1+\2)", text)  # 2½ is a sum
    out: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        table = SUPERSCRIPTS if c in SUPERSCRIPTS else SUBSCRIPTS if c in SUBSCRIPTS else None
        if table is not None:
            end = i
            while end < len(text) and text[end] in table:
                end += 1
            run = "".join(table[x] for x in text[i:end])
            out.append(f"**({run})" if table is SUPERSCRIPTS else f"_{run}")
            i = end
            continue
        following = text[i + 1 : i + 2]
        if c in GREEK:
            joined = following in SUBSCRIPTS or following in ("_",) or following.isdecimal()
            joined = joined and bool(following)
            if c in "Δδ" and following and (following.isalpha() or following in GREEK):
                out.append(f" {GREEK[c]}_")  # Δx is one name
            elif out and out[-1].endswith("_"):
                out.append(GREEK[c] + ("" if joined else " "))
            else:
                out.append(f" {GREEK[c]}" + ("" if joined else " "))
        else:
            out.append(CHARACTERS.get(c, c))
        i += 1
    return "".join(out)


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    depth = 0
    for match in TOKEN.finditer(text):
        kind, said = str(match.lastgroup), match.group()
        before = tokens[-1] if tokens else Token("", "")
        if kind == "space":
            if depth == 0 and any(c in LINE_BREAKS for c in said):
                raise unsupported("write one expression on one line; programs are not supported")
            continue
        if kind == "op":
            depth += (said in "([") - (said in ")]")
        if kind == "other" or said == ":=":
            raise _refusal(said, text, match.start(), before, depth)
        if kind == "number":
            _check_number(said, before, text[match.end() : match.end() + 1])
        if kind == "name":
            said = _name(said, text[match.end() :].lstrip()[:1])
        tokens.append(Token("logic" if said in LOGIC else kind, said))
    if not tokens:
        raise syntax("the expression is empty")
    return tokens


def _check_number(said: str, before: Token, following: str) -> None:
    if said[0] == "." and (before.kind in ("name", "number") or before.text in ENDS):
        raise syntax("write numbers as 0.5, and the sign between factors")
    if float(said.rstrip("jJ")) == 0.0 and re.search(r"[1-9]", re.split("[eE]", said)[0]):
        raise too_large("a number is below 1e-308")
    if following == "_":
        raise syntax("write numbers without underscores")
    if len(said) > 1 and said[0] == "0" and said[1].isdigit():
        raise syntax("a number begins with 0; write thousands without commas: 3000, not 3,000")
    if said == "0" and following in "xXbBoO" and following:
        raise syntax("write numbers in decimal")


def _name(said: str, following: str) -> str:
    if said.startswith("_") or "__" in said:
        raise unsupported("names that begin with an underscore or hold two are not supported")
    if len(said) > 30:
        raise unsupported("names are at most 30 characters long")
    if said in KEYWORDS:
        raise unsupported(f"'{said}' is not supported; write one expression (Piecewise for cases, summation for sums)")
    if following in ("'", '"'):
        raise unsupported(SAYS[following])
    return RENAMED.get(said, said)


def _refusal(said: str, text: str, at: int, before: Token, depth: int) -> GrammarError:
    """Why a character is not part of the grammar, and what to write instead."""
    if said in ("=", ":="):
        if depth and before.text in OPTIONS:
            return unsupported(f"keyword arguments are not supported: leave out {before.text}=…")
        if depth:
            return unsupported("write an equation as Eq(left, right) or left == right; keywords are not supported")
        return unsupported(
            "assignments are not supported: every name is a symbol already; write one expression, with values in place "
            "or subs(expr, x, value), and an equation as Eq(left, right)"
        )
    if said == ".":
        method = re.match(r"\.\s*([A-Za-z]\w*)", text[at:])
        if before.text in ("sympy", "sp", "sym", "math", "np", "numpy", "mpmath", "cmath", "units"):
            return unsupported(f"write the function without '{before.text}.'")
        if method and len(method[1]) <= 30 and not method[1].startswith("_"):
            return unsupported(
                f"methods and attributes are not supported: write {method[1]}(expr, …), not expr.{method[1]}"
            )
        return unsupported("methods and attributes are not supported")
    if said in SAYS:
        return GrammarError("syntax" if said in "!%#`$\\" else "unsupported", SAYS[said])
    shown = said if said.isprintable() else f"U+{ord(said):04X}"
    return syntax(f"unexpected character {shown}")


def _python(tokens: list[Token]) -> list[str]:
    """The tokens as Python writes them, with the signs of multiplication that people leave out."""
    out: list[str] = []
    before = Token("", "")
    root = False
    for token in tokens:
        value = token.kind in ("number", "name")
        left = before.kind in ("number", "name") or before.text in ENDS
        if left and (value or token.text == "√" or (token.text == "(" and before.kind != "name")):
            if before.kind == token.kind == "number":
                raise syntax("two numbers stand side by side; write the sign between them")
            out.append("*")
        if token.text == "√":
            out.append("sqrt")
            root = True
        elif root and value:
            out += ["(", token.text, ")"]
            root = False
        else:
            if root and token.text != "(":
                raise syntax("write sqrt(…)")
            root = False
            out.append(token.text)
        before = token
    return out
