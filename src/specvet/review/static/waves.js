// Wavelengths: air and vacuum, redshift and velocity, and what the Earth's air and the night sky do.
// Å everywhere. Formula and bands are those of specvet.spectra.lines.

export const LIGHT_KM_S = 299792.458;

/** Absorption by the Earth's air: name, low, high; Å in air, observed frame. */
export const TELLURIC_AIR = [
  ["O₂ B", 6867, 6944], ["H₂O", 7160, 7340], ["O₂ A", 7594, 7684], ["H₂O", 8100, 8340], ["H₂O", 8940, 9800],
];

/** Lines of the night sky that leave residuals: name, Å in air, observed frame. */
export const SKY_AIR = [
  ["[O I]", 5577.34], ["Na I", 5889.95], ["Na I", 5895.92], ["[O I]", 6300.3], ["[O I]", 6363.78],
];

/** Refractive index of standard dry air at a vacuum wavelength (Morton 2000, ApJS 130, 403, eq. 8). */
export function refractiveIndex(vacuum) {
  const s2 = (1e4 / Math.max(vacuum, 2000)) ** 2;
  return 1 + 8.34254e-5 + 2.406147e-2 / (130 - s2) + 1.5998e-4 / (38.9 - s2);
}

export function airToVacuum(air) {
  let vacuum = air * refractiveIndex(air);
  for (let i = 0; i < 2; i++) vacuum = air * refractiveIndex(vacuum);
  return vacuum;
}

/**
 * What galaxies and quasars show, as lines of a task are given (Å in air); from the vacuum wavelengths of the SDSS
 * spectroscopic pipelines and, below 3000 Å, of Vanden Berk et al. 2001, AJ 122, 549.
 */
export const EXTRAGALACTIC = [
  ["Lyα", 1215.67, "emission"], ["N V", 1240.14, "emission"], ["Si IV", 1396.76, "emission"], ["C IV", 1549.06, "emission"],
  ["C III]", 1908.73, "emission"], ["Mg II", 2798.75, "emission"], ["[O II]", 3728.48, "emission"], ["[Ne III]", 3869.86, "emission"],
  ["Ca K", 3934.78, "absorption"], ["Ca H", 3969.59, "absorption"], ["G band", 4305.61, "absorption"], ["Hδ", 4102.89, "emission"],
  ["Hγ", 4341.68, "emission"], ["Hβ", 4862.68, "emission"], ["[O III]", 4960.3, "emission"], ["[O III] 5007", 5008.24, "emission"],
  ["Mg b", 5176.63, "absorption"], ["Na D", 5895.6, "absorption"], ["[O I]", 6302.05, "emission"], ["Hα", 6564.61, "emission"],
  ["[N II]", 6585.27, "emission"], ["[S II]", 6718.29, "emission"], ["[S II]", 6732.67, "emission"],
].map(([name, vacuum, kind]) => ({ name, wave: vacuum / refractiveIndex(vacuum), kind }));

/** An air wavelength in the medium of a spectrum; half-way where that is unknown, wrong by at most 0.9 Å at Hα. */
export function fromAir(air, medium) {
  if (medium === "air") return air;
  const vacuum = airToVacuum(air);
  return medium === "vacuum" ? vacuum : (air + vacuum) / 2;
}

/** By what rest wavelengths are multiplied for a redshift z and, on top of it, a velocity in km/s. */
export function stretch(z, velocity) {
  return (1 + z) * (1 + velocity / LIGHT_KM_S);
}

/** The velocity in km/s that moves `rest` to `seen`. */
export function velocityOf(seen, rest) {
  return LIGHT_KM_S * (seen / rest - 1);
}
