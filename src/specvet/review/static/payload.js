// The binary form of spectra: a JSON header, then Float32 arrays. See docs/review.md.

/** {header fields…, wave, flux, sigma} of an ArrayBuffer; throws where it is cut short. */
export function decodeSpectrum(buffer) {
  const { header, offset } = readHeader(buffer);
  const n = header.n;
  if (buffer.byteLength < offset + 12 * n) throw new Error(`a spectrum of ${n} pixels came cut short`);
  const array = (k) => new Float32Array(buffer, offset + 4 * n * k, n);
  return { ...header, wave: array(0), flux: array(1), sigma: array(2) };
}

/** The thumbnails of a reply, each {item, wave, flux}; `header.items` lists {item, n, …} in their order. */
export function decodeThumbnails(buffer) {
  const { header, offset } = readHeader(buffer);
  let at = offset;
  return header.items.map((entry) => {
    const wave = new Float32Array(buffer, at, entry.n);
    const flux = new Float32Array(buffer, at + 4 * entry.n, entry.n);
    at += 8 * entry.n;
    return { ...entry, wave, flux };
  });
}

function readHeader(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { header, offset: 4 * Math.ceil((4 + length) / 4) };
}
