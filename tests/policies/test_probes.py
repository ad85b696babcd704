"""Each kind of blindness fails the probe that is meant for it, and no other; what sees fails none."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probe_lab import Confusing, Meddling, SeeingText, SeeingTokens, blank, mirror, on_black, run

from specvet.chat import Image
from specvet.policies.options import ModelOptions
from specvet.policies.probes import Probe, base_answer, fast_probes, probe, scene
from specvet.policies.probes.scene import side_in
from specvet.policies.tokens import ContextLengthError, PolicyError, Samples

torch = pytest.importorskip("torch")

from specvet.policies.torch import open_policy  # noqa: E402

ASKED = ["token_count", "determinism", "swap_image", "later_image"]
FAST = [*ASKED, "recomputed_logprobs", "prefix"]
ALL = [
    *ASKED,
    "exact_ids",
    "alpha",
    "localisation",
    "orientation",
    "seed",
    "n",
    "recomputed_logprobs",
    "prefix",
    "adapter",
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(format: str = "qwen2_5_vl", **options: Any) -> Any:
    return open_policy(ModelOptions(format=format, device="cpu", **options))


@pytest.fixture(scope="module")
def torch_policy() -> Iterator[Any]:
    policy = tiny()
    yield policy
    run(policy.aclose())


def failed(policy: Any, **how: Any) -> set[str]:
    return {p.name for p in run(probe(policy, **how)).failed}


# --- what sees


@pytest.mark.parametrize("format", ["qwen2_5_vl", "qwen3_vl", "qwen3_vl_thinking", "qwen3_5"])
def test_the_tiny_models_of_all_families_pass_at_the_start_of_a_run(format: str) -> None:
    policy = tiny(format, dtype="float32")
    found = run(fast_probes(policy))
    run(policy.aclose())
    assert [p.name for p in found] == FAST
    assert all(p.ok for p in found), found


@pytest.mark.parametrize("format", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_the_tiny_models_of_all_families_pass_every_probe_that_can_be_asked(format: str) -> None:
    policy = tiny(format)
    report = run(probe(policy))
    run(policy.aclose())
    assert [p.name for p in report.probes] == ALL
    assert report.ok, report.failed
    assert {p.name for p in report.skipped} == {"orientation", "adapter"}
    assert report.requests <= 26


def test_fast_probes_are_nine_requests_of_torch_and_say_the_same(torch_policy: Any) -> None:
    before = torch_policy.usage.requests
    found = run(fast_probes(torch_policy))
    assert [p.name for p in found] == FAST
    assert all(p.ok for p in found)
    assert torch_policy.usage.requests - before == 9
    told = {p.name: p.detail for p in found}
    assert "with 0 pictures, " in told["token_count"]
    assert "with 1 picture, " in told["token_count"]
    assert "must give the same ids" in told["determinism"]


def test_a_policy_that_gives_words_only_passes_by_its_words() -> None:
    policy = SeeingText()
    report = run(probe(policy))  # type: ignore[arg-type]
    assert [p.name for p in report.probes] == ALL
    assert report.ok, report.failed
    assert {p.name for p in report.skipped} == {"exact_ids", "recomputed_logprobs", "prefix", "adapter"}
    assert report["orientation"].value == 4
    assert report.requests <= 26
    fast = SeeingText()
    run(fast_probes(fast))  # type: ignore[arg-type]
    assert fast.usage.requests == 6


def test_a_model_that_can_say_where_things_are_is_asked_on_ids_too() -> None:
    report = run(probe(SeeingTokens()))  # type: ignore[arg-type]
    assert report["orientation"].ok
    assert report["orientation"].value == 4


# --- what does not


BLIND = {
    "drops all pictures": (
        {"drop": True},
        {"token_count", "swap_image", "later_image", "localisation", "recomputed_logprobs", "prefix"},
    ),
    "shows white instead": (
        {"redraw": blank},
        {"swap_image", "later_image", "localisation", "recomputed_logprobs", "prefix"},
    ),
    "shows white instead of later pictures": ({"redraw": blank, "later": True}, {"later_image", "prefix"}),
    "lays alpha on black": ({"redraw": on_black}, {"alpha"}),
    "spells sampled ids anew": ({"respell": True}, {"token_count", "exact_ids", "prefix"}),
    "miscounts": ({"off": 1}, {"token_count"}),
    "mirrors pictures": ({"redraw": mirror}, {"recomputed_logprobs", "prefix"}),
}


@pytest.mark.parametrize("kind", BLIND)
def test_each_blindness_fails_its_own_probes_and_no_others(torch_policy: Any, kind: str) -> None:
    how, expected = BLIND[kind]
    assert failed(Meddling(torch_policy, **how)) == expected


@pytest.mark.parametrize("kind", ["drops all pictures", "shows white instead", "shows white instead of later pictures"])
def test_the_fast_probes_find_the_blind_too(torch_policy: Any, kind: str) -> None:
    how, expected = BLIND[kind]
    assert failed(Meddling(torch_policy, **how), fast=True) == expected & set(FAST)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"drop": True}, {"token_count", "swap_image", "later_image"}),
        ({"redraw": blank}, {"swap_image", "later_image"}),
        ({"redraw": blank, "later": True}, {"later_image"}),
        ({"drop": True, "later": True}, {"later_image"}),
        ({"redraw": on_black}, {"alpha"}),
        ({"redraw": mirror}, {"orientation"}),
        ({"tokens_of": lambda n: 98 * n + (n > 1)}, {"token_count"}),
        ({"tokens_of": lambda n: 0}, {"token_count"}),
        ({"seeded": False}, {"seed"}),
        ({"wavering": True}, {"determinism", "seed"}),
    ],
)
def test_each_blindness_of_a_text_policy_fails_its_own_probes(how: dict[str, Any], expected: set[str]) -> None:
    assert failed(SeeingText(**how)) == expected


@pytest.mark.parametrize("fast", [True, False])
def test_a_cache_that_takes_one_picture_for_another_is_found(torch_policy: Any, fast: bool) -> None:
    assert {"swap_image", "later_image"} <= failed(Confusing(torch_policy), fast=fast)
    assert {"swap_image", "later_image"} <= failed(SeeingText(confusing=True), fast=fast)


def test_a_model_that_mirrors_is_told_from_one_that_does_not_know_sides() -> None:
    report = run(probe(Meddling(SeeingTokens(), redraw=mirror)))  # type: ignore[arg-type]
    assert report["orientation"].ok is False
    assert "it says right for left, left for right" in report["orientation"].detail


def test_a_wavering_backend_fails_determinism_and_nothing_is_told_from_it() -> None:
    report = run(probe(SeeingText(wavering=True)))  # type: ignore[arg-type]
    assert report["determinism"].ok is False
    for name in ("swap_image", "later_image", "alpha", "localisation"):
        assert report[name].ok is None
        assert "other words" in report[name].skipped


def test_wavering_log_probs_raise_the_bound_that_a_swap_must_pass(torch_policy: Any) -> None:
    shaken = np.random.default_rng(0)

    def shake(samples: Samples) -> Samples:
        sequences = [
            dataclasses.replace(s, logprobs=s.logprobs + shaken.normal(0, 0.05, len(s.ids)).astype(np.float32))
            for s in samples.sequences
            if s.logprobs is not None
        ]
        return dataclasses.replace(samples, sequences=tuple(sequences))

    report = run(probe(Meddling(torch_policy, redraw=blank, edit=shake)))
    assert report["swap_image"].bound is not None
    assert report["swap_image"].bound > 0.1
    assert {"swap_image", "later_image", "localisation"} <= {p.name for p in report.failed}


def only_one(samples: Samples) -> Samples:
    return dataclasses.replace(samples, sequences=samples.sequences[:1])


def forgetful(samples: Samples) -> Samples:
    return dataclasses.replace(samples, cached_tokens=0)


def off_by_one(samples: Samples) -> Samples:
    rolled = [dataclasses.replace(s, logprobs=np.roll(s.logprobs, 1)) for s in samples.sequences]  # type: ignore[arg-type]
    return dataclasses.replace(samples, sequences=tuple(rolled))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"edit": only_one}, {"n"}),
        ({"edit": forgetful}, {"prefix"}),
        ({"edit": off_by_one}, {"recomputed_logprobs", "prefix"}),
        ({"params": lambda p: dataclasses.replace(p, seed=1)}, {"seed"}),
    ],
)
def test_broken_groups_caches_log_probs_and_seeds_are_found(
    torch_policy: Any, how: dict[str, Any], expected: set[str]
) -> None:
    assert failed(Meddling(torch_policy, **how)) == expected


def test_a_server_without_n_is_skipped_and_not_failed() -> None:
    report = run(probe(SeeingText(n=False)))  # type: ignore[arg-type]
    assert report["n"].ok is None
    assert report.ok


def test_a_server_that_does_not_count_is_skipped_and_not_failed() -> None:
    assert run(probe(SeeingText(tokens_of=lambda n: None)))["token_count"].ok is None  # type: ignore[arg-type]


# --- adapters


@pytest.mark.parametrize(("scale", "ok"), [(0.1, True), (0.0, None)])
def test_an_adapter_changes_log_probs_unless_it_is_fresh(tmp_path: Path, scale: float, ok: bool | None) -> None:
    peft = pytest.importorskip("peft")
    from specvet.policies.torch.tiny import save_tiny, tiny_model

    save_tiny(tmp_path / "model")
    lora = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, parameter in lora.named_parameters():
            if "lora_B" in name:
                parameter.fill_(scale)
    lora.save_pretrained(tmp_path / "adapter")
    model = str(tmp_path / "model")
    plain, adapted = tiny(model=model), tiny(model=model, adapter=str(tmp_path / "adapter"))
    grads = {name: p.requires_grad for name, p in adapted.model.module.named_parameters()}
    base = run(base_answer(plain))
    reports = [run(probe(adapted, base=base)), run(probe(adapted, fast=True))]
    lost = run(probe(plain, base=base))
    assert run(probe(adapted))["prefix"].ok  # the adapter is back
    assert grads == {name: p.requires_grad for name, p in adapted.model.module.named_parameters()}
    for policy in (plain, adapted):
        run(policy.aclose())
    for report in reports:
        assert report["adapter"].ok is ok
        assert report.ok
        assert "freshly initialised (B = 0)" in report["adapter"].skipped or ok
    assert {p.name for p in lost.failed} == {"adapter"}  # one that was not loaded


# --- trouble


class Failing:
    """Raises what it is given once so many requests have been answered."""

    name = "failing"

    def __init__(self, inner: Any, error: Exception, after: int = 0) -> None:
        self.inner, self.error, self.left = inner, error, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def sample(self, *given: Any) -> Samples:
        self.left -= 1
        if self.left < 0:
            raise self.error
        samples: Samples = await self.inner.sample(*given)
        return samples


def test_a_fatal_error_is_raised_and_another_fails_its_probe(torch_policy: Any) -> None:
    with pytest.raises(PolicyError, match="log in"):
        run(probe(Failing(torch_policy, PolicyError("log in", fatal=True)), fast=True))
    report = run(probe(Failing(torch_policy, RuntimeError("no such kernel"), after=6), fast=True))
    assert {p.name for p in report.failed} == {"later_image", "recomputed_logprobs", "prefix"}
    assert "no such kernel" in report["later_image"].detail


def test_what_does_not_fit_into_the_context_is_skipped(torch_policy: Any) -> None:
    report = run(probe(Failing(torch_policy, ContextLengthError("too long"), after=6), fast=True))
    assert report["later_image"].ok is None
    assert report.ok
    small = tiny(context=64)
    report = run(probe(small))
    run(small.aclose())
    assert report.ok
    assert not any(p.ok for p in report.probes)


# --- the scene


def test_the_pictures_are_different_and_need_no_resizing() -> None:
    from specvet.chat.formats import FAMILIES

    pictures = [scene.curve(), scene.noise(), scene.mirrored(), scene.laid_on("white")]
    pictures += [scene.square(side) for side in ("left", "right", "top", "bottom")]
    assert len({p.sha256 for p in pictures}) == 7  # the curve is its own white composite
    for family in FAMILIES.values():
        assert not family.geometry.is_resized(scene.WIDTH, scene.HEIGHT)


def test_the_transparent_picture_is_the_curve_once_laid_on_white() -> None:
    def pixels(image: Image) -> Any:
        import io

        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(image.png)) as picture:
            return np.asarray(picture.convert("RGB"))

    assert scene.transparent().png[25] == 6
    assert (pixels(Image.of(scene.transparent().png)) == pixels(scene.laid_on("white"))).all()
    assert not (pixels(scene.transparent()) == pixels(scene.laid_on("white"))).all()


@pytest.mark.parametrize(
    ("text", "side", "named"),
    [
        ("Left.", "right", "left"),
        ("<think>left or right?</think>\nRight", "left", "right"),
        ("on the right, not on the left... no, right", "left", "right"),
        ("I see a square", "left", None),
        ("left", "top", None),
        ("It is at the BOTTOM", "top", "bottom"),
    ],
)
def test_sides_are_read_from_words(text: str, side: Any, named: str | None) -> None:
    assert side_in(text, side) == named


def test_a_report_is_json_and_only_what_was_skipped_says_so(torch_policy: Any) -> None:
    told = json.loads(json.dumps(run(probe(torch_policy)).as_dict(), allow_nan=False))
    assert told["ok"] is True
    assert "with 0 pictures and a turn spelt by letters" in told["probes"][0]["detail"]
    for found in told["probes"]:
        assert {"name", "ok", "value", "bound"} <= set(found)
        assert ("skipped" in found) == (found["ok"] is None)
    assert Probe("x", True).as_dict() == {"name": "x", "ok": True, "value": None, "bound": None}


def test_probes_need_nothing_that_a_training_image_may_lack() -> None:
    blocked = (
        "import sys; "
        "[sys.modules.__setitem__(name, None) for name in ('pydantic', 'astropy', 'matplotlib', 'scipy', 'httpx')]; "
        "import specvet.policies.probes as p; from specvet.policies.probes import scene; scene.curve(); print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "fine\n", done.stderr
