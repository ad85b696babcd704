"""FITS files damaged in ways that the format knows: cards, structure, order and values of HDUs."""

from __future__ import annotations

import re
from random import Random

import numpy as np

BLOCK = 2880
CARD = 80

INTEGERS = (-1, 0, 1, 2, 3, 5, 7, 8, 12, 16, 32, 64, -32, -64, 99, 999, 1000, 65535, 2**31, -(2**31), 2**63, 10**20)
NUMBERS = (
    "0.0",
    "-0.0",
    "1.0",
    "-1.0",
    "1E-300",
    "1E300",
    "1E999",
    "1D3",
    "NaN",
    "INF",
    ".5",
    "3.58",
    "-9999.0",
    "1e-4",
)
TEXTS = ("", "AWAV", "WAVE-LOG", "FREQ", "WAVE-TAB", "Angstrom", "nm", "m", "log(Angstrom)", "VACUUM", "STAR", "é", "'")
FORMS = (
    "0E",
    "1E",
    "5E",
    "50E",
    "E",
    "D",
    "1D",
    "J",
    "K",
    "I",
    "B",
    "L",
    "8A",
    "A",
    "0A",
    "1PE(5)",
    "1QD(9)",
    "3X",
    "C",
    "M",
)
KEYS = re.findall(
    r"\S+",
    """
    SIMPLE BITPIX NAXIS NAXIS1 NAXIS2 NAXIS3 NAXIS999 EXTEND XTENSION PCOUNT GCOUNT GROUPS TFIELDS THEAP BSCALE
    BZERO BLANK BUNIT EXTNAME EXTVER EXTLEVEL INHERIT CHECKSUM DATASUM CONTINUE COMMENT END LONGSTRN TTYPE1 TFORM1
    TUNIT1 TDIM1 TNULL1 TSCAL1 TZERO1 TDISP1 TBCOL1 TTYPE2 TFORM2 TDIM2 TNULL2 TSCAL2 TZERO2 ZIMAGE ZTABLE ZCMPTYPE
    ZBITPIX ZNAXIS ZNAXIS1 ZTILE1 ZQUANTIZ CTYPE1 CUNIT1 CRVAL1 CRPIX1 CDELT1 CD1_1 PC1_1 CTYPE2 CRVAL2 DC-FLAG
    COEFF0 COEFF1 WAT0_001 WAT1_001 WAT2_001 WCSDIM LTV1 LTM1_1 APNUM1 BANDID1 BANDID2 ROW1 ROW2 ARRAY1 EXTEN0 NAME0
    SIMULATE VACUUM HELIO TELESCOP CLASS Z Z_ERR REDSHIFT OBSID DESIG RA DEC MJD PLATEID FIBERID OBJECT EQUINOX
    SPECSYS DATE-OBS AIRORVAC FWHM TPLLIB JD
    """,
)


