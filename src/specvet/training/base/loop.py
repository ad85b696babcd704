"""`train_base`: a small vision-language model, taught by documents that are made while it learns.

    take a batch → forward (text loss + auxiliary loss on pictures) → backward → clip → AdamW → every minute, save

AdamW on float32 weights, products in bfloat16 on a GPU. The rate rises over the warm-up and then falls as a cosine to 0
at the end, which is a time (`seconds`) or a number of documents. Left out: resuming (a run is minutes long; `start`
goes on from saved weights), several GPUs, gradient accumulation. Documents follow from the seed, their order does not:
producers run as fast as they can, so two runs differ a little.
"""

from __future__ import annotations

import json
import math
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import torch
import yaml
from torch import Tensor

from specvet.chat import Vocabulary
from specvet.data.processes import cores
from specvet.policies.options import ModelOptions
from specvet.policies.torch.loading import device_of, load
from specvet.policies.torch.model import at_home
from specvet.policies.torch.nano import nano_model
from specvet.records import file_hash, versions, write_atomic
from specvet.training.base.batch import Batch
from specvet.training.base.config import BaseConfig
from specvet.training.base.feed import Feed
from specvet.training.base.folder import save_model, write_json
from specvet.training.base.measuring import ALL, measured
from specvet.training.base.network import InkHead, Network
from specvet.training.base.source import Source, length_of, source_of
from specvet.training.base.vocabulary import learnt_vocabulary, vocabulary_of
from specvet.training.trainer import TrainerError

LINE_EVERY = 10
"""Updates of a line of metrics."""
WARMUP_SHARE = 0.1
"""Of the training, which the warm-up takes at most."""
AHEAD = 2
"""Updates that are sent to a GPU before the first of them is done: enough to keep it busy, and no more, since the clock
decides the rate."""


@dataclass(slots=True)
class Progress:
    """How far a run has come."""

    doing: str = "starting"
    share: float = 0.0
    """Of the whole training, 0 to 1."""
    documents: int = 0
    seconds: float = 0.0
    """Since the first update."""
    loss: float = math.nan
    rate: float = 0.0
    """Documents a second, lately."""
    waited: float = 0.0
    """Share of the time that the loop waited for documents, lately."""


Told = Callable[[Progress], None]


@dataclass(slots=True, eq=False)
class _Sums:
    """Since the last line."""

    since: float
    losses: list[Tensor] = field(default_factory=list)
    inks: list[Tensor] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)
    documents: int = 0
    tokens: int = 0
    padded: int = 0
    active: int = 0
    images: int = 0
    waited: float = 0.0


def train_base(
    config: BaseConfig,
    out: Path,
    *,
    told: Told = lambda progress: None,
    say: Callable[[str], None] = lambda text: None,
    stopping: threading.Event | None = None,
) -> dict[str, Any]:
    """Train and write the folder `out`; returns its receipt.

    `stopping` may be set at any time: what was learnt is then saved, and the receipt says that it was stopped. A run
    that was stopped begins anew; one that is finished is left as it is. Raises TrainerError for a finished run that was
    told something else, a loss that is no number and a disk that is full; InputError, VocabularyError and PolicyError
    for what it is told to read; FeedError where documents cannot be made.
    """
    if (finished := _finished(out)) is not None:
        if _decisive(finished["config"]) != _decisive(config.model_dump(mode="json")):
            raise TrainerError(f"{out}: holds a finished run that was told something else; name another folder")
        say(f"{out}: is finished already")
        return finished
    out.mkdir(parents=True, exist_ok=True)
    return _Run(config, out, told, say, stopping or threading.Event()).run()


