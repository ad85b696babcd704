"""How big the base install is, and how fast `specvet --help` starts.

    python benchmarks/cold_start.py --json            install into a fresh venv, then measure
    python benchmarks/cold_start.py --no-install      measure the `specvet` of this environment only

Sizes are what `pip install .` puts into site-packages (bytes of all files, MB = 1e6 bytes), with and without pip and
setuptools. Times are medians of `--repeat` runs of the installed script, each a new process, after two that are not
counted; the ratio is to `python -c pass` with the same interpreter, run in turns so that a busy machine slows both.
The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AIM_SECONDS = 0.4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument(
        "--no-install", action="store_true", help="do not make a venv; measure this environment's start"
    )
    parser.add_argument("--repeat", type=int, default=11, help="runs of each command (at least 7)")
    options = parser.parse_args()
    repeat = max(7, options.repeat)

    if options.no_install:
        result: dict[str, object] = {**start_times(Path(sys.executable).parent, repeat)}
    else:
        with tempfile.TemporaryDirectory(prefix="specvet-cold-start-") as folder:
            bin_folder, size = install(Path(folder))
            result = {**size, **start_times(bin_folder, repeat)}
    result |= {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
    if not options.json:
        for key, value in result.items():
            print(f"{key:28} {value}", file=sys.stderr)
    print(json.dumps(result))
    return 0


def install(folder: Path) -> tuple[Path, dict[str, float | int | str]]:
    """A fresh venv with the base install; its bin folder, and how big it is."""
    venv.create(folder / "venv", with_pip=True, symlinks=os.name != "nt")
    bin_folder = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = bin_folder / "python"
    site = Path(_output([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).strip())
    before = tree_bytes(site)
    started = time.perf_counter()
    log = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if log.returncode:
        raise SystemExit(f"pip install {ROOT} failed:\n{log.stdout}")
    seconds = time.perf_counter() - started
    packages = sorted(d.name for d in importlib.metadata.distributions(path=[str(site)]))
    tools = [p for p in packages if p.lower() in {"pip", "setuptools", "wheel"}]
    total = tree_bytes(site)
    largest = sorted(((tree_bytes(p), p.name) for p in site.iterdir() if p.is_dir()), reverse=True)[:8]
    return bin_folder, {
        "install_mb": round((total - before) / 1e6, 1),
        "install_mb_with_pip": round(total / 1e6, 1),
        "packages": len(packages) - len(tools),
        "packages_with_pip": len(packages),
        "largest_mb": ", ".join(f"{name} {size / 1e6:.0f}" for size, name in largest),
        "install_seconds": round(seconds, 1),
    }


def start_times(bin_folder: Path, repeat: int) -> dict[str, float | int]:
    """Medians in seconds of `specvet --help` and of `python -c pass`, and their ratio."""
    commands: dict[str, Sequence[str | Path]] = {
        "help": [bin_folder / "specvet", "--help"],
        "python": [bin_folder / "python", "-c", "pass"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for i in range(repeat + 2):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            if i >= 2:
                times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(t) for name, t in times.items()}
    return {
        "help_seconds": round(medians["help"], 4),
        "python_seconds": round(medians["python"], 4),
        "help_to_python_ratio": round(medians["help"] / medians["python"], 2),
        "repeat": repeat,
        "aim_seconds": AIM_SECONDS,
    }


def tree_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, links not followed."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _output(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
