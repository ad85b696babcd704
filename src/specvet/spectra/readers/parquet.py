"""Parquet: one spectrum a row (`parquet`, among them SpecVI-Bench), or one a file with a pixel a row.

Values go from Arrow's buffers into numpy without becoming Python numbers, a batch of rows at a time; columns that are
no part of a spectrum (images, prompts) are never read.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import Opened
from specvet.spectra.readers.building import as_bits, as_float, build, ivar_of
from specvet.spectra.readers.columns import Role, from_log10, in_angstrom, medium_in, roles, unit_in_name
from specvet.spectra.readers.lamost import JOIN
from specvet.spectra.readers.tidy import ID_NAMES, spectra_by_id
from specvet.spectra.readers.values import identifier, stem, text
from specvet.spectra.record import facts
from specvet.spectra.spectrum import Spectrum

MAX_VALUES = 2**27
"""Most numbers of one role (wavelength, flux) in a file: 1 GiB, or 34,000 LAMOST spectra."""

_BATCH = 128
_TOOL = "extra_info.tools_kwargs.spectral_visualization_tool.create_kwargs."
"""Where SpecVI-Bench (huggingface.co/datasets/Maxwell-Jia/SpecVI-Bench) keeps wavelength, flux and redshift."""

_LAMOST_NAME = re.compile(r"spec-\d{5}-.+_sp\d{2}-\d{3}")
_MAX_FACTS = 400
"""Most columns of single values that are looked at."""


@dataclass(frozen=True)
class _Columns:
    roles: dict[Role, str]
    """Role → dotted path of a column of lists, or of numbers where a row is a pixel."""
    facts: dict[str, str]
    """Name in lower case → dotted path of a column of single values."""
    lists: bool
    notes: tuple[str, ...] = ()
    """On spectra of other structs, which are not read."""


def read_parquet(plain: Opened) -> list[Spectrum]:
    """One entry a row with lists, one in all where rows are pixels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(plain.stream)
        columns = _columns(file.schema_arrow, plain.file)
        _check_size(file, columns, plain.file)
        return _rows(file, columns, plain.file) if columns.lists else _pixels(file, columns, plain.file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SpectrumReadError(plain.file, f"the Parquet file is damaged ({error}); download it again") from None


def _columns(schema: Any, file: str) -> _Columns:
    """What the leaves of the schema are; wavelength and flux must be side by side, in one struct or outside of all."""
    import pyarrow.types as of

    def is_list(kind: Any) -> bool:
        return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind))

    leaves: list[tuple[str, Any]] = []
    pending = [(field.name, field.type, 0) for field in schema]
    while pending:
        path, kind, depth = pending.pop(0)
        if of.is_struct(kind) and depth < 8:
            pending += [(f"{path}.{child.name}", child.type, depth + 1) for child in kind]
        else:
            leaves.append((path, kind))
    repeated = {path for path, n in Counter(path for path, _ in leaves).items() if n > 1}
    for lists in (True, False):
        numbers = [
            (path, kind)
            for path, kind in leaves
            if is_list(kind) == lists and _is_number(kind.value_type if is_list(kind) else kind)
        ]
        folders = [_in_folder(folder, numbers) for folder in dict.fromkeys(p.rpartition(".")[0] for p, _ in numbers)]
        spectra = [found for found in folders if "flux" in found and ("wavelength" in found or "loglam" in found)]
        for found in spectra:
            if found is spectra[0]:
                others = [other["flux"].rpartition(".")[0] for other in spectra[1:]]
                notes = (f"further spectra of each row ignored: {', '.join(others)[:200]}",) if others else ()
                if twice := repeated.intersection(found.values()):
                    raise SpectrumReadError(file, f"a Parquet file with two columns {min(twice)}; rename one")
                unused = repeated.union(found.values())
                single = [p for p, k in leaves if not is_list(k) and p not in unused and _is_fact(k)]
                named = {p.rpartition(".")[2].lower(): p for p in reversed(single[:_MAX_FACTS])}
                return _Columns(found, named, lists, notes)
    if any(path.lower().rpartition(".")[2] in ("path", "file", "filename") for path, _ in leaves):
        raise SpectrumReadError(file, "a Parquet list of files, not spectra; vet it as a list: specvet vet LIST")
    have = ", ".join(path for path, _ in leaves)
    problem = f"a Parquet file without columns of wavelength and flux side by side (it has: {have[:300]})"
    raise SpectrumReadError(file, problem)


def _in_folder(folder: str, numbers: list[tuple[str, Any]]) -> dict[Role, str]:
    """Role → path of the columns of one struct."""
    paths = [path for path, _ in numbers if path.rpartition(".")[0] == folder]
    return {role: paths[index] for role, index in roles([path.rpartition(".")[2] for path in paths]).items()}


def _is_number(kind: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_integer(kind) or of.is_floating(kind))


def _is_fact(kind: Any) -> bool:
    import pyarrow.types as of

    if of.is_dictionary(kind):
        kind = kind.value_type
    if _is_number(kind) or of.is_decimal(kind) or of.is_boolean(kind):
        return True
    names = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary")
    return any(getattr(of, f"is_{name}", _never)(kind) for name in names)


def _never(kind: Any) -> bool:
    """For types that an older pyarrow does not have."""
    return False


