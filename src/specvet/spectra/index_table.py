"""The built-in line indices. Bands in Å, in air unless a row says vacuum.

The molecular ratios TiO5, CaH2, CaH3 are those of Reid, Hawley & Gizis 1995 (AJ 110, 1838), with the vacuum windows
and the Na I window used for SDSS spectra by Covey et al. 2007 (AJ 134, 2398) and PyHammer (Kesseli et al. 2017).
Band heads: C2 and CN from Barnbaum, Stone & Keenan 1996 (ApJS 105, 419); ZrO and LaO from Keenan & Boeshaar 1980
(ApJS 43, 379); atomic lines from NIST. Widths of bands are ours, chosen for R of about 1000-2500.
"""

from __future__ import annotations

from specvet.spectra.indices import FormulaIndex, Index, LineIndex, RatioIndex, WidthIndex

_LINES = (
    # Emission of cataclysmic variables is up to 3,000 km/s wide: the bands hold ±1,500 km/s.
    LineIndex("ha", "Hα 6563 EW", (6530.0, 6596.0), ((6440.0, 6505.0), (6610.0, 6660.0))),
    LineIndex("hb", "Hβ 4861 EW", (4836.0, 4886.0), ((4780.0, 4825.0), (4940.0, 4985.0))),
    LineIndex("hg", "Hγ 4340 EW", (4318.0, 4364.0), ((4270.0, 4290.0), (4400.0, 4440.0))),
    LineIndex("hd", "Hδ 4102 EW", (4080.0, 4124.0), ((4045.0, 4065.0), (4148.0, 4200.0))),
    # The wings of a white dwarf reach 100 Å: wide bands with continuum beyond.
    LineIndex("hb_wide", "Hβ 4861 EW with wings", (4781.0, 4941.0), ((4720.0, 4765.0), (4960.0, 5010.0))),
    LineIndex("hg_wide", "Hγ 4340 EW with wings", (4270.0, 4410.0), ((4220.0, 4250.0), (4420.0, 4460.0))),
    LineIndex("hb_core", "Hβ 4861 EW, core", (4853.0, 4869.7), ((4720.0, 4765.0), (4960.0, 5010.0))),
    LineIndex("hg_core", "Hγ 4340 EW, core", (4332.1, 4348.8), ((4220.0, 4250.0), (4420.0, 4460.0))),
    LineIndex("hei4471", "He I 4471 EW", (4456.0, 4486.0), ((4420.0, 4450.0), (4490.0, 4530.0))),
    LineIndex("hei5876", "He I 5876 EW", (5861.0, 5887.0), ((5810.0, 5850.0), (5910.0, 5950.0))),
    LineIndex("hei6678", "He I 6678 EW", (6662.0, 6694.0), ((6615.0, 6650.0), (6700.0, 6730.0))),
    LineIndex("heii4686", "He II 4686 EW", (4671.0, 4701.0), ((4590.0, 4620.0), (4725.0, 4765.0))),
    LineIndex("cak", "Ca II K 3934 EW", (3923.0, 3945.0), ((3905.0, 3919.0), (3992.0, 4012.0))),
    LineIndex("gband", "CH G band 4300 EW", (4281.0, 4316.0), ((4250.0, 4275.0), (4370.0, 4400.0))),
    LineIndex("cai4227", "Ca I 4227 EW", (4219.0, 4236.0), ((4200.0, 4215.0), (4240.0, 4260.0))),
    LineIndex("mgb", "Mg b 5175 EW", (5160.0, 5192.0), ((5117.0, 5143.0), (5191.0, 5206.0))),
    LineIndex("nad", "Na D 5893 EW", (5880.0, 5905.0), ((5840.0, 5868.0), (5915.0, 5950.0))),
    LineIndex("nai8190", "Na I 8190 EW", (8175.0, 8203.0), ((8150.0, 8173.0), (8233.0, 8250.0))),
    LineIndex("ki7699", "K I 7699 EW", (7692.0, 7706.0), ((7677.0, 7689.0), (7710.0, 7725.0))),
    LineIndex("cat8542", "Ca II 8542 EW", (8527.0, 8557.0), ((8470.0, 8489.0), (8557.0, 8575.0))),
    LineIndex("cat8662", "Ca II 8662 EW", (8647.0, 8677.0), ((8614.0, 8640.0), (8690.0, 8720.0))),
    LineIndex("hei4471_wide", "He I 4471 EW with wings", (4421.0, 4521.0), ((4390.0, 4415.0), (4530.0, 4560.0))),
    LineIndex("heii5411", "He II 5411 EW", (5391.0, 5431.0), ((5330.0, 5370.0), (5450.0, 5490.0))),
    # Wide enough for ±1,300 km/s; in cataclysmic variables it also holds He I 5016, so it is weighed against Hβ.
    LineIndex("oiii5007", "[O III] 5007 EW", (4986.0, 5030.0), ((4972.0, 4984.0), (5034.0, 5060.0))),
)

_LINE = {line.key: line for line in _LINES}

