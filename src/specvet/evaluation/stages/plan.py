"""A file that says which models are the stages of a training, and what is compared with what.

name: nano
about: SIMULATED: …
campaigns: eval                     # folder, from here: EVAL/MODEL is the campaign that asked MODEL
sets: [simvi-val, simvi-test]
seeds: [0, 1, 2]
stages:                             # the table's rows; a model a seed, or one that all seeds share
  base: [base]
  SFT: [sft-0, sft-1, sft-2]
  RL, 3 epochs: [grpo-0-e3, grpo-1-e3, grpo-2-e3]
differences: [{of: "RL, 3 epochs", over: SFT}]
conduct: [SFT, "RL, 3 epochs"]      # rows whose calls are told by class and S/N
runs: {base: [base], GRPO: [seed-0/grpo, seed-1/grpo, seed-2/grpo]}     # training runs, drawn together
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from specvet.data.errors import InputError
from specvet.evaluation.plan import Comparison, Label, Part, Slug, problem
from specvet.tasks.yaml_text import StrictLoader


class StagesPlan(Part):
    """Such a file, as read."""

    name: Slug
    about: Label = ""
    campaigns: str = "eval"
    """Folder of the campaigns, relative to the file; the policy of each has its folder's name."""
    sets: tuple[Slug, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    """Of training."""
    stages: dict[Label, tuple[Slug, ...]] = Field(min_length=1)
    differences: tuple[Comparison, ...] = ()
    """Between rows, seed by seed."""
    conduct: tuple[str, ...] = ()
    """Rows whose calls are told by class and S/N; none: all."""
    runs: dict[Label, tuple[str, ...]] = Field(default_factory=dict)
    """Name of a figure → folders of training runs, relative to the file."""

    @field_validator("runs")
    @classmethod
    def _below(cls, runs: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for folder in (folder for folders in runs.values() for folder in folders):
            if Path(folder).is_absolute() or ".." in Path(folder).parts:
                raise ValueError(f"{folder}: name a folder below that of the file")
        return runs

    @model_validator(mode="after")
    def _sensible(self) -> StagesPlan:
        for row, models in self.stages.items():
            if len(models) not in (1, len(self.seeds)):
                raise ValueError(f"stages.{row}: give one model, or one for each of {len(self.seeds)} seeds")
        named = [model for models in self.stages.values() for model in models]
        if twice := next((model for model in named if named.count(model) > 1), None):
            raise ValueError(f"stages: {twice} stands there twice")
        for row in (*(row for pair in self.differences for row in (pair.of, pair.over)), *self.conduct):
            if row not in self.stages:
                raise ValueError(f"there is no stage {row!r}; there are {', '.join(self.stages)}")
        return self

    @property
    def models(self) -> dict[str, tuple[str, int | None]]:
        """Model → (its row, its seed; None where all seeds share it)."""
        return {
            model: (row, self.seeds[place] if len(models) == len(self.seeds) else None)
            for row, models in self.stages.items()
            for place, model in enumerate(models)
        }

    def of(self, row: str, seed: int) -> str:
        """The model of a row and seed."""
        models = self.stages[row]
        return models[self.seeds.index(seed) if len(models) == len(self.seeds) else 0]

    def text(self) -> str:
        """As YAML, which `read_stages` reads."""
        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def read_stages(path: str | Path) -> StagesPlan:
    """The plan of a YAML file. Raises InputError: file, field and what is wrong."""
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=StrictLoader)
        return StagesPlan.model_validate(data)
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{path}: cannot be read as text ({getattr(e, 'strerror', None) or e})") from None
    except yaml.YAMLError as e:
        raise InputError(f"{path}: is no YAML that can be read: {' '.join(str(e).split())}") from None
    except ValidationError as e:
        raise InputError(f"{path}: {problem(e)}") from None
