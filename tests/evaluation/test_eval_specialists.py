"""Specialists: what they see, what they say, and that their folders hold together."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.agent import run_agent
from specvet.data.errors import InputError
from specvet.data.toy import Toy, make_toy
from specvet.policies import Answered, Trajectory, policy
from specvet.policies.specialists import CARD, Specialist, SpecialistError, open_specialist
from specvet.policies.specialists.forest import Forest, forests_bytes, read_forests
from specvet.policies.specialists.grid import HIGH, LOW, N_PIX, on_grid
from specvet.policies.specialists.sight import INDICES, NAMES, index_values, seen
from specvet.records.schema import Answer, Question, SpectrumRef, Verdict
from specvet.spectra import Join, Redshift, Spectrum
from specvet.tasks import Task, TaskError, builtin_tasks, load_task
from specvet.tools import ZoomTool
from specvet.training.specialists import train_specialist, training
from specvet.training.specialists.augmenting import Augmentation, augmented, own_noise
from specvet.training.specialists.calibrating import fitted_temperature, log_loss, scores
from specvet.training.specialists.examples import Examples, held_out, read_examples

STILL = Augmentation(noise=0.0, shift=0.0, ends_often=0.0)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """SIMULATED: 40 spectra to learn from, 20 to be measured by."""
    return make_toy(tmp_path_factory.mktemp("toy") / "set", sft_train=2, sft_val=2, rl_train=40, dev=20)


@pytest.fixture(scope="module")
def task(toy: Toy) -> Task:
    return load_task(str(toy.folder / "tasks" / "toy.yaml"))


Trained = Callable[[str], Path]


@pytest.fixture(scope="module", autouse=True)
def _measured_once() -> Iterator[None]:
    """The spectra of a file are read and measured once, however often the same is learnt from them."""
    kept: dict[tuple[str, bytes, object, str], Examples] = {}

    def read(file: str, measure: Any, frame_mode: Any, told: Any) -> Examples:
        key = (file, Path(file).read_bytes(), measure, frame_mode)
        if key not in kept:
            kept[key] = read_examples(file, measure, frame_mode, told)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "read_examples", read)
        yield


@pytest.fixture(scope="module")
def trained(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The folder of a specialist of that kind, trained on the toy set once."""
    place = tmp_path_factory.mktemp("trained")

    def folder(kind: str) -> Path:
        if not (place / kind).exists():
            train_specialist(kind, toy.rl_train, place / kind, validation=toy.dev, seed=3)  # type: ignore[arg-type]
        return place / kind

    return folder


def star(low: float = 3800.0, high: float = 9000.0, **told: object) -> Spectrum:
    wavelength = np.linspace(low, high, 2600)
    noise = np.random.default_rng(1).normal(0.0, 0.02, wavelength.size)
    flux = 1.0 + 0.5 * np.exp(-0.5 * ((wavelength - 6563.0) / 8.0) ** 2) + noise
    return Spectrum(wavelength=wavelength, flux=flux, medium="air").replace(**told)


def verdict_of(spectrum: Spectrum, task: Task, by: Specialist) -> Verdict:
    """What it answers when it is asked, whatever the task requires of a spectrum."""
    question = Question(id="q", task=task.key, spectrum=SpectrumRef(path="a.fits"))
    action = by.act(Trajectory(question, task, ZoomTool(spectrum).opening()))
    assert isinstance(action, Answered)
    return action.verdict


