"""A campaign file: which policies are asked which questions, with which seeds and settings.

    name: baselines
    sets:
      simvi-val: {recipe: {simvi: full, part: val}}           # made from its seed wherever it is needed
      mine: {path: mine/questions.jsonl, facts: mine/truth.csv}
    policies:
      line-indices: {policy: line-indices}
      sft: {policy: torch, model: models/sft, label: SFT epoch 2, settings: {max_tokens: 2048}}
      rl: {policy: openai, model: spec-o3, base_url: "http://127.0.0.1:8000/v1", revision: 3b-2026-01}
    seeds: [42, 43, 44]
    settings: {temperature: 0.6, max_turns: 8, context: 16384, max_tokens: 6144, concurrency: 16}
    comparisons: [{of: rl, over: sft}]

Every policy meets every set with every seed; one such meeting is a cell. Paths are relative to the campaign file. The
defaults are those of the published reproduction's evaluation (see `specvet.evaluation.published`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from specvet.data.errors import InputError
from specvet.evaluation.rules import STRICT, rule
from specvet.policies import POLICIES
from specvet.spectra import FrameMode
from specvet.tasks import Wording
from specvet.tasks.yaml_text import StrictLoader
from specvet.vetting.transcript.safe import one_line
from specvet.views import REFERENCE_STYLE, Size, check_style, picture_size

MEASURING = ("line-indices", "majority", "trees", "cnn")
"""Policies that measure: the same spectrum gives the same answer, so one seed stands for all."""

Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")]
"""A short name that can stand in a file's name."""

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


def _harmless(label: str) -> str:
    if label and one_line(label) != label:
        raise ValueError(f"{one_line(label, 60)!r} does not stand on one line as it is; leave out what is no letter")
    return label


Label = Annotated[str, AfterValidator(_harmless)]
"""A name for people: terminals, pages and figures show it, so it holds nothing that acts on one."""


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RunSettings(Part):
    """How a policy is asked. All but what `HARMLESS` lists can alter a trajectory."""

    temperature: float = Field(default=0.6, ge=0)
    """0 takes the likeliest token."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    max_turns: int = Field(default=8, ge=1)
    max_malformed: int = Field(default=0, ge=0)
    """Malformed turns that are answered with a reminder."""
    max_tokens: int = Field(default=6_144, ge=1)
    """Of one generation."""
    context: int = Field(default=16_384, ge=2)
    """Tokens of a trajectory, pictures included."""
    max_seconds: float = Field(default=600.0, gt=0)
    """Of a trajectory."""
    format_reminder: bool = False
    """Say the form of an answer once more behind the question, as for a base model."""
    style: str = REFERENCE_STYLE
    """`reference` or `compact`; kept by its full name."""
    size: str | None = None
    """Of the compact style: `small`, `published`, `tiny` or `448x280`."""
    wording: Wording = "full"
    """`full` asks a question in the words that it brings along, where it does; see `specvet.tasks.wording`."""
    guard: bool = False
    """The program says UNSURE itself where nobody could decide, as `specvet vet` does; see `specvet.agent.guard`."""
    frame: FrameMode = "careful"
    title: Literal["plain", "file"] = "plain"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    concurrency: int = Field(default=16, ge=1)
    processes: int = Field(default=1, ge=1)
    """That roll out, each with the model; see `specvet.agent.crew`."""
    device: str = "auto"
    timeout: float = Field(default=600.0, gt=0)
    """Seconds of one request."""
    images: bool = False
    """Keep the pictures that were shown; without them their hashes are kept, and they can be drawn again."""

    @field_validator("style")
    @classmethod
    def _full_name(cls, style: str) -> str:
        return check_style(style)

    @model_validator(mode="after")
    def _drawable(self) -> RunSettings:
        check_style(self.style, self.pixels)
        if self.format_reminder and self.wording == "short":
            raise ValueError("format_reminder: the short wording has none; leave one of them out")
        return self

    @property
    def pixels(self) -> Size:
        """`size` as figures take it: (width, height), or a name."""
        return picture_size(self.size)


HARMLESS = ("concurrency", "processes", "device", "timeout", "images")
"""Settings that alter no trajectory, so that a cell goes on on another machine."""


class PolicyPlan(Part):
    """A model descriptor as written. Once a campaign has asked it, its slug stands for these very weights."""

    policy: str = "torch"
    """`line-indices`, `majority`, `trees`, `cnn`, `embedded`, `torch`, `openai`, `trio` or `tinker`."""
    model: str | None = None
    """Folder (relative to the campaign file), hub id, or a server's name for it."""
    adapter: str | None = None
    revision: str | None = None
    """Immutable: a commit of the hub id, or whatever the server calls the version it serves."""
    base_url: str | tuple[str, ...] | None = None
    """Of a server; of several that serve the same model, over which the requests of an openai policy are spread."""
    format: str | None = None
    tokenizer: str | None = None
    tools: str = "tools"
    tool_images: str = "auto"
    label: Label | None = None
    """For tables and plots; the slug where not given."""
    source: str | None = None
    """Where the weights come from: a training run, `owner/repo@commit`, a paper."""
    trained_on: tuple[str, ...] | None = None
    """Keys of the tasks whose class it was trained on, so that the others count as unseen; None: not known."""
    settings: dict[str, Any] = {}
    """`RunSettings` of its own, over those of the campaign. What the model's own folder says of how it is asked joins
    them, where nothing else is said here."""


