"""A small finished campaign for tests, made by the real runner: some 50 questions about the SIMULATED example spectra.

`line-indices` measures; `gambler` and `careful` are token policies that play scripts on a real small vocabulary, with
two seeds each: their ledgers, log-probs and pictures are those of any model.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "agent"))

from rollout_lab import Asked, Scripted, answer, gambler, look, said

from specvet.agent import Engine
from specvet.evaluation.descriptors import describe, keep_descriptor
from specvet.evaluation.folder import CAMPAIGN, POLICIES, SETS, CampaignFolder, open_campaign
from specvet.evaluation.plan import Campaign, parse_campaign
from specvet.evaluation.running import Opened, campaign_text, cell_plans, finish, run_cell, sealed_folder
from specvet.evaluation.sets import QuestionSet, keep_set, load_set
from specvet.policies import policy
from specvet.policies.tokens import usage_numbers
from specvet.records import write_atomic
from specvet.records.hashing import bytes_hash
from specvet.vetting.rollouts import Measuring

EXAMPLES = Path(__file__).parents[2] / "examples"
TASKS = ("cv", "cc", "ss", "gm", "wd")

CAMPAIGN_TEXT = """
name: example
policies:
  line-indices: {policy: line-indices, label: Line indices}
  gambler: {policy: torch, model: gambler, revision: "1", label: Gambler, trained_on: [cv, cc, gm]}
  careful: {policy: torch, model: careful, revision: "1", label: Careful, source: played from a script}
sets:
  examples: {path: questions.jsonl, facts: facts.csv}
seeds: [42, 43]
settings: {style: compact, concurrency: 8}
replicates: 40
"""


def write_questions(folder: Path, n: int | None = None) -> Path:
    """The example spectra (SIMULATED), each asked all five questions, to be moved; `n`: only the first."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "spectra"
    if not target.exists():
        target.mkdir()
        for file in (EXAMPLES / "spectra").iterdir():
            (target / file.name).write_bytes(file.read_bytes())
    with (EXAMPLES / "truth.csv").open(encoding="utf-8") as f:
        truth = list(csv.DictReader(f))
    lines, facts = [], ["name,kind,snr"]
    for i, row in enumerate(truth):
        facts.append(f"star-{i},{row['class']},{5 + i}")
        for task in (task for task in TASKS if row[task] in ("YES", "NO")):
            place = {"path": row["file"], "row": int(row["row"])}
            told = {"id": f"{task}-{i}", "task": task, "spectrum": place, "name": f"star-{i}", "answer": row[task]}
            lines.append(told | {"object_id": f"object-{i}", "label_source": "SIMULATED"})
    (folder / "facts.csv").write_text("\n".join(facts) + "\n", encoding="utf-8")
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines[:n]), encoding="utf-8")
    return file


def careful(asked: Asked) -> list[int]:
    """Looks at Hα, now and then says nothing that can be read, and mostly answers NO."""
    luck = asked.luck
    if asked.turn == 0:
        return look()
    if luck.random() < 0.1:
        return said("I cannot tell.")
    return answer("YES" if luck.random() < 0.25 else "NO", thought="Hα is what it is.")


SCRIPTS = {"gambler": gambler, "careful": careful}


def opener(plan: Any, stack: Any) -> Opened:
    """Opens the policies of the campaign above."""
    if plan.policy.policy == "line-indices":
        measuring = policy("line-indices")
        return Opened(measuring, lambda stack, run, budget, params: Measuring(measuring, budget, bytes_hash))
    scripted = Scripted(SCRIPTS[plan.policy.slug], name=plan.policy.slug, fingerprint=plan.policy.slug)

    def engine(stack: Any, run: Any, budget: Any, params: Any) -> Engine:
        return stack.enter_context(Engine(scripted, budget, params, keep_image=bytes_hash, concurrency=8))

    return Opened(scripted, engine, None, lambda engine: usage_numbers(scripted.usage))


def make_campaign(folder: Path, text: str = CAMPAIGN_TEXT, n: int | None = None) -> CampaignFolder:
    """A finished campaign in `folder`, its questions and spectra beside it in `folder`/../input."""
    source = folder.parent / "input"
    write_questions(source, n)
    plain = parse_campaign(text, "campaign.yaml")
    moved = {
        slug: plan.model_copy(update={"path": f"../input/{plan.path}", "facts": f"../input/{plan.facts}"})
        for slug, plan in plain.sets.items()
    }
    return run_campaign(folder, plain.model_copy(update={"sets": moved}))


def run_campaign(folder: Path, campaign: Campaign) -> CampaignFolder:
    """What `specvet eval run` does, with the policies above."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / CAMPAIGN, campaign_text(campaign))
    sets: dict[str, QuestionSet] = {}
    for slug, plan in campaign.sets.items():
        sets[slug] = load_set(slug, plan, str(folder / plan.path), str(folder / plan.facts))  # type: ignore[operator]
        keep_set(folder / SETS, sets[slug])
    policies = {
        slug: keep_descriptor(folder / POLICIES, describe(slug, plan, campaign.label(slug), folder))
        for slug, plan in campaign.policies.items()
    }
    plans = list(cell_plans(campaign, policies, sets))
    for plan in plans:
        run_cell(folder, plan, sets[plan.set.slug], campaign, opener)
    finish(folder, campaign, [place for plan in plans if (place := sealed_folder(folder, plan)) is not None])
    return open_campaign(folder)
