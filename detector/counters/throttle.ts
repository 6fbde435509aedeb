/** Bits of NVML's clocks event reasons (nvml.h) that slow a GPU down. */
const REASONS: readonly [bit: number, words: string][] = [
  [0x4, 'software power cap'],
  [0x8, 'hardware slowdown'],
  [0x20, 'software thermal slowdown'],
  [0x40, 'hardware thermal slowdown'],
  [0x80, 'power brake'],
];

/** Why these GPUs' clocks are held back while those of most others are not; '' for no such reason. */
export function throttleWords(own: readonly number[], others: readonly number[]): string {
  const has = (bits: readonly number[], bit: number): number => bits.filter((reasons) => (reasons & bit) !== 0).length;
  return REASONS.filter(([bit]) => has(own, bit) > 0 && 2 * has(others, bit) <= others.length)
    .map(([, words]) => words)
    .join(', ');
}