def hdus_of(data: bytes) -> list[tuple[list[bytes], bytes]]:
    """(cards, data with its padding) of each HDU, by naive arithmetic; the last takes what is left."""
    out, at = [], 0
    while at < len(data):
        cards, start = [], at
        while at < len(data):
            card = data[at : at + CARD]
            at += CARD
            if card.startswith(b"END "):
                break
            cards.append(card)
        at = start + -(-(at - start) // BLOCK) * BLOCK
        sizes = {m[1]: int(m[2]) for c in cards if (m := re.match(rb"(\w+) *= *(-?\d+)", c))}
        axes = [sizes.get(b"NAXIS%d" % (i + 1), 0) for i in range(min(sizes.get(b"NAXIS", 0), 9))]
        count = 1 if axes else 0
        for axis in axes:
            count *= max(axis, 0)
        size = abs(sizes.get(b"BITPIX", 8)) // 8 * (count + max(sizes.get(b"PCOUNT", 0), 0))
        size = min(-(-size // BLOCK) * BLOCK, len(data))
        out.append((cards, data[at : at + size]))
        at += size
    return out


def fits_of(hdus: list[tuple[list[bytes], bytes]]) -> bytes:
    """The bytes of a file of these HDUs."""
    out = b""
    for cards, data in hdus:
        header = b"".join(card[:CARD].ljust(CARD) for card in cards) + b"END".ljust(CARD)
        out += header + b" " * (-len(header) % BLOCK) + data + b"\0" * (-len(data) % BLOCK)
    return out


def _card(key: str, rng: Random) -> bytes:
    value = rng.choice(
        (
            lambda: str(rng.choice(INTEGERS)).rjust(20),
            lambda: rng.choice(NUMBERS).rjust(20),
            lambda: f"'{rng.choice(TEXTS)}'",
            lambda: f"'{rng.choice(FORMS)}'",
            lambda: rng.choice(("T", "F")).rjust(20),
            lambda: f"'({rng.choice(INTEGERS)},{rng.choice(INTEGERS)})'",
            lambda: rng.choice(("", "(1.0, 2.0)", "'open", "/ comment", "'a''b'", "T F", "\t", "1 2")),
        )
    )()
    return f"{key:8}= {value}".encode("latin-1", "replace")[:CARD].ljust(CARD)


def _value_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    hdus = hdus_of(data)
    cards, _ = rng.choice(hdus)
    index = rng.randrange(len(cards))
    key = cards[index][:8].decode("latin-1").strip()
    if key.startswith("TFORM") and rng.random() < 0.7:
        cards[index] = f"{key:8}= '{rng.choice(FORMS)}'".encode().ljust(CARD)
    else:
        cards[index] = _card(key, rng)
    return fits_of(hdus)


def _structure_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    """A card that says how long or of what kind the data are."""
    hdus = hdus_of(data)
    cards, _ = rng.choice(hdus)
    pattern = (
        rb"(BITPIX|NAXIS\d*|TFIELDS|PCOUNT|GCOUNT|TFORM\d+|TDIM\d+|TZERO\d+|TSCAL\d+|TNULL\d+|TTYPE\d+|EXTNAME) *="
    )
    places = [i for i, card in enumerate(cards) if re.match(pattern, card)]
    index = rng.choice(places)
    key = cards[index][:8].decode().strip()
    old = re.search(rb"= *'?\s*(-?\d+)", cards[index])
    if old and not key.startswith("TFORM") and rng.random() < 0.5:
        new = int(old[1]) + rng.choice((-2, -1, 1, 2, 10))
        cards[index] = f"{key:8}= {new:20d}".encode().ljust(CARD)
    elif key.startswith("TFORM"):
        cards[index] = f"{key:8}= '{rng.choice(FORMS)}'".encode().ljust(CARD)
    elif key.startswith(("TTYPE", "EXTNAME")):
        cards[index] = f"{key:8}= '{rng.choice(_names(others) or ['FLUX'])}'".encode()[:CARD].ljust(CARD)
    else:
        cards[index] = _card(key, rng)
    return fits_of(hdus)


def _names(files: list[bytes]) -> list[str]:
    """Names of columns and extensions in other files."""
    found: set[str] = set()
    for data in files[:30]:
        if data.startswith(b"SIMPLE"):
            found |= {m[1].decode().strip() for m in re.finditer(rb"(?:TTYPE\d+ *|EXTNAME )= '(\w+)", data[:200_000])}
    return sorted(found)


def _card_added(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    hdus = hdus_of(data)
    cards, _ = rng.choice(hdus)
    key = rng.choice(KEYS)
    if key[-1] == "1" and rng.random() < 0.5:
        key = key[:-1] + str(rng.randrange(1, 8))
    cards.insert(rng.randrange(len(cards) + 1) if rng.random() < 0.3 else len(cards), _card(key, rng))
    return fits_of(hdus)


def _cards_moved(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    hdus = hdus_of(data)
    cards, _ = rng.choice(hdus)
    index = rng.randrange(len(cards))
    what = rng.randrange(4)
    if what == 0:
        del cards[index]
    elif what == 1:
        cards.insert(rng.randrange(len(cards)), cards[index])
    elif what == 2:
        cards[index] = rng.choice(KEYS).ljust(8).encode() + cards[index][8:]
    else:
        at = rng.randrange(CARD)
        cards[index] = cards[index][:at] + bytes([rng.randrange(256)]) + cards[index][at + 1 :]
    return fits_of(hdus)


def _hdus_moved(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    hdus = hdus_of(data)
    what = rng.randrange(5)
    if what == 0 and len(hdus) > 1:
        del hdus[rng.randrange(1, len(hdus))]
    elif what == 1:
        hdus.append(rng.choice(hdus))
    elif what == 2:
        rng.shuffle(hdus)
    elif what == 3:
        one, two = rng.randrange(len(hdus)), rng.randrange(len(hdus))
        hdus[one], hdus[two] = (hdus[one][0], hdus[two][1]), (hdus[two][0], hdus[one][1])
    else:
        given = [other for other in others if other.startswith(b"SIMPLE")]
        hdus += hdus_of(rng.choice(given))[1:] if given else []
    return fits_of(hdus)


def _values_changed(data: bytes, rng: Random, others: list[bytes]) -> bytes:
    """Numbers of the data replaced by NaN, infinities, zeros, huge and negative ones, of any width."""
    hdus = hdus_of(data)
    number = rng.choice([i for i, (_, values) in enumerate(hdus) if values])
    cards, values = hdus[number]
    kind = rng.choice((">f4", ">f8", ">i4", ">i2", "u1"))
    array = np.frombuffer(values[: len(values) // 8 * 8], kind).copy()
    start = rng.randrange(array.size)
    stop = array.size if rng.random() < 0.3 else start + rng.randrange(1, 60)
    if kind.startswith(">f"):
        array[start:stop] = rng.choice(
            (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300 if kind == ">f8" else 1e38, 1e-40, 4e3)
        )
    else:
        limits = np.iinfo(kind)
        array[start:stop] = rng.choice((limits.min, limits.max, 0, 1))
    hdus[number] = (cards, array.tobytes() + values[array.nbytes :])
    return fits_of(hdus)


FITS_MUTATIONS = [
    _value_changed,
    _structure_changed,
    _card_added,
    _cards_moved,
    _hdus_moved,
    _values_changed,
    _structure_changed,
    _value_changed,
]
