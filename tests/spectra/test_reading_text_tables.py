"""Text tables of a standard (ECSV, VOTable, IPAC, CDS, MRT), other delimiters, and several spectra in one text."""

from __future__ import annotations

import io

import numpy as np
import pytest
from astropy import units as u
from astropy.table import Column, MaskedColumn, Table

from specvet.spectra import SpectrumReadError, read

GRID = 4000.0 + 0.5 * np.arange(60)
FLUX = 1.0 + 0.01 * np.arange(60)


def only(content: str | bytes, name: str = "star.dat"):
    (spectrum,) = read(content if isinstance(content, bytes) else content.encode(), name=name)
    return spectrum


def table() -> Table:
    out = Table()
    out["wavelength"] = Column(GRID / 10, unit=u.nm)
    out["flux"] = MaskedColumn(FLUX, mask=np.arange(60) == 3, unit=u.Unit("erg / (s cm2 Angstrom)"))
    out["error"] = Column(np.full(60, 0.5), unit=out["flux"].unit)
    out["quality"] = np.arange(60, dtype=np.int16)
    out["label"] = ["good"] * 60
    out.meta = {"OBJECT": "UZ Boo", "RA": 221.0, "DEC": 22.01, "VACUUM": "True"}
    return out


def written(what: Table, kind: str, **options) -> str:
    out = io.StringIO()
    what.write(out, format=kind, **options)
    return out.getvalue()


def test_ecsv_gives_units_masks_and_metadata():
    spectrum = only(written(table(), "ascii.ecsv"))
    np.testing.assert_allclose(spectrum.wavelength, GRID)
    assert np.isnan(spectrum.flux[3])
    assert (spectrum.ivar[2], spectrum.ivar[3], spectrum.mask[7]) == (4.0, 0.0, 7)
    assert (spectrum.flux_unit, spectrum.id, spectrum.medium) == ("erg / (Angstrom s cm2)", "UZ Boo", "vacuum")
    assert (spectrum.ra, spectrum.dec) == (221.0, 22.01)
    assert spectrum.warnings == ("columns without numbers ignored: label",)


def test_votable_gives_the_same():
    out = io.BytesIO()
    plain = table()
    plain.remove_column("label")
    plain.write(out, format="votable")
    spectrum = only(out.getvalue())
    np.testing.assert_allclose(spectrum.wavelength, GRID)
    assert (spectrum.ivar[2], np.isnan(spectrum.flux[3])) == (4.0, True)


def test_ipac_gives_the_same():
    plain = table()
    plain.meta = {"keywords": {"OBJECT": {"value": "UZ Boo"}}}
    spectrum = only(written(plain, "ascii.ipac"))
    np.testing.assert_allclose(spectrum.wavelength, GRID)
    assert (spectrum.id, spectrum.ivar[2], np.isnan(spectrum.flux[3])) == ("UZ Boo", 4.0, True)


def test_machine_readable_tables_are_read_by_their_byte_description():
    plain = table()
    plain.remove_columns(["label", "quality"])
    plain.meta = {}
    spectrum = only(written(plain, "ascii.mrt"))
    np.testing.assert_allclose(spectrum.wavelength, GRID)
    assert spectrum.ivar[2] == 4.0


CDS = """\
Byte-by-byte Description of file: spec.dat
--------------------------------------------------------------------------------
   Bytes Format Units   Label     Explanations
--------------------------------------------------------------------------------
   1-  7 F7.2   0.1nm   lambda    Wavelength in air
   9- 14 F6.3   ---     Flux      Normalised flux
--------------------------------------------------------------------------------
"""


def test_a_cds_file_with_touching_widths_is_split_by_its_description():
    body = "\n".join(
        f"{w:7.2f}{'' if w > 4010 else ' '}{f:{7 if w > 4010 else 6}.3f}" for w, f in zip(GRID, FLUX, strict=True)
    )
    spectrum = only(CDS + body + "\n")
    np.testing.assert_allclose(spectrum.wavelength, GRID)
    np.testing.assert_allclose(spectrum.flux, FLUX, atol=5e-4)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("# %ECSV 1.0\n# ---\n# nonsense\nwavelength flux\n1 2\n", "ECSV table cannot be read"),
        ('<?xml version="1.0"?>\n<VOTABLE version="1.3"><RESOURCE><TABLE>', "VOTable table cannot be read"),
        (
            "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: string}\n# schema: astropy-2.0\na\nb\n",
            "no columns of numbers",
        ),
    ],
)
def test_a_damaged_standard_table_is_refused_with_its_standard(content, reason):
    with pytest.raises(SpectrumReadError, match=reason):
        read(content.encode(), name="t.txt")


