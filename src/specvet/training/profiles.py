"""Profiles as files, and how one becomes the `TrainConfig` of a run.

A profile (`profiles/*.yaml`, or a file of one's own) gives the model, what of it is trained, and the settings of both
loops. Flags and `--set grpo.lr=2e-6` override it. What results is written into the run's `config.yaml`, and read back
from there with `--config`, which repeats the run.

A setting is named by its section (`model`, `method`, `sft` or `grpo`) and its field, `grpo.budget.max_turns`; a part in
between may be left out where only one part has the field: `sft.lr` is `sft.optimiser.lr`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import ValidationError

from specvet.tasks.yaml_text import StrictLoader
from specvet.training.config import (
    ConfigError,
    GrpoConfig,
    MethodConfig,
    ModelConfig,
    Part,
    Profile,
    SftConfig,
    TrainConfig,
)

P = TypeVar("P", bound=Part)

Stage = Literal["sft", "grpo"]

_LOOPS: Mapping[str, type[Part]] = {"sft": SftConfig, "grpo": GrpoConfig}
_OF_MODEL = ("revision", "tokenizer")
"""What a profile says of its own model, and means nothing for another."""
_NULLS = ("null", "none", "~", "")


def profile_names() -> list[str]:
    """The profiles that come with specvet."""
    return sorted(f.name.removesuffix(".yaml") for f in _folder().iterdir() if f.name.endswith(".yaml"))


def load_profile(name: str) -> Profile:
    """A profile that comes with specvet, or a YAML file. Raises ConfigError, which lists those that there are."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return validated(Profile, _yaml(_read(Path(name)), name), f"{name}: ")
    known = profile_names()
    if name not in known:
        raise ConfigError(
            f"there is no profile {name!r}; {_near(name, known)}a file of your own is named with its .yaml. "
            f"There are: {', '.join(known)}"
        )
    text = (_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    return validated(Profile, _yaml(text, name), f"{name}.yaml: ")


def resolve(
    stage: Stage,
    profile: Profile | str,
    overrides: Mapping[str, Any] | None = None,
    *,
    backend: str | None = None,
    start: str | None = None,
) -> TrainConfig:
    """What a run of `stage` is told. `overrides` are values, or texts of them, by setting.

    The run keeps the name that the profile was called by, so that it can be found again. A model that differs from the
    profile's takes neither its revision nor its tokenizer. Raises ConfigError.
    """
    told = load_profile(profile) if isinstance(profile, str) else profile
    name = profile if isinstance(profile, str) else profile.profile
    sections = {section: getattr(told, section).model_dump() for section in ("model", "method", stage)}
    return _made(stage, name, sections, told.seed, backend or "torch", start, overrides or {})


def resolve_again(
    config: TrainConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    backend: str | None = None,
    start: str | None = None,
) -> TrainConfig:
    """The same run with other settings, as `resolve` makes one of a profile. Raises ConfigError."""
    sections = {"model": config.model, "method": config.method, config.stage: config.loop}
    given = {name: part.model_dump() for name, part in sections.items()}
    backend, start = backend or config.backend, config.start if start is None else start
    return _made(config.stage, config.profile, given, config.seed, backend, start, overrides or {})


def parse_set(text: str) -> tuple[str, Any]:
    """`sft.lr=3e-5` as a setting and its value; lists are written as in YAML: `grpo.clip=[0.8, 1.28]`.

    Numbers stay text here, and become what their field is. Raises ConfigError.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {text}: write it as SETTING=VALUE, as in --set grpo.budget.max_turns=6")
    value = value.strip()
    if value.lower() in _NULLS:
        return name.strip(), None
    if value.startswith("["):
        return name.strip(), _yaml_value(value, name)
    return name.strip(), value


def config_text(config: TrainConfig) -> str:
    """As YAML, which `read_config` reads."""
    return str(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def read_config(path: str, text: str | None = None) -> TrainConfig:
    """The settings in a run's `config.yaml` (or in its folder's), or in a `text` that came from elsewhere.

    What else a run folder's file says (its kind, versions, hashes of its data) is passed over. Raises ConfigError.
    """
    if text is None:
        file = Path(path) / "config.yaml" if Path(path).is_dir() else Path(path)
        path, text = str(file), _read(file)
    found = _yaml(text, path)
    stage = str(found.get("stage"))
    if stage not in _LOOPS:
        if "grpo" in found or "sft" in found:
            raise ConfigError(f"{path}: is a profile; give it as --profile {path}")
        raise ConfigError(f"{path}: is no configuration of a training run (it says no stage)")
    loop = validated(_LOOPS[stage], _mapping(found.get("loop"), f"{path}: loop"), f"{path}: loop.")
    given = {k: v for k, v in found.items() if k in TrainConfig.model_fields}
    return validated(TrainConfig, given | {"loop": loop}, f"{path}: ")


# --- inside


def _made(
    stage: Stage,
    profile: str,
    sections: dict[str, dict[str, Any]],
    seed: int,
    backend: str,
    start: str | None,
    overrides: Mapping[str, Any],
) -> TrainConfig:
    model = sections["model"]["name"]
    given: dict[str, Any] = {"seed": seed}
    changed: set[tuple[str, ...]] = set()
    for setting, value in overrides.items():
        if setting in given:
            given[setting] = value
            continue
        place = _place(stage, setting)
        if place in changed:
            raise ConfigError(f"{setting}: {'.'.join(place)} is set twice; give it once")
        part = sections
        for name in place[:-1]:
            part = part[name]
        part[place[-1]] = value
        changed.add(place)
    if sections["model"]["name"] != model:
        sections["model"] |= {name: None for name in _OF_MODEL if ("model", name) not in changed}
    unused = [name for name in ("rank", "alpha") if ("method", name) in changed]
    if unused and sections["method"]["kind"] == "full":
        raise ConfigError(f"method.{unused[0]}: this run trains all weights (method.kind is full) and has no adapter")
    return validated(
        TrainConfig,
        {
            "stage": stage,
            "profile": profile,
            "backend": backend,
            "model": validated(ModelConfig, sections["model"], "model."),
            "method": validated(MethodConfig, sections["method"], "method."),
            "loop": validated(_LOOPS[stage], sections[stage], f"{stage}."),
            "start": start,
        }
        | given,
        "",
    )


def _place(stage: Stage, setting: str) -> tuple[str, ...]:
    """Where a setting stands: ("sft", "optimiser", "lr") for `sft.lr`. Raises ConfigError."""
    section = setting.partition(".")[0]
    parts: dict[str, type[Part]] = {"model": ModelConfig, "method": MethodConfig, stage: _LOOPS[stage]}
    if section in _LOOPS and section != stage:
        raise ConfigError(f"{setting}: this is a run of {stage}, which has no settings of {section}")
    every = {".".join((s, *path)): (s, *path) for s, part in parts.items() for path in _fields(part)}
    if setting in every:
        return every[setting]
    short: dict[str, list[str]] = {}
    for name, path in every.items():
        short.setdefault(f"{path[0]}.{path[-1]}", []).append(name)
    if len(found := short.get(setting, [])) == 1:
        return every[found[0]]
    if found:
        raise ConfigError(f"{setting}: which one? {' or '.join(found)}")
    near = difflib.get_close_matches(setting, [*every, *short, *(path[-1] for path in every.values())])
    full = (
        {name: name for name in every}
        | {path[-1]: n for n, path in every.items()}
        | {s: n[0] for s, n in short.items()}
    )
    meant = list(dict.fromkeys(full[name] for name in near))
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    known = (
        f"{section} has {', '.join(_names(parts[section]))}" if section in parts else f"sections are {', '.join(parts)}"
    )
    raise ConfigError(f"{setting}: there is no such setting; {hint}{known}")


def _fields(part: type[Part]) -> Iterator[tuple[str, ...]]:
    """Paths of all settings of a part and of the parts in it."""
    for name, field in part.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Part):
            yield from ((name, *path) for path in _fields(inner))
        else:
            yield (name,)


def _names(part: type[Part]) -> list[str]:
    """A part's fields as they are written."""
    return [".".join(path) for path in _fields(part)]


