// Smoothing that keeps its errors right, as specvet.spectra.smoothing does: bad pixels weigh nothing, and variances add
// with the square of the kernel.

/** Pixels to be trusted: a finite flux and, where the file states errors, a finite one above 0. */
export function goodPixels(flux, sigma) {
  const stated = sigma.some((s) => Number.isFinite(s));
  return Uint8Array.from(flux, (f, i) => (Number.isFinite(f) && (!stated || (Number.isFinite(sigma[i]) && sigma[i] > 0)) ? 1 : 0));
}

/**
 * Flux and 1σ errors convolved with a Gaussian of `width` pixels (its σ); 0 changes nothing.
 * A pixel without any good one within 3 widths is NaN.
 */
export function smoothed(flux, sigma, width) {
  if (!(width > 0)) return { flux, sigma };
  const good = goodPixels(flux, sigma);
  const reach = Math.max(1, Math.ceil(3 * width));
  const kernel = Float64Array.from({ length: 2 * reach + 1 }, (_, i) => Math.exp(-0.5 * ((i - reach) / width) ** 2));
  const n = flux.length;
  const out = new Float32Array(n).fill(NaN);
  const error = new Float32Array(n).fill(NaN);
  for (let i = 0; i < n; i++) {
    let weight = 0, sum = 0, variance = 0;
    const stop = Math.min(n - 1, i + reach);
    for (let j = Math.max(0, i - reach); j <= stop; j++) {
      if (!good[j]) continue;
      const k = kernel[j - i + reach];
      weight += k;
      sum += k * flux[j];
      variance += (k * sigma[j]) ** 2;
    }
    if (weight > 0) {
      out[i] = sum / weight;
      error[i] = Math.sqrt(variance) / weight;
    }
  }
  return { flux: out, sigma: error };
}
