"""The five built-in tasks: complete, consistent in themselves, and carrying the facts that vetting depends on."""

import dataclasses

import pytest

from specvet.tasks import Contaminant, KeyWindow, Task, builtin_tasks, prompt

KEYS = ["cv", "cc", "ss", "gm", "wd"]
MARGIN = 20.0
"""Å of continuum that a window must show beyond its outermost feature."""


@pytest.fixture(params=KEYS)
def task(request: pytest.FixtureRequest) -> Task:
    return builtin_tasks()[request.param]


def test_the_five_tasks_come_in_a_fixed_order() -> None:
    assert list(builtin_tasks()) == KEYS


def test_changing_the_returned_dict_changes_no_later_call() -> None:
    builtin_tasks().clear()
    assert list(builtin_tasks()) == KEYS


def test_data_sources_are_the_names_of_the_published_benchmark() -> None:
    assert [task.data_source for task in builtin_tasks().values()] == ["cv", "carbon", "ss", "gm", "wd"]


def test_questions_are_the_published_ones() -> None:
    assert [task.question for task in builtin_tasks().values()] == [
        "Does this candidate show the spectral characteristics of a cataclysmic variable?",
        "Is this candidate a carbon star?",
        "Is this candidate an S-type star?",
        "Is this candidate an M-type giant?",
        "Is this candidate a white dwarf?",
    ]


def test_every_part_that_a_reader_needs_is_filled(task: Task) -> None:
    assert len(task.include) >= 3
    assert len(task.exclude) >= 3
    assert len(task.borderline) >= 3
    assert len(task.sources) >= 5
    assert task.requires.coverage
    assert task.requires.at_least == 1
    assert task.answers == ("YES", "NO")
    assert 1 <= len(task.windows) <= 7


def test_guidance_has_a_length_that_people_and_models_read(task: Task) -> None:
    assert 150 <= len(task.guidance.split()) <= 350


def test_guidance_states_the_medium_of_its_wavelengths(task: Task) -> None:
    assert task.guidance.startswith("Wavelengths are rest-frame air values in Å; in vacuum")


def test_sources_say_which_conversion_between_air_and_vacuum_is_meant(task: Task) -> None:
    assert any(source.startswith("Morton 2000, ApJS 130, 403") for source in task.sources)


def test_every_feature_has_continuum_on_both_sides_of_it_in_its_window(task: Task) -> None:
    for window in task.windows:
        low, high = window.range
        for feature in window.features:
            assert low + MARGIN <= feature.wavelength <= high - MARGIN, f"{task.key}.{window.key}: {feature.name}"


def test_no_window_is_only_features(task: Task) -> None:
    for window in task.windows:
        assert window.features, window.key
        assert 150 <= window.range[1] - window.range[0] <= 1400, window.key


def test_every_contaminant_with_a_range_overlaps_its_window(task: Task) -> None:
    for window in task.windows:
        for contaminant in window.contaminants:
            if contaminant.range:
                low, high = contaminant.range
                assert low < window.range[1], f"{window.key}: {contaminant.name}"
                assert high > window.range[0], f"{window.key}: {contaminant.name}"


def test_every_stretch_that_a_task_requires_is_looked_at_in_some_window(task: Task) -> None:
    for coverage in task.requires.coverage:
        assert coverage.why
        assert any(w.range[0] < coverage.range[1] and coverage.range[0] < w.range[1] for w in task.windows)


def test_prompt_holds_question_guidance_and_every_kind_once(task: Task) -> None:
    text = prompt(task)
    assert text.startswith(task.question)
    assert task.guidance in text
    for kind in [*task.include, *task.exclude]:
        assert text.count(f"- {kind}") == 1
    counts, counts_not = text.split("\n\nWhat does not:\n")
    for borderline in task.borderline:
        assert borderline.kind in (counts if borderline.answer == "YES" else counts_not)


def test_no_text_holds_an_image_mark_or_an_answer_tag(task: Task) -> None:
    assert not any(mark in prompt(task) for mark in ("<image>", "<answer>", "\\boxed", "<think>"))


# The instrument and the atmosphere: what lies where.


@dataclasses.dataclass(frozen=True)
class Fact:
    """Where a survey or the air spoils a window, and which features of a task it reaches."""

    name: str
    range: tuple[float, float]


