"""The built-in line indices. Bands in Å, in air unless a row says vacuum. Equivalent widths are positive in absorption.

Each row names the source of its band. "Bands ours" means that the line or band head is published and the windows were
chosen here, for a resolving power of about 1000-2500; their values are then on no published scale.
"""

from __future__ import annotations

from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, RatioIndex, WidthIndex

_NIST = "line: NIST Atomic Spectra Database; bands ours"
_REID = (
    "Reid, Hawley & Gizis 1995, AJ 110, 1838, in the vacuum windows that Covey et al. 2007, AJ 134, 2398, use for SDSS"
)
_REID_AIR = "Reid, Hawley & Gizis 1995, AJ 110, 1838"
_HAWLEY = "Hawley et al. 2002, AJ 123, 3409"
_SWAN = "band head of C2: Barnbaum, Stone & Keenan 1996, ApJS 105, 419; bands ours"
_CN = "band head of CN: Barnbaum, Stone & Keenan 1996, ApJS 105, 419; bands ours"
_ZRO = "band head of ZrO: Keenan & Boeshaar 1980, ApJS 43, 379; bands ours"
_LAO = "band head of LaO: Keenan & Boeshaar 1980, ApJS 43, 379; bands ours"
_TIO = "band head of TiO: Gray & Corbally 2009, Stellar Spectral Classification; bands ours"
_CH = "G band of CH: Gray & Corbally 2009, Stellar Spectral Classification; bands ours"
_OURS = "ours"

_LINES = (
    # Emission of cataclysmic variables is up to 3,000 km/s wide: the bands hold ±1,500 km/s.
    LineIndex("ha", "Hα 6563 EW", (6530.0, 6596.0), ((6440.0, 6505.0), (6610.0, 6660.0)), source=_NIST),
    LineIndex("hb", "Hβ 4861 EW", (4836.0, 4886.0), ((4780.0, 4825.0), (4940.0, 4985.0)), source=_NIST),
    LineIndex("hg", "Hγ 4340 EW", (4318.0, 4364.0), ((4270.0, 4290.0), (4400.0, 4440.0)), source=_NIST),
    LineIndex("hd", "Hδ 4102 EW", (4080.0, 4124.0), ((4045.0, 4065.0), (4148.0, 4200.0)), source=_NIST),
    # The wings of a white dwarf reach 100 Å: wide bands with continuum beyond.
    LineIndex("hb_wide", "Hβ 4861 EW with wings", (4781.0, 4941.0), ((4720.0, 4765.0), (4960.0, 5010.0)), source=_NIST),
    LineIndex("hg_wide", "Hγ 4340 EW with wings", (4270.0, 4410.0), ((4220.0, 4250.0), (4420.0, 4460.0)), source=_NIST),
    LineIndex("hb_core", "Hβ 4861 EW, core", (4853.0, 4869.7), ((4720.0, 4765.0), (4960.0, 5010.0)), source=_NIST),
    LineIndex("hg_core", "Hγ 4340 EW, core", (4332.1, 4348.8), ((4220.0, 4250.0), (4420.0, 4460.0)), source=_NIST),
    LineIndex("hei4026", "He I 4026 EW", (4013.0, 4039.0), ((3992.0, 4010.0), (4045.0, 4065.0)), source=_NIST),
    LineIndex("hei4471", "He I 4471 EW", (4456.0, 4486.0), ((4420.0, 4450.0), (4490.0, 4530.0)), source=_NIST),
    LineIndex("hei4922", "He I 4922 EW", (4908.0, 4936.0), ((4893.0, 4906.0), (4938.0, 4953.0)), source=_NIST),
    LineIndex("hei5876", "He I 5876 EW", (5861.0, 5887.0), ((5810.0, 5850.0), (5910.0, 5950.0)), source=_NIST),
    LineIndex("hei6678", "He I 6678 EW", (6662.0, 6694.0), ((6615.0, 6650.0), (6700.0, 6730.0)), source=_NIST),
    LineIndex("hei7065", "He I 7065 EW", (7049.0, 7081.0), ((7020.0, 7045.0), (7085.0, 7110.0)), source=_NIST),
    LineIndex("heii4686", "He II 4686 EW", (4671.0, 4701.0), ((4590.0, 4620.0), (4725.0, 4765.0)), source=_NIST),
    LineIndex("bowen", "Bowen blend 4645 EW", (4629.0, 4661.0), ((4590.0, 4620.0), (4725.0, 4765.0)), source=_NIST),
    LineIndex("cak", "Ca II K 3934 EW", (3923.0, 3945.0), ((3905.0, 3919.0), (3992.0, 4012.0)), source=_NIST),
    LineIndex("cah3968", "Ca II H 3968 + Hε EW", (3957.0, 3981.0), ((3905.0, 3919.0), (3992.0, 4012.0)), source=_NIST),
    LineIndex("gband", "CH G band 4300 EW", (4281.0, 4316.0), ((4250.0, 4275.0), (4370.0, 4400.0)), source=_CH),
    LineIndex("cai4227", "Ca I 4227 EW", (4219.0, 4236.0), ((4200.0, 4215.0), (4240.0, 4260.0)), source=_NIST),
    LineIndex("mgb", "Mg b 5175 EW", (5160.0, 5192.0), ((5117.0, 5143.0), (5191.0, 5206.0)), source=_NIST),
    LineIndex("nad", "Na D 5893 EW", (5880.0, 5905.0), ((5840.0, 5868.0), (5915.0, 5950.0)), source=_NIST),
    LineIndex("li6708", "Li I 6708 EW", (6703.0, 6713.0), ((6690.0, 6701.0), (6723.0, 6735.0)), source=_NIST),
    LineIndex("sii6725", "[S II] 6717+6731 EW", (6708.0, 6741.0), ((6690.0, 6704.0), (6746.0, 6770.0)), source=_NIST),
    LineIndex("nai8190", "Na I 8190 EW", (8175.0, 8203.0), ((8150.0, 8173.0), (8233.0, 8250.0)), source=_NIST),
    LineIndex("ki7699", "K I 7699 EW", (7692.0, 7706.0), ((7677.0, 7689.0), (7710.0, 7725.0)), source=_NIST),
    LineIndex("cat8498", "Ca II 8498 EW", (8484.0, 8513.0), ((8452.0, 8484.0), (8557.0, 8575.0)), source=_NIST),
    LineIndex("cat8542", "Ca II 8542 EW", (8527.0, 8557.0), ((8470.0, 8489.0), (8557.0, 8575.0)), source=_NIST),
    LineIndex("cat8662", "Ca II 8662 EW", (8647.0, 8677.0), ((8614.0, 8640.0), (8690.0, 8720.0)), source=_NIST),
    LineIndex(
        "hei4471_wide", "He I 4471 EW with wings", (4421.0, 4521.0), ((4390.0, 4415.0), (4530.0, 4560.0)), source=_NIST
    ),
    LineIndex("heii5411", "He II 5411 EW", (5391.0, 5431.0), ((5330.0, 5370.0), (5450.0, 5490.0)), source=_NIST),
    # Wide enough for ±1,300 km/s; in cataclysmic variables it also holds He I 5016, so it is weighed against Hβ.
    LineIndex("oiii5007", "[O III] 5007 EW", (4986.0, 5030.0), ((4972.0, 4984.0), (5034.0, 5060.0)), source=_NIST),
)

