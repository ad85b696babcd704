"""A format of one's own is one function, as CONTRIBUTING.md shows: the code there is run here."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits

from specvet.spectra import SpectrumReadError, read, readers

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def mysurvey(name: str = "SPEC", flux=(1.0, 2.0, 3.0)) -> bytes:
    columns = [
        fits.Column("LAM", "D", array=np.array([5000.0, 5001.0, 5002.0])),
        fits.Column("FLUX", "E", array=np.array(flux)),
        fits.Column("IVAR", "E", array=np.array([4.0, -1.0, 4.0])),
    ]
    table = fits.BinTableHDU.from_columns(columns, name=name)
    return make.as_bytes(make.with_cards(fits.PrimaryHDU(), {"OBJECT": "star 7"}), table)


@pytest.fixture
def registered(monkeypatch):
    """The function of CONTRIBUTING.md, registered for one test."""
    monkeypatch.setattr(readers, "FITS_READERS", list(readers.FITS_READERS))
    section = GUIDE.read_text(encoding="utf-8").split("## Add a file format")[1].split("\n## ")[0]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") or not line.strip())
    assert "def mysurvey(" in code
    names: dict = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    return names["mysurvey"]


def test_the_function_of_the_guide_reads_its_format(registered):
    (spectrum,) = read(mysurvey(), name="a.fits")
    assert (spectrum.layout, spectrum.survey, spectrum.medium) == ("mysurvey", "MySurvey", "vacuum")
    assert spectrum.wavelength.tolist() == [5000.0, 5001.0, 5002.0]
    assert spectrum.ivar.tolist() == [4.0, 0.0, 4.0]
    assert spectrum.id == "star 7"


def test_it_leaves_other_files_to_the_other_readers(registered):
    assert read(make.lamost_image())[0].layout == "lamost-lrs-image"
    assert read(mysurvey(name="OTHER"))[0].layout == "table"
    assert registered.__name__ == "mysurvey"


def test_what_it_cannot_read_is_a_read_error_with_the_files_name(registered):
    with pytest.raises(SpectrumReadError, match=r"cut.fits: truncated"):
        read(mysurvey()[:-2880], name="cut.fits")
    with pytest.raises(SpectrumReadError, match=r"b.fits: no flux value is finite"):
        read(mysurvey(flux=(np.nan,) * 3), name="b.fits")


def test_without_registration_the_format_is_read_as_the_table_that_it_is():
    (spectrum,) = read(mysurvey())
    assert (spectrum.layout, spectrum.survey) == ("table", "unknown")


def test_every_reader_is_one_function_with_a_docstring_that_names_its_layout():
    for reader in readers.FITS_READERS:
        assert reader.__doc__, reader
        assert re.search(r"[Ll]ayout|raises", reader.__doc__) or "own" in reader.__module__, reader.__module__
