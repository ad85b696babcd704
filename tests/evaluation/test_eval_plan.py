"""Campaign files: what stands in them, and what is wrong with them in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.data.errors import InputError
from specvet.evaluation.plan import MEASURING, Campaign, Comparison, RunSettings, parse_campaign, read_campaign
from specvet.evaluation.running import campaign_text
from specvet.policies import POLICIES

FULL = """
name: baselines
sets:
  simvi-val: {recipe: {simvi: full, part: val}}
  mine: {path: mine/questions.jsonl, facts: mine/truth.csv, unseen: [wd]}
policies:
  line-indices: {policy: line-indices}
  sft: {policy: torch, model: models/sft, label: SFT epoch 2, settings: {max_tokens: 2048, max_turns: 3}}
  rl: {policy: openai, model: spec-o3, base_url: "http://127.0.0.1:8000/v1", revision: 3b-2026-01}
seeds: [42, 43, 44]
settings: {temperature: 0.6, max_turns: 8, context: 16384, max_tokens: 6144, concurrency: 16}
"""


def test_a_campaign_file_is_read_as_written_and_the_rest_is_the_published_evaluation() -> None:
    campaign = parse_campaign(FULL, "c.yaml")
    assert campaign.settings == RunSettings()
    settings = campaign.settings_of("rl")
    assert (settings.temperature, settings.max_turns, settings.context, settings.concurrency) == (0.6, 8, 16_384, 16)
    assert (settings.top_p, settings.max_malformed, settings.format_reminder) == (1.0, 0, False)
    assert Campaign.model_fields["seeds"].default == (42,)
    assert (campaign.settings_of("sft").max_tokens, campaign.settings_of("sft").context) == (2048, 16_384)
    assert campaign.seeds_of("line-indices") == (None,)
    assert campaign.seeds_of("sft") == (42, 43, 44)
    assert (campaign.label("sft"), campaign.label("rl")) == ("SFT epoch 2", "rl")
    pairs = [(pair.of, pair.over) for pair in campaign.pairs()]
    assert pairs == [("sft", "line-indices"), ("rl", "line-indices"), ("rl", "sft")]
    assert campaign.model_copy(update={"comparisons": (Comparison(of="rl", over="sft"),)}).pairs()[0].over == "sft"


def test_a_campaign_that_is_written_out_reads_back_the_same() -> None:
    for text in (
        FULL,
        FULL + "matched_budget: true\nrule: lenient\nreplicates: 0\ncomparisons: [{of: rl, over: sft}]\n",
    ):
        campaign = parse_campaign(text, "c.yaml")
        again = parse_campaign(campaign_text(campaign), "campaign.yaml")
        assert again == campaign
        assert campaign_text(again) == campaign_text(campaign)


def test_a_matched_budget_gives_all_the_largest_of_each_limit() -> None:
    text = FULL.replace("3}", "12}").replace("label: SFT", "label: S") + "matched_budget: true\n"
    campaign = parse_campaign(text, "c.yaml")
    for slug in campaign.policies:
        settings = campaign.settings_of(slug)
        assert (settings.max_turns, settings.max_tokens, settings.context) == (12, 6144, 16_384)
        assert settings.temperature == 0.6  # no budget
    alone = parse_campaign(text.replace("matched_budget: true", ""), "c.yaml")
    assert (alone.settings_of("sft").max_tokens, alone.settings_of("rl").max_turns) == (2048, 8)


def test_a_style_counts_by_its_full_name_however_it_is_written() -> None:
    assert RunSettings(style="reference") == RunSettings()
    assert RunSettings().style == "spec-o3-reference-1"
    assert RunSettings(style="compact", size="448x280").pixels == (448, 280)
    assert RunSettings(style="compact", size="small").pixels == "small"


def test_every_policy_that_measures_is_a_policy() -> None:
    assert set(MEASURING) < set(POLICIES)


TINY = "name: a\npolicies: {p: {policy: line-indices}}\nsets: {s: {path: q.jsonl}}\n"
NAME = "give letters, digits, dots, dashes and underscores"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no campaign; it is made of `name:`, `policies:`, `sets:` and `seeds:`"),
        ("[a]", "holds no campaign"),
        ("a: [", "is no YAML that can be read"),
        (TINY + "name: b", "the key `name` stands twice"),
        ("name: a", "policies: is missing"),
        (TINY.replace("name: a", "name: a b"), f"name: {NAME}"),
        (TINY.replace("name: a", "name: ../a"), f"name: {NAME}"),
        (TINY.replace("p:", "p q:"), f"policies.p q: {NAME}"),
        (TINY.replace("s: {path", "-s: {path"), f"sets.-s: {NAME}"),
        (TINY.replace("{p: {policy: line-indices}}", "{}"), "policies: is empty"),
        (TINY.replace("{p: {policy: line-indices}}", "{p: }"), "policies.p: give fields"),
        (
            TINY.replace("line-indices", "lines"),
            "policies.p: there is no policy 'lines'; known are cnn, embedded, line-indices,",
        ),
        (TINY.replace("line-indices", "openai"), "policies.p: an openai policy needs the server's base_url"),
        (TINY.replace("line-indices", "torch, modell: x"), "policies.p.modell: there is no such field"),
        (TINY.replace("line-indices", "torch, model: 7"), "policies.p.model: give a text, in quotes"),
        (TINY.replace("line-indices", "torch, settings: {max_turn: 1}"), "policies.p.settings: max_turn: there is no"),
        (
            TINY.replace("line-indices", "torch, settings: {style: x}"),
            "policies.p.settings: style: style 'x' is unknown",
        ),
        (TINY.replace("{p:", "{q: {policy: torch, label: p}, p:"), "two of them have the label 'p'"),
        (TINY.replace("path: q.jsonl", ""), "sets.s: give exactly one of path and recipe"),
        (TINY.replace("q.jsonl", "q, recipe: {simvi: tiny}"), "sets.s: give exactly one of path and recipe"),
        (TINY.replace("path: q.jsonl", "recipe: {}"), "sets.s.recipe: give exactly one of simvi and suite"),
        (
            TINY.replace("path: q.jsonl", "recipe: {simvi: huge}"),
            "sets.s.recipe.simvi: Input should be 'full', 'small'",
        ),
        (TINY.replace("q.jsonl", "q, limit: 0"), "sets.s.limit: Input should be greater than or equal to 1"),
        (TINY.replace("q.jsonl", "q, tasks: cv"), "sets.s.tasks: give a list"),
        (TINY + "seeds: []", "seeds: is empty"),
        (TINY + "seeds: 42", "seeds: give a list"),
        (TINY + "seeds: [1, 2, 1]", "seeds: [1, 2, 1] holds one twice"),
        (TINY + "rule: exact", "there is no rule 'exact'; this version of specvet has strict/1"),
        (TINY + "replicates: -1", "replicates: Input should be greater than or equal to 0"),
        (TINY + "comparisons: [{of: p, over: q}]", "comparisons: there is no policy 'q'; known are p"),
        (TINY + "comparisons: [{of: p, over: p}]", "comparisons: p is compared with itself"),
        (TINY + "settings: {temperatur: 1}", "settings.temperatur: there is no such field"),
        (TINY + "settings: {temperature: .inf}", "settings.temperature: Input should be a finite number"),
        (TINY + "settings: {top_p: 0}", "settings.top_p: Input should be greater than 0"),
        (TINY + "settings: {max_seconds: 0}", "settings.max_seconds: Input should be greater than 0"),
        (TINY + "settings: {frame: rest}", "settings.frame: Input should be 'careful', 'published' or 'observed'"),
        (TINY + "settings: {title: none}", "settings.title: Input should be 'plain' or 'file'"),
        (
            TINY + "settings: {dtype: int8}",
            "settings.dtype: Input should be 'auto', 'float32', 'bfloat16' or 'float16'",
        ),
        (TINY + "settings: {style: modern}", "settings.style: style 'modern' is unknown; choose reference or compact"),
        (TINY + "settings: {size: small}", "settings: size = small with style 'spec-o3-reference-1'; only compact-1"),
        (TINY + "settings: {style: compact, size: axb}", "settings: size 'axb' is unknown"),
        (TINY + "matched_budget: perhaps", "matched_budget: Input should be a valid boolean"),
        (TINY + "extra: 1", "extra: there is no such field"),
    ],
)
def test_what_is_wrong_with_a_campaign_is_told_with_its_file_and_field(text: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        parse_campaign(text, "my/c.yaml")
    assert str(error.value).startswith("my/c.yaml: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.yaml: cannot be read as text \(No such file"):
        read_campaign(tmp_path / "gone.yaml")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"c\.yaml: cannot be read as text"):
        read_campaign(tmp_path / "c.yaml")
