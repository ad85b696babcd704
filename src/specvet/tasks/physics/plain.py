r"""One notation for what people, LaTeX and Unicode write: `$3\times10^{−2}\,\text{m}²$` is `3*10^{-2} m ^{2}`.

What stays of LaTeX are the commands that the readers know: `\frac`, `\sqrt`, functions and Greek letters (which those
of Unicode become too). Everything here is linear in the text, and a text has at most `LONGEST` characters.
"""

from __future__ import annotations

import re
import unicodedata

from specvet.tasks.physics.reasons import Reason, UnreadError

LONGEST = 2000
"""Characters of an answer; a final answer is short, and whoever writes more has not decided."""

GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ϵ": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ϑ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi",
    "π": "pi", "ρ": "rho", "ϱ": "rho", "σ": "sigma", "ς": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "ϕ": "phi",
    "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "∆": "Delta", "Θ": "Theta", "Λ": "Lambda",
    "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega", "ħ": "hbar", "ℏ": "hbar", "ℓ": "ell",
}  # fmt: skip
GREEK_NAMES = frozenset(GREEK.values())

_SUPER = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ", "0123456789+-()n", strict=True))
_SUB = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₒₓₕₖₗₘₙₚₛₜᵢⱼ", "0123456789+-aeoxhklmnpstij", strict=True))
_RAISED = re.compile(f"[{''.join(_SUPER)}]+")
_LOWERED = re.compile(f"[{''.join(_SUB)}]+")
_VULGAR = re.compile("[¼½¾⅐-⅞]")

_SIGNS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "－": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*",
        "•": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "≃": "≈", "≅": "≈", "∼": "≈", "º": "°", "˚": "°",
        "√": r"\sqrt ",
        "′": "'", "’": "'", "ʼ": "'", "$": "", "`": "", "，": ", ", "∶": ":", "ı": "i",
    }
)  # fmt: skip

_WORD = r"(?![A-Za-z])"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), put)
    for pattern, put in [
        (r"\\\\|\\newline" + _WORD, " "),
        (r"\\[()\[\]]", " "),
        (r"\{,\}", ","),
        (r"\\!", ""),
        (r"\\[,;:> ]|~|\\q?quad" + _WORD + r"|\\thinspace" + _WORD, " "),
        (r"\\(?:left|right|[bB]igg?[lrm]?)" + _WORD + r"(?:[ ]*\.)?", ""),
        (r"\\(?:displaystyle|textstyle|rm|bf|it|mathop|limits)" + _WORD, " "),
        (r"\\(?:times|cdot|ast|bullet)" + _WORD, "*"),
        (r"\\div" + _WORD, "/"),
        (r"(?<=[\d.]) ?[xX] ?(?=10 ?\^)", "*"),
        (r"\\pm" + _WORD, "±"),
        (r"\\(?:approx|simeq|sim|cong)" + _WORD, "≈"),
        (r"\\(?:degree|circ|textdegree)" + _WORD, "°"),
        (r"\^ ?\{ ?° ?\}|\^ ?°|\{ ?° ?\}", "°"),
        (r"\^ ?\{ ?\\prime ?\}|\^ ?\\prime" + _WORD, "'"),
        (r"\\[dtc]frac" + _WORD, r"\\frac"),
        (r"\\(?:lvert|rvert|vert)" + _WORD, "|"),
        (r"\\(?:AA|angstrom)" + _WORD, "Å"),
        (r"\\ohm" + _WORD, r"\\Omega "),
        (r"\\(?:vec|overrightarrow|mathbf|boldsymbol|bm)" + _WORD, " "),
        (r"\\var(?=epsilon|theta|phi|rho|sigma)", r"\\"),
        (r"\\hslash" + _WORD, r"\\hbar"),
        (r"\\([%#&_])", r"\1"),
        (r"\\\{", "("),
        (r"\\\}", ")"),
        (r"\\arc(?=sin|cos|tan)", r"\\arc"),
    ]
)
_WORDS = re.compile(
    r"\\(?:text|mathrm|textrm|textbf|textit|mathit|mathsf|mathcal|mathbf|operatorname|unit|si|mbox|hbox)\s*"
    r"\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_BOLD = re.compile(r"\A\*\*(.*)\*\*\Z", re.DOTALL)
_BLANKS = re.compile(r"\s+")


def plain(text: str) -> str:
    """The text in one notation. Raises UnreadError (`too_long`)."""
    if len(text) > LONGEST:
        raise UnreadError(Reason.TOO_LONG)
    text = text.strip()
    if bold := _BOLD.match(text):
        text = bold[1]
    text = text.replace("℃", "°C").replace("℉", "°F")
    text = _RAISED.sub(lambda found: "^{" + "".join(_SUPER[c] for c in found[0]) + "}", text)
    text = _LOWERED.sub(lambda found: "_{" + "".join(_SUB[c] for c in found[0]) + "}", text)
    text = _VULGAR.sub(_fraction, text)
    text = "".join(f"\\{GREEK[c]} " if c in GREEK else c for c in text)
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    text = "".join(f"\\{GREEK[c]} " if c in GREEK else c for c in text)  # an ohm sign is an Omega only by now
    text = _unwrapped(text)
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return _BLANKS.sub(" ", text.replace("**", "^")).strip()


def _fraction(found: re.Match[str]) -> str:
    above, below = unicodedata.normalize("NFKC", found[0]).split("⁄")
    return rf"\frac{{{above}}}{{{below}}}"


def _unwrapped(text: str) -> str:
    """Without `\text{…}` and its kin; the spaces keep apart what two of them hold."""
    for _ in range(4):
        text, found = _WORDS.subn(r" \1 ", text)
        if not found:
            break
    return text
