"""What a model is told of a problem: how to call the tool in the middle of a turn, and how to answer."""

from __future__ import annotations

from collections.abc import Sequence

from specvet.chat import Conversation, Image
from specvet.chat import sympy_tags as tags
from specvet.chat.messages import system, user

ANSWER = f"Give the answer once, at the end, as {tags.ANSWER_OPEN}\\boxed{{…}}{tags.ANSWER_CLOSE}, with its unit."

TASK = "You solve problems of physics."


def tool_text(calls: int) -> str:
    """How the tool is called, and how often."""
    return (
        "While you think you may call a tool that computes with SymPy: write "
        f"{tags.OPEN}{tags.TOOL}: EXPRESSION{tags.CLOSE} and its result is put in right after it, as "
        f"{tags.RESULT}>…</tool_result>. Never write a result yourself. An expression stands on one line of at most "
        f"{tags.MAX_ARGUMENT} characters, such as solve(m*g*h - m*v**2/2, v) or N(sqrt(2*9.81*5), 4). At most {calls} "
        "calls are answered."
    )


def problem_conversation(problem: str, images: Sequence[Image] = (), *, calls: int = 6) -> Conversation:
    """The first messages about a problem, pictures first; with 0 `calls` nothing is said of a tool."""
    told = (TASK, tool_text(calls), ANSWER) if calls else (TASK, ANSWER)
    return Conversation((system(" ".join(told)), user(*images, problem)))
