"""How fast the `torch` policy rolls out, beside plain `model.generate` once a turn, in one run.

    python benchmarks/rollout_torch.py --json --compare          tiny, on a CPU, under a minute
    python benchmarks/rollout_torch.py --json --compare --size small --branches 512 --tokens 64 --check 8

The published style: a question shows a figure of 448 x 280 and asks; each of its `--group` branches then says
`--tokens` tokens a turn (end tokens are switched off, so that both sides do the same work; `--ragged` draws each turn's
length between half and one and a half times that), and a tool answers with a figure of 308 x 224. Text is rendered
before the clock starts.

Ours keeps caches from turn to turn; its time includes decoding PNGs. Plain `generate` gets all branches in one
left-padded batch with every picture of the conversation, its pixels already processed (that time is given to it), and
samples at temperature 1 as ours does; picture ids are suppressed, since the stock model fails on them in the next
prompt. Rounds alternate; the first of each, which compiles and records, is reported apart. Figures are medians over the
other rounds.

`unique` tokens are those that had to be computed at the least; `prefilled / unique` is 1 where nothing is computed
twice. With `--check`, log-probs are held against a stock forward of whole trajectories. Weights are random: sizes are
what is measured. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from specvet.chat import ChatFormat, Image, ImageSegment, Ledger, Segment
from specvet.chat.formats import chat_format
from specvet.chat.messages import system, tool, user
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.tokens import SamplingParams, Usage
from specvet.policies.torch.loading import device_of, dtype_of
from specvet.policies.torch.model import TorchModel
from specvet.policies.torch.pixels import PixelRule, patches
from specvet.policies.torch.policy import TorchPolicy
from specvet.policies.torch.tiny import generation_config, random_model, tiny_config
from specvet.views.png import encode_png

RULES = (
    "You vet spectra. Look at the figure, call the zoom tool on a wavelength range that would prove or disprove the "
    "class, look again, and answer. Think first. Emission lines, molecular bands and the slope of the continuum count; "
    "a single noisy pixel does not. Answer <answer>\\boxed{YES}</answer> or <answer>\\boxed{NO}</answer>. "
)
QUESTION = "Is this a cataclysmic variable? Its spectrum covers 3700 to 9100 angstrom; S/N 12. "
FIGURE, ZOOM = (448, 280), (308, 224)
SIZES = {
    # hidden, layers, heads, kv heads, mlp; vision hidden, depth, heads, mlp; ids
    "nano": (256, 6, 4, 2, 768, 256, 6, 4, 768, 640),
    "small": (384, 6, 6, 2, 1024, 384, 6, 6, 1024, 640),
    "qwen2_5_vl_3b": (2048, 36, 16, 2, 11008, 1280, 32, 16, 3420, 151_936),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--size", choices=("tiny", *SIZES), default="tiny", help="nano 12 M, small 24 M weights")
    parser.add_argument(
        "--family", choices=("qwen2_5_vl", "qwen3_vl", "qwen3_5"), default="qwen2_5_vl", help="tiny only"
    )
    parser.add_argument("--layers", type=int, help="text layers, instead of the size's own")
    parser.add_argument("--branches", type=int, default=16, help="trajectories at a time")
    parser.add_argument("--group", type=int, default=8, help="of them, those of one question")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=24, help="sampled a turn")
    parser.add_argument("--ragged", action="store_true", help="turns of different lengths")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--block", type=int, help="decode steps between two looks at the results")
    parser.add_argument("--no-graphs", action="store_true", help="do not record CUDA graphs")
    parser.add_argument("--compare", action="store_true", help="beside plain generate")
    parser.add_argument("--plain-branches", type=int, help="branches of plain generate, where all do not fit")
    parser.add_argument("--plain-rounds", type=int, help="rounds of plain generate, instead of --rounds")
    parser.add_argument("--check", type=int, default=0, metavar="N", help="recompute the log-probs of N trajectories")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    result = measured(options)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "metrics.json").write_text(json.dumps(result, indent=1) + "\n")
    if not options.json:
        for key, value in result.items():
            print(f"{key:28} {value}", file=sys.stderr)
    print(json.dumps(result))
    return 0


# --- models


def module_of(options: argparse.Namespace, device: torch.device, dtype: torch.dtype) -> Any:
    """A random model of the size, on the device."""
    family = options.family if options.size == "tiny" else "qwen2_5_vl"
    config = tiny_config(family, tiny_vocabulary(family))
    if options.size != "tiny":
        hidden, layers, heads, kv, mlp, v_hidden, depth, v_heads, v_mlp, ids = SIZES[options.size]
        half = hidden // heads // 2
        text, vision = config.text_config.to_dict(), config.vision_config.to_dict()
        for own in ("layer_types", "rope_parameters"):
            text.pop(own, None)
        text |= {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": ids}
        text |= {
            "num_key_value_heads": kv,
            "intermediate_size": mlp,
            "initializer_range": 0.02,
            "tie_word_embeddings": True,
        }
        section = [half // 4, 3 * half // 8, half - half // 4 - 3 * half // 8]
        text["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": section}
        vision |= {"hidden_size": v_hidden, "depth": depth, "num_heads": v_heads, "intermediate_size": v_mlp}
        full = list(range(depth)) if options.size != "qwen2_5_vl_3b" else [7, 15, 23, 31]
        vision |= {"out_hidden_size": hidden, "fullatt_block_indexes": full, "initializer_range": 0.02}
        ids_of = {k: getattr(config, k) for k in ("image_token_id", "video_token_id", "vision_start_token_id")}
        ids_of["vision_end_token_id"] = config.vision_end_token_id
        config = transformers.Qwen2_5_VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=True, **ids_of
        )
    if options.layers:
        config.text_config.num_hidden_layers = options.layers
        kinds = getattr(config.text_config, "layer_types", None)
        if kinds:
            config.text_config.layer_types = (list(kinds) * options.layers)[: options.layers]
    if options.size != "qwen2_5_vl_3b":
        return random_model(config, 0).to(device=device, dtype=dtype)
    with torch.device(device):  # drawn where it lives: on a CPU that takes minutes
        torch.manual_seed(0)
        module = transformers.AutoModelForImageTextToText.from_config(config, dtype=dtype)
    module.generation_config = generation_config(config)
    return module.eval()


# --- what is shown


def figure(seed: int, size: tuple[int, int]) -> Image:
    """A noisy curve on white, as a spectrum's figure is."""
    width, height = size
    noise = np.random.default_rng(seed)
    pixels = np.full((height, width), 255, dtype=np.uint8)
    curve = (height / 2 + height / 8 * np.cumsum(noise.normal(size=width)) / np.sqrt(width)).clip(2, height - 3)
    for x, y in enumerate(curve.astype(int)):
        pixels[y - 2 : y + 2, x] = noise.integers(0, 80)
    return Image.of(encode_png(np.repeat(pixels[:, :, None], 3, axis=2)))


