"""The rules of the house, held by the tests so that one command shows all: style, types, room order, packaging."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=" ".join,
)
def test_the_tools_of_the_house_are_content(command: list[str]) -> None:
    tool = BIN / command[0]
    if not tool.exists():
        pytest.skip(f"{command[0]} is not installed: pip install -e '.[dev]'")
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_room_contract_lists_every_room_in_the_order_of_the_design() -> None:
    design = (ROOT / "docs" / "DESIGN.md").read_text(encoding="utf-8")
    planned = re.findall(r"^  (\w+)/ ", design, flags=re.MULTILINE)
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    lower_first = [name.removeprefix("specvet.") for name in reversed(contract["contracts"][0]["layers"])]
    rooms = sorted(p.name for p in (ROOT / "src" / "specvet").iterdir() if (p / "__init__.py").exists())
    assert sorted(lower_first) == rooms
    assert lower_first == [room for room in planned if room in rooms]


def test_no_source_file_passes_400_lines() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in (ROOT / "src").rglob("*.py")}
    assert [f"{p.relative_to(ROOT)}: {n} lines" for p, n in lengths.items() if n > 400] == []


def test_importing_specvet_loads_no_heavy_library() -> None:
    code = (
        "import sys, specvet.cli.main; "
        "print([m for m in ('astropy', 'matplotlib', 'pyarrow', 'numpy', 'pydantic', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_base_install_asks_for_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=!~ \[;]", d)[0].lower() for d in project["dependencies"]}
    assert not names & {"torch", "torchvision", "transformers", "peft"}
    assert project["requires-python"] == ">=3.11"


OPTIONAL = {
    "torch", "torchvision", "transformers", "peft", "safetensors", "huggingface_hub", "accelerate", "fla", "pytrio",
    "tinker", "swanlab", "wandb", "tensorboard", "specutils", "sklearn", "onnx", "psycopg",
    "pyvo", "requests", "urllib3", "sympy", "pint",
}  # fmt: skip
"""What the code imports only where an extra was asked for, or where it happens to be installed."""

NAMES = {"yaml": "pyyaml", "PIL": "pillow", "markupsafe": "jinja2", "typing_extensions": "pydantic"}
"""Import name → what is installed for it, or brings it along."""


def test_what_the_code_imports_is_installed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = {re.split(r"[<>=!~ \[;]", d)[0].lower() for d in project["dependencies"]}
    missing: dict[str, str] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                named = [node.module or ""]
            for top in {name.partition(".")[0] for name in named} - OPTIONAL - sys.stdlib_module_names - {"specvet"}:
                if NAMES.get(top, top).lower() not in base:
                    missing[top] = str(file.relative_to(ROOT))
    assert missing == {}


def test_the_version_is_one() -> None:
    import specvet

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == specvet.__version__
    assert f"\nversion: {specvet.__version__}\n" in citation


def test_the_readme_has_its_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("<!-- main -->") == 1
    assert readme.count("<!-- tests -->") == 1
    assert readme.count("```sh") == 2
