/**
 * Benjamini-Hochberg (1995): of many tests at once, such as every rank and phase of a step, those to believe so that at
 * most the share `rate` of them is expected to be false. Holds for independent tests and for positively dependent ones.
 *
 * @param pValues in [0, 1]; undefined or NaN: not tested
 * @param rate false discovery rate, in (0, 1)
 * @returns indices of the tests to believe, in ascending order
 */
export function falseDiscoveryControl(pValues: readonly (number | undefined)[], rate: number): number[] {
  const tested = pValues.flatMap((p, index) => (p === undefined || Number.isNaN(p) ? [] : [{ p, index }]));
  tested.sort((a, b) => a.p - b.p);
  const believed = tested.findLastIndex(({ p }, i) => p <= ((i + 1) / tested.length) * rate) + 1;
  return tested
    .slice(0, believed)
    .map(({ index }) => index)
    .sort((a, b) => a - b);
}
