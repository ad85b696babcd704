"""Models are fetched from folders, addresses and a hub on the loopback, and are what their manifests say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hub_lab import Hub, hub

from specvet.cli.main import main
from specvet.data.model_files import fetch_model
from specvet.data.published.download import DownloadError
from specvet.policies.catalogue import ModelError, read_manifest, verify_model, write_model_manifest
from specvet.policies.manner import NANO, manner_of

ID = "someone/tiny-vl"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as a hub's model has them, some better left there. Whoever fetches reads none but the card."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"):
        (folder / name).write_text(f"of {name}")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 500)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\n")
    (folder / "modeling_own.py").write_text("raise SystemExit")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    return folder


@pytest.fixture
def released(model: Path, tmp_path: Path) -> Path:
    """The same with a manifest, and nothing beside it."""
    folder = tmp_path / "released"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.py", "*.bin"))
    write_model_manifest(folder, name="tiny", version="1.0", licence="Apache-2.0", manner=NANO)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "specvet" / "models"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def address(released: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(released))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def served(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub() as made:
        made.sets = {ID: model}
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield made


def same_files(a: Path, b: Path) -> bool:
    return read_manifest(a).files == read_manifest(b).files and verify_model(a).ok and verify_model(b).ok


def test_a_folder_with_a_manifest_is_copied_whole_and_a_second_time_left(released: Path, cache: Path) -> None:
    (released / "notes.txt").write_text("not of the model")
    found = fetch_model(str(released))
    assert (found.name, found.folder, found.manifest.version) == ("tiny", cache / "tiny", "1.0")
    assert manner_of(found.folder) == NANO
    assert verify_model(found.folder).ok
    assert not (found.folder / "notes.txt").exists()
    before = (cache / "tiny" / "config.json").stat().st_mtime_ns
    assert fetch_model(str(released)).folder == cache / "tiny"
    assert (cache / "tiny" / "config.json").stat().st_mtime_ns == before
    assert [p.name for p in cache.iterdir() if p.is_dir()] == ["tiny"]


def test_a_folder_without_a_manifest_gets_one_and_files_that_run_code_stay_behind(model: Path, cache: Path) -> None:
    found = fetch_model(str(model), name="mine")
    assert (found.name, found.manifest.licence, found.manifest.source) == ("mine", "mit", str(model))
    assert not {"modeling_own.py", "pytorch_model.bin"} & set(found.manifest.files)
    assert found.manifest.manner is None
    assert (cache / "mine" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_a_damaged_copy_is_refused_and_nothing_is_listed(released: Path, cache: Path) -> None:
    (released / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"config\.json is not the file that specvet\.json names"):
        fetch_model(str(released))
    (released / "config.json").unlink()
    with pytest.raises(ModelError, match=r"'config\.json' is missing, which its manifest names"):
        fetch_model(str(released))
    assert not (cache / "tiny").exists()


def test_another_model_of_a_name_that_is_taken_is_not_overwritten(released: Path, cache: Path) -> None:
    fetch_model(str(released))
    (released / "generation_config.json").write_text("{}")
    write_model_manifest(released, name="tiny", version="2.0", licence="Apache-2.0")
    with pytest.raises(ModelError, match="is another model, or damaged; give this one another --name"):
        fetch_model(str(released))
    assert read_manifest(cache / "tiny").version == "1.0"
    assert fetch_model(str(released), name="tiny-2").manifest.version == "2.0"


def test_an_address_gives_the_files_of_its_manifest(address: str, released: Path, cache: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    found = fetch_model(f"{address}/", told=lambda *told: heard.append(told))
    assert same_files(found.folder, released)
    assert [n for _, n, _ in heard] == list(range(len(found.manifest.files)))
    assert fetch_model(f"{address}/specvet.json").folder == found.folder


def test_what_an_address_sends_is_held_against_its_manifest(address: str, released: Path, cache: Path) -> None:
    (released / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json: is not the file that the manifest names"):
        fetch_model(address)
    (released / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="the server answers HTTP 404"):
        fetch_model(address)
    told = json.loads((released / "specvet.json").read_text())
    told["files"]["run_me.py"] = "0" * 64
    (released / "specvet.json").write_text(json.dumps(told))
    with pytest.raises(ModelError, match=r"names 'run_me.py'; such files are not taken"):
        fetch_model(address)
    (released / "specvet.json").write_text("<html>")
    with pytest.raises(ModelError, match="is no manifest of a model"):
        fetch_model(address)
    assert not [p for p in cache.iterdir() if p.is_dir() and not p.name.startswith(".")]


def test_a_folder_whose_manifest_names_code_is_refused(released: Path, cache: Path) -> None:
    (released / "run_me.py").write_text("")
    write_model_manifest(released, name="tiny", version="1", licence="MIT")
    with pytest.raises(ModelError, match=r"names 'run_me.py'; such files are not taken"):
        fetch_model(str(released))
    assert not [p for p in cache.iterdir() if p.is_dir() and not p.name.startswith(".")]


def test_a_full_disk_is_told_of_the_copy_and_not_of_what_is_copied(released: Path, cache: Path) -> None:
    script = (
        "import resource, sys; from specvet.data.model_files import fetch_model\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: fetch_model(sys.argv[1])\n"
        "except OSError as e: print(type(e).__name__, e)"
    )
    done = subprocess.run([sys.executable, "-c", script, released], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"DiskFullError {cache}/.partial-tiny/")
    assert "free some space" in done.stdout


@pytest.mark.parametrize("source", ["~nobody-of-that-name/x", "x" * 5_000])
def test_a_path_that_cannot_be_one_is_no_fault(source: str, cache: Path) -> None:
    with pytest.raises(ModelError, match="neither a folder, nor an address"):
        fetch_model(source)


def test_a_hub_s_model_is_fetched_at_its_commit_with_its_licence(served: Hub, model: Path, cache: Path) -> None:
    served.cut["model.safetensors"] = 1_000
    found = fetch_model(ID)
    commit = served.commit(ID)
    assert found.name == "someone--tiny-vl"
    assert (found.manifest.version, found.manifest.licence) == (commit[:12], "mit")
    assert found.manifest.source == f"{served.url}/{ID}/tree/{commit}"
    assert (found.folder / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert served.ranges("model.safetensors")[-1] == "bytes=1000-" or "bytes=1000-" in served.ranges(
        "model.safetensors"
    )
    assert not {"modeling_own.py", "pytorch_model.bin", "listing.json", "run.lock"} & {
        p.name for p in found.folder.iterdir()
    }
    assert verify_model(found.folder).ok


def test_what_a_hub_has_not_changed_is_not_sent_again(served: Hub, model: Path, tmp_path: Path, cache: Path) -> None:
    first = fetch_model(ID)
    served.asked.clear()
    assert fetch_model(ID).folder == first.folder
    assert not [path for _, path, _, _ in served.asked if "/resolve/" in path]
    changed = tmp_path / "changed"
    shutil.copytree(model, changed)
    (changed / "config.json").write_text("OF config.json")
    served.sets = {ID: changed}
    with pytest.raises(ModelError, match="is another model, or damaged; give this one another --name"):
        fetch_model(ID)
    assert sorted({path.rpartition("/")[2] for _, path, _, _ in served.asked if "/resolve/" in path}) == ["config.json"]
    assert verify_model(first.folder).ok
    assert (first.folder / "config.json").read_text() == "of config.json"


def test_what_a_hub_does_not_have_is_said_with_what_to_do(served: Hub, cache: Path) -> None:
    with pytest.raises(DownloadError, match=r"someone/none at main: .*has no such model, revision or file"):
        fetch_model("someone/none")
    with pytest.raises(DownloadError, match="has no such model, revision or file"):
        fetch_model(ID, revision="v9")


def test_without_a_network_the_message_says_how_to_bring_a_model(
    capsys: pytest.CaptureFixture[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["models", "fetch", ID]) == 1
    assert "cannot be reached at http://127.0.0.1:9" in (said := capsys.readouterr().err)
    assert "specvet models fetch FOLDER" in said
    assert main(["models", "fetch", "http://127.0.0.1:9/m"]) == 1
    assert "specvet models fetch FOLDER" in capsys.readouterr().err
    assert main(["models", "fetch", "nowhere"]) == 1
    assert "neither a folder, nor an address (https://…), nor a hub id" in capsys.readouterr().err


def test_the_commands_list_show_and_verify_what_was_fetched(
    released: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "fetch", str(released), "--json"]) == 0
    fetched = json.loads(capsys.readouterr().out)
    assert fetched["folder"] == str(cache / "tiny")
    assert fetched["next"].endswith(f"vet FILE --task cc --policy torch --model {cache / 'tiny'}")

    assert main(["models"]) == 0
    table = capsys.readouterr().out
    row = next(line for line in table.splitlines() if line.startswith("tiny"))
    assert row.split()[:3] == ["tiny", "1.0", "0.1"]
    assert fetched["hash"][:12] in row
    assert "cc, cv, gm, ss, wd" in row
    assert main(["models", "list", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [m["hash"] for m in listed if not m["packaged"]] == [fetched["hash"]]

    (cache / "tiny" / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\n\n\x1b[31mred\n")
    assert main(["models", "show", "tiny"]) == 0
    shown = capsys.readouterr().out
    assert "asked     short wording, compact-1 figures, tiny, 8 turns of 160 tokens, 2,048 in all" in shown
    assert shown.rstrip().endswith("# Tiny\n\n[31mred")

    assert main(["models", "verify", "tiny"]) == 1
    assert "altered: README.md" in capsys.readouterr().out
    assert main(["models", "verify", str(released)]) == 0
    assert f"tiny 1.0 is whole: {len(read_manifest(released).files)} files" in capsys.readouterr().out
    assert main(["models", "verify", "nothing"]) == 2
    assert "neither a model that is here" in capsys.readouterr().err
