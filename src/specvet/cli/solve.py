"""`specvet solve`: a model attempts one problem, with a tool in the middle of its turn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli import models
from specvet.cli.console import console, print_json, say
from specvet.cli.failure import DONE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specvet.agent.problem_episode import ProblemBudget
    from specvet.chat import Image
    from specvet.policies.options import ModelOptions
    from specvet.policies.tokens import SamplingParams
    from specvet.records.problems import Problem
    from specvet.records.solutions import Solution


def solve(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM.json|-", help="One problem as JSON; - reads it from standard input.")
    ],
    *,
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="Who solves: torch, embedded, openai, trio or tinker.")
    ] = "torch",
    model: models.Model = None,
    adapter: models.Adapter = None,
    revision: models.Revision = None,
    base_url: models.BaseUrl = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    device: models.Device = "auto",
    dtype: models.Dtype = "auto",
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds of one request.")] = 600.0,
    n: Annotated[int, typer.Option("--n", min=1, max=64, help="Attempts.")] = 1,
    calls: Annotated[int, typer.Option("--calls", min=0, help="Of the tool; 0 leaves it out.")] = 6,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Between two calls.")] = 2_048,
    context: Annotated[int, typer.Option("--context", min=64, help="Tokens of a whole attempt.")] = 16_384,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=0.1, help="Of a whole attempt.")] = 600.0,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="0 takes the likeliest token.")] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object an attempt, with its ledger.")] = False,
) -> None:
    """Let a model solve a problem of physics, and show who wrote what.

    \b
      {"problem": "A stone falls 5 m. How fast is it?",
       "gold": {"kind": "numeric", "value": 9.9, "unit": "m/s"}, "images": ["stone.png"]}

    The model may write <tool>sympy: EXPRESSION</tool> in the middle of its turn: it is stopped, SymPy computes in a
    process that can be killed, the result is put in, and the model goes on. Stretches are marked by who wrote them:
    model, tool or harness (a notice of the program). A result that the model writes itself is cut; the second ends the
    attempt. Without `gold` nothing is judged. Pictures are paths relative to the file.

    \b
      specvet solve problem.json --model checkpoints/physics
      specvet solve - --policy openai --base-url http://localhost:8000/v1 --json < problem.json

    A server (openai) must go on with a turn that was begun, as vLLM and SGLang do (continue_final_message).

    \b
    Exit codes:
      0    an attempt was answered, rightly or not
      1    none was
      2    the command or the problem is wrong, or the policy cannot be opened
      130  interrupted
    """
    if not models.is_model(policy):
        raise CommandError(f"--policy {policy}: choose torch, embedded, openai, trio or tinker", USAGE)
    asked, judged, folder = _problem(problem)
    images = _pictures(asked, folder)
    from specvet.agent.problem_episode import ProblemBudget
    from specvet.policies.options import ModelOptions
    from specvet.policies.tokens import SamplingParams

    budget = ProblemBudget(max_calls=calls, turn_tokens=max_tokens, context=context, max_seconds=max_seconds)
    options = ModelOptions(
        model=model,
        adapter=adapter,
        revision=revision,
        **models.servers(policy, base_url),
        format=format,
        tokenizer=tokenizer,
        device=device,
        dtype=dtype,
        branches=n,
        context=context,
        tools="plain",
        timeout_s=timeout,
    )
    if policy == "torch" and model is None:
        say("no --model: a tiny one with random weights answers, which means nothing")
    params = SamplingParams(max_tokens, temperature, seed=seed)
    solutions = _solved(policy, options, asked, images, n, budget, params)
    for solution in solutions:
        verdict = _judged(asked, solution) if judged else None
        if json:
            print_json(solution.model_dump(mode="json") | ({} if verdict is None else {"matched": verdict}))
        else:
            _show(solution, verdict, n)
    raise typer.Exit(DONE if any(s.answer is not None for s in solutions) else NOTHING_VETTED)


def _problem(place: str) -> tuple[Problem, bool, Path]:
    """The problem, whether it has a gold answer, and the folder that its pictures are relative to."""
    import json

    from pydantic import ValidationError

    from specvet.records.problems import Problem

    with failing(USAGE, OSError, UnicodeDecodeError):
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
    name = "standard input" if place == "-" else place
    try:
        raw = json.loads(text)
    except ValueError as e:
        raise CommandError(f"{name}: no JSON: {e}; give one problem as a JSON object", USAGE) from e
    if not isinstance(raw, dict):
        raise CommandError(f"{name}: a {type(raw).__name__}, where one problem is expected as a JSON object", USAGE)
    judged = raw.get("gold") is not None
    unknown = {"kind": "text", "value": "unknown"}
    try:
        problem = Problem.model_validate({"id": "problem", **raw, **({} if judged else {"gold": unknown})})
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "problem"
        raise CommandError(f"{name}: {field}: {first['msg'].removeprefix('Value error, ')}", USAGE) from e
    return problem, judged, Path.cwd() if place == "-" else Path(place).parent


def _pictures(problem: Problem, folder: Path) -> list[Image]:
    """The problem's pictures as models are shown them."""
    from io import BytesIO

    from PIL import Image as Pillow

    from specvet.chat import Image, ImageError

    images = []
    for figure in problem.images:
        with failing(USAGE, OSError, ImageError, ValueError):
            data = figure.data if figure.data is not None else (folder / figure.path).read_bytes()
            if not data.startswith(b"\x89PNG"):
                out = BytesIO()
                Pillow.open(BytesIO(data)).convert("RGB").save(out, "PNG")
                data = out.getvalue()
            images.append(Image.of(data))
    return images


