"""`specvet show`: what a file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.records.schema import Measurement
    from specvet.spectra import Spectrum


def show(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Spectrum files, folders or quoted globs.")],
    *,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", metavar="NAME", help="Measure a line: Hα, 'He II 4686', 6562.8. May be repeated."),
    ] = None,
    z: Annotated[float, typer.Option("--z", help="Redshift at which to look for lines.")] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each spectrum.")] = False,
) -> None:
    """Show what spectrum files hold, and what spectral lines measure.

    A file that cannot be read is named on stderr with the reason; the others are shown, and the exit code is 1.
    --line gives equivalent width (positive in absorption, negative in emission), velocity and FWHM with 1σ errors, or
    why they cannot be measured. A wavelength is in Å, in the spectrum's own medium.
    """
    wanted = [_line(name) for name in line or []]
    if not -1 < z < float("inf"):
        raise CommandError(f"--z {z}: a redshift is a number above -1", USAGE)
    from specvet.vetting.inputs import InputError, expand_inputs

    with failing(USAGE if len(files) > 1 else 1, InputError):
        items = expand_inputs(files, lists=False)
    from specvet.spectra import SpectrumReadError, read

    for notice in items.notices:
        say(notice)
    refused = 0
    for item in items:
        try:
            if item.problem:
                raise SpectrumReadError(item.file, item.problem)
            spectra = read(item.file)
        except SpectrumReadError as e:
            refused += 1
            say(str(e))
            continue
        if json:
            for spectrum in spectra:
                print_json(described(spectrum) | ({"lines": _lines(spectrum, wanted, z)} if wanted else {}))
        elif spectra:
            _print_file(item.file, spectra)
            _print_lines(spectra, wanted, z)
    if refused:
        raise typer.Exit(1)


def _line(text: str) -> str | float:
    """A name of the line list, or a wavelength in Å."""
    from specvet.spectra import spectral_line

    try:
        return float(text)
    except ValueError:
        with failing(USAGE, ValueError):
            return spectral_line(text).name


def _lines(spectrum: Spectrum, wanted: list[str | float], z: float) -> dict[str, Any]:
    from specvet.spectra import measure_line

    found = [measure_line(spectrum, line, z) for line in wanted]
    return {m.line.name: {part.index.split("/")[-1]: _number(part) for part in m.measurements} for m in found}


def _number(m: Measurement) -> dict[str, Any]:
    return {"value": m.value, "error": m.error, "unit": m.unit, "note": m.note}


def _print_lines(spectra: list[Spectrum], wanted: list[str | float], z: float) -> None:
    from specvet.spectra import measure_line

    for spectrum in spectra if wanted else ():
        which = f"row {spectrum.row}, " if len(spectra) > 1 else ""
        for line in wanted:
            print(f"  {which}{measure_line(spectrum, line, z)}")


def described(s: Spectrum) -> dict[str, Any]:
    """What `--json` says of a spectrum; wavelengths in Å, ra and dec in degrees, NaN as NaN."""
    return {
        "file": s.file,
        "row": s.row,
        "survey": s.survey,
        "layout": s.layout,
        "n_pix": s.n_pix,
        "wave_min": s.wave_min,
        "wave_max": s.wave_max,
        "medium": s.medium,
        "z": s.redshift.value,
        "id": s.id,
        "warnings": list(s.warnings),
        "ra": s.ra,
        "dec": s.dec,
        "mjd": s.mjd,
        "snr": s.snr,
        "n_good": int(s.good.sum()),
        "flux_unit": s.flux_unit,
        "calibration": s.calibration,
        "resolution": s.resolution,
        "frame": s.frame,
        "class": s.pipeline_class,
        "subclass": s.pipeline_subclass,
        "z_error": s.redshift.error,
        "z_source": s.redshift.source,
        "z_warning": s.redshift.warning,
        "joins": [[j.low, j.high, j.label] for j in s.joins],
        "ids": dict(s.ids),
        "release": s.release,
        "reduction": s.reduction,
        "n_exposures": s.n_exposures,
    }


def _print_file(file: str, spectra: list[Spectrum]) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(file, style="bold"), soft_wrap=True)
    if len(spectra) > 1:
        _print_table(spectra)
        return
    for name, value in _facts(spectra[0]):
        out.print(Text(f"  {name:<12}", style="dim") + Text(value), soft_wrap=True)
    out.print()


def _print_table(spectra: list[Spectrum]) -> None:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table

    first = spectra[0]
    out = console()
    out.print(f"  {first.survey} · {first.layout} · {len(spectra)} spectra · {first.medium}", style="dim")
    columns = {
        "row": [str(s.row) for s in spectra],
        "pixels": [str(s.n_pix) for s in spectra],
        "Å": [_span(s) for s in spectra],
        "S/N": ["" if s.snr is None else f"{s.snr:.1f}" for s in spectra],
        "z": ["" if s.redshift.value is None else f"{s.redshift.value:.5f}" for s in spectra],
        "class": [f"{s.pipeline_class} {s.pipeline_subclass}".strip() for s in spectra],
        "id": [s.id for s in spectra],
    }
    shown = {name: values for name, values in columns.items() if any(values)}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False)
    for name in shown:
        table.add_column(name, justify="left" if name in ("Å", "class", "id") else "right", no_wrap=name != "class")
    for values in zip(*shown.values(), strict=True):
        table.add_row(*values)
    out.print(table)
    warned: dict[str, list[str]] = {}
    for s in spectra:
        for warning in s.warnings:
            warned.setdefault(warning, []).append(str(s.row))
    for warning, rows in warned.items():
        where = "all rows" if len(rows) == len(spectra) else f"row{'s' if len(rows) > 1 else ''} {', '.join(rows)}"
        out.print(Padding(f"{where}: {warning}", (0, 0, 0, 2), expand=False), style="yellow")
    out.print()


def _facts(s: Spectrum) -> list[tuple[str, str]]:
    """What a person wants to know of one spectrum, empty facts left out."""
    z = s.redshift
    redshift = "none stated"
    if z.value is not None:
        error = f" ± {z.error:.1g}" if z.error else ""
        redshift = f"{z.value:.6f}{error} (cz = {z.velocity_km_s:.0f} km/s, {z.source or 'stated'})"
        redshift += f"; {z.warning}" if z.warning else ""
    bad = s.n_pix - int(s.good.sum())
    error_array = "" if s.ivar is not None else ", no error array"
    medium = {"unknown": "air or vacuum unknown"}.get(s.medium, s.medium)
    frame = "" if s.frame == "unknown" else f", {s.frame}"
    calibration = {"unknown": "calibration unknown"}.get(s.calibration, s.calibration)
    facts = [
        ("id", s.id),
        ("survey", " · ".join(filter(None, ["" if s.survey == "unknown" else s.survey, s.release, s.layout]))),
        ("wavelength", f"{_span(s)} Å, {medium}{frame}"),
        ("pixels", f"{s.n_pix}{f', {bad} bad' if bad else ''}{error_array}"),
        (
            "S/N",
            "" if s.snr is None else f"{s.snr:.1f} a pixel (median{'' if s.ivar is not None else ', from scatter'})",
        ),
        ("flux", ", ".join(filter(None, [s.flux_unit, calibration]))),
        ("redshift", redshift),
        ("class", f"{s.pipeline_class} {s.pipeline_subclass}".strip()),
        ("position", "" if s.ra is None or s.dec is None else f"{s.ra:.5f} {s.dec:+.5f}"),
        ("MJD", "" if s.mjd is None else f"{s.mjd:g}"),
        ("exposures", f"{s.n_exposures} in the file (specvet.exposures)" if s.n_exposures else ""),
        ("arm joins", ", ".join(f"{j.low:.0f}-{j.high:.0f} Å ({j.label})" for j in s.joins)),
        ("warning", "; ".join(s.warnings)),
    ]
    return [(name, value) for name, value in facts if value]


def _span(s: Spectrum) -> str:
    return f"{s.wave_min:.0f}-{s.wave_max:.0f}" if s.n_pix else "no pixels"