_LINE = {line.key: line for line in _LINES}

_CENTRES = {"ha": 6562.80, "hb": 4861.35, "hg": 4340.47}
_NAMES = {"ha": "Hα", "hb": "Hβ", "hg": "Hγ"}

_WIDTHS = (
    *(WidthIndex(f"{k}_width", f"{_NAMES[k]} FWHM", _LINE[k], _CENTRES[k], source=_NIST) for k in _CENTRES),
    *(
        WidthIndex(
            f"{k}_intrinsic", f"{_NAMES[k]} FWHM, instrument removed", _LINE[k], _CENTRES[k], "intrinsic", source=_NIST
        )
        for k in _CENTRES
    ),
    *(
        WidthIndex(f"{k}_velocity", f"{_NAMES[k]} velocity", _LINE[k], _CENTRES[k], "velocity", source=_NIST)
        for k in ("ha", "hb")
    ),
    WidthIndex("hb_wide_width", "Hβ FWHM, wings included", _LINE["hb_wide"], 4861.35, source=_NIST),
    WidthIndex("hg_wide_width", "Hγ FWHM, wings included", _LINE["hg_wide"], 4340.47, source=_NIST),
    WidthIndex("hei4471_width", "He I 4471 FWHM", _LINE["hei4471_wide"], 4471.50, source=_NIST),
    WidthIndex("heii4686_width", "He II 4686 FWHM", _LINE["heii4686"], 4685.70, source=_NIST),
)

_WIDTH = {width.key: width for width in _WIDTHS}

