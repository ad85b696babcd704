"""`specvet plot`: draw a spectrum, or windows of it, exactly as an agent sees them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.failure import CANNOT_WRITE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.spectra import Spectrum

_NUMBER = r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


def plot(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A spectrum file.")],
    *,
    row: Annotated[int | None, typer.Option("--row", min=0, help="Which spectrum of the file, counted from 0.")] = None,
    window: Annotated[
        list[str] | None,
        typer.Option("--window", metavar="LOW-HIGH", help="Range in Å (also: LOW HIGH); may be given several times."),
    ] = None,
    z: Annotated[float | None, typer.Option("--z", help="Your own redshift, taken out as given.")] = None,
    frame: Annotated[
        str, typer.Option("--frame", metavar="careful|published|observed", help="When to take the file's redshift out.")
    ] = "careful",
    style: Annotated[
        str, typer.Option("--style", metavar="reference|compact", help="The published figure, or the small one.")
    ] = "reference",
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="small|published|tiny|WxH", help="Of the compact style, such as 448x280."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="PNG to write; by default named after the file, here.")
    ] = None,
) -> None:
    """Draw a spectrum, or windows of it, to PNG.

    The picture is exactly what an agent sees: the published figure, or with --style compact the small one for models
    (full views of 448 x 280 and zooms of 308 x 224 pixels, which Qwen2.5-VL takes unresized, or with --size published
    896 x 448 and 672 x 448, which Qwen3-VL and Qwen3.5 take too). With several --window each goes to a file of its own.
    A file's own redshift is taken out for stars only (careful), always (published) or never (observed), and the output
    says which.
    """
    windows = [parse_window(text) for text in window or []]
    mode = frame_mode(frame)
    from specvet.records.files import write_atomic
    from specvet.spectra import SpectrumReadError, read
    from specvet.tools import ZoomTool
    from specvet.views import REFERENCE_STYLE

    chosen_style, chosen_size = figure_style(style), figure_size(size)
    with failing(NOTHING_VETTED, SpectrumReadError):
        spectra = read(file)
    spectrum = _chosen(file, spectra, row)
    with failing(USAGE, ValueError):
        tool = ZoomTool(spectrum, mode, z, style=chosen_style, size=chosen_size)  # type: ignore[arg-type]
    views: list[tuple[float, float] | None] = list(windows) or [None]
    for chosen in views:
        seen = tool.opening() if chosen is None else tool({"wavelength_range": list(chosen)})
        if seen.view is None:
            raise CommandError(f"{file}: {seen.text.removeprefix('Error: ')}", NOTHING_VETTED)
        which = (None if len(spectra) == 1 else spectrum.row, chosen, tool.style != REFERENCE_STYLE)
        target = _target(out, file, *which, several=len(windows) > 1)
        with failing(CANNOT_WRITE, OSError):
            write_atomic(target, seen.view.png)
        width, height = seen.view.size
        what = "full" if chosen is None else f"{chosen[0]:g}-{chosen[1]:g} Å"
        print(f"{target}: {what}, {seen.view.n_points} points, {width} x {height} pixels, {tool.frame.text}")


def parse_window(text: str) -> tuple[float, float]:
    """(low, high) in Å of `6400-6700`, `6400,6700`, `6400:6700` or `6400 6700`."""
    match = re.fullmatch(rf"\s*({_NUMBER})\s*[-–,:\s]\s*({_NUMBER})\s*", text)
    if not match:
        raise CommandError(f"--window {text}: give two wavelengths in Å, such as 6400-6700", USAGE)
    low, high = float(match[1]), float(match[2])
    if not 0 < low < high:
        raise CommandError(f"--window {text}: the first wavelength must be above 0 and below the second", USAGE)
    return low, high


def frame_mode(text: str) -> str:
    """One of the frame modes."""
    if text not in ("careful", "published", "observed"):
        raise CommandError(f"--frame {text}: choose careful, published or observed", USAGE)
    return text


def figure_style(text: str) -> str:
    """The style that `reference` or `compact` stands for."""
    from specvet.views import COMPACT_STYLE, REFERENCE_STYLE

    styles = {"reference": REFERENCE_STYLE, "compact": COMPACT_STYLE}
    if text not in styles and text not in styles.values():
        raise CommandError(f"--style {text}: choose reference or compact", USAGE)
    return styles.get(text, text)


def figure_size(text: str | None) -> str | tuple[int, int] | None:
    """(width, height) of `448x280`; names stay as they are."""
    from specvet.views import picture_size

    return picture_size(text)


def join_windows(arguments: list[str]) -> list[str]:
    """`--window 6400 6700` as `--window 6400-6700`, since an option takes one value here."""
    joined: list[str] = []
    for argument in arguments:
        two_back = joined[-2:]
        if (
            len(two_back) == 2
            and two_back[0] == "--window"
            and re.fullmatch(_NUMBER, two_back[1])
            and re.fullmatch(_NUMBER, argument)
        ):
            joined[-1] += f"-{argument}"
        else:
            joined.append(argument)
    return joined


def _chosen(file: str, spectra: list[Spectrum], row: int | None) -> Spectrum:
    from specvet.cli.console import say

    if row is None and len(spectra) > 1:
        say(f"{file}: holds {len(spectra)} spectra; drawing row 0, choose another with --row")
    if not spectra or (row or 0) >= len(spectra):
        raise CommandError(f"{file}: there is no row {row}; it holds {len(spectra)} spectra, counted from 0", USAGE)
    return spectra[row or 0]


def _target(
    out: str | None, file: str, row: int | None, window: tuple[float, float] | None, compact: bool, *, several: bool
) -> str:
    part = f"-{window[0]:.12g}-{window[1]:.12g}" if window else ""
    if out is not None:
        if not several:
            return out
        stem, suffix = os.path.splitext(out)
        return f"{stem}{part}{suffix}"
    stem = re.sub(r"\.(fits?|txt|dat|csv|npz|spec|ascii|gz|bz2|xz)$", "", os.path.basename(file), flags=re.IGNORECASE)
    stem = re.sub(r"\.(fits?|txt|dat|csv|npz|spec|ascii)$", "", stem, flags=re.IGNORECASE)
    return f"{stem}{'' if row is None else f'-row{row}'}{part}{'-compact' if compact else ''}.png"
