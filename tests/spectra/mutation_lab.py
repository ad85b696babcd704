"""Files damaged in ways that their formats know: cards, tokens, members and streams, not only bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fits_mutation_lab import BLOCK, FITS_MUTATIONS

WORDS = (
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1",
    "0",
    "",
    "1e-400",
    "4000",
    "4000.0",
    "abc",
    "#",
    "é",
    "\x00",
    "1_000",
    "0x10",
)
LINES = (
    *(
        "# wavelength flux",
        "# wave (nm) flux error",
        "wavelength,flux,ivar",
        "# %ECSV 1.0",
        "---",
        "\ufeff",
        "# SIMULATED",
    ),
    *(
        "wave\tflux",
        "# z: 0.1",
        "# ra: 1 dec: 2",
        "# column 3: ivar",
        "loglam flux ivar",
        "a b c d e f g h",
        "1 2 3 4 5 6 7",
    ),
)

Mutation = Callable[[bytes, Random, list[bytes]], bytes]


def mutated(data: bytes, rng: Random, others: list[bytes] | None = None) -> bytes:
    """`data` with one to four changes; `others` are files from which parts may come."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        kind = kind_of(data)
        own = MUTATIONS.get(kind, MUTATIONS["text"])
        change = rng.choice(own) if rng.random() < 0.85 else rng.choice(MUTATIONS["any"])
        try:
            data = change(data, rng, others or []) or data
        except Exception:  # what is damaged already cannot always be taken apart again
            data = _bytes_changed(data, rng, [])
    return data


def kind_of(data: bytes) -> str:
    """`fits`, `zip`, `parquet`, `packed` or `text`, by the first bytes."""
    for magic, kind in ((b"SIMPLE", "fits"), (b"PK", "zip"), (b"PAR1", "parquet")):
        if data.startswith(magic):
            return kind
    return "packed" if data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")) else "text"


def _lines_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    index = rng.randrange(len(lines))
    what = rng.randrange(7)
    if what == 0:
        del lines[index : index + rng.choice((1, 1, 5, 1000))]
    elif what == 1:
        lines.insert(index, rng.choice(LINES).encode())
    elif what == 2:
        lines[:0] = [rng.choice(LINES).encode()]
    elif what == 3:
        lines.insert(rng.randrange(len(lines)), lines[index])
    elif what == 4:
        rng.shuffle(lines)
    elif what == 5:
        lines = [line + rng.choice((b" 1", b" nan", b",", b" x", b"\r")) for line in lines]
    else:
        other = [o for o in others if kind_of(o) == "text"]
        lines[index:index] = rng.choice(other).split(b"\n")[: rng.randrange(1, 20)] if other else []
    return b"\n".join(lines)


def _tokens_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    tokens = list(re.finditer(rb"[^\s,;|<>=\"]+", data[:100_000]))
    token = rng.choice(tokens[: rng.choice((10, 50, len(tokens)))])
    word = rng.choice(tokens)[0] if rng.random() < 0.3 else rng.choice(WORDS).encode()
    if rng.random() < 0.1:
        return data.replace(token[0], word)
    return data[: token.start()] + word + data[token.end() :]


def _delimiters_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    old = rng.choice((b" ", b",", b"\t", b"\n", b".", b";"))
    return data.replace(old, rng.choice((b" ", b",", b"\t", b"\r", b"\r\n", b";", b"|", b"", b"\x0b", b"  ")))