def _finished(out: Path) -> dict[str, Any] | None:
    """The receipt of a run that is over; None where there is none."""
    try:
        receipt: dict[str, Any] = json.loads((out / "receipt.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return receipt if receipt.get("ended") and receipt.get("finished") else None


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    """Without what says where and how fast."""
    return {name: value for name, value in config.items() if name not in ("workers", "device", "compile")}


class _Run:
    def __init__(
        self, config: BaseConfig, out: Path, told: Told, say: Callable[[str], None], stopping: threading.Event
    ) -> None:
        self.config, self.out, self.told, self.say, self.stopping = config, out, told, say, stopping
        self.begun, self.clock = datetime.now(UTC), time.monotonic()
        self.device = device_of(config.device)
        self.workers = config.workers or max(1, cores() - 1)
        self.progress = Progress()
        self.updates = self.documents = self.repeated = 0
        self.tokens = self.padded = 0
        self.waited = 0.0
        self.setup = self.seconds = 0.0
        self.compiled = config.compile if config.compile is not None else self.device.type == "cuda"
        self.finished = False

    def run(self) -> dict[str, Any]:
        config = self.config
        source = source_of(config)
        self.length = length_of(config, source)
        settings = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_atomic(self.out / "config.yaml", settings)
        self.module, self.vocabulary = self._opened(source)
        tokenizer = self.out / "vocabulary" / "tokenizer.json"
        tokenizer.parent.mkdir(exist_ok=True)
        self.vocabulary.save(tokenizer)
        self.module.to(self.device, dtype=torch.float32).train()
        with (
            at_home(self.device),
            Feed(config, source, tokenizer, self.workers, pinned=self.device.type == "cuda") as feed,
            open(self.out / "metrics.jsonl", "w", encoding="utf-8") as lines,
        ):
            self._tell("making documents")
            feed.wait_for_held_out(self.stopping)
            self._train(feed, lines)
            self._save(feed)  # first: whoever stopped it may not wait long
            found = {} if self.stopping.is_set() else self._held_out(feed, lines)
        receipt = self._receipt(feed, found)
        write_json(self.out / "held_out.json", found)
        write_json(self.out / "receipt.json", receipt)
        self._draw()
        return receipt

    def _opened(self, source: Source) -> tuple[Any, Vocabulary]:
        config = self.config
        if config.start is not None:
            model, format = load(ModelOptions(model=config.start, dtype="float32", device="cpu"))
            return model.module, format.vocabulary
        if config.vocabulary is not None:
            vocabulary = vocabulary_of(config.vocabulary)
        else:
            self._tell("learning a vocabulary")
            vocabulary = learnt_vocabulary(source, config.vocabulary_documents, self.workers)
        return nano_model(vocabulary, config.seed, config.shape), vocabulary

    # --- training

    def _train(self, feed: Feed, lines: TextIO) -> None:
        config, cuda = self.config, self.device.type == "cuda"
        hidden = int(self.module.config.text_config.hidden_size)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.head = InkHead(hidden).to(self.device) if config.ink_weight else None
        head = [] if self.head is None else list(self.head.parameters())
        weights = [*self.module.parameters(), *head]
        groups = [
            {"params": [p for p in weights if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in weights if p.ndim < 2], "weight_decay": 0.0},
        ]
        adam = torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=cuda or None)
        first = [made for _ in range(2) if (made := feed.get(self.stopping)) is not None]
        if not first:
            return
        self.network = self._warmed([made.to(self.device) for made in first])
        self.setup = time.monotonic() - self.clock
        compiled = "compiled" if self.compiled else "not compiled"
        self.say(f"ready after {self.setup:.0f} s: {self.workers} processes make documents, {self.device}, {compiled}")
        self._tell("training")
        batch: Batch | None = first.pop()
        start = saved = time.monotonic()
        sums, under_way = _Sums(start), list[Any]()
        while batch is not None:
            lr = self._rate(time.monotonic() - start)
            self._update(batch.to(self.device), adam, weights, lr, sums)
            if cuda:
                under_way.append(torch.cuda.current_stream().record_event())
                if len(under_way) > AHEAD:
                    under_way.pop(0).synchronize()
            self.seconds = time.monotonic() - start
            self.finished = self._share() >= 1.0
            over = self.finished or self.stopping.is_set()
            if over or self.updates % LINE_EVERY == 0:
                self._line(sums, lr, lines)
                sums = _Sums(time.monotonic())
            if over:
                break
            if time.monotonic() - saved > config.save_every_s:
                self._save(feed)
                saved = time.monotonic()
            before = time.monotonic()
            batch = first.pop() if first else feed.get(self.stopping)
            sums.waited += time.monotonic() - before
        if cuda:
            torch.cuda.synchronize()
        self.seconds = time.monotonic() - start

    def _update(self, batch: Batch, adam: Any, weights: list[Any], lr: float, sums: _Sums) -> None:
        for group in adam.param_groups:
            group["lr"] = lr
        out = self.network.losses(batch, self.head)
        torch.autograd.backward(out.loss + self.config.ink_weight * out.ink)
        norm = torch.nn.utils.clip_grad_norm_(weights, self.config.grad_clip_norm)
        adam.step()
        adam.zero_grad(set_to_none=True)
        self.updates += 1
        self.documents += batch.documents
        self.repeated += batch.documents if batch.again else 0
        self.tokens += batch.tokens
        self.padded += batch.ids.numel()
        sums.losses.append(out.loss.detach())
        sums.inks.append(out.ink.detach())
        sums.norms.append(norm.detach())
        sums.documents += batch.documents
        sums.tokens += batch.tokens
        sums.active += batch.targets.numel()
        sums.images += sum(p.pixels.shape[0] for p in batch.pictures)

    def _warmed(self, batches: list[Batch]) -> Network:
        """The network, once it has gone forward and back with batches of different sizes; not compiled where that
        cannot be done here."""
        dtype = self._dtype()
        if self.compiled:
            self._tell("compiling")
            try:
                network = Network(self.module, dtype, compile=True)
                self._tried(network, batches)
                return network
            except Exception as e:  # whatever a compiler raises that is missing something
                self.compiled = False
                torch.compiler.reset()
                self.say(f"not compiled, and slower for it: {type(e).__name__}: {str(e).strip().splitlines()[0][:200]}")
        network = Network(self.module, dtype)
        self._tried(network, batches)
        return network

    def _tried(self, network: Network, batches: list[Batch]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice of compilers
            for batch in batches:
                out = network.losses(batch, self.head)
                torch.autograd.backward(out.loss + out.ink)
        for p in (*self.module.parameters(), *(self.head.parameters() if self.head is not None else ())):
            p.grad = None
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32

    def _share(self) -> float:
        """Of the training that is done."""
        if self.config.seconds is not None:
            return self.seconds / self.config.seconds
        return self.documents / self.length

    def _rate(self, seconds: float) -> float:
        self.seconds = seconds
        rise = min(1.0, max((self.updates + 1) / max(1, self.config.warmup), self._share() / WARMUP_SHARE))
        return self.config.lr * rise * 0.5 * (1.0 + math.cos(math.pi * min(1.0, self._share())))

    # --- what is told

    def _line(self, sums: _Sums, lr: float, lines: TextIO) -> None:
        loss = float(torch.stack(sums.losses).mean())  # waits for the GPU
        now = time.monotonic()
        took = max(1e-9, now - sums.since)
        self.waited += sums.waited
        line = {
            "kind": "step",
            "step": self.updates,
            "epoch": 1,
            "seconds": round(took, 4),
            "loss": loss,
            "ink_loss": float(torch.stack(sums.inks).mean()),
            "lr": lr,
            "grad_norm": float(torch.stack(sums.norms).mean()),
            "documents": self.documents,
            "repeated": self.repeated,
            "documents_per_second": round(sums.documents / took, 2),
            "tokens": sums.tokens,
            "tokens_per_second": round(sums.tokens / took, 1),
            "active_tokens": sums.active,
            "images": sums.images,
            "data_wait": round(sums.waited / took, 4),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if not math.isfinite(loss):
            raise TrainerError(f"the loss is {loss} at update {self.updates}; a lower --lr may help")
        lines.write(json.dumps(line) + "\n")
        lines.flush()
        p = self.progress
        p.share, p.documents, p.seconds, p.loss = self._share(), self.documents, self.seconds, loss
        p.rate, p.waited = sums.documents / took, sums.waited / took
        self.told(p)

    def _tell(self, doing: str) -> None:
        self.progress.doing = doing
        self.told(self.progress)

    def _held_out(self, feed: Feed, lines: TextIO) -> dict[str, dict[str, float]]:
        if not feed.held_out:
            return {}
        self._tell("measuring")
        # Not compiled: a few shapes of their own are not worth it.
        found = measured(Network(self.module, self._dtype()), feed.held_out)
        n = sum(piece.n for piece in feed.held_out)
        line = {"kind": "validation", "step": self.updates, "epoch": 1, "seconds": 0.0, "demonstrations": n}
        lines.write(json.dumps(line | {"loss": found[ALL]["loss"]}) + "\n")
        return found

    # --- what is kept

    def _save(self, feed: Feed) -> None:
        told = {"stage": "base", "updates": self.updates, "documents": self.documents, "finished": self.finished}
        save_model(self.out / "model", self.module, self.vocabulary, told)
        write_json(self.out / "receipt.json", self._receipt(feed, None))

    def _receipt(self, feed: Feed, found: dict[str, dict[str, float]] | None) -> dict[str, Any]:
        """`found` None: it still runs."""
        weights = {f.name: file_hash(f) for f in sorted((self.out / "model").glob("*.safetensors"))}
        return {
            "kind": "base",
            "simulated": self.config.data == "reading",
            "started": self.begun.isoformat(timespec="seconds"),
            "ended": None if found is None else datetime.now(UTC).isoformat(timespec="seconds"),
            "finished": self.finished,
            "setup_seconds": round(self.setup, 2),
            "seconds": round(self.seconds, 2),
            "updates": self.updates,
            "documents": self.documents,
            "documents_repeated": self.repeated,
            "documents_per_second": round(self.documents / max(1e-9, self.seconds), 2),
            "tokens": self.tokens,
            "tokens_per_second": round(self.tokens / max(1e-9, self.seconds), 1),
            "padding": round(1.0 - self.tokens / max(1, self.padded), 4),
            "data_wait": round(self.waited / max(1e-9, self.seconds), 4),
            "left_out": asdict(feed.counts),
            "workers": self.workers,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            "dtype": str(self._dtype()).removeprefix("torch."),
            "compiled": self.compiled,
            "peak_bytes": torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None,
            "weights": sum(p.numel() for p in self.module.parameters()),
            "vocabulary": {"ids": self.vocabulary.size, "fingerprint": self.vocabulary.fingerprint},
            "held_out": (found or {}).get(ALL),
            "config": self.config.model_dump(mode="json"),
            "files": weights,
            "versions": versions(),
        }

    def _draw(self) -> None:
        if not self.updates:
            return
        from specvet.training.plot import plot_runs

        title = "Base training on SIMULATED spectra" if self.config.data == "reading" else "Base training"
        plot_runs([self.out], self.out / "curve.png", title=title)