class Recipe(Part):
    """A set that is made from its seed; exactly one of the kinds."""

    simvi: Literal["full", "small", "tiny"] | None = None
    suite: Literal["cross-survey", "cross-task"] | None = None
    part: Literal["train", "dev", "val", "test"] = "val"
    """Of SimVI."""
    n: int = Field(default=1_000, ge=1)
    """Objects of a suite."""
    seed: int = Field(default=0, ge=0)
    style: str = "compact"
    """Of the pictures that SimVI stores; agents draw their own."""

    @model_validator(mode="after")
    def _one(self) -> Recipe:
        if (self.simvi is None) == (self.suite is None):
            raise ValueError("give exactly one of simvi and suite")
        idle = ("n",) if self.simvi else ("part", "style")
        if told := [name for name in idle if getattr(self, name) != Recipe.model_fields[name].default]:
            raise ValueError(f"{told[0]}: a {'simvi' if self.simvi else 'suite'} has none; leave it out")
        check_style(self.style)
        return self


class SetPlan(Part):
    """A question set: a file, or a recipe."""

    path: str | None = None
    """Question file, relative to the campaign file."""
    recipe: Recipe | None = None
    facts: str | None = None
    """CSV about its spectra: a column `name` (or `path`) as in the questions, and `kind`, `subtype`, `snr`, `survey`
    as far as known. A recipe brings its own."""
    tasks: tuple[str, ...] | None = None
    """Only questions about these."""
    limit: int | None = Field(default=None, ge=1)
    """Only so many questions, taken evenly over each task's; for a first try."""
    unseen: tuple[str, ...] = ()
    """Tasks whose class no policy was trained on, whatever the descriptors say."""
    reference: str | None = None
    """The survey that the others are compared with, where the set is of several."""

    @model_validator(mode="after")
    def _one(self) -> SetPlan:
        if (self.path is None) == (self.recipe is None):
            raise ValueError("give exactly one of path and recipe")
        return self


class Comparison(Part):
    """A paired difference: what `of` gains over `over`, by slug."""

    of: str
    over: str