@dataclass(frozen=True)
class Script:
    """What is asked and answered in one round, the same for both sides."""

    openings: list[Ledger]
    """One a question."""
    answers: list[list[list[Segment]]]
    """What a tool says, by trajectory and turn."""
    lengths: np.ndarray[Any, Any]
    """Tokens sampled, by trajectory and turn."""

    @classmethod
    def of(cls, format: ChatFormat, options: argparse.Namespace, round_: int) -> Script:
        questions = -(-options.branches // options.group)
        openings = []
        for q in range(questions):
            ledger = format.new_ledger()
            shown = user(RULES, figure(10_000 * round_ + q, FIGURE), f"{QUESTION}Object {q}.")
            ledger.append(format.opening([system("You are a careful astronomer."), shown]))
            openings.append(ledger)
        n, turns = options.branches, options.turns
        base = 1_000_000 * (round_ + 1)
        said = openings[0].fork()
        said.append_sampled([0], None, "length")
        answers = [
            [
                format.observation(said, tool("The range (6400, 6700): ", figure(base + 100 * b + t, ZOOM)))
                for t in range(turns - 1)
            ]
            for b in range(n)
        ]
        low, high = (options.tokens // 2, options.tokens * 3 // 2) if options.ragged else (options.tokens,) * 2
        lengths = np.random.default_rng(round_).integers(max(low, 1), high + 1, size=(n, turns))
        lengths[:, 0] = lengths[np.arange(n) // options.group * options.group, 0]  # one call has one limit
        return cls(openings, answers, lengths)


# --- the two sides


async def ours(policy: TorchPolicy, script: Script, group: int) -> list[Ledger]:
    """All trajectories of a script."""

    async def question(q: int) -> list[Ledger]:
        first = script.openings[q].fork()
        members = range(q * group, min((q + 1) * group, len(script.answers)))
        limit = int(script.lengths[members[0], 0])
        given = await policy.sample(first, len(members), SamplingParams(limit, seed=q))
        branches = [first.fork() for _ in members]
        for branch, s in zip(branches, given.sequences, strict=True):
            branch.append_sampled(s.ids, s.logprobs, s.stop)
        await asyncio.gather(*(go_on(b, x) for b, x in zip(members, branches, strict=True)))
        return branches

    async def go_on(b: int, ledger: Ledger) -> None:
        for turn, answer in enumerate(script.answers[b], 1):
            ledger.append(answer)
            given = await policy.sample(ledger, 1, SamplingParams(int(script.lengths[b, turn]), seed=1000 * b + turn))
            said = given.sequences[0]
            ledger.append_sampled(said.ids, said.logprobs, said.stop)
        policy.release(ledger)

    done = await asyncio.gather(*(question(q) for q in range(len(script.openings))))
    return [ledger for some in done for ledger in some]


class Plain:
    """Stock `generate`, once a turn for all trajectories. Pixels are processed before the clock starts."""

    def __init__(self, module: Any, rule: PixelRule) -> None:
        self.module, self.rule = module, rule
        self.device = next(module.parameters()).device
        self.table = torch.from_numpy(rule.table()).to(self.device)
        self.seconds, self.pixels_s, self.prompted, self.sampled = 0.0, 0.0, 0, 0
        config = module.config
        ids = [config.image_token_id, config.video_token_id, config.vision_start_token_id, config.vision_end_token_id]
        self.settings = transformers.GenerationConfig(
            do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=None, suppress_tokens=ids,
            pad_token_id=config.text_config.pad_token_id,
        )  # fmt: skip

    def run(self, script: Script, group: int, n: int) -> None:
        ledgers = [script.openings[b // group].fork() for b in range(n)]
        for turn in range(script.lengths.shape[1]):
            if turn:
                for b, ledger in enumerate(ledgers):
                    ledger.append(script.answers[b][turn - 1])
            synchronise(self.device)
            tick = time.perf_counter()
            inputs = self.inputs(ledgers)
            synchronise(self.device)
            self.pixels_s += time.perf_counter() - tick
            most = int(script.lengths[:n, turn].max())
            synchronise(self.device)
            tick = time.perf_counter()
            with torch.no_grad():
                out = self.module.generate(**inputs, generation_config=self.settings, max_new_tokens=most)
            said = out[:, inputs["input_ids"].shape[1] :].tolist()  # waits for the device
            self.seconds += time.perf_counter() - tick
            self.prompted += sum(x.n_tokens for x in ledgers)
            for b, ledger in enumerate(ledgers):
                ids = said[b][: int(script.lengths[b, turn])]
                self.sampled += len(ids)
                ledger.append_sampled(ids, None, "length")

    def inputs(self, ledgers: list[Ledger]) -> dict[str, torch.Tensor]:
        width = max(x.n_tokens for x in ledgers)
        ids = np.full((len(ledgers), width), self.settings.pad_token_id, dtype=np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        pixels, grids = [], []
        for row, ledger in enumerate(ledgers):
            left = width - ledger.n_tokens
            ids[row, left:], mask[row, left:] = ledger.ids(), 1
            for start, end, segment in zip(ledger.ends, ledger.ends[1:], ledger, strict=False):
                if isinstance(segment, ImageSegment):
                    kinds[row, left + start : left + end] = 1
                    pixels.append(self.pixels(segment))
                    grids.append([1, segment.rows * self.rule.merge, segment.columns * self.rule.merge])
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            "mm_token_type_ids": kinds,
            "image_grid_thw": np.array(grids),
        }
        tensors = {k: torch.from_numpy(v).to(self.device) for k, v in given.items()}
        return tensors | {"pixel_values": torch.cat(pixels)}

    def pixels(self, segment: ImageSegment) -> torch.Tensor:
        bytes_ = torch.from_numpy(self.rule.pixels(segment)[None]).to(self.device)
        return patches(bytes_, self.rule, self.table).to(self.module.dtype)


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# --- measuring


def measured(options: argparse.Namespace) -> dict[str, Any]:
    device = device_of(options.device)
    dtype = dtype_of(options.dtype, device)
    module = module_of(options, device, dtype)
    family = options.family if options.size == "tiny" else "qwen2_5_vl"
    format = chat_format(family, tiny_vocabulary(family))
    rule = PixelRule.from_config({}, module.config.vision_config)
    context = min(4096 + 2 * options.turns * options.tokens, module.config.text_config.max_position_embeddings)
    policy = TorchPolicy(
        TorchModel(module, rule),
        format,
        branches=options.branches,
        context=context,
        rows=options.branches + 1,
        stop_ids=(),
        block=options.block,
        graphs=False if options.no_graphs else None,
    )
    result: dict[str, Any] = {
        "size": options.size,
        "family": family,
        "weights_millions": round(sum(p.numel() for p in module.parameters()) / 1e6, 2),
        "branches": options.branches,
        "group": options.group,
        "turns": options.turns,
        "tokens_a_turn": options.tokens,
        "ragged": options.ragged,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "dtype": str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    plain = None
    if options.compare:
        plain = Plain(module_of(options, device, dtype), rule)
    gc.collect()
    gc.freeze()  # as `specvet rollout` does: torch's half a million objects need not be looked through again and again
    result |= asyncio.run(_alternating(policy, plain, options))
    return result


async def _alternating(policy: TorchPolicy, plain: Plain | None, options: argparse.Namespace) -> dict[str, Any]:
    rounds: list[dict[str, float]] = []
    plain_rounds: list[dict[str, float]] = []
    for r in range(options.rounds + 1):
        script = Script.of(policy.format, options, r)
        before = Usage(**{k: getattr(policy.usage, k) for k in COUNTED}, notes=dict(policy.usage.notes))
        tick = time.perf_counter()
        ledgers = await ours(policy, script, options.group)
        seconds = time.perf_counter() - tick
        used = {k: getattr(policy.usage, k) - getattr(before, k) for k in COUNTED}
        spent = {k: v - before.notes.get(k, 0) for k, v in policy.usage.notes.items()}
        rounds.append({"seconds": seconds, "tokens": int(script.lengths.sum()), **used, **spent})
        if plain is not None and r <= (options.plain_rounds or options.rounds):
            plain.seconds, plain.pixels_s, plain.prompted, plain.sampled = 0.0, 0.0, 0, 0
            n = min(options.plain_branches or options.branches, options.branches)
            await asyncio.to_thread(plain.run, script, options.group, n)
            unique = used["unique_tokens"] * n / options.branches
            plain_rounds.append(
                {
                    "seconds": plain.seconds,
                    "pixels_s": plain.pixels_s,
                    "tokens": plain.sampled,
                    "prompted": plain.prompted / unique,
                }
            )
    told = {"first_round_s": round(rounds[0]["seconds"], 3), **_figures(rounds[1:])}
    if options.check:
        told |= _checked(policy, ledgers[:: max(1, len(ledgers) // options.check)][: options.check])
    if torch.cuda.is_available() and policy.model.device.type == "cuda":
        told["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    await policy.aclose()
    if plain_rounds:
        rate = _median(plain_rounds[1:], lambda x: x["tokens"] / x["seconds"])
        whole = _median(plain_rounds[1:], lambda x: x["tokens"] / (x["seconds"] + x["pixels_s"]))
        told |= {
            "plain_branches": min(options.plain_branches or options.branches, options.branches),
            "plain_seconds": round(_median(plain_rounds[1:], lambda x: x["seconds"]), 3),
            "plain_pixels_s": round(_median(plain_rounds[1:], lambda x: x["pixels_s"]), 3),
            "plain_tokens_per_s": round(rate, 1),
            "plain_prefilled_over_unique": round(_median(plain_rounds[1:], lambda x: x["prompted"]), 3),
            "times_plain": round(told["tokens_per_s"] / rate, 2),
            "times_plain_with_pixels": round(told["tokens_per_s"] / whole, 2),
        }
    return told


COUNTED = ("prompt_tokens", "prefilled_tokens", "unique_tokens", "sampled_tokens", "images")


def _figures(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {
        "rounds": len(rounds),
        "seconds": round(_median(rounds, lambda x: x["seconds"]), 3),
        "tokens_per_s": round(_median(rounds, lambda x: x["tokens"] / x["seconds"]), 1),
        "prefilled_over_unique": round(_median(rounds, lambda x: x["prefilled_tokens"] / x["unique_tokens"]), 4),
        "prefilled_tokens_per_s": round(_median(rounds, lambda x: x["prefilled_tokens"] / x["seconds"]), 1),
        "vision_s": round(_median(rounds, lambda x: x.get("vision_s", 0.0)), 3),
        "prefill_s": round(_median(rounds, lambda x: x.get("prefill_s", 0.0)), 3),
        "decode_s": round(_median(rounds, lambda x: x.get("decode_s", 0.0)), 3),
        "decode_steps": round(_median(rounds, lambda x: x.get("decode_steps", 0.0))),
    }


def _checked(policy: TorchPolicy, ledgers: list[Ledger]) -> dict[str, float]:
    """How far sampled log-probs lie from those of a stock forward of the whole trajectory."""
    gaps = []
    for ledger in ledgers:
        said = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
        gaps.append(np.abs(said - policy.recomputed_logprobs(ledger)))
    gap = np.concatenate(gaps)
    return {"logprob_gap_mean": float(f"{gap.mean():.3g}"), "logprob_gap_max": float(f"{gap.max():.3g}")}


def _median(rounds: list[dict[str, float]], value: Any) -> float:
    return statistics.median(value(x) for x in rounds)


if __name__ == "__main__":
    sys.exit(main())