_FOLLOWING = (
    # Forbidden lines at the velocity of Hα: windows of ±500 km/s find them at any velocity of a star or near galaxy.
    LineIndex(
        "oiii5007_at_ha", "[O III] 5007 EW at the velocity of Hα", (4997.0, 5016.5),
        ((4972.0, 4990.0), (5024.0, 5050.0)), source=_NIST, follows=_WIDTH["ha_velocity"],
    ),
    LineIndex(
        "sii6725_at_ha", "[S II] 6717+6731 EW at the velocity of Hα", (6706.0, 6743.0),
        ((6688.0, 6702.0), (6746.0, 6770.0)), source=_NIST, follows=_WIDTH["ha_velocity"],
    ),
)  # fmt: skip

_PSEUDO_CONTINUUM = ((7043.94, 7047.94),)

_RATIOS = (
    RatioIndex("tio5", "TiO5", (7127.96, 7136.97), _PSEUDO_CONTINUUM, "vacuum", _REID),
    RatioIndex("cah1", "CaH1", (6380.0, 6390.0), ((6345.0, 6355.0), (6410.0, 6420.0)), source=_REID_AIR),
    RatioIndex("cah2", "CaH2", (6815.86, 6847.87), _PSEUDO_CONTINUUM, "vacuum", _REID),
    RatioIndex("cah3", "CaH3", (6961.92, 6991.93), _PSEUDO_CONTINUUM, "vacuum", _REID),
    RatioIndex("tio8432", "TiO 8432", (8440.0, 8470.0), ((8400.0, 8415.0),), source=f"TiO8 of {_HAWLEY}"),
    RatioIndex("vo7434", "VO 7434", (7430.0, 7470.0), ((7550.0, 7570.0),), source=_HAWLEY),
    RatioIndex(
        "vo_a", "VO 7434, both sides", (7430.0, 7470.0), ((7350.0, 7370.0), (7550.0, 7570.0)),
        source="VO-a of Kirkpatrick et al. 1999, ApJ 519, 802, turned over: below 1 where there is VO",
    ),
    RatioIndex("vo7912", "VO 7912", (7900.0, 7980.0), ((8100.0, 8150.0),), source=_HAWLEY),
    # Swan bands: the flux just blueward of the head over that just redward. Below 1 for C2, above 1 for TiO.
    RatioIndex("c2_5165", "C2 5165 edge", (5115.0, 5160.0), ((5180.0, 5230.0),), source=_SWAN),
    RatioIndex("c2_4737", "C2 4737 edge", (4690.0, 4733.0), ((4745.0, 4785.0),), source=_SWAN),
    RatioIndex("c2_5635", "C2 5635 edge", (5585.0, 5632.0), ((5645.0, 5690.0),), source=_SWAN),
    # The violet system fades to the blue of its head, the red system to the red.
    RatioIndex("cn_4215", "CN 4215 edge", (4175.0, 4213.0), ((4231.0, 4250.0),), source=_CN),
    RatioIndex("cn_6925", "CN 6925 edge", (6935.0, 6990.0), ((6885.0, 6915.0),), source=_CN),
    RatioIndex("cn_7910", "CN 7910 edge", (7920.0, 7990.0), ((7850.0, 7895.0),), source=_CN),
    RatioIndex("zro_6474", "ZrO 6474", (6476.0, 6498.0), ((6455.0, 6471.0),), source=_ZRO),
    RatioIndex("zro_6345", "ZrO 6345", (6347.0, 6362.0), ((6324.0, 6342.0),), source=_ZRO),
    RatioIndex("zro_6229", "ZrO 6229", (6232.0, 6250.0), ((6205.0, 6226.0),), source=_ZRO),
    RatioIndex("zro_5551", "ZrO 5551", (5553.0, 5572.0), ((5530.0, 5549.0),), source=_ZRO),
    RatioIndex("zro_5718", "ZrO 5718", (5719.0, 5735.0), ((5700.0, 5716.0),), source=_ZRO),
    RatioIndex("zro_4640", "ZrO 4640", (4641.0, 4660.0), ((4600.0, 4618.0),), source=_ZRO),
    # VO 7434 begins behind the one and VO 7900 around the other: they count beside ZrO, not alone.
    RatioIndex("lao_7403", "LaO 7403", (7404.0, 7424.0), ((7376.0, 7400.0),), source=_LAO),
    RatioIndex("lao_7910", "LaO 7910", (7912.0, 7940.0), ((7878.0, 7906.0),), source=_LAO),
    RatioIndex("tio_5448", "TiO 5448", (5450.0, 5480.0), ((5420.0, 5445.0),), source=_TIO),
    RatioIndex("tio_6158", "TiO 6158", (6160.0, 6190.0), ((6125.0, 6150.0),), source=_TIO),
    RatioIndex("tio_4954", "TiO 4954", (4958.0, 4985.0), ((4930.0, 4952.0),), source=_TIO),
)  # fmt: skip

