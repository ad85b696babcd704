"""The probes of a policy that gives words only: greedy words tell."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from specvet.chat import Message
from specvet.policies.probes import scene
from specvet.policies.probes.asking import FailedError, NotAskedError, Outcomes, judged, outcomes
from specvet.policies.probes.report import Probe, equal, reached, skipped
from specvet.policies.probes.verdicts import orientation, seeded
from specvet.policies.text import Replies, TextPolicy
from specvet.policies.tokens import SamplingParams

TOKENS = 48
"""Of each answer: words differ later than log-probs do."""
GREEDY = SamplingParams(max_tokens=TOKENS, temperature=0.0, seed=1)


async def text_probes(policy: TextPolicy, *, fast: bool) -> list[Probe]:
    """The probes of the table in `specvet.policies.probes`, in its order."""

    async def said(messages: Sequence[Message], params: SamplingParams = GREEDY, n: int = 1) -> Replies:
        return await policy.reply(messages, [scene.TOOL], n, params)

    def drawn(seed: int, n: int = 1) -> SamplingParams:
        return SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=seed)

    first = scene.question(scene.curve())
    asked: dict[str, Coroutine[Any, Any, Replies]] = {
        "none": said(scene.question()),
        "curve": said(first),
        "again": said(first),
        "later": said((*first, *scene.later(scene.mirrored()))),
    }
    found = await outcomes(asked)
    # Only now: a server whose cache takes one picture for another shows it when the first has been read.
    asked = {
        "noise": said(scene.question(scene.noise())),
        "later_noise": said((*first, *scene.later(scene.noise()))),
    }
    sides: tuple[scene.Side, ...] = ("left", "right", "top", "bottom")
    if not fast:
        asked |= {
            "three": said(scene.question(scene.curve(), scene.noise(), scene.mirrored())),
            "alpha": said(scene.question(scene.transparent())),
            "white": said(scene.question(scene.laid_on("white"))),
            "black": said(scene.question(scene.laid_on("black"))),
            "mirrored": said(scene.question(scene.mirrored())),
            "seed": said(first, drawn(5)),
            "seed_again": said(first, drawn(5)),
            "seed_other": said(first, drawn(6)),
        }
        asked |= {str(side): said(scene.where(side)) for side in sides}
    found |= await outcomes(asked)
    unsteady = ""
    try:
        if _words(found, "curve") != _words(found, "again"):
            unsteady = "the same prompt gives other words, so that nothing else can be told from them"
    except (NotAskedError, FailedError) as e:
        unsteady = str(e)

    def moved(name: str, a: str, b: str, hint: str = "") -> Probe:
        if unsteady:
            return skipped(name, unsteady)
        differ = _words(found, a) != _words(found, b)
        return equal(name, float(differ), 1.0, "1: other words" + ("" if differ else hint))

    probes = [
        judged("token_count", lambda: _token_count(found, "later" if fast else "three")),
        judged("determinism", lambda: _determinism(found)),
        judged("swap_image", lambda: moved("swap_image", "curve", "noise")),
        judged("later_image", lambda: moved("later_image", "later", "later_noise", _hint(policy))),
    ]
    if fast:
        return probes

    def localisation() -> Probe:
        if unsteady:
            return skipped("localisation", unsteady)
        if _words(found, "curve") == _words(found, "mirrored"):
            # Words need not follow what log-probs would: a model may see and not say.
            return skipped("localisation", "its words for a picture and the mirrored one are the same")
        return equal("localisation", 1.0, 1.0, "1: other words")

    def alpha() -> Probe:
        if unsteady:
            return skipped("alpha", unsteady)
        if _words(found, "white") == _words(found, "black"):
            return skipped("alpha", "its words for a black ground and a white one are the same")
        differ = _words(found, "alpha") != _words(found, "white")
        return equal("alpha", float(differ), 0.0, "1: other words than for its white composite")

    def seed() -> Probe:
        a, b, other = (_words(found, name) for name in ("seed", "seed_again", "seed_other"))
        return seeded(a == b, a != other, sure=False)

    def oriented() -> Probe:
        return orientation({side: scene.side_in(_words(found, side), side) for side in sides})

    probes += [
        skipped("exact_ids", "a text policy has no ids"),
        judged("alpha", alpha),
        judged("localisation", localisation),
        judged("orientation", oriented),
        judged("seed", seed),
        await _group(policy, first),
        skipped("recomputed_logprobs", "a text policy gives no log-probs"),
        skipped("prefix", "a text policy gives no log-probs"),
    ]
    return probes


def _words(found: Outcomes[Replies], name: str) -> str:
    replies = found[name].replies
    if not replies:
        raise FailedError("the policy gave no reply at all")
    return replies[0].text


def _token_count(found: Outcomes[Replies], most: str) -> Probe:
    """Each picture costs the same number of tokens, and more than none; `later` holds two, beside other words."""
    none, one = found["none"].prompt_tokens, found["curve"].prompt_tokens
    many = found[most].prompt_tokens
    if none is None or one is None or many is None:
        return skipped("token_count", "the server does not say how long the prompt is, or says what cannot be")
    each = one - none
    what = "tokens that the server counts for a picture"
    if each <= 0:
        return reached("token_count", each, 1, what)
    if most == "later":
        return reached("token_count", many - one, each, f"{what}, the second")
    off = abs(many - none - 3 * each)
    return equal("token_count", off, 0, f"tokens apart: {each} for one picture, {many - none} for three")


def _determinism(found: Outcomes[Replies]) -> Probe:
    same = _words(found, "curve") == _words(found, "again")
    return equal("determinism", float(not same), 0.0, "1: other words for the same prompt")


async def _group(policy: TextPolicy, messages: Sequence[Message]) -> Probe:
    params = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=3)
    before = policy.usage.requests
    found = await outcomes({"three": policy.reply(messages, [scene.TOOL], 3, params)})

    def judge() -> Probe:
        texts = [r.text for r in found["three"].replies]
        if len(texts) == 3 and "n" not in policy.capabilities:
            return skipped("n", f"the server has no n: asked for in {policy.usage.requests - before} requests")
        return equal("n", len(texts), 3, f"replies for n = 3, {len(set(texts))} of them distinct")

    return judged("n", judge)


def _hint(policy: TextPolicy) -> str:
    dialect = getattr(policy, "dialect", None)
    if getattr(dialect, "tool_images", "") == "tool":
        return "; is the picture in a tool's message shown? Send it as the user's (--tool-images user)"
    return ""
