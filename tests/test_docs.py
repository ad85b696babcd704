"""What the documents show in Python runs as it stands."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_python_of_the_page_on_models_reads_a_run_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.cli.main import main
    from specvet.policies.torch.tiny import save_tiny

    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    section = text[text.index("## In Python") :]
    code = textwrap.dedent("\n".join(re.findall(r"^(    .*|)$", section, re.M)[: section.count("\n")]))
    code = code[: code.index("policy.recomputed_logprobs")].replace(', adapter="LORA"', "")
    monkeypatch.chdir(tmp_path)
    save_tiny(Path("FOLDER"), "qwen2_5_vl", 0)
    spectrum = next((ROOT / "examples" / "spectra").glob("*dwarf-nova*"))
    asked = [str(spectrum), "--task", "cv", "--model", "FOLDER", "--max-tokens", "8", "--out", "RUN", "--quiet"]
    assert main(["rollout", *asked, "--device", "cpu"]) == 0
    names: dict[str, object] = {}
    exec(compile(code, "docs/models.md", "exec"), names)
    ledger, datum, policy = names["ledger"], names["datum"], names["policy"]
    assert ledger.n_sampled == datum.n_learnt > 0  # type: ignore[attr-defined]
    said = [x for s in ledger.sampled for x in s.logprobs.tolist()]  # type: ignore[attr-defined]
    assert policy.recomputed_logprobs(ledger) == pytest.approx(said, abs=1e-4)  # type: ignore[attr-defined]
