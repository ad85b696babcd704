"""The wheel holds what the package needs and nothing else, is small, and works where the repository is not."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "specvet"
LARGEST = 60_000_000
LARGEST_SHARD = 15_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `pip` builds it."""
    pytest.importorskip("hatchling", reason="building a wheel needs hatchling: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        inside = {name for name in file.namelist() if ".dist-info/" not in name}
    there = {f"specvet/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*") if p.is_file()}
    assert inside == {name for name in there if "/__pycache__/" not in name}
    for needed in ("py.typed", "tasks/stars/cv.yaml", "views/compact_glyphs.npz", "data/published/pins.json"):
        assert f"specvet/{needed}" in inside
    assert {Path(name).suffix for name in inside} >= {".py", ".yaml", ".jinja", ".html", ".npz"}


def test_the_wheel_is_small_and_says_its_licence_and_its_command(wheel: Path) -> None:
    assert wheel.stat().st_size <= LARGEST
    with zipfile.ZipFile(wheel) as file:
        names = {name.partition(".dist-info/")[2]: name for name in file.namelist() if ".dist-info/" in name}
        assert {"licenses/LICENSE", "licenses/NOTICE"} <= set(names)
        assert "specvet = specvet.cli.main:main" in file.read(names["entry_points.txt"]).decode()


def test_packaged_models_are_whole_and_their_shards_small() -> None:
    from specvet.policies.catalogue import models, verify_model

    here, refused = models(ROOT / "no-cache")
    assert refused == {}
    for model in here:
        found = verify_model(model.folder)
        assert (model.name, found.altered, found.missing, found.unlisted) == (model.name, (), (), ())
        assert all((model.folder / name).stat().st_size <= LARGEST_SHARD for name in found.sound)


def test_what_is_in_the_wheel_vets_a_spectrum_where_the_repository_is_not(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    spectrum = next((ROOT / "examples" / "spectra").glob("*dwarf-nova*"))
    code = (
        "import sys; sys.path[:0] = ['site']; import specvet; from specvet.cli.main import main; "
        "assert 'site' in specvet.__file__; "
        f"code = main(['vet', {str(spectrum)!r}, '--task', 'cv', '--policy', 'line-indices', '--out', 'run', '--json'])"
        " or main(['report', 'run', '--no-open']); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])
    assert told["counts"] == {"cv": {"YES": 1}}
    assert "SIMULATED" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
