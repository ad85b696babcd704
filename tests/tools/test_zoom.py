"""The zoom tool: published schema and texts, typed data, and an answer to whatever a model asks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.spectra import Frame, Join, Redshift, Spectrum
from specvet.tools import MIN_POINTS, TOOL_NAME, ZoomTool, one_line, plain, shift

CHAT = Path(__file__).parents[2].parent / "shared" / "golden" / "chat"

SCHEMA = {
    "type": "function",
    "function": {
        "name": "spectral_visualization_tool",
        "description": "A tool for visualizing spectral data with wavelength range zooming capabilities.",
        "parameters": {
            "type": "object",
            "properties": {
                "wavelength_range": {
                    "type": "array",
                    "items": {"type": "number"},
                    "description": "Wavelength range to focus on [min_wavelength, max_wavelength] in Angstroms",
                },
                "label": {
                    "type": "string",
                    "description": "Optional label for the spectral feature being analyzed",
                },
            },
            "required": ["wavelength_range"],
        },
    },
}

AVAILABLE = "[3700.0, 9000.0]"


def spectrum(**more: Any) -> Spectrum:
    w = np.arange(3700.0, 9000.5, 2.0)
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {
        "ivar": np.ones(w.size),
        "mask": np.arange(w.size),
        "medium": "vacuum",
        "joins": (Join(5700.0, 5900.0, "LAMOST blue/red"),),
    }
    return Spectrum(w, rng.normal(10, 1, w.size), **{**given, **more})


def ask(wavelength_range: Any, tool: ZoomTool | None = None, **more: Any) -> Any:
    return (tool or ZoomTool(spectrum()))({"wavelength_range": wavelength_range, **more})


def test_the_schema_is_the_published_one() -> None:
    assert ZoomTool(spectrum()).schema() == SCHEMA
    assert json.dumps(ZoomTool(spectrum()).schema()) == json.dumps(SCHEMA)  # the order counts, models see it
    assert TOOL_NAME == ZoomTool(spectrum()).name == "spectral_visualization_tool"


@pytest.mark.shared
@pytest.mark.skipif(not CHAT.is_dir(), reason=f"the golden chats are not at {CHAT}")
def test_the_schema_is_that_of_the_golden_chats() -> None:
    found = sorted(CHAT.glob("*/first_turn.json"))
    assert found
    for path in found:
        tools = json.loads(path.read_text(encoding="utf-8"))["tools"]
        assert json.dumps(tools) == json.dumps([ZoomTool(spectrum()).schema()])


@pytest.mark.parametrize(
    ("window", "label", "text"),
    [
        ([6400, 6700], None, "Generated spectral visualization focused on wavelength range (6400, 6700) Å."),
        ([6400, 6700], "Hα", "Generated spectral visualization focused on wavelength range (6400, 6700) Å for Hα."),
        ([6400.0, 6700.5], "", "Generated spectral visualization focused on wavelength range (6400.0, 6700.5) Å."),
        ((6400, 6700.0), "C2 Swan (0,0)",
         "Generated spectral visualization focused on wavelength range (6400, 6700.0) Å for C2 Swan (0,0)."),
    ],
)  # fmt: skip
def test_published_texts_are_exact_and_otherwise_a_prefix(window: Any, label: str | None, text: str) -> None:
    more = {} if label is None else {"label": label}
    published = ask(window, ZoomTool(spectrum(), "published"), **more)
    assert (published.kind, published.text) == ("view", text)
    careful = ask(window, **more)
    assert careful.text.startswith(text + " ")
    assert careful.text.endswith("Wavelengths are in the observed frame (the file states no redshift).")


BAD = {
    "reversed": [6700, 6400],
    "equal": [6500, 6500],
    "nan": [math.nan, 6700],
    "inf": [6400, math.inf],
    "strings": ["6400", "6700"],
    "bools": [True, False],
    "none in it": [None, 6700],
    "one": [6400],
    "three": [6400, 6500, 6600],
    "none at all": [],
    "nested": [[6400, 6700]],
    "nested twice": [[6400], [6700]],
    "outside, red": [9500, 9900],
    "outside, blue": [100, 3000],
    "negative": [-200, -100],
    "huge": [10**400, 10**401],
    "a number of 6000 digits": [0, 10**6000],
    "complex": [1j, 2],
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_range_is_answered_with_what_is_available(case: str) -> None:
    for mode in ("careful", "published"):
        seen = ask(BAD[case], ZoomTool(spectrum(), mode))
        assert seen.kind == "bad_range"
        assert seen.view is None
        assert seen.data is None
        assert seen.text.startswith("Error: The specified wavelength range ")
        tail = f" is invalid or outside the available data range {AVAILABLE}."
        assert seen.text.endswith(tail) if mode == "published" else (tail + " Reason: ") in seen.text
        assert len(seen.text) < 300
        assert "\n" not in seen.text


def test_the_text_of_a_bad_range_is_the_published_one() -> None:
    seen = ask([6700, 6400], ZoomTool(spectrum(), "published"))
    assert seen.text == (
        "Error: The specified wavelength range [6700, 6400] is invalid or outside the available data range "
        "[3700.0, 9000.0]."
    )


@pytest.mark.parametrize("window", [None, "6400-6700", 6400, 6400.5, True, {"min": 6400, "max": 6700}, {6400, 6700}])
def test_what_is_no_list_is_a_bad_argument(window: Any) -> None:
    seen = ask(window)
    assert seen.kind in ("bad_arguments", "bad_range")
    assert AVAILABLE in seen.text


@pytest.mark.parametrize("arguments", [{}, {"label": "Hα"}, {"range": [6400, 6700]}, None, [6400, 6700], "x", 3])
def test_arguments_without_a_range_are_answered(arguments: Any) -> None:
    seen = ZoomTool(spectrum())(arguments)
    assert seen.kind == "bad_arguments"
    assert "wavelength_range is missing" in seen.text
    assert AVAILABLE in seen.text


def test_arguments_beyond_the_schema_are_ignored() -> None:
    assert ask([6400, 6700], zoom=3, title={"a": [1]}).ok


@pytest.mark.parametrize(
    "window",
    [
        np.array([6400, 6700]),
        np.array([6400.0, 6700.0]),
        [np.float64(6400.0), np.float32(6700)],
        (np.int64(6400), np.uint16(6700)),
        [np.longdouble(6400), 6700],
    ],
)
def test_numpy_numbers_are_numbers_and_print_as_such(window: Any) -> None:
    seen = ask(window)
    assert seen.ok
    assert "np." not in seen.text
    assert "(6400" in seen.text


def test_a_window_partly_outside_shows_what_there_is_and_says_so() -> None:
    seen = ask([8500, 9500])
    assert seen.ok
    assert f"Data are available only in {AVAILABLE} Å." in seen.text
    assert seen.data.spectrum.wave_max == 9000.0
    assert "available" not in ask([8500, 9500], ZoomTool(spectrum(), "published")).text


@pytest.mark.parametrize(("window", "n"), [([5000, 5007], 4), ([5000.1, 5001.9], 0)])
def test_too_few_points_are_answered_with_how_many_and_what_there_is(window: Any, n: int) -> None:
    seen = ask(window)
    assert (seen.kind, seen.view) == ("too_few_points", None)
    assert f"holds {n} data points" in seen.text
    assert AVAILABLE in seen.text
    assert seen.data.spectrum.n_pix == n
    assert ask([5000, 5008]).ok
    assert MIN_POINTS == 5


def test_a_window_where_all_is_masked_is_shown_with_a_warning() -> None:
    s = spectrum()
    assert s.ivar is not None
    seen = ask([6400, 6700], ZoomTool(s.replace(ivar=np.where(s.wavelength < 7000, 0.0, 1.0))))
    assert seen.ok
    assert "Every pixel here is marked bad (ivar 0)" in seen.text


@pytest.mark.parametrize("flux", [math.nan, math.inf, -math.inf])
def test_a_spectrum_without_finite_points_is_said_to_be_that(flux: float) -> None:
    w = np.arange(4000.0, 5000.0, 2.0)
    for s in (Spectrum(w, np.full(w.size, flux)), Spectrum(np.empty(0), np.empty(0))):
        tool = ZoomTool(s)
        assert tool.opening().kind == "too_few_points"
        for window in ([4100, 4200], None, "x", [math.nan, 1]):
            seen = ask(window, tool)
            assert seen.kind == "too_few_points"
            assert "no finite points" in seen.text
        assert all(math.isnan(x) for x in tool.available)


def test_points_that_are_not_finite_do_not_count() -> None:
    s = spectrum()
    flux = s.flux.copy()
    flux[(s.wavelength > 6400) & (s.wavelength < 6690)] = np.nan
    assert ask([6402, 6688], ZoomTool(s.replace(flux=flux))).kind == "too_few_points"


LABELS = [
    None,
    "",
    0,
    5,
    "a" * 5000,
    "two\nlines\r\n",
    "\u2028\x85\x1b[31m",
    "\ud800",
    {"a": 1},
    ["x"] * 999,
    True,
    " ",
]


@pytest.mark.parametrize("label", LABELS, ids=range(len(LABELS)))
def test_no_label_breaks_the_text(label: Any) -> None:
    for mode in ("careful", "published"):
        seen = ask([6400, 6700], ZoomTool(spectrum(), mode), label=label)
        assert seen.ok
        assert seen.text.startswith("Generated spectral visualization focused on wavelength range (6400, 6700) Å")
        assert len(seen.text.splitlines()) == 1
        assert len(seen.text) < 400
        seen.text.encode("utf-8")
    shown = ask([6400, 6700], ZoomTool(spectrum(), "published"), label=label).text
    assert shown.endswith(" Å.") == (not label or not one_line(plain(label)))


def test_the_data_are_the_pixels_of_the_window_with_their_joins() -> None:
    s = spectrum()
    seen = ask([5600, 5800], ZoomTool(s))
    inside = (s.wavelength >= 5600) & (s.wavelength <= 5800)
    data = seen.data.spectrum
    assert s.ivar is not None
    assert s.mask is not None
    for name in ("wavelength", "flux", "ivar", "mask"):
        assert np.array_equal(getattr(data, name), getattr(s, name)[inside])
    assert (data.medium, data.joins) == ("vacuum", s.joins)
    assert "The LAMOST blue/red join lies at 5700-5900 Å." in seen.text
    assert ask([6400, 6700], ZoomTool(s)).data.spectrum.joins == ()
    assert seen.view.n_points == data.n_pix
    assert (seen.view.wavelength == data.wavelength).all()


def test_the_rest_frame_shows_a_shifted_line_at_its_place() -> None:
    z = 0.002
    w = np.arange(6400.0, 6800.0, 1.0)
    peak = 6564.61 * (1 + z)
    s = Spectrum(w, 1 + np.exp(-0.5 * ((w - peak) / 3) ** 2), redshift=Redshift(z, source="header Z"),
                 joins=(Join(6601.3, 6700.0, "b/r"),))  # fmt: skip
    seen = ask([6500, 6620], ZoomTool(s))
    data = seen.data.spectrum
    assert data.wavelength[np.argmax(data.flux)] == pytest.approx(6564.6, abs=0.6)
    assert seen.view.wavelength[np.argmax(seen.view.flux)] == pytest.approx(6564.6, abs=0.6)
    assert data.joins[0].low == pytest.approx(6601.3 / (1 + z))
    assert data.frame == "rest"
    assert "rest frame (z = 0.002000 from header Z)" in seen.text
    observed = ask([6500, 6620], ZoomTool(s, "observed")).data.spectrum
    assert observed.wavelength[np.argmax(observed.flux)] == pytest.approx(peak, abs=0.6)
    user = ZoomTool(s, z=0.02)
    assert user.available[1] == pytest.approx(6799.0 / 1.02)


def test_the_available_range_is_in_the_tools_frame() -> None:
    s = spectrum(redshift=Redshift(1.0), pipeline_class="QSO")
    assert ZoomTool(s).available == (3700.0, 9000.0)
    assert ZoomTool(s, "published").available == (1850.0, 4500.0)


@pytest.mark.parametrize("z", [-9999.0, -2.0, -1.0])
def test_published_nonsense_redshifts_are_answered_and_never_raise(z: float) -> None:
    tool = ZoomTool(spectrum(redshift=Redshift(z)), "published")
    low, high = tool.available
    assert low < high
    opening = tool.opening()
    assert opening.ok
    assert opening.view is not None
    assert opening.view.n_points == spectrum().n_pix
    seen = ask([6400, 6700], tool)
    assert seen.ok == (z == -1.0)  # −9999: wavelengths of −0.9 to −0.4, every zoom is refused, as published
    assert ask([low, high], tool).ok
    assert all(j.low < j.high for j in opening.data.spectrum.joins)  # type: ignore[union-attr]


def test_shift_by_nothing_is_nothing() -> None:
    s = spectrum()
    assert shift(s, Frame(0.0, "observed", "")) is s


def test_the_opening_shows_the_whole_spectrum_and_says_its_frame() -> None:
    opening = ZoomTool(spectrum()).opening()
    assert opening.text == "Full spectrum, 3700.0-9000.0 Å, observed frame (the file states no redshift)."
    assert opening.view is not None
    assert not opening.view.drawn
    record = opening.record()
    assert (record.window, record.n_points, record.image) == (None, spectrum().n_pix, None)
    assert record.view_hash == opening.view.content_hash


def test_the_record_of_a_zoom_names_window_frame_and_picture() -> None:
    record = ask([6400, 6700]).record("ab" * 32)
    assert (record.window, record.image, record.kind) == ((6400.0, 6700.0), "ab" * 32, "view")
    assert record.frame == "observed frame (the file states no redshift)"
    bad = ask([1, 2]).record()
    assert (bad.window, bad.view_hash, bad.frame) == (None, None, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.integers(3000, 10000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TOOL = ZoomTool(spectrum())


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["wavelength_range", "label", "x"]), JSON) | JSON)
def test_any_arguments_are_answered_on_one_line_with_what_is_available(arguments: Any) -> None:
    seen = TOOL(arguments)
    assert len(seen.text.splitlines()) == 1
    assert len(seen.text) < 600
    assert seen.ok or AVAILABLE in seen.text
    seen.record().model_dump_json()


@settings(max_examples=200, deadline=None)
@given(st.floats(), st.floats())
def test_any_two_numbers_are_answered(low: float, high: float) -> None:
    seen = TOOL({"wavelength_range": [low, high]})
    assert seen.ok or AVAILABLE in seen.text
    if seen.ok:
        assert seen.data is not None
        w = seen.data.spectrum.wavelength
        assert low <= w[0] <= w[-1] <= high


def circle() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


ODD = [
    circle(),
    Rude(),
    object(),
    10**5000,
    float("nan"),
    {1: {2: 3}},
    {"a": {Rude()}},
    "\ud800",
    np.zeros((2, 2)),
    np.array([None, circle()], dtype=object),
    np.bool_(True),
    np.datetime64("2024-01-01"),
    b"\xff",
    range(3),
    [[[[[[[[[[1]]]]]]]]]],
]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_plain_makes_anything_writable_as_json(value: Any) -> None:
    made = plain(value)
    json.loads(json.dumps(made))
    json.dumps(made, ensure_ascii=False).encode("utf-8")
    assert len(one_line(value)) <= 80
    assert ask(value).kind in ("bad_arguments", "bad_range")
    assert ask([6400, 6700], label=value).ok


@given(JSON)
def test_plain_changes_no_json_but_half_characters(value: Any) -> None:
    text = json.dumps(value)
    assert json.dumps(plain(json.loads(text))) == text or "\\ud" in text