_WIDTHS = (
    WidthIndex("ha_width", "Hα FWHM", _LINE["ha"], 6562.80),
    WidthIndex("hb_width", "Hβ FWHM", _LINE["hb"], 4861.35),
    WidthIndex("hg_width", "Hγ FWHM", _LINE["hg"], 4340.47),
    WidthIndex("ha_velocity", "Hα velocity", _LINE["ha"], 6562.80, "velocity"),
    WidthIndex("hb_velocity", "Hβ velocity", _LINE["hb"], 4861.35, "velocity"),
    WidthIndex("hb_wide_width", "Hβ FWHM, wings included", _LINE["hb_wide"], 4861.35),
    WidthIndex("hg_wide_width", "Hγ FWHM, wings included", _LINE["hg_wide"], 4340.47),
    WidthIndex("hei4471_width", "He I 4471 FWHM", _LINE["hei4471_wide"], 4471.50),
    WidthIndex("heii4686_width", "He II 4686 FWHM", _LINE["heii4686"], 4685.70),
)

_RATIOS = (
    RatioIndex("tio5", "TiO5", (7127.96, 7136.97), ((7043.94, 7047.94),), "vacuum"),
    RatioIndex("cah2", "CaH2", (6815.86, 6847.87), ((7043.94, 7047.94),), "vacuum"),
    RatioIndex("cah3", "CaH3", (6961.92, 6991.93), ((7043.94, 7047.94),), "vacuum"),
    RatioIndex("tio8432", "TiO 8432", (8440.0, 8470.0), ((8400.0, 8415.0),)),
    RatioIndex("vo7434", "VO 7434", (7430.0, 7470.0), ((7550.0, 7570.0),)),
    # Swan bands: the flux just blueward of the head over that just redward. Below 1 for C2, above 1 for TiO.
    RatioIndex("c2_5165", "C2 5165 edge", (5115.0, 5160.0), ((5180.0, 5230.0),)),
    RatioIndex("c2_4737", "C2 4737 edge", (4690.0, 4733.0), ((4745.0, 4785.0),)),
    RatioIndex("c2_5635", "C2 5635 edge", (5585.0, 5632.0), ((5645.0, 5690.0),)),
    RatioIndex("cn_6925", "CN 6925 edge", (6935.0, 6990.0), ((6885.0, 6915.0),)),
    RatioIndex("cn_7910", "CN 7910 edge", (7920.0, 7990.0), ((7850.0, 7895.0),)),
    RatioIndex("zro_6474", "ZrO 6474", (6476.0, 6498.0), ((6455.0, 6471.0),)),
    RatioIndex("zro_6345", "ZrO 6345", (6347.0, 6362.0), ((6324.0, 6342.0),)),
    RatioIndex("zro_6229", "ZrO 6229", (6232.0, 6250.0), ((6205.0, 6226.0),)),
    RatioIndex("zro_5551", "ZrO 5551", (5553.0, 5572.0), ((5530.0, 5549.0),)),
    RatioIndex("zro_5718", "ZrO 5718", (5719.0, 5735.0), ((5700.0, 5716.0),)),
    RatioIndex("zro_4640", "ZrO 4640", (4641.0, 4660.0), ((4600.0, 4618.0),)),
    RatioIndex("tio_5448", "TiO 5448", (5450.0, 5480.0), ((5420.0, 5445.0),)),
    RatioIndex("tio_6158", "TiO 6158", (6160.0, 6190.0), ((6125.0, 6150.0),)),
    RatioIndex("tio_4954", "TiO 4954", (4958.0, 4985.0), ((4930.0, 4952.0),)),
)

_FORMULAS = (
    # Dwarfs and giants part in CaH against TiO (Lépine et al. 2007, ApJ 669, 1235, use the same plane). Above 0 for
    # giants; the line was drawn by us through the gap between MILES, Indo-US and SDSS stars of known luminosity class.
    FormulaIndex("cah_excess", "CaH2 + CaH3 over the dwarf-giant line", "cah2 + cah3 - 0.82 - 1.19 * tio5"),
    FormulaIndex("tio", "TiO5 and TiO 6158, mean", "0.5 * (tio5 + tio_6158)"),
    FormulaIndex("zro", "ZrO 6474, 6345, 5551, mean", "(zro_6474 + zro_6345 + zro_5551) / 3"),
    # Share of a Balmer line that lies within ±8 Å: what is left of an A star's line, not of a white dwarf's.
    FormulaIndex("balmer_core", "share of Hβ and Hγ within 8 Å", "(hb_core + hg_core) / (hb_wide + hg_wide)"),
    FormulaIndex("oiii_over_hb", "[O III] 5007 over Hβ", "oiii5007 / min(hb, -2)"),
    FormulaIndex("balmer_shift", "velocity between Hα and Hβ", "abs(ha_velocity - hb_velocity)", "km/s"),
    FormulaIndex("ha_offset", "Hα velocity, absolute", "abs(ha_velocity)", "km/s"),
    FormulaIndex("balmer_wide", "Hβ and Hγ EW with wings, mean", "0.5 * (hb_wide + hg_wide)", "Å"),
)

BUILTIN_INDICES: dict[str, Index] = {index.key: index for index in (*_LINES, *_WIDTHS, *_RATIOS, *_FORMULAS)}
"""Every built-in index by its key, as task files name it."""


def described(index: Index) -> str:
    """How an index is measured, in a line."""
    if isinstance(index, FormulaIndex):
        return index.formula
    if isinstance(index, WidthIndex):
        return f"{index.of} at half maximum of {index.line.key}, around {index.centre:g}"
    sides = index.sides if isinstance(index, LineIndex) else index.reference
    where = ", ".join(f"{low:g}-{high:g}" for low, high in sides)
    kind = "width against" if isinstance(index, LineIndex) else "over"
    medium = " (vacuum)" if index.medium == "vacuum" else ""
    return f"{index.band[0]:g}-{index.band[1]:g} {kind} {where}{medium}"
