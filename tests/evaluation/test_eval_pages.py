"""The pages that people read of a campaign: two cells side by side, the report, and the results table of the README."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import made
import pytest
from rollout_lab import Asked, answer, look

from specvet.cli.main import main
from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell
from specvet.evaluation.compare import meet, page
from specvet.evaluation.compare.meeting import SIDES
from specvet.evaluation.compare.told import certain_words
from specvet.evaluation.folder import CampaignFolder, open_campaign
from specvet.evaluation.plan import PolicyPlan
from specvet.evaluation.report import page as report_page
from specvet.evaluation.report import put_table, results_table
from specvet.evaluation.report.readme import BEGIN, END, campaigns
from specvet.evaluation.rows import write_rows
from specvet.records.schema import Answer, Verdict

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b[31mred\x1b[0m \u202eabc\u202c <script>alert(1)</script> a\u200bb \r </span></section> onload="
LABEL = "Care<script>ful</script> | *one*"

HOSTILE_PLAN = PolicyPlan(policy="torch", model="hostile", revision="1", label=LABEL)


def hostile(asked: Asked) -> list[int]:
    """Looks once, thinks what no page should obey, and says YES."""
    return look(thought=HOSTILE) if asked.turn == 0 else answer("YES", thought=HOSTILE)


@pytest.fixture(scope="module")
def campaign(example: CampaignFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignFolder]:
    """The example goes on with one seed, and with `hostile` in the place of `careful`."""
    root = Path(shutil.copytree(example.path.parent, tmp_path_factory.mktemp("pages") / "root"))
    (root / example.path.name).rename(root / "E")
    kept = {slug: plan for slug, plan in example.campaign.policies.items() if slug != "careful"}
    changes = {"policies": kept | {"hostile": HOSTILE_PLAN}, "seeds": (42,)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(made.SCRIPTS, "hostile", hostile)
        yield made.run_campaign(root / "E", example.campaign.model_copy(update=changes))


def cell_of(campaign: CampaignFolder, slug: str) -> Cell:
    return next(cell for cell in campaign.current() if cell.record.policy == slug)


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def assert_harmless(text: str) -> None:
    """Nothing but our own markup, nothing that runs, loads, hides or acts."""
    seen = Seen(text)
    assert {tag for tag, _ in seen.tags} & {"script", "link", "iframe", "object", "form", "base", "svg"} == set()
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on") or name == "style"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\xa0\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)
    style = text[text.index("<style>") + 7 : text.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(str(a["content"]) for a in seen.all("meta") if a.get("http-equiv"))
    assert policy.split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:", "base-uri 'none'", "form-action 'none'"
    ]  # fmt: skip
    assert all(str(image["src"]).startswith("data:image/") for image in seen.all("img"))
    assert not re.search(r"@import|https?:", style)


# Two cells side by side


def test_flips_are_the_questions_that_exactly_one_side_has_right(campaign: CampaignFolder) -> None:
    a, b = cell_of(campaign, "gambler"), cell_of(campaign, "line-indices")
    meeting = meet(a, b, "strict/1", replicates=0)
    ours = {o.id: o.right for o in a.outcomes()}
    theirs = {o.id: o.right for o in b.outcomes()}
    only_b = {id for id, right in ours.items() if not right and theirs[id]}
    assert only_b, "the gambler is wrong somewhere"
    assert {p.a.id for p in meeting.of("only_b")} == only_b
    assert {p.a.id for p in meeting.of("only_a")} == {id for id, right in ours.items() if right and not theirs[id]}
    sides = ("both", "only_a", "only_b", "neither")
    sums = [sum(counts[side] for counts in meeting.by_task.values()) for side in sides]
    assert sums == [meeting.numbers[name] for name in ("both_right", "only_a", "only_b", "neither")]
    assert sum(sums) == 14
    assert meeting.left_out == 0


def test_the_worst_and_most_certain_errors_come_first(campaign: CampaignFolder) -> None:
    meeting = meet(cell_of(campaign, "gambler"), cell_of(campaign, "line-indices"), "strict/1", replicates=0)
    wrong = [p.a for p in meeting.of("only_b")]
    sure = [(o.p_yes if o.said == "YES" else 1 - o.p_yes) for o in wrong if o.said and o.p_yes is not None]
    assert sure == sorted(sure, reverse=True)
    assert [o.said is None for o in wrong] == sorted(o.said is None for o in wrong)
    assert certain_words(wrong[0]) == f"{sure[0]:.2f} sure"


def test_the_page_has_both_trajectories_with_their_pictures_drawn_again(campaign: CampaignFolder) -> None:
    meeting = meet(cell_of(campaign, "gambler"), cell_of(campaign, "line-indices"), "strict/1", replicates=0)
    text = page(meeting, limit=2)
    seen = Seen(text)
    pairs = [pair for side in SIDES for pair in meeting.of(side)[:2]]
    assert len(seen.all("article")) == len(pairs)
    assert len([a for a in seen.all("section") if a.get("class") in ("right", "wrong")]) == 2 * len(pairs)
    # One picture that both saw first, and what each looked at.
    assert len(seen.all("img")) == sum(1 + len(pair.a.windows) + len(pair.b.windows) for pair in pairs)
    assert text.count("drawn again: the same bytes") == len(seen.all("img"))
    assert_harmless(text)
    assert "SIMULATED" in text


def test_a_hostile_model_cannot_write_markup_on_the_page(campaign: CampaignFolder) -> None:
    meeting = meet(cell_of(campaign, "hostile"), cell_of(campaign, "line-indices"), "strict/1", replicates=0)
    text = page(meeting, limit=None)
    assert_harmless(text)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= len(meeting.of("only_b")) > 0
    assert "<s>\\x1b</s>[31mred" in text
    assert "<s>\\u202e</s>abc" in text
    assert "Care&lt;script&gt;ful&lt;/script&gt;" in text


def test_a_cell_beside_itself_has_no_flips(campaign: CampaignFolder) -> None:
    cell = cell_of(campaign, "gambler")
    meeting = meet(cell, cell, "strict/1", replicates=0)
    assert meeting.of("only_a") == meeting.of("only_b") == []
    assert meeting.numbers["mcnemar_p"] == 1
    assert page(meeting, limit=1).count("There is none.") >= 2


def test_a_spectrum_that_could_not_be_read_is_told_without_a_trajectory(
    campaign: CampaignFolder, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(campaign.path, tmp_path / "E"))
    cell = cell_of(open_campaign(folder), "line-indices")
    rows = list(cell.rows())
    reason = Verdict(answer=Answer.ERROR, reason="a file <b>of noise</b>")
    place, id, first = rows[0]
    rows[0] = (place, id, first.model_copy(update={"verdict": reason, "trajectory": None}))
    write_rows(cell.path / "rows.parquet", rows)
    meeting = meet(cell, cell_of(campaign, "line-indices"), "strict/1", replicates=0)
    assert [(p.a.id, p.a.verdict) for p in meeting.of("only_b")] == [(id, "ERROR")]
    text = page(meeting)
    assert_harmless(text)
    assert "The spectrum could not be read, so nobody was asked." in text
    assert "a file &lt;b&gt;of noise&lt;/b&gt;" in text


def test_the_command_tells_flips_and_says_where_pictures_are_missing(
    campaign: CampaignFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(campaign.path, tmp_path / "far" / "E")
    elsewhere = shutil.copytree(campaign.path.parent / "input", tmp_path / "elsewhere")
    chosen = ["eval", "compare", str(tmp_path / "far" / "E"), "--of", "gambler", "--over", "line-indices"]
    assert main(chosen) == 0
    told = capsys.readouterr().out
    meeting = meet(cell_of(campaign, "gambler"), cell_of(campaign, "line-indices"), "strict/1", replicates=0)
    assert f"only Line indices right: {len(meeting.of('only_b'))}" in told
    assert meeting.of("only_b")[0].a.id in told

    html = tmp_path / "flips.html"
    assert main([*chosen, "--html", str(html), "--limit", "1"]) == 0
    text = html.read_text(encoding="utf-8")
    assert "not kept by the run, and the spectrum&#39;s file is not there" in text
    assert "<img" not in text
    assert main([*chosen, "--html", str(html), "--limit", "1", "--spectra", str(elsewhere)]) == 0
    assert "drawn again: the same bytes" in html.read_text(encoding="utf-8")

    capsys.readouterr()
    cells = [str(cell_of(campaign, slug).path) for slug in ("gambler", "line-indices")]
    assert main(["eval", "compare", *cells, "--json", "--rule", "lenient"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rule"] == "lenient/1"
    assert [len(found[side]) for side in ("only_a", "only_b")] == [found["numbers"][s] for s in ("only_a", "only_b")]
    assert found["only_b"][0].keys() == {"id", "task", "truth", "kind", "a", "b"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--of", "gambler"], "say who with --of and --over; "),
        (["--of", "nobody", "--over", "gambler"], "--of nobody: has no complete cell"),
        (["--of", "gambler", "--over", "hostile", "--seed", "7"], "--seed 7: is none that both have on examples: 42"),
        (["--of", "gambler", "--over", "hostile", "--set", "x"], "--set x: is none that gambler and hostile were both"),
        (["--of", "gambler", "--over", "hostile", "--rule", "kind"], "there is no rule 'kind'"),
        (["sets", "--json"], "is no cell; they lie in cells/ of a campaign folder"),
    ],
)
def test_a_choice_that_fits_nothing_says_what_there_is(
    campaign: CampaignFolder, asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "compare", str(campaign.path), *asked]) == 2
    assert said in capsys.readouterr().err


# The report


def test_the_report_holds_the_numbers_and_harms_nobody(
    campaign: CampaignFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["eval", "report", str(campaign.path), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    text = out.read_text(encoding="utf-8")
    assert_harmless(text)
    seen = Seen(text)
    assert [str(a["src"])[:26] for a in seen.all("img")] == ["data:image/svg+xml;base64,"] * len(seen.all("img"))
    assert len(seen.all("img")) >= 5
    assert "Care&lt;script&gt;ful" in text
    assert "SIMULATED" in text
    metrics = cell_of(campaign, "gambler").metrics()
    accuracy = metrics["headline"]["accuracy"]
    told = f"{100 * accuracy['value']:.2f} ({100 * accuracy['low']:.2f}–{100 * accuracy['high']:.2f})"
    words = " ".join(seen.words)
    assert told in words
    assert f"{metrics['headline']['correct']['k']} of 14" in words
    for cell in campaign.current():
        record = cell.record
        assert cell.policy.fingerprint[:16] in text
        assert cell.name in text
        assert all(sha[:16] in text for sha in (record.rows_sha256, record.receipt_sha256, record.metrics_sha256))


def test_the_report_says_what_was_not_measured(campaign: CampaignFolder, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(campaign.path, tmp_path / "E"))
    text = (folder / "campaign.yaml").read_text(encoding="utf-8")
    (folder / "campaign.yaml").write_text(text.replace("policies:\n", "policies:\n  late: {policy: line-indices}\n"))
    told = report_page(open_campaign(folder), kinds=())
    lines = re.findall(r"<li>(.*?)</li>", told)
    assert "Not complete yet: late. See specvet eval status." in lines
    assert any(line.startswith("No cost: nothing stated one") and "Line indices, Gambler" in line for line in lines)
    assert any(line.startswith("No tokens: it measures") and "Gambler" not in line for line in lines)
    assert any(line.startswith("No comparison across surveys") for line in lines)


def test_a_campaign_without_numbers_is_told_apart_from_no_campaign(
    tmp_path: Path, campaign: CampaignFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "report", str(tmp_path)]) == 2
    assert "is no campaign" in capsys.readouterr().err
    shutil.copy(campaign.path / "campaign.yaml", tmp_path)
    assert main(["eval", "report", str(tmp_path)]) == 1
    assert "no cell of this campaign is finished" in capsys.readouterr().err


# The table of the README


def test_the_readme_holds_the_results_of_the_repository() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if not list(campaigns(ROOT / "results")):
        assert f"{BEGIN}\n{END}" in readme
        return
    assert put_table(readme, results_table(ROOT / "results")) == readme


def test_what_was_tried_and_the_folds_of_a_cross_validation_stay_out_of_the_table(
    campaign: CampaignFolder, tmp_path: Path
) -> None:
    for place in ("mine", "nano/trials/mine", "nano/folds/1"):
        shutil.copytree(campaign.path, tmp_path / place)
    table = results_table(tmp_path)
    assert "(results/mine)" in table
    assert "trials" not in table
    assert "folds" not in table


def test_the_table_has_a_line_a_policy_and_no_markup_of_strangers(
    campaign: CampaignFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = campaign.path.parent
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    asked = ["eval", "report", str(root), "--readme", str(readme)]
    assert main([*asked, "--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert main(asked) == 0
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n| set |")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    assert [line.split(" | ")[2] for line in lines] == [
        "Line indices", "Gambler", r"Care&lt;script>ful&lt;/script> \| \*one\*"
    ]  # fmt: skip
    correct = cell_of(campaign, "gambler").metrics()["headline"]["correct"]["k"]
    assert lines[1].split(" | ")[7] == str(correct)
    assert f"| [examples]({root.name}/E) (SIMULATED) | 14 |" in lines[0]
    assert main([*asked, "--check"]) == 0


def test_a_readme_without_its_marks_is_left_as_it_is() -> None:
    for text in ("nothing", f"{BEGIN} only", f"{END} {BEGIN}", f"{BEGIN} {END} {BEGIN} {END}"):
        with pytest.raises(InputError, match="needs one line"):
            put_table(text, "table")


def test_a_folder_without_campaigns_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no campaign with results"):
        results_table(tmp_path)