@functools.cache
def fitted_forest() -> tuple[object, np.ndarray, Forest]:
    """A scikit-learn model, features with gaps to ask it, and the same trees as arrays."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    from specvet.training.specialists.trees import forest_of

    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, len(NAMES)))
    x[rng.uniform(size=x.shape) < 0.2] = np.nan
    y = np.nansum(x[:, :3], axis=1) + np.isnan(x[:, 4]) > 0.2
    model = ensemble.HistGradientBoostingClassifier(max_iter=30, max_features=0.5, random_state=0).fit(x, y)
    return model, rng.permuted(x, axis=0), forest_of(model)


# --- trees


def test_the_exported_trees_say_what_scikit_learn_says_to_the_last_bit() -> None:
    from scipy.special import expit

    model, x, forest = fitted_forest()
    assert np.isnan(x).any()
    assert (forest.log_odds(x) == model.decision_function(x)).all()  # type: ignore[attr-defined]
    assert (expit(forest.log_odds(x)) == model.predict_proba(x)[:, 1]).all()  # type: ignore[attr-defined]
    alone = np.concatenate([forest.log_odds(row[None]) for row in x])
    assert (alone == forest.log_odds(x)).all()


def test_the_first_trees_alone_are_the_model_as_it_was_at_that_stage() -> None:
    from specvet.training.specialists.trees import forest_of

    model, x, _ = fitted_forest()
    stages = list(model.staged_decision_function(x))  # type: ignore[attr-defined]
    assert (forest_of(model, 7).log_odds(x) == np.ravel(stages[6])).all()


def test_trees_read_back_as_they_were_written_and_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    _, x, forest = fitted_forest()
    content = forests_bytes({"cv": forest})
    assert content == forests_bytes({"cv": forest})
    (tmp_path / "t.npz").write_bytes(content)
    back = read_forests(tmp_path / "t.npz", {"cv": None}, len(NAMES))
    assert (back["cv"].log_odds(x) == forest.log_odds(x)).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"left": np.zeros_like}, "a child that lies before its parent"),
        ({"right": lambda a: a + 10_000}, "a child that lies before its parent"),
        ({"roots": lambda a: a - 1}, "a root that is no node"),
        ({"feature": lambda a: a + np.int16(500)}, "an index that there is not"),
        ({"value": lambda a: a[:-1]}, "its arrays differ in length|a child that lies"),
        ({"threshold": lambda a: a.astype(np.float32)}, "threshold is of type float32"),
    ],
)
def test_trees_that_cannot_be_followed_are_refused(
    tmp_path: Path, change: dict[str, Callable[[np.ndarray], np.ndarray]], says: str
) -> None:
    _, _, forest = fitted_forest()
    bad = dataclasses.replace(forest, **{name: alter(getattr(forest, name)) for name, alter in change.items()})
    (tmp_path / "t.npz").write_bytes(forests_bytes({"cv": bad}))
    with pytest.raises(SpecialistError, match=says):
        read_forests(tmp_path / "t.npz", {"cv": None}, len(NAMES))


def test_a_pickle_in_the_weights_is_never_loaded(tmp_path: Path) -> None:
    out = io.BytesIO()
    np.savez(out, **{"cv.baseline": np.array([{"a": 1}], dtype=object)})
    (tmp_path / "t.npz").write_bytes(out.getvalue())
    with pytest.raises(SpecialistError, match="cannot be read as trees"):
        read_forests(tmp_path / "t.npz", {"cv": None}, len(NAMES))


def test_running_trees_needs_neither_scikit_learn_nor_torch(trained: Trained) -> None:
    code = (
        "import sys\n"
        "for name in ('sklearn', 'torch', 'safetensors'): sys.modules[name] = None\n"
        "import numpy as np\n"
        "from specvet.policies import policy\n"
        "from specvet.spectra import Spectrum\n"
        "made = policy('trees', sys.argv[1])\n"
        "look = made._judge(Spectrum(np.linspace(4000., 8400., 1101), np.ones(1101)))\n"
        "print(sorted(look.p_yes))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, trained("trees")], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "['toy']"), done.stderr


# --- what they see


def test_a_specialist_sees_wavelength_flux_and_frame_and_nothing_else() -> None:
    told = star(
        ivar=np.full(2600, 4.0),
        mask=np.ones(2600, dtype=np.int64),
        resolution=1800.0,
        joins=(Join(5700.0, 5900.0, "LAMOST blue/red"),),
        mjd=55_000.0,
        ra=1.0,
        dec=2.0,
        redshift=Redshift(0.001, source="header Z"),
        pipeline_class="STAR",
        pipeline_subclass="CV",
        id="cv-1",
        ids={"plate": "1"},
        survey="LAMOST",
        file="cv/known_cv.fits",
        frame="heliocentric",
    )
    data = ZoomTool(told).opening().data
    assert data is not None
    found = seen(data)
    np.testing.assert_allclose(found.wavelength, told.wavelength / 1.001, rtol=1e-12)
    assert (found.flux == told.flux).all()
    default = Spectrum(wavelength=found.wavelength, flux=found.flux)
    others = {f.name for f in dataclasses.fields(Spectrum)} - {"wavelength", "flux"}
    assert {name for name in others if getattr(found, name) != getattr(default, name)} == {"frame"}
    assert found.frame == "rest"


@pytest.mark.parametrize("kind", ["trees", "cnn"])
def test_errors_class_and_name_change_no_answer(trained: Trained, task: Task, kind: str) -> None:
    made = open_specialist(kind, trained(kind))
    plain = star(4000.0, 8400.0, medium="unknown")
    told = plain.replace(
        ivar=np.where(np.arange(2600) % 3 == 0, 0.0, 9.0),
        pipeline_class="STAR",
        id="carbon",
        survey="SDSS",
        file="c.fits",
    )
    one, other = verdict_of(plain, task, made), verdict_of(told, task, made)
    assert one == other


def test_indices_are_measured_from_flux_alone_and_nan_where_they_cannot_be() -> None:
    values = dict(zip(NAMES, index_values(star(6000.0, 9000.0)), strict=True))
    assert values["ha"] == pytest.approx(-0.5 * 8.0 * np.sqrt(2 * np.pi), abs=0.6)
    assert np.isnan(values["hb"])
    assert not [name for name in INDICES if name.endswith("_intrinsic")]


def test_the_grid_keeps_flux_and_knows_what_was_not_observed() -> None:
    channels = on_grid(star(4500.0, 7000.0))
    assert channels is not None
    wavelength = np.geomspace(LOW, HIGH, N_PIX + 1)
    middle = np.sqrt(wavelength[1:] * wavelength[:-1])
    assert channels.shape == (3, N_PIX)
    assert channels.dtype == np.float32
    assert (channels[1] == ((wavelength[:-1] > 4498) & (wavelength[1:] < 7002))).all()
    assert (channels[[0, 2]][:, channels[1] == 0] == 0).all()
    line = (middle > 6500) & (middle < 6626)
    summed = float((np.sinh(channels[0][line]) * np.diff(wavelength)[line]).sum())
    assert summed == pytest.approx(0.5 * 8.0 * np.sqrt(2 * np.pi), abs=0.6)


def test_the_scale_of_the_flux_changes_nothing_on_the_grid() -> None:
    one, other = star(), star()
    a, b = on_grid(one), on_grid(other.replace(flux=3e-17 * other.flux))
    assert a is not None
    assert b is not None
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_gaps_and_zero_runs_are_not_observed() -> None:
    spectrum = star()
    flux = spectrum.flux.copy()
    flux[500:700] = np.nan
    flux[1000:1200] = 0.0
    whole, holed = on_grid(spectrum), on_grid(spectrum.replace(flux=flux))
    assert whole is not None
    assert holed is not None
    lost = 400 * 2.0
    edges = np.geomspace(LOW, HIGH, N_PIX + 1)
    assert float((np.diff(edges) * (whole[1] - holed[1])).sum()) == pytest.approx(lost, abs=8.0)


@pytest.mark.parametrize(("low", "high"), [(2000.0, 3000.0), (9000.0, 11_000.0)])
def test_where_nothing_is_seen_the_answer_is_unsure(trained: Trained, task: Task, low: float, high: float) -> None:
    verdict = verdict_of(star(low, high), task, open_specialist("cnn", trained("cnn")))
    assert (verdict.answer, verdict.p_yes) == (Answer.UNSURE, 0.5)
    assert "less than a tenth of 3700-9100 Å" in verdict.reason


def test_without_one_measurable_index_the_trees_are_unsure(trained: Trained, task: Task) -> None:
    verdict = verdict_of(star(2000.0, 3000.0), task, open_specialist("trees", trained("trees")))
    assert (verdict.answer, verdict.p_yes) == (Answer.UNSURE, 0.5)
    assert verdict.reason == f"none of the {len(NAMES)} line indices could be measured"


# --- what they say


@pytest.mark.parametrize(("kind", "at_least"), [("trees", 0.9), ("cnn", 0.9), ("majority", 0.5)])
def test_a_specialist_answers_at_once_and_gets_simulated_stars_right(
    toy: Toy, trained: Trained, kind: str, at_least: float
) -> None:
    from specvet.data.asking import load_questions

    made = policy(kind, str(trained(kind)))
    questions = load_questions(toy.dev, style="compact")
    right = 0
    for one in questions.asked:
        posed = questions.pose(one)
        record = run_agent(posed.question, posed.task, posed.tool, made)
        verdict = record.verdict
        assert [turn.action.kind for turn in record.turns] == ["answer"]
        assert verdict.p_yes is not None
        assert (verdict.answer == "YES") == (verdict.p_yes > 0.5)
        assert verdict.confidence == pytest.approx(max(verdict.p_yes, 1 - verdict.p_yes), abs=1e-9)
        right += verdict.answer == posed.question.answer
    assert right >= at_least * len(questions.asked)


def test_majority_says_the_commonest_answer_with_its_share(toy: Toy, task: Task, tmp_path: Path) -> None:
    lines = Path(toy.rl_train).read_text().splitlines()
    yes = [line for line in lines if json.loads(line)["answer"] == "YES"]
    no = [line for line in lines if json.loads(line)["answer"] == "NO"]
    for name, chosen, expected in (("a", yes[:9] + no[:3], ("YES", 0.75)), ("b", yes[:1] + no[:7], ("NO", 0.125))):
        file = toy.folder / f"{name}.jsonl"
        file.write_text("\n".join(chosen) + "\n")
        train_specialist("majority", str(file), tmp_path / name)
        verdict = verdict_of(star(), task, open_specialist("majority", tmp_path / name))
        assert (verdict.answer, verdict.p_yes) == expected
        assert verdict.confidence == max(expected[1], 1 - expected[1])


def test_a_task_that_it_was_not_trained_on_is_refused_before_any_spectrum_is_read(trained: Trained) -> None:
    with pytest.raises(TaskError, match="trees was never trained on the task 'cv', only on toy"):
        open_specialist("trees", trained("trees")).check(builtin_tasks()["cv"])


# --- folders


def test_the_same_seed_trains_the_same_trees_and_another_seed_others(
    toy: Toy, trained: Trained, tmp_path: Path
) -> None:
    first = open_specialist("trees", trained("trees"))
    for name, seed in (("same", 3), ("other", 4)):
        train_specialist("trees", toy.rl_train, tmp_path / name, validation=toy.dev, seed=seed)
        again = open_specialist("trees", tmp_path / name)
        assert (again.fingerprint == first.fingerprint) == (name == "same")
        assert (again.card.files == first.card.files) == (name == "same")


def test_the_same_seed_trains_the_same_network_whatever_was_drawn_and_set_before(toy: Toy) -> None:
    torch = pytest.importorskip("torch")
    from specvet.training.specialists.cnn import CnnConfig, fit_cnn

    examples = read_examples(toy.dev, on_grid)
    weights = []
    for seed in (5, 5, 6):
        torch.rand(3)
        before = torch.get_rng_state(), torch.get_num_threads()
        network, losses = fit_cnn(examples, examples, seed, CnnConfig(epochs=2))
        assert len(losses) == 2
        assert (torch.get_rng_state() == before[0]).all()
        assert torch.get_num_threads() == before[1]
        weights.append(torch.cat([t.double().flatten() for t in network.state_dict().values()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_moved_folder_is_the_same_specialist_and_a_flipped_byte_is_none(trained: Trained, tmp_path: Path) -> None:
    for kind in ("trees", "cnn"):
        moved = tmp_path / kind
        shutil.copytree(trained(kind), moved)
        made = open_specialist(kind, moved)
        assert made.fingerprint == open_specialist(kind, trained(kind)).fingerprint
        (name,) = made.card.files
        content = bytearray((moved / name).read_bytes())
        content[len(content) // 2] ^= 1
        (moved / name).write_bytes(bytes(content))
        with pytest.raises(SpecialistError, match=rf"{name}: is not the file that {CARD} names"):
            open_specialist(kind, moved)
        (moved / name).unlink()
        with pytest.raises(SpecialistError, match=f"the file '{name}' is missing"):
            open_specialist(kind, moved)


def test_what_is_no_specialist_is_told(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(SpecialistError, match="holds no specialist"):
        open_specialist("trees", tmp_path)
    with pytest.raises(SpecialistError, match="holds trees, not cnn; say --policy trees"):
        open_specialist("cnn", trained("trees"))
    (tmp_path / CARD).write_text('{"kind": "oracle"}')
    with pytest.raises(SpecialistError, match="kind: "):
        open_specialist("trees", tmp_path)


def test_trees_of_other_index_definitions_are_refused(trained: Trained, tmp_path: Path) -> None:
    moved = tmp_path / "t"
    shutil.copytree(trained("trees"), moved)
    card = json.loads((moved / CARD).read_text())
    card["sees"]["hash"] = "0" * 64
    (moved / CARD).write_text(json.dumps(card))
    with pytest.raises(SpecialistError, match="trained on other line indices"):
        open_specialist("trees", moved)


def test_the_card_says_what_was_learnt_from(toy: Toy, trained: Trained) -> None:
    from specvet.records import file_hash

    card = open_specialist("cnn", trained("cnn")).card
    assert card.training.file_sha256 == file_hash(Path(toy.rl_train))
    assert (card.training.questions, card.training.rejects) == (40, 0)
    assert card.validation is not None
    assert (card.validation.questions, card.held_out) == (20, False)
    assert (card.tasks["toy"].questions, card.tasks["toy"].yes) == (40, 20)
    assert card.settings["weights"] <= 300_000
    receipt = json.loads((trained("cnn") / "receipt.json").read_text())
    losses = [epoch["validation"] for epoch in receipt["losses"]]
    assert len(losses) == card.settings["epochs_done"]
    assert receipt["validated"]["log_loss"] <= receipt["validated"]["log_loss_uncalibrated"] + 1e-3
    assert min(losses) == pytest.approx(receipt["validated"]["log_loss_uncalibrated"], abs=1e-5)


# --- training


def test_an_existing_specialist_is_never_overwritten(toy: Toy, trained: Trained) -> None:
    with pytest.raises(SpecialistError, match="holds a specialist already"):
        train_specialist("majority", toy.rl_train, trained("trees"))


def test_questions_with_one_answer_teach_nothing(toy: Toy, tmp_path: Path) -> None:
    lines = Path(toy.rl_train).read_text().splitlines()
    file = toy.folder / "one.jsonl"
    file.write_text("\n".join(line for line in lines if json.loads(line)["answer"] == "NO") + "\n")
    with pytest.raises(InputError, match="all 20 questions about toy have one answer"):
        train_specialist("trees", str(file), tmp_path / "t", validation=toy.dev)
    assert not (tmp_path / "t").exists()


def test_without_validation_whole_objects_are_held_out(toy: Toy) -> None:
    examples = read_examples(toy.rl_train, lambda s: s.flux[:3])
    examples = dataclasses.replace(examples, objects=tuple(f"star {i // 2}" for i in range(len(examples))))
    kept, held = held_out(examples, seed=1)
    assert len(kept) + len(held) == 40
    assert len(held) > 0
    assert not set(kept.objects) & set(held.objects)
    assert set(held_out(examples, seed=2)[1].objects) != set(held.objects)


def test_a_temperature_undoes_exaggerated_log_odds() -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(0.0, 2.0, 20_000)
    yes = rng.uniform(size=honest.size) < 1 / (1 + np.exp(-honest))
    assert fitted_temperature(2.5 * honest, yes) == pytest.approx(2.5, rel=0.05)
    assert log_loss(np.zeros(4), np.array([True, False, True, False])) == pytest.approx(np.log(2))


def test_scores_are_those_of_a_count_by_hand() -> None:
    log_odds = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    yes = np.array([True, False, True, False, False])
    found = scores(log_odds, yes, np.array([0, 0, 0, 0, 1]), 2)
    assert (found["accuracy"], found["macro_f1"]) == (0.6, 0.5)  # the second task has no YES, and no F1


def batch() -> np.ndarray:
    x = np.zeros((2, 3, 200), dtype=np.float32)
    x[:, 0] = np.random.default_rng(0).normal(size=(2, 200))
    x[:, 1] = 1.0
    x[1, :, :40] = 0.0
    return x


def test_augmentation_that_does_nothing_changes_nothing_but_the_first_pixel() -> None:
    x = batch()
    out = augmented(x, own_noise(x), np.random.default_rng(0), STILL)
    assert (out[0, :, 1:] == x[0, :, 1:]).all()
    assert (out[1, :, 41:] == x[1, :, 41:]).all()


def test_augmentation_adds_noise_and_cuts_ends_and_leaves_what_was_not_observed() -> None:
    x = batch()
    before = x.copy()
    how = dataclasses.replace(STILL, noise=1.0, ends=0.2, ends_often=1.0)
    out = augmented(x, own_noise(x), np.random.default_rng(0), how)
    assert (x == before).all()
    assert (out[1, :, :40] == 0).all()
    lost = (x[0, 1] == 1) & (out[0, 1] == 0)
    assert 0 < lost.sum() < 0.4 * 200
    assert (out[0][:, lost] == 0).all()
    kept = out[0, 1] == 1
    added = out[0, 0, kept] - x[0, 0, kept]
    assert 0 < added.std() <= 1.2 * own_noise(x)[0]
    assert (augmented(x, own_noise(x), np.random.default_rng(0), how) == out).all()


def test_a_velocity_moves_lines_between_pixels_and_keeps_their_strength() -> None:
    x = np.zeros((8, 3, 200), dtype=np.float32)
    x[:, 1] = 1.0
    x[:, 0, 100] = 1.0
    out = augmented(x, np.zeros(8, dtype=np.float32), np.random.default_rng(0), dataclasses.replace(STILL, shift=2.5))
    centres = (out[:, 0] * np.arange(200)).sum(axis=1)
    np.testing.assert_allclose(out[:, 0].sum(axis=1), 1.0, atol=1e-6)
    expected = np.random.default_rng(0).uniform(-2.5, 2.5, size=8)
    np.testing.assert_allclose(centres - 100.0, expected, atol=1e-4)