def _check_size(file: Any, columns: _Columns, name: str) -> None:
    """What the footer says of the values of each column, before any is unpacked."""
    if file.metadata.num_rows == 0:
        raise SpectrumReadError(name, "the Parquet file has no rows")
    wanted = set(columns.roles.values())
    totals: dict[str, int] = {}
    for group in range(file.metadata.num_row_groups):
        meta = file.metadata.row_group(group)
        for index in range(meta.num_columns):
            column = meta.column(index)
            path = re.sub(r"\.list\.(?:element|item)$|\.bag\.array_element$", "", column.path_in_schema)
            if path in wanted:
                totals[path] = totals.get(path, 0) + column.num_values
    if totals and max(totals.values()) > MAX_VALUES:
        raise SpectrumReadError(name, f"{max(totals.values())} values in one column; {MAX_VALUES} are read, split it")


def _values(array: Any) -> NDArray[Any]:
    """An Arrow array of numbers as numpy, nulls as NaN; a copy, which does not hold on to Arrow's buffers."""
    return np.array(array.to_numpy(zero_copy_only=False))


def _leaf(batch: Any, path: str) -> Any:
    """The column below a dotted path of a record batch."""
    import pyarrow.compute as pc

    head, *rest = path.split(".")
    column = batch.column(head)
    return pc.struct_field(column, rest) if rest else column


def _rows(file: Any, columns: _Columns, name: str) -> list[Spectrum]:
    paths = [*columns.roles.values(), *columns.facts.values()]
    bench = any(path.startswith(_TOOL) for path in columns.roles.values())
    out: list[Spectrum] = []
    for batch in file.iter_batches(batch_size=_BATCH, columns=paths, use_threads=False):
        lists = {role: _leaf(batch, path) for role, path in columns.roles.items()}
        cells = {key: _leaf(batch, path).to_pylist() for key, path in columns.facts.items()}
        for row in range(batch.num_rows):
            arrays = {
                role: _values(array[row].values) for role, array in lists.items() if array[row].values is not None
            }
            out.append(_spectrum(arrays, {k: v[row] for k, v in cells.items()}, columns, name, len(out), bench))
    return out


def _pixels(file: Any, columns: _Columns, name: str) -> list[Spectrum]:
    """The spectrum of a file with a pixel a row, or those that a column of identifiers tells apart."""
    told = {key: path for key, path in columns.facts.items() if key in ID_NAMES}
    table = file.read(columns=[*columns.roles.values(), *told.values()], use_threads=False)
    arrays = {role: _values(_leaf(table, path)) for role, path in columns.roles.items()}
    ids = {key: np.array([identifier(v) for v in _leaf(table, path).to_pylist()]) for key, path in told.items()}
    axis = arrays.get("wavelength", arrays.get("loglam"))
    parts = spectra_by_id(ids, axis) if axis is not None and ids else None
    if parts is None:
        cells = {key: values[0] for key, values in ids.items() if values.size and bool((values == values[0]).all())}
        return [_spectrum(arrays, cells, columns, name, 0, False, alone=True)]
    key, blocks = parts
    return [
        _spectrum({role: values[rows] for role, values in arrays.items()}, {key: own}, columns, name, place, False)
        for place, (own, rows) in enumerate(blocks)
    ]


def _spectrum(
    arrays: dict[Role, NDArray[Any]],
    cells: dict[str, Any],
    columns: _Columns,
    file: str,
    row: int,
    bench: bool,
    *,
    alone: bool = False,
) -> Spectrum:
    if "flux" not in arrays or not ("wavelength" in arrays or "loglam" in arrays):
        raise SpectrumReadError(file, f"row {row} has no wavelength or no flux (null); leave the row out")
    fields = facts(cells)
    notes = list(columns.notes)
    if "wavelength" in arrays:
        leaf = columns.roles["wavelength"].rpartition(".")[2]
        wavelength = in_angstrom(as_float(arrays["wavelength"]), unit_in_name(leaf), file, notes)
        if fields["medium"] == "unknown":
            fields["medium"] = medium_in(leaf.replace("_", " "))
    else:
        wavelength = from_log10(arrays["loglam"], file)
    ivar = ivar_of(arrays)
    if bench:
        fields |= _bench(cells, fields)
    fields["id"] = fields["id"] or stem(file)
    mask = as_bits(arrays["mask"]) if "mask" in arrays else None
    return build(
        file,
        wavelength,
        arrays["flux"],
        ivar=ivar,
        mask=mask,
        warnings=notes,
        keep_dead=not alone,
        row=row,
        layout="parquet",
        **fields,
    )


def _bench(cells: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """What SpecVI-Bench says of a row: LAMOST's file name, an index, and a redshift whose source it does not state."""
    name, index = text(cells.get("name")), text(cells.get("index"))
    ids = {key: value for key, value in (("name", name), ("index", index)) if value}
    stated = fields["redshift"]
    out = {"ids": fields["ids"] | ids, "id": name or index or fields["id"], "release": "SpecVI-Bench"}
    if stated.value is not None:
        out["redshift"] = type(stated)(stated.value, stated.error, "SpecVI-Bench redshift", stated.warning)
    if _LAMOST_NAME.match(name):
        # Vacuum, heliocentric, R 1800, relative fluxes, as every LAMOST low-resolution spectrum (readers/lamost.py).
        out |= {
            "survey": "LAMOST",
            "medium": "vacuum",
            "frame": "heliocentric",
            "calibration": "relative",
            "resolution": 1800.0,
            "joins": (JOIN,),
        }
    return out