def validated(kind: type[P], values: Mapping[str, Any], before: str) -> P:
    """Settings of that kind. Raises ConfigError, which names the field after `before`, with near names."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as e:
        raise ConfigError(f"{before}{_problem(kind, e)}") from None


def _problem(kind: type[Part], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    field = ".".join(place)
    if first["type"] == "extra_forbidden":
        known = list(_part_at(kind, place[:-1]).model_fields)
        return f"{field}: there is no such setting; {_near(place[-1], known)}known are {', '.join(known)}"
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] in ("too_long", "too_short"):
        return f"{field}: {first['msg'].replace('Tuple should have', 'must have').split(' after')[0]}"
    said = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ").split(", unable to parse")[0]
    if not field:  # a rule of the whole part, which names its field itself
        return said
    if isinstance(first["input"], Mapping | Part):  # a rule of a part in it; nobody wants to read the whole part
        return f"{field}.{said}" if first["type"] == "value_error" else f"{field}: must be settings by name"
    said = said.replace("a valid tuple", "a list")
    return f"{field}: must be {said}, not {first['input']!r}"


def _part_at(kind: type[Part], place: Iterable[str]) -> type[Part]:
    for name in place:
        inner = kind.model_fields[name].annotation
        assert isinstance(inner, type) and issubclass(inner, Part)  # noqa: PT018 - only parts forbid extras
        kind = inner
    return kind


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=2, cutoff=0.5)
    return f"did you mean {' or '.join(repr(n) for n in near)}? " if near else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "is no text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None


def _yaml(text: str, path: str) -> dict[str, Any]:
    return _mapping(_yaml_value(text, path), path)


def _yaml_value(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=StrictLoader)  # a safe one
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        wrong = "" if type(e) is yaml.MarkedYAMLError else "is no YAML: "
        raise ConfigError(f"{where}{line}: {wrong}{getattr(e, 'problem', None) or e}") from None
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: holds {'nothing' if value is None else 'no settings by name'}")
    return {str(k): v for k, v in value.items()}


def _folder() -> Traversable:
    return files("specvet.training") / "profiles"
