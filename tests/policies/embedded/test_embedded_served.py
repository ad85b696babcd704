"""One folder, three ways to run it: behind `transformers serve` it says what the embedded policy says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi", reason="`transformers serve` needs fastapi")
pytest.importorskip("openai", reason="`transformers serve` needs openai")

from embedded_lab import FULL, ZOOM, options, picture, run
from safetensors.torch import load_file, save_file
from serve_lab import serving

from specvet.chat import Message
from specvet.chat.messages import assistant, system, tool, user
from specvet.policies.embedded.policy import EmbeddedPolicy
from specvet.policies.openai import open_policy
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import SamplingParams

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)
CONVERSATIONS: tuple[tuple[Message, ...], ...] = (
    (system("Look."), user(picture(1, FULL), "Is there Hα?")),
    (user(picture(2, FULL), "Is it?"), assistant("6400-6700 Å."), tool(picture(3, ZOOM), "Here it is.")),
    (user(picture(4, ZOOM, grey=False), picture(5, FULL), "Which of the two?"),),
)


def of_plain_words(nano: Path, folder: Path) -> EmbeddedPolicy:
    """A copy of a model whose head knows ASCII only, and no tag, and its policy: a server writes broken bytes in its
    own way, and takes what looks like a call for one."""
    shutil.copytree(nano, folder)
    policy = EmbeddedPolicy.open(options(folder))
    vocabulary = policy.format.vocabulary
    words = [vocabulary.decode([i]) for i in range(vocabulary.size)]
    kept = {i for i, word in enumerate(words) if word.isascii() and word.isprintable() and "<" not in word}
    kept |= {vocabulary.need("<|im_start|>"), vocabulary.need("<|im_end|>")}
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        for name in (n for n in tensors if n.endswith("embed_tokens.weight")):  # the head is tied to it
            tensors[name][[i for i in range(len(tensors[name])) if i not in kept]] = 0
        save_file(tensors, file, {"format": "pt"})
    run(policy.aclose)
    return EmbeddedPolicy.open(options(folder))


def test_a_server_of_the_folder_says_what_the_embedded_policy_says(nano_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    embedded = of_plain_words(nano_folder, folder)

    async def said_here(conversation: tuple[Message, ...]) -> tuple[int, tuple[int, ...]]:
        ledger = embedded.format.new_ledger()
        ledger.append(embedded.format.opening(list(conversation)))
        return ledger.n_tokens, (await embedded.sample(ledger, 1, GREEDY)).sequences[0].ids

    async def here() -> list[tuple[int, tuple[int, ...]]]:
        return [await said_here(one) for one in CONVERSATIONS]

    ours = run(here, embedded)
    with serving(folder) as base_url:
        given = ModelOptions(base_url=base_url, model=str(folder), branches=1, tools="text", format="qwen2_5_vl")
        policy = open_policy(given, environment={})

        async def there() -> list[tuple[int | None, str]]:
            replies = [await policy.reply(list(one), [], 1, GREEDY) for one in CONVERSATIONS]
            return [(r.prompt_tokens, r.replies[0].text) for r in replies]

        theirs = run(there, policy)
    assert theirs == [(n, embedded.format.vocabulary.decode(ids)) for n, ids in ours]
    assert len({text for _, text in theirs}) == len(CONVERSATIONS)