class Campaign(Part):
    """A campaign file, as read."""

    name: Slug
    about: str = ""
    policies: dict[Slug, PolicyPlan] = Field(min_length=1)
    sets: dict[Slug, SetPlan] = Field(min_length=1)
    seeds: tuple[Seed, ...] = Field(default=(42,), min_length=1)
    settings: RunSettings = RunSettings()
    comparisons: tuple[Comparison, ...] | None = None
    """None compares every policy with every one before it."""
    rule: str = STRICT
    """See `specvet.evaluation.rules`; kept with its version, which later ones do not change."""
    replicates: int = Field(default=2_000, ge=0, le=100_000)
    """Of each bootstrap; 0 gives no intervals."""
    matched_budget: bool = False
    """Give every policy the largest budget (turns, tokens a generation, context, seconds) that any of them has."""

    @field_validator("rule")
    @classmethod
    def _with_version(cls, name: str) -> str:
        return rule(name).name

    @model_validator(mode="after")
    def _sensible(self) -> Campaign:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: {list(self.seeds)} holds one twice")
        for comparison in self.comparisons or ():
            for slug in (comparison.of, comparison.over):
                if slug not in self.policies:
                    raise ValueError(f"comparisons: there is no policy {slug!r}; known are {', '.join(self.policies)}")
            if comparison.of == comparison.over:
                raise ValueError(f"comparisons: {comparison.of} is compared with itself")
        labels = [self.label(slug) for slug in self.policies]
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise ValueError(f"policies: two of them have the label {twice!r}, so tables could not tell them apart")
        for slug, plan in self.policies.items():
            self.settings_of(slug)
            if plan.policy not in POLICIES:
                raise ValueError(
                    f"policies.{slug}: there is no policy {plan.policy!r}; known are {', '.join(sorted(POLICIES))}"
                )
            if plan.policy == "line-indices" and plan.model is not None:
                raise ValueError(f"policies.{slug}: line-indices was not trained and takes no model; leave it out")
            urls = (plan.base_url,) if isinstance(plan.base_url, str) else plan.base_url or ()
            if len(urls) > 1 and plan.policy != "openai":
                raise ValueError(
                    f"policies.{slug}.base_url: only an openai policy is spread over several servers; give one"
                )
            if any("@" in url.partition("//")[2].partition("/")[0] for url in urls):
                raise ValueError(
                    f"policies.{slug}.base_url: names a user or a password, which would stand in the results; leave it "
                    "out, and give a key in OPENAI_API_KEY"
                )
            if plan.policy == "openai" and not plan.base_url:
                raise ValueError(f"policies.{slug}: an openai policy needs the server's base_url")
        return self

    def settings_of(self, slug: str) -> RunSettings:
        """Those that a policy is asked with. Raises ValueError for a setting that there is not."""
        settings = self._own(slug)
        if not self.matched_budget:
            return settings
        every = [self._own(other) for other in self.policies]
        names = ("max_turns", "max_tokens", "context", "max_seconds", "max_malformed")
        return settings.model_copy(update={name: max(getattr(s, name) for s in every) for name in names})

    def _own(self, slug: str) -> RunSettings:
        own = self.policies[slug].settings
        try:
            return RunSettings.model_validate(self.settings.model_dump() | own)
        except ValidationError as e:
            raise ValueError(f"policies.{slug}.settings: {problem(e)}") from None

    def seeds_of(self, slug: str) -> tuple[int | None, ...]:
        """The seeds that a policy is asked with; (None,) for one that measures."""
        return (None,) if self.policies[slug].policy in MEASURING else self.seeds

    def label(self, slug: str) -> str:
        return self.policies[slug].label or slug

    def pairs(self) -> list[Comparison]:
        """The comparisons that are meant."""
        if self.comparisons is not None:
            return list(self.comparisons)
        slugs = list(self.policies)
        return [Comparison(of=b, over=a) for j, b in enumerate(slugs) for a in slugs[:j]]


def read_campaign(path: str | Path) -> Campaign:
    """The campaign of a YAML file. Raises InputError: file, field and what is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{path}: cannot be read as text ({getattr(e, 'strerror', None) or e})") from None
    return parse_campaign(text, str(path))


def parse_campaign(text: str, where: str) -> Campaign:
    """The campaign of a YAML text. Raises InputError."""
    try:
        data = yaml.load(text, Loader=StrictLoader)
    except yaml.YAMLError as e:
        raise InputError(f"{where}: is no YAML that can be read: {' '.join(str(e).split())}") from None
    except RecursionError:
        raise InputError(f"{where}: is no YAML that can be read: it is nested too deeply") from None
    if not isinstance(data, dict):
        raise InputError(f"{where}: holds no campaign; it is made of `name:`, `policies:`, `sets:` and `seeds:`")
    try:
        return Campaign.model_validate(data)
    except ValidationError as e:
        raise InputError(f"{where}: {problem(e)}") from None


P = TypeVar("P", bound=Part)


def read_part(kind: type[P], file: Path) -> P:
    """What a campaign keeps in a JSON file. Raises InputError for one that is damaged, OSError for one that is gone."""
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except ValueError as e:
        said = problem(e) if isinstance(e, ValidationError) else str(e)
        raise InputError(f"{file}: is damaged ({said}); put it back from a copy, or remove it and run again") from None


def problem(error: ValidationError) -> str:
    """The first error in words: field and what is wrong."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]")
    said = re.sub(r"^Value error, ", "", str(first["msg"]))
    if first["type"] == "extra_forbidden":
        said = "there is no such field"
    elif first["type"] == "missing":
        said = "is missing"
    elif first["type"] == "tuple_type":
        said = "give a list, as in [a, b]"
    elif first["type"] == "string_pattern_mismatch":
        said = "give letters, digits, dots, dashes and underscores, 61 at most, beginning with a letter or digit"
    elif first["type"] == "string_type":
        said = "give a text, in quotes where it looks like a number, a date or nothing"
    elif first["type"] == "too_short":
        said = "is empty"
    elif first["type"] in ("model_type", "dict_type"):
        said = "give fields, as in {field: value}"
    return f"{where}: {said}" if where else said