@pytest.mark.parametrize(
    "content",
    [b"<!-- a -->" * 1900, b"wavelength flux\n" + b"x" * 60_000, b"# " + b"wave in " * 5_000 + b"\n1 2\n"],
    ids=["comments", "one word", "one comment"],
)
def test_text_that_tempts_a_pattern_to_try_everything_is_refused_at_once(content):
    with pytest.raises(SpectrumReadError):
        read(content, name="a.txt")


@pytest.mark.parametrize("mark", ["|", ";", "\t", ","])
def test_a_header_and_any_delimiter_are_understood(mark):
    rows = "\n".join(mark.join(map(str, row)) for row in zip(GRID, FLUX, [2.0] * 60, [5] * 60, strict=True))
    spectrum = only(mark.join(("Wave", "Flux", "Sigma", "Mask")) + "\n" + rows + "\n")
    np.testing.assert_allclose(spectrum.flux, FLUX)
    assert (spectrum.ivar[0], spectrum.mask[0]) == (0.25, 5)


def test_decimal_commas_between_semicolons_are_decimals():
    rows = "\n".join(f"{w};{f:.2f}".replace(".", ",") for w, f in zip(GRID, FLUX, strict=True))
    spectrum = only("wavelength;flux\n" + rows + "\n")
    np.testing.assert_allclose(spectrum.wavelength, GRID)
    np.testing.assert_allclose(spectrum.flux, FLUX)


@pytest.mark.parametrize("mark", [",\t", ", ", "; ", " | "])
def test_two_marks_in_a_row_part_two_numbers_all_the_same(mark):
    spectrum = only("\n".join(f"{w}{mark}{f}" for w, f in zip(GRID, FLUX, strict=True)) + "\n")
    np.testing.assert_allclose(spectrum.flux, FLUX)


def test_an_inverse_variance_goes_before_an_error_and_the_rest_is_named():
    names = "wave flux err ivar mask sky"
    rows = "\n".join(
        " ".join(map(str, row)) for row in zip(GRID, FLUX, [9.0] * 60, [4.0] * 60, [1] * 60, [7.5] * 60, strict=True)
    )
    spectrum = only(f"# {names}\n{rows}\n")
    assert (spectrum.ivar[0], spectrum.mask[0]) == (4.0, 1)
    assert "column 6 (sky) ignored" in spectrum.warnings


def several(*columns) -> str:
    wave = 4000.0 + 2.0 * np.arange(100)
    return "\n".join(" ".join(f"{v:.6g}" for v in row) for row in zip(wave, *columns, strict=True)) + "\n"


SHAPE = 1.0 + 0.5 * np.sin(np.arange(100) / 9.0)


def test_columns_that_are_alike_are_one_spectrum_each():
    found = read(several(SHAPE, SHAPE * 1.1, SHAPE * 0.9, SHAPE * 2).encode(), name="agb.spec")
    assert [(s.row, s.id) for s in found] == [(i, f"agb column {i + 2}") for i in range(4)]
    np.testing.assert_allclose(found[3].flux, SHAPE * 2, rtol=1e-5)
    assert found[1].warnings[0] == "column 3 is not named: read as one of 4 spectra over one wavelength column"


@pytest.mark.parametrize(
    "columns",
    [
        (SHAPE, SHAPE * 0.001, SHAPE, SHAPE),  # an error a thousandth of the flux
        (SHAPE, np.arange(100) % 2, SHAPE, SHAPE),  # a mask
        (SHAPE, np.full(100, 0.5), SHAPE, SHAPE),  # a constant
        (SHAPE, -SHAPE + 3, SHAPE, SHAPE),  # goes the other way
    ],
)
def test_columns_that_are_not_alike_are_refused(columns):
    with pytest.raises(SpectrumReadError, match="unnamed columns that are not alike"):
        read(several(*columns).encode())