def _solved(
    name: str,
    options: ModelOptions,
    problem: Problem,
    images: Sequence[Image],
    n: int,
    budget: ProblemBudget,
    params: SamplingParams,
) -> list[Solution]:
    import asyncio

    from specvet.agent.problem_opening import problem_conversation
    from specvet.agent.problem_rollout import Solver
    from specvet.policies.tokens import PolicyError

    try:
        import sympy  # noqa: F401
    except ImportError as e:
        raise CommandError("the tool needs SymPy; install it with: pip install 'specvet[physics]'", USAGE) from e
    from specvet.tools.sympy_tool import Limits, SympyTool

    limits = Limits(wall_s=budget.call_seconds, calls=max(budget.max_calls, 1), episode_s=budget.tool_seconds)
    opening = problem_conversation(problem.problem, images, calls=budget.max_calls)
    decider = models.open_model(name, options)

    async def work() -> list[Solution]:
        solver = Solver(decider, lambda: SympyTool(limits), budget, params, concurrency=n)
        try:
            return await solver.group(problem.id, opening, n)
        finally:
            solver.close()
            await decider.aclose()

    with failing(NOTHING_VETTED, PolicyError, TimeoutError):
        return asyncio.run(work())


def _judged(problem: Problem, solution: Solution) -> dict[str, Any]:
    """What the matcher says of the answer."""
    from specvet.tasks.physics.matching import match

    decision = match(solution.answer, problem.gold)
    return {"right": decision.right, "credit": decision.credit, "reason": str(decision.reason)}


_STYLES = {"model": "", "tool": "magenta", "harness": "yellow"}


def _show(solution: Solution, verdict: dict[str, Any] | None, n: int) -> None:
    """The transcript in the terminal, every line marked with who wrote it."""
    from rich.text import Text

    from specvet.vetting.transcript.safe import plain

    out = console()
    if n > 1:
        out.print(Text(f"attempt {solution.sample + 1} of {n}", style="bold"))
    for segment in solution.segments:
        for line in plain(segment.text).split("\n"):
            out.print(Text(f"{segment.kind:<8}", style="dim") + Text(line, style=_STYLES[segment.kind]), soft_wrap=True)
    calls, tokens = solution.calls, solution.tokens
    counted = [f"{calls.made} call{'' if calls.made == 1 else 's'}"]
    counted += [f"{count} {kind}" for kind, count in calls.errors.items()]
    counted += [f"{calls.malformed} malformed"] if calls.malformed else []
    counted += [f"{calls.fabricated} made up by the model"] if calls.fabricated else []
    counted += [f"{tokens.sampled:,} tokens sampled"] if tokens else []
    if solution.answer is None:
        said = f"no answer: {solution.stop} ({plain(solution.stop_detail)})"
    else:
        said = f"answer: {plain(solution.answer)}"
    if verdict is not None and solution.answer is not None:
        said += f" · {'right' if verdict['right'] else 'wrong'} ({verdict['reason']})"
    out.print(Text(f"{said} · {', '.join(counted)}", style="bold"), soft_wrap=True)
