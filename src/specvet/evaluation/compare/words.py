"""What the page and the terminal say in the same words."""

from __future__ import annotations

from specvet.evaluation.compare.meeting import Meeting, Side
from specvet.evaluation.report import words
from specvet.vetting.transcript.safe import one_line


def side_name(side: Side, names: tuple[str, str]) -> str:
    """`only NAME right`, `both wrong`."""
    a, b = map(one_line, names)
    return {"only_a": f"only {a} right", "only_b": f"only {b} right", "neither": "both wrong"}[side]


def numbers_lines(meeting: Meeting) -> list[str]:
    """The paired numbers in sentences."""
    n = meeting.numbers
    a, b = map(one_line, meeting.names)
    lines = [
        f"{words.plural(n['n'], 'question')} about {words.plural(n['objects'], 'object')}, answers read by "
        f"{meeting.rule}: {n['both_right']:,} both right, {n['only_a']:,} only {a}, {n['only_b']:,} only {b}, "
        f"{n['neither']:,} both wrong. Exact McNemar p: {words.p_value(n['mcnemar_p'])} (two-sided; it takes questions "
        "for independent).",
        f"{a} minus {b}, in points with 95 % intervals drawn by object: "
        + "; ".join(
            f"{name} {words.interval(n[key]['difference'], sign=True)}"
            for key, name in (("accuracy", "accuracy"), ("macro_f1", "macro F1"), ("format", "strict format"))
        )
        + ".",
    ]
    if meeting.left_out:
        lines.append(f"{words.plural(meeting.left_out, 'question')} that only one of them was asked are left out.")
    return lines
