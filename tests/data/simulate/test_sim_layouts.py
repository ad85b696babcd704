"""Native layouts of simulated spectra: what was put in is what `specvet.read` and astropy find, and no more."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from specvet import Spectrum, read
from specvet.data.simulate.layouts import RELEASES, desi, write
from specvet.data.simulate.layouts.common import fitted, sexagesimal
from specvet.data.simulate.layouts.fitsbytes import card, comment, primary, table
from specvet.data.simulate.observed import SURVEYS, Arm, Observed, SurveyName
from specvet.data.simulate.source import GRID, Source
from specvet.spectra.readers import fitsfile
from specvet.spectra.reading import SIMULATED

GRIDS = {
    "lamost": {"": 10.0 ** (3.5682 + 1e-4 * np.arange(3908))},
    "sdss": {"": 10.0 ** (3.5797 + 1e-4 * np.arange(3846))},
    "boss": {"": 10.0 ** (3.5523 + 1e-4 * np.arange(4625))},
    "desi": {
        "B": 3600.0 + 0.8 * np.arange(2751),
        "R": 5760.0 + 0.8 * np.arange(2326),
        "Z": 7520.0 + 0.8 * np.arange(2881),
    },
}


def arm(name: str, wavelength: np.ndarray, rng: np.random.Generator, released: bool) -> Arm:
    """Noise about 30, with bad pixels, negative fluxes and mask bits."""
    n = wavelength.size
    ivar = rng.uniform(0.1, 1.0, n).astype(np.float32)
    ivar[100:120] = 0.0
    bits = rng.choice(np.array([0, 0, 0, 1, 4, 1 << 16], dtype=np.int32), n)
    flux = rng.normal(30.0, 20.0, n).astype(np.float32)
    sky = np.full(n, 7.5, dtype=np.float32) if released else None
    dispersion = np.full(n, 1.25, dtype=np.float32) if released else None
    return Arm(name, wavelength, flux, ivar, bits, bits | np.int32(2), sky, dispersion)


def seen(survey: SurveyName, number: int = 123, epoch: int = 0, **changes: object) -> Observed:
    rng = np.random.default_rng([number, epoch])
    arms = tuple(arm(name, grid, rng, survey in ("sdss", "boss")) for name, grid in GRIDS[survey].items())
    source = Source(np.ones(GRID.size), "cv.outburst", "secret-type", {"teff_k": 1.0}, template="secret-file")
    observed = Observed(
        source=source,
        survey=survey,
        arms=arms,
        object_number=number,
        epoch=epoch,
        ra=332.202274,
        dec=-2.056767,
        mjd=55858 + epoch,
        fibre=42,
        magnitude_r=17.25,
        snr=12.5,
        pipeline_class="STAR",
        pipeline_subclass="A0",
        pipeline_z=-0.0001387,
        pipeline_z_error=2.5e-5,
        pipeline_z_warning=0,
        defects=("secret defect",),
    )
    return replace(observed, **changes)  # type: ignore[arg-type]


def one(observed: Observed, folder: Path, **options: str) -> Spectrum:
    (path,) = write(observed, folder, **options)  # type: ignore[arg-type]
    (spectrum,) = read(path)
    return spectrum


LAYOUTS = [
    ("lamost", "dr9", "lamost-lrs-table"),
    ("lamost", "dr5", "lamost-lrs-image"),
    ("sdss", "dr9", "sdss-spec"),
    ("boss", "dr9", "sdss-spec"),
    ("desi", "dr9", "desi-coadd"),
]
each_layout = pytest.mark.parametrize(("survey", "release", "layout"), LAYOUTS)


@each_layout
def test_reading_gives_back_the_pixels_bit_for_bit(
    survey: SurveyName, release: str, layout: str, tmp_path: Path
) -> None:
    observed = seen(survey)
    spectrum = one(observed, tmp_path, release=release)
    assert spectrum.layout == layout
    assert spectrum.mask is not None
    assert spectrum.ivar is not None
    if survey == "desi":
        b, r, z = observed.arms
        parts = ((b, slice(0, 2700), slice(0, 2700)), (r, slice(51, 2200), slice(2751, 4900)), (z, slice(126, None), slice(5026, None)))  # fmt: skip  # noqa: E501
    else:
        parts = ((observed.arms[0], slice(None), slice(None)),)
    for a, there, here in parts:
        assert np.array_equal(spectrum.flux[here], a.flux[there].astype(np.float64))
        assert np.array_equal(spectrum.ivar[here], a.ivar[there].astype(np.float64))
        assert np.array_equal(spectrum.mask[here], a.and_mask[there])
        np.testing.assert_allclose(spectrum.wavelength[here], a.wavelength[there], rtol=6e-7)  # loglam is float32
    if survey == "desi":
        assert np.array_equal(spectrum.wavelength[:2751], observed.arms[0].wavelength)


@each_layout
def test_reading_gives_back_what_the_pipeline_said(
    survey: SurveyName, release: str, layout: str, tmp_path: Path
) -> None:
    spectrum = one(seen(survey), tmp_path, release=release)
    assert spectrum.redshift.value == pytest.approx(-0.0001387, rel=1e-7)
    assert spectrum.redshift.error == pytest.approx(2.5e-5, rel=1e-6)
    assert spectrum.redshift.warning == ""
    assert (spectrum.pipeline_class, spectrum.pipeline_subclass) == ("STAR", "A0")
    assert (spectrum.ra, spectrum.dec, spectrum.mjd) == (332.202274, -2.056767, 55858.0)
    assert spectrum.medium == "vacuum"
    assert spectrum.frame == ("barycentric" if survey == "desi" else "heliocentric")
    assert spectrum.survey == {"lamost": "LAMOST", "desi": "DESI"}.get(survey, "SDSS")
    assert spectrum.calibration == ("relative" if survey == "lamost" else "absolute")
    assert spectrum.warnings == (SIMULATED,)


def test_identifiers_are_numbers_that_no_survey_gives(tmp_path: Path) -> None:
    lamost, sdss, boss, from_desi = (one(seen(survey), tmp_path / survey) for survey in SURVEYS)
    assert lamost.id == "9000001230"
    assert lamost.ids["objname"] == "SIMULATED-000123"
    assert (lamost.release, lamost.reduction) == ("SIMULATED DR9", "SIMULATED")
    assert sdss.id == boss.id == "9000123-55858-0042"
    assert sdss.ids["specobjid"] == "SIMULATED-sdss-000123-0"
    assert from_desi.id == str(2**58 + 123)
    assert from_desi.reduction == "SIMULATED"


def test_a_pipeline_that_gave_up_and_one_that_doubts_are_read_so(tmp_path: Path) -> None:
    nothing = {"pipeline_z": None, "pipeline_z_error": None}
    unknown = {"pipeline_class": "Unknown", "pipeline_subclass": ""}
    for survey in SURVEYS:
        spectrum = one(seen(survey, **nothing, **unknown), tmp_path / f"{survey}-lost")
        assert spectrum.redshift.value is None
        assert (spectrum.pipeline_class, spectrum.pipeline_subclass) == ("Unknown"[:6] if survey == "desi" else "Unknown", "")  # fmt: skip  # noqa: E501
        if survey != "lamost":
            spectrum = one(seen(survey, pipeline_z=2.125, pipeline_z_warning=4), tmp_path / f"{survey}-doubt")
            assert spectrum.redshift.value == 2.125
            assert spectrum.redshift.warning == ("ZWARN=4" if survey == "desi" else "ZWARNING=4")


@pytest.mark.parametrize("release", RELEASES)
def test_each_lamost_release_has_the_layout_of_its_time(release: str, tmp_path: Path) -> None:
    (path,) = write(seen("lamost"), tmp_path, release=release)
    with fits.open(path) as hdus:
        if int(release[2:]) < 9:
            assert hdus[0].data.shape == (5, 3908)
            assert hdus[0].header["EXTEN0"] == "Flux, Inverse, Wavelength, Andmask, Ormask"
            assert len(hdus) == 1
        else:
            assert hdus[0].data is None
            assert hdus["COADD"].columns.names == ["FLUX", "IVAR", "WAVELENGTH", "ANDMASK", "ORMASK", "NORMALIZATION"]
            assert hdus["COADD"].data["FLUX"].shape == (1, 3908)


def test_a_release_without_a_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"LAMOST release 'dr1': its layout is not written; there are dr2, .*, dr11"):
        write(seen("lamost"), tmp_path, release="dr1")


@each_layout
def test_astropy_verifies_the_files_and_finds_them_labelled(
    survey: SurveyName, release: str, layout: str, tmp_path: Path
) -> None:
    write(seen(survey), tmp_path, release=release)
    files = sorted(tmp_path.iterdir())
    assert len(files) == (2 if survey == "desi" else 1)
    for path in files:
        assert "SIMULATED" in path.name
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with fits.open(path, checksum=True) as hdus:
                hdus.verify("exception")
                assert hdus[0].header["SIMULATE"] is True
                assert hdus[0].header["ORIGIN"] == "SIMULATED by specvet"
                assert "SIMULATED by specvet" in str(hdus[0].header["COMMENT"])
                for hdu in hdus:
                    hdu.data  # noqa: B018  read, so that its size is checked too


def test_sdss_tables_hold_sky_dispersion_and_a_model_made_of_the_flux(tmp_path: Path) -> None:
    for survey, table_name in (("sdss", "SPECOBJ"), ("boss", "SPALL")):
        observed = seen(survey)  # type: ignore[arg-type]
        (path,) = write(observed, tmp_path)
        with fits.open(path) as hdus:
            assert [hdu.name for hdu in hdus] == ["PRIMARY", "COADD", table_name]
            coadd = hdus["COADD"].data
            assert np.all(coadd["sky"] == 7.5)
            assert np.all(coadd["wdisp"] == 1.25)
            assert np.array_equal(coadd["or_mask"], observed.arms[0].or_mask)
            middle = np.array(observed.arms[0].flux[1000:1051], dtype=np.float64).mean()
            assert coadd["model"][1025] == pytest.approx(middle, rel=1e-6)
            assert hdus[table_name].data["SN_MEDIAN_ALL"][0] == 12.5
    assert np.all(fitted(np.ones(200, np.float32), np.zeros(200, np.float32)) == 0.0)


def test_desi_targets_share_a_file_and_epochs_do_not(tmp_path: Path) -> None:
    given = [
        seen("desi", 7),
        seen("desi", 7, 1),
        seen("desi", 9, pipeline_class="QSO", pipeline_z=1.5),
        seen("desi", 60),
    ]
    paths = write(given, tmp_path)
    assert paths[0] == paths[2]
    assert len({*paths}) == 3
    assert len(list(tmp_path.iterdir())) == 6
    first, second = read(paths[0])
    assert (first.row, second.row) == (0, 1)
    assert (first.ids["targetid"], second.ids["targetid"]) == (str(2**58 + 7), str(2**58 + 9))
    assert (first.pipeline_class, second.pipeline_class, second.redshift.value) == ("STAR", "QSO", 1.5)
    (later,) = read(paths[1])
    assert (later.id, later.mjd) == (first.id, 55859.0)
    assert not np.array_equal(later.flux, first.flux)


def test_a_desi_target_cannot_stand_twice_in_a_file() -> None:
    with pytest.raises(ValueError, match="two spectra of one DESI target"):
        desi.coadd([seen("desi", 7), seen("desi", 7, epoch=0)])


@each_layout
def test_nothing_in_a_file_depends_on_what_the_object_is(
    survey: SurveyName, release: str, layout: str, tmp_path: Path
) -> None:
    truths = (
        Source(np.ones(GRID.size), "cv.outburst", "U Gem", {"teff_k": 1.0}, 55.0, 0.0, 0.5, "cv.fits"),
        Source(np.full(GRID.size, 2.0), "qso", "", {}, 0.0, 1.5, 0.0),
    )
    contents = []
    for number, source in enumerate(truths):
        observed = seen(survey, source=source, defects=("arm step 1.2",) * number)
        write(observed, tmp_path / str(number), release=release)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / str(number)).iterdir()})
    assert contents[0] == contents[1]


@each_layout
def test_headers_have_the_same_cards_for_all_that_a_pipeline_may_say(
    survey: SurveyName, release: str, layout: str, tmp_path: Path
) -> None:
    said = (
        {},
        {"pipeline_class": "QSO", "pipeline_subclass": "BROADLINE", "pipeline_z": 2.5, "pipeline_z_warning": 16},
        {"pipeline_class": "Unknown", "pipeline_subclass": "", "pipeline_z": None, "pipeline_z_error": None},
    )
    headers: list[list[list[str]]] = []
    for number, changes in enumerate(said):
        write(seen(survey, **changes), tmp_path / str(number), release=release)
        files = sorted((tmp_path / str(number)).iterdir())
        headers.append([])
        for path in files:
            with fits.open(path) as hdus:
                headers[-1].append([list(hdu.header) for hdu in hdus])
    assert headers[0] == headers[1] == headers[2]


@each_layout
def test_files_are_plain_enough_for_the_quick_reader(
    survey: SurveyName, release: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("astropy was asked")

    (path,) = write(seen(survey), tmp_path, release=release)
    monkeypatch.setattr(fits, "open", never)
    assert len(read(path)) == 1
    assert fitsfile is not None


def test_cards_hold_what_fits_allows() -> None:
    assert card("A", True) == b"A       =                    T".ljust(80)
    assert card("B", 1.0) == b"B       =                  1.0".ljust(80)
    assert card("Z", -0.0001387, "of it", decimals=8) == b"Z       =          -0.00013870 / of it".ljust(80)
    assert card("N", "O'Brien") == b"N       = 'O''Brien'".ljust(80)
    wrong: tuple[Callable[[], bytes], ...] = (
        lambda: card("N", float("nan")),
        lambda: card("N", "x" * 69),
        lambda: comment("x" * 73),
    )
    for make in wrong:
        with pytest.raises(ValueError, match=r"no FITS card can hold|too long for one"):
            make()


def test_tables_take_vectors_texts_and_several_rows(tmp_path: Path) -> None:
    rows = np.array([(1, b"ab", [1.5, 2.5]), (2, b"", [3.5, 4.5])], dtype=[("i", "i8"), ("s", "S4"), ("v", "f4", (2,))])
    (tmp_path / "t.fits").write_bytes(primary(()) + table("T", rows))
    with fits.open(tmp_path / "t.fits") as hdus:
        found = hdus["T"].data
        assert hdus["T"].columns.formats == ["K", "4A", "2E"]
        assert found["i"].tolist() == [1, 2]
        assert found["s"].tolist() == ["ab", ""]
        assert found["v"].tolist() == [[1.5, 2.5], [3.5, 4.5]]


def test_a_designation_is_that_which_lamost_made_of_the_same_position() -> None:
    assert sexagesimal(seen("lamost")) == "J220848.54-020324.3"
    assert sexagesimal(seen("lamost", ra=359.9999999, dec=59.9999999)) == "J235959.99+595959.9"