def _encoding_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    words = data.decode("utf-8", "replace")
    return words.encode(rng.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1", "utf-7")), "replace")


def _array(rng: Random, like: np.ndarray) -> np.ndarray:
    """An array that stands in place of another: another kind, shape or values."""
    what = rng.randrange(6)
    with np.errstate(all="ignore"):
        if what == 0:
            kinds = ("f4", ">f8", "f2", "i8", "u8", "c16", "U5", "S3", "?", "M8[s]", "m8[s]", "V4")
            return np.resize(like, like.shape).astype(rng.choice(kinds))
        if what == 1:
            return np.resize(
                like, rng.choice(((), (0,), (1,), (2,), (3, 4), (2, 3, 4), (0, 5), (1, like.size), (like.size, 1)))
            )
        if what == 2:
            return np.zeros(like.shape, dtype=[("a", "f8"), ("b", "i4")])
        out = np.array(like, dtype=np.float64 if like.dtype.kind in "fiub" else like.dtype)
        if out.size and out.dtype.kind == "f":
            out.reshape(-1)[rng.randrange(out.size) :] = rng.choice((np.nan, np.inf, 0.0, -1.0, 1e300, 4e3))
        return out[::-1] if what == 3 and out.ndim else out


def _members_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(list(members))
    what = rng.randrange(6)
    if what == 0:
        del members[name]
    elif what == 1:
        new = rng.choice(("ivar", "sigma", "mask", "loglam", "wave_nm", "z", "id", "medium", "variance", "../x", "é"))
        members[new + ".npy"] = members[name] if rng.random() < 0.5 else members.pop(name)
    elif what == 2:
        at = rng.randrange(min(len(members[name]), 128))
        members[name] = members[name][:at] + bytes([rng.randrange(256)]) + members[name][at + 1 :]
    elif what == 3:
        members[name] = members[name][: rng.randrange(len(members[name]))]
    else:
        out = io.BytesIO()
        np.save(out, _array(rng, np.load(io.BytesIO(members[name]), allow_pickle=False)), allow_pickle=False)
        members[name] = out.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def _columns_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    names = list(table.column_names)
    index = rng.randrange(len(names))
    column, what = table.column(index), rng.randrange(7)
    if what == 0:
        table = table.remove_column(index)
    elif what == 1:
        new = rng.choice(
            ("ivar", "sigma", "mask", "loglam", "wave_nm", "z", "id", "targetid", "flux", "wavelength", "é")
        )
        table = table.append_column(new, column)
    elif what == 2:
        kinds = (
            pa.string(),
            pa.float16(),
            pa.int8(),
            pa.bool_(),
            pa.float32(),
            pa.list_(pa.string()),
            pa.list_(pa.int64()),
        )
        table = table.set_column(index, names[index], column.cast(rng.choice(kinds), safe=False))
    elif what == 3:
        values = column.to_pylist()
        values[rng.randrange(len(values))] = None
        table = table.set_column(index, names[index], pa.array(values))
    elif what == 4:
        values = column.to_pylist()
        at = rng.randrange(len(values))
        if isinstance(values[at], list):
            values[at] = rng.choice(([], values[at][:-1], [None] * len(values[at]), [float("nan")] * len(values[at])))
        table = table.set_column(index, names[index], pa.array(values))
    elif what == 5:
        table = table.slice(rng.randrange(2), rng.randrange(3))
    else:
        table = table.replace_schema_metadata(
            {rng.choice(("pandas", "specvet", "medium")): rng.choice(("{", "1", "air"))}
        )
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _unpacked_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    """The same packing around a changed content, twice or another packing, cut or with bytes behind it."""
    packings = ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma))
    module = next(module for magic, module in packings if data.startswith(magic))
    what = rng.randrange(4)
    if what == 0:
        return data[: rng.randrange(len(data))]
    if what == 1:
        return data + rng.choice((b"\0" * 20, b"x", data, gzip.compress(b"")))
    if what == 2:
        return rng.choice((gzip, bz2, lzma)).compress(data)
    return bytes(module.compress(mutated(module.decompress(data), rng, others)))


def _bytes_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        if out:
            out[rng.randrange(len(out))] = rng.choice((0, 32, 255, 128, rng.randrange(256)))
    return bytes(out)


def _cut(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    end = rng.randrange(len(data))
    return data[: end // BLOCK * BLOCK if rng.random() < 0.4 else end]


def _lengthened(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    return data + rng.choice((b"\0" * BLOCK, b" " * BLOCK, b"x" * 10, b"\n", data[:BLOCK]))


def _part_taken_out(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 2, 80, BLOCK, 100)) :]


def _packed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    return bytes(rng.choice((gzip, bz2, lzma)).compress(data))


MUTATIONS: dict[str, list[Mutation]] = {
    "fits": FITS_MUTATIONS,
    "text": [_lines_changed, _tokens_changed, _delimiters_changed, _encoding_changed, _tokens_changed],
    "zip": [_members_changed],
    "parquet": [_columns_changed],
    "packed": [_unpacked_changed],
    "any": [_bytes_changed, _cut, _lengthened, _part_taken_out, _packed],
}
