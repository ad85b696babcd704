"""TRL's trainers on the work of `train_work.py`, for `train_torch.py`.

What they are given, so that it is their computing that is timed: token ids and labels ready made (TRL's own assistant
masks for pictures need transformers 5.18), pixels made by the model's own image processor in other processes ahead of
time (SFT), bf16 with float32 adapters (their default), the fused AdamW (their default), sdpa attention, TRL's fused
head, which never holds all logits (their default). `liger`: liger-kernel's layers on top.

GRPO: `GRPOTrainer` with a tool that returns pictures, in its own loop. Three things are put in from outside, none of
which costs it time: random weights never call a tool, so what parses a turn is told that they did; end tokens and ids
of pictures are suppressed and 250 tokens are asked for in each turn, so that both sides sample equally many; rewards
are drawn.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import transformers
from peft import LoraConfig

from specvet.chat import ChatFormat, Datum, Image, Message
from specvet.chat.tiny import write_tiny
from train_clocks import Stopwatch, kernel_seconds, synchronise
from train_work import LORA_TARGETS, RolloutStep, Sizes, arrays, picture

RATE = 2e-5


@dataclass
class Told:
    """What a run of a trainer gave."""

    seconds: list[float] = field(default_factory=list)
    """Of each step, data included."""
    losses: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    """Of one more step that was watched, or profiled."""
    peak_gib: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


def processor(format: ChatFormat, config: Any) -> Any:
    """The model's own processor on the small vocabulary, with our chat template, which knows tools."""
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(format.name, folder)
        config.save_pretrained(folder)
        return transformers.AutoProcessor.from_pretrained(folder)


class Clock(transformers.TrainerCallback):
    """Times steps from the end of one to the end of the next, so that waiting for data counts. The last steps run each
    inside one of `watched`; the peak of memory is that of the steps before. No step begins after `until`."""

    def __init__(
        self,
        device: torch.device,
        told: Told,
        watched: Sequence[Callable[[], Any]] = (),
        until: float = float("inf"),
    ) -> None:
        self.device, self.told, self.watched, self.until = device, told, watched, until
        self.ended = 0.0
        self.inside: Any = None

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        synchronise(self.device)
        self.ended = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        synchronise(self.device)
        if self.inside is None:
            self.told.seconds.append(time.perf_counter() - self.ended)
            if self.device.type == "cuda":
                self.told.peak_gib = torch.cuda.max_memory_allocated() / 2**30
        else:
            self.inside.__exit__(None, None, None)
        turn = state.global_step - (state.max_steps - len(self.watched))
        self.inside = self.watched[turn]() if 0 <= turn < len(self.watched) else None
        if self.inside is not None:
            self.inside.__enter__()
        self.ended = time.perf_counter()
        control.should_training_stop |= self.ended > self.until

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.told.losses.append(float(logs["loss"]))


def settings(device: torch.device, steps: int, **more: Any) -> dict[str, Any]:
    """What both trainers are told."""
    return {
        "output_dir": tempfile.mkdtemp(prefix="trl-"),
        "max_steps": steps,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1.0,
        "adam_beta2": 0.95,
        "bf16": device.type == "cuda",
        "use_cpu": device.type == "cpu",
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 0,
    } | more


def lora(rank: int) -> Any:
    return LoraConfig(
        r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules=LORA_TARGETS, bias="none", task_type="CAUSAL_LM"
    )


class Collator:
    """Row numbers → a padded batch; pixels by the processor's own image processor."""

    def __init__(self, datums: Sequence[Datum], processor: Any, pad: int) -> None:
        self.datums, self.images, self.pad = datums, processor.image_processor, pad

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        parts = [arrays(self.datums[row["images"][0]]) for row in rows]
        width = max(ids.size for ids, _, _ in parts)
        ids = np.full((len(parts), width), self.pad, dtype=np.int64)
        labels = np.full_like(ids, -100)
        mask = np.zeros_like(ids)
        kinds = np.zeros_like(ids)
        for r, (own, targets, shown) in enumerate(parts):
            ids[r, : own.size], labels[r, : own.size], mask[r, : own.size] = own, targets, 1
            kinds[r, : own.size] = own == shown[0].pad_id
        pixels = self.images(images=[picture(s) for _, _, shown in parts for s in shown], return_tensors="pt")
        made = {"input_ids": ids, "labels": labels, "attention_mask": mask, "mm_token_type_ids": kinds}
        return {k: torch.from_numpy(v) for k, v in made.items()} | dict(pixels)


def sft(
    module: Any,
    processor: Any,
    datums: Sequence[Datum],
    *,
    device: torch.device,
    rank: int,
    batch: int,
    micro: int,
    checkpointing: bool,
    liger: bool = False,
    watched: bool = True,
    kernels: bool = False,
    workers: int = 4,
) -> Told:
    """Steps of `batch` datums each, in their order, `micro` at a time, until all are used up.

    The last one is `watched`, one before it has its `kernels` profiled.
    """
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    told = Told()
    workers = workers if device.type == "cuda" else 0
    extra = {"dataloader_prefetch_factor": 4, "dataloader_persistent_workers": True} if workers else {}
    config = SFTConfig(
        **settings(
            device,
            len(datums) // batch,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=batch // micro,
            gradient_checkpointing=checkpointing,
            train_sampling_strategy="sequential",
            max_length=None,
            dataloader_num_workers=workers,
            use_liger_kernel=liger,
            remove_unused_columns=False,
            **extra,
        )
    )
    trainer = SFTTrainer(
        module,
        config,
        data_collator=Collator(datums, processor, module.config.text_config.pad_token_id),
        train_dataset=Dataset.from_dict({"images": [[i] for i in range(len(datums))]}),
        processing_class=processor,
        peft_config=lora(rank),
    )
    watch = Stopwatch(device)
    contexts: list[Callable[[], Any]] = [lambda: profiled(told)] if kernels else []
    contexts += [lambda: parts(watch, trainer)] if watched else []
    _train(trainer, told, device, contexts)
    told.parts = dict(watch.seconds)
    return told