_LEPINE_2007 = "Lépine, Rich & Shara 2007, ApJ 669, 1235"

_FORMULAS = (
    # Above 0 for giants. The line was drawn through the gap between stars of known luminosity class.
    FormulaIndex(
        "cah_excess", "CaH2 + CaH3 over the dwarf-giant line", "cah2 + cah3 - 0.82 - 1.19 * tio5",
        source=f"plane of {_LEPINE_2007}; line ours, from MILES, Indo-US and SDSS stars",
    ),
    FormulaIndex(
        "m_subtype", "M subtype of a dwarf from TiO5 (0 = M0, −1 = K7)", "8.2 - 10.775 * tio5",
        source="Reid, Hawley & Gizis 1995, AJ 110, 1838: K7 to M6.5, ±0.5 subtypes; dwarfs only",
    ),
    FormulaIndex(
        "zeta", "ζ(TiO/CaH) of an M dwarf", "(1 - tio5) / (1 - (-0.050 - 0.118 * (cah2 + cah3)"
        " + 0.670 * (cah2 + cah3) * (cah2 + cah3) - 0.164 * (cah2 + cah3) * (cah2 + cah3) * (cah2 + cah3)))",
        source=f"{_LEPINE_2007}: dwarfs above 0.825, subdwarfs 0.5 to 0.825; M types only",
    ),
    FormulaIndex("tio", "TiO5 and TiO 6158, mean", "0.5 * (tio5 + tio_6158)", source=_OURS),
    FormulaIndex("zro", "ZrO 6474, 6345, 5551, mean", "(zro_6474 + zro_6345 + zro_5551) / 3", source=_OURS),
    FormulaIndex("cat", "Ca II 8542 and 8662 EW, sum", "cat8542 + cat8662", "Å", _OURS),
    # Share of a Balmer line that lies within ±8 Å: what is left of an A star's line, not of a white dwarf's.
    FormulaIndex(
        "balmer_core", "share of Hβ and Hγ within 8 Å", "(hb_core + hg_core) / (hb_wide + hg_wide)", source=_OURS
    ),
    FormulaIndex("oiii_over_hb", "[O III] 5007 over Hβ", "oiii5007 / min(hb, -2)", source=_OURS),
    FormulaIndex(
        "oiii_over_hb_at_ha", "[O III] 5007 at the velocity of Hα, over Hβ", "oiii5007_at_ha / min(hb, -2)",
        source=_OURS,
    ),
    FormulaIndex(
        "sii_over_ha", "[S II] 6725 at the velocity of Hα, over Hα", "sii6725_at_ha / min(ha, -3)", source=_OURS
    ),
    FormulaIndex("balmer_shift", "velocity between Hα and Hβ", "abs(ha_velocity - hb_velocity)", "km/s", _OURS),
    FormulaIndex("ha_offset", "Hα velocity, absolute", "abs(ha_velocity)", "km/s", _OURS),
    FormulaIndex("balmer_wide", "Hβ and Hγ EW with wings, mean", "0.5 * (hb_wide + hg_wide)", "Å", _OURS),
)  # fmt: skip

_ALL: tuple[Index, ...] = (*_LINES, *_WIDTHS, *_FOLLOWING, *_RATIOS, *_FORMULAS)

BUILTIN_INDICES: dict[str, Index] = {index.key: index for index in _ALL}
"""Every built-in index by its key, as task files name it."""


def described(index: Index) -> str:
    """How an index is measured, in a line, with the sign where it has one."""
    if isinstance(index, FormulaIndex):
        return index.formula
    if isinstance(index, WidthIndex):
        what = {"width": "full width", "velocity": "middle", "intrinsic": "full width less the instrument's"}[index.of]
        return f"{what} at half maximum of {index.line.key}, around {index.centre:g}"
    sides = index.sides if isinstance(index, LineIndex) else index.reference
    where = ", ".join(f"{low:g}-{high:g}" for low, high in sides)
    at = f", moved by {index.follows.key}" if isinstance(index, LineIndex) and index.follows else ""
    kind = "width (+ absorption, − emission) against" if isinstance(index, LineIndex) else "over"
    medium = " (vacuum)" if index.medium == "vacuum" else ""
    return f"{index.band[0]:g}-{index.band[1]:g} {kind} {where}{medium}{at}"