FACTS = [
    Fact("LAMOST arm join", (5700, 5900)),
    Fact("DESI b/r join", (5760, 5800)),
    Fact("DESI r/z join", (7520, 7620)),
    Fact("SDSS arm join", (5900, 6300)),
    Fact("telluric B band", (6867, 6944)),
    Fact("telluric A band", (7594, 7684)),
    Fact("telluric H2O", (8100, 8340)),
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_a_window_names_each_join_and_telluric_band_that_covers_its_features(fact: Fact, task: Task) -> None:
    for window in task.windows:
        hit = [f for f in window.features if fact.range[0] <= f.wavelength <= fact.range[1]]
        if hit:
            named = [c for c in window.contaminants if c.name == fact.name and c.range == fact.range]
            assert named, f"{task.key}.{window.key}: {hit[0].name} lies in the {fact.name}"


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_joins_and_telluric_bands_stand_where_they_are(fact: Fact, task: Task) -> None:
    for window in task.windows:
        for contaminant in window.contaminants:
            if contaminant.name.startswith(fact.name):
                allowed = [fact.range, (7160, 7340)] if fact.name == "telluric H2O" else [fact.range]
                assert contaminant.range in allowed, f"{task.key}.{window.key}"


def test_water_is_named_wherever_it_covers_na_i_8190() -> None:
    windows = [w for t in builtin_tasks().values() for w in t.windows if any("Na I 8183" in f.name for f in w.features)]
    assert {window.key for window in windows} == {"donor", "na_8190"}
    for window in windows:
        assert any(c.name == "telluric H2O" and c.range and c.range[0] == 8100 for c in window.contaminants)


def test_sky_lines_are_named_in_every_window_that_shows_them_near_its_features() -> None:
    for task in builtin_tasks().values():
        for window in task.windows:
            names = " ".join(c.name for c in window.contaminants)
            if window.range[0] + MARGIN < 5577.3 < window.range[1] - MARGIN and window.key in ("c2_5635", "zro_beta"):
                assert "sky [O I] 5577" in names
            if window.range[0] < 6297 and window.range[1] > 6367:
                assert "6300 and 6364" in names, f"{task.key}.{window.key}"


@pytest.mark.parametrize(
    ("key", "fact"),
    [
        ("cv", "He I 5876 is weak evidence in LAMOST, where it lies in the arm join at 5700-5900"),
        ("cv", "5577, 6300 and 6364"),
        ("cc", "have their sharp edge on the RED side and fade to the blue"),
        (
            "cc",
            "CN red system degrades REDWARD as TiO does, so its direction does not separate it from TiO; its posit",
        ),
        ("cc", "join at 5700-5900 follows it and covers Na D"),
        ("ss", "ZrO 5718 falls into the LAMOST join (5700-5900)"),
        ("ss", "The classic criterion is the ZrO head at 6474, the (0,0) band of the γ system"),
        ("ss", "LaO at 7403 and 7910 suffices alone"),
        ("gm", "K I 7665 falls into the telluric A band (7594-7684): use K I 7699"),
        ("gm", "Na I 8190 lies in telluric water (8100-8340)"),
        ("gm", "DESI's r/z join (7520-7620) lies on TiO 7589"),
        ("wd", "He I 5876 and Na D lie in the join at 5700-5900"),
        ("wd", "A featureless blue continuum does not decide"),
    ],
)
def test_guidance_states_what_decides_and_what_deceives(key: str, fact: str) -> None:
    assert fact in builtin_tasks()[key].guidance


def test_carbon_bands_are_sharp_on_the_red_side_and_oxide_and_red_cn_bands_on_the_blue() -> None:
    for task in builtin_tasks().values():
        for window in task.windows:
            for feature in window.features:
                if feature.name.startswith(("C2 Swan", "CN violet", "12C13C")):
                    assert feature.kind == "band head red-sharp", feature.name
                if feature.name.startswith(("ZrO", "LaO", "CN red")) or (
                    feature.name.startswith("TiO") and "TiO5" not in feature.name
                ):
                    assert feature.kind == "band head blue-sharp", feature.name


@pytest.mark.parametrize(
    ("key", "wavelengths"),
    [
        ("cv", [6562.8, 4861.3, 4340.5, 4101.7, 4685.7, 5875.6, 6678.2, 7065.2, 8498.0, 8542.1, 8662.1, 7053]),
        ("cc", [5165.2, 4737.1, 5635.5, 6925, 7065, 7873, 8067, 4300, 5892.9]),
        ("ss", [6474, 6229, 6345, 5551.7, 5718.1, 4619.8, 4626.1, 4640.6, 7403, 7910, 7053]),
        ("gm", [6830, 6975, 7130, 8183.3, 8194.8, 8498.0, 8542.1, 8662.1, 7699.0, 4226.7, 8432]),
        ("wd", [4861.3, 4340.5, 4101.7, 3970.1, 6562.8, 4471.5, 5875.6, 4685.7, 3933.7, 3968.5, 4737.1, 5165.2]),
    ],
)
def test_the_telling_features_are_in_some_window(key: str, wavelengths: list[float]) -> None:
    shown = {feature.wavelength for window in builtin_tasks()[key].windows for feature in window.features}
    assert set(wavelengths) <= shown


@pytest.mark.parametrize(
    ("key", "first"),
    [("cv", "halpha"), ("cc", "c2_5165"), ("ss", "zro_6474"), ("gm", "cah_tio5"), ("wd", "balmer_blue")],
)
def test_the_most_telling_window_comes_first(key: str, first: str) -> None:
    assert builtin_tasks()[key].windows[0].key == first


@pytest.mark.parametrize(
    ("key", "kind", "answer"),
    [
        ("cv", "AM CVn", "YES"),
        ("cv", "novae", "YES"),
        ("cv", "pre-CVs", "NO"),
        ("cv", "transitional millisecond pulsars", "YES"),
        ("cc", "barium stars", "NO"),
        ("cc", "CEMP", "NO"),
        ("cc", "C-H", "YES"),
        ("cc", "dwarf carbon", "YES"),
        ("cc", "SC stars", "NO"),
        ("ss", "MS stars", "YES"),
        ("ss", "SC stars", "YES"),
        ("gm", "supergiants", "YES"),
        ("gm", "symbiotic", "YES"),
        ("gm", "MS stars", "NO"),
        ("wd", "WD+MS", "YES"),
        ("wd", "cataclysmic", "NO"),
        ("wd", "DC", "YES"),
        ("wd", "extremely low-mass", "NO"),
    ],
)
def test_each_borderline_kind_has_one_stance_with_its_reason(key: str, kind: str, answer: str) -> None:
    found = [b for b in builtin_tasks()[key].borderline if kind in b.kind]
    assert [b.answer for b in found] == [answer]
    assert len(found[0].why.split()) >= 8


def test_kinds_between_two_classes_belong_to_exactly_one_of_them() -> None:
    answers = {(k, b.kind.split(" (")[0]): b.answer for k, t in builtin_tasks().items() for b in t.borderline}
    for kind, pair in {"MS stars": ("ss", "gm"), "SC stars": ("ss", "cc")}.items():
        assert sorted(answers[(key, kind)] for key in pair) == ["NO", "YES"]
    assert ("wd", "cataclysmic variables") in answers


@pytest.mark.parametrize(
    ("key", "covered", "enough"),
    [
        ("cv", (6425.0, 6727.0), True),  # a U Gem spectrum: Hα alone
        ("cv", (7000.0, 9000.0), False),
        ("cc", (6800.0, 9000.0), True),  # red CN alone
        ("cc", (8200.0, 9000.0), False),
        ("ss", (6300.0, 6800.0), True),
        ("ss", (8200.0, 9000.0), False),
        ("gm", (3700.0, 5600.0), False),  # no gravity sign
        ("gm", (6300.0, 7400.0), True),
        ("wd", (6300.0, 9000.0), False),
        ("wd", (3800.0, 5700.0), True),
    ],
)
def test_requirements_ask_for_what_can_decide_and_no_more(key: str, covered: tuple[float, float], enough: bool) -> None:
    requires = builtin_tasks()[key].requires
    met = 0
    for coverage in requires.coverage:
        low, high = coverage.range
        share = max(0.0, min(high, covered[1]) - max(low, covered[0])) / (high - low)
        met += share >= coverage.fraction
    assert (met >= requires.at_least) is enough


def test_a_lost_lamost_join_takes_away_the_claim_to_see_zro_5718() -> None:
    (stretch,) = [c for c in builtin_tasks()["ss"].requires.coverage if "5718" in c.why]
    assert (5700 - stretch.range[0]) / (stretch.range[1] - stretch.range[0]) < stretch.fraction


def test_windows_and_contaminants_are_plain_immutable_records(task: Task) -> None:
    window = task.windows[0]
    assert isinstance(window, KeyWindow)
    assert all(isinstance(c, Contaminant) for c in window.contaminants)
    with pytest.raises(ValueError, match="frozen"):
        window.name = "other"