def _train(
    trainer: Any,
    told: Told,
    device: torch.device,
    watched: Sequence[Callable[[], Any]] = (),
    until: float = float("inf"),
) -> None:
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.add_callback(Clock(device, told, watched, until))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    trainer.train()
    trainer.accelerator.free_memory()


@contextmanager
def parts(watch: Stopwatch, trainer: Any) -> Iterator[None]:
    """Clocks on what a step is made of. What is computed again counts as backward."""
    core = trainer.accelerator.unwrap_model(trainer.model).get_base_model()
    watch.watch(core.model.visual, "forward", "vision")
    watch.watch(core.model.language_model, "forward", "text forward")
    watch.watch(core, "forward", "head and loss")
    watch.watch(trainer.accelerator, "backward", "backward")
    watch.watch(trainer.optimizer, "step", "optimiser")
    watch.watch(trainer.accelerator, "clip_grad_norm_", "optimiser")
    try:
        with watch.part("other, data included"):
            yield
    finally:
        watch.stop()


@contextmanager
def profiled(told: Told) -> Iterator[None]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        yield
        torch.cuda.synchronize()
    told.notes["kernels"] = kernel_seconds(profile)


# --- GRPO


class Scripted:
    """What the tool gives and what a turn is said to be: a call, always; the trainer's own limit ends it."""

    def __init__(self, answers: Sequence[Message]) -> None:
        self.answers, self.calls = answers, 0

    def zoom(self, low: float, high: float) -> list[Any]:
        """Draw the spectrum between two wavelengths.

        Args:
            low: Å.
            high: Å.
        """
        answer = self.answers[self.calls % len(self.answers)]
        self.calls += 1
        return [{"type": "image", "image": picture(c)} if isinstance(c, Image) else _text(c) for c in answer.content]

    def parse(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        call = {"type": "function", "function": {"name": "zoom", "arguments": {"low": 6400.0, "high": 6700.0}}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}


def _text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


def grpo(
    module: Any,
    processor: Any,
    work: Sequence[RolloutStep],
    sizes: Sizes,
    *,
    device: torch.device,
    rank: int,
    group: int,
    micro: int,
    checkpointing: bool,
    until: float,
) -> Told:
    """One step for each of `work`, `group` trajectories a question, `micro` trained on at a time; none begins after
    `until` (by `time.perf_counter`)."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_template
    from trl.trainer import grpo_trainer

    told = Told()
    questions = [q for step in work for q in step.questions]
    batch = len(work[0].questions) * group
    turns = len(work[0].answers) + 1
    script = Scripted([message for step in work for turn in step.answers for message in turn])
    prompts = [
        [
            {"role": m.role, "content": [{"type": "image"} if isinstance(c, Image) else _text(c) for c in m.content]}
            for m in q
        ]
        for q in questions
    ]
    shown = [[picture(c) for m in q for c in m.content if isinstance(c, Image)] for q in questions]
    rewards = np.random.default_rng(0)
    config = module.config
    suppressed = [config.image_token_id, config.video_token_id, config.vision_start_token_id]
    suppressed += [config.vision_end_token_id, processor.tokenizer.eos_token_id, config.text_config.eos_token_id]
    arguments = GRPOConfig(
        **settings(
            device,
            len(work),
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=batch // micro,
            num_generations=group,
            gradient_checkpointing=checkpointing,
            max_completion_length=(sizes.said + sizes.seen + 64) * turns,
            max_tool_calling_iterations=turns - 1,
            temperature=1.0,
            beta=0.0,
            loss_type="dapo",
            scale_rewards="group",
            generation_kwargs={
                "max_new_tokens": sizes.said,
                "suppress_tokens": sorted({int(x) for x in suppressed}),
            },
            shuffle_dataset=False,
            log_completions=False,
        )
    )
    grpo_trainer.parse_response = script.parse
    processor.tokenizer.response_template = qwen3_template  # or it refuses a chat template that it does not know
    trainer = GRPOTrainer(
        module,
        reward_funcs=lambda completions, **_: rewards.integers(0, 2, len(completions)).astype(float).tolist(),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": prompts, "images": shown}),
        processing_class=processor,
        peft_config=lora(rank),
        tools=[script.zoom],
    )
    rollouts: list[float] = []
    seen: dict[str, Any] = {}
    inner = trainer._generate_and_score_completions

    def rolled(inputs: Any) -> Any:
        synchronise(device)
        start = time.perf_counter()
        made = inner(inputs)
        synchronise(device)
        rollouts.append(time.perf_counter() - start)
        seen.update(
            trajectories=int(made["prompt_ids"].shape[0]),
            prompt_tokens=int(made["prompt_mask"].sum()),
            completion_tokens=int(made["completion_mask"].sum()),
            sampled_tokens=int(made["tool_mask"].sum()),
            images=int(sum(made["num_images"] or [0])),
            pixels=tuple(made["pixel_values"].shape) if "pixel_values" in made else None,
        )
        return made

    trainer._generate_and_score_completions = rolled
    _train(trainer, told, device, until=until)
    told.notes = {"rollout_seconds": rollouts, **seen, "tool_calls": script.calls}
    return told
