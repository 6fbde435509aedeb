const BAR_CHARS = 30;
/** Anything shorter needs no bar. */
const SHOW_AFTER_MS = 1000;

/** A progress bar on a terminal's stderr for what takes longer than a second. */
export function progressBar(label: string): { update: (done: number, total: number) => void; end: () => void } {
  const started = performance.now();
  let shown = -1;
  const update = (done: number, total: number): void => {
    if (!process.stderr.isTTY || !Number.isFinite(total) || performance.now() - started < SHOW_AFTER_MS) return;
    const percent = Math.floor((100 * done) / Math.max(1, total));
    if (percent === shown) return;
    shown = percent;
    const filled = Math.round((BAR_CHARS * percent) / 100);
    process.stderr.write(`\r${label} [${'='.repeat(filled)}${' '.repeat(BAR_CHARS - filled)}] ${percent} %`);
  };
  const end = (): void => {
    if (shown >= 0) process.stderr.write('\r\x1b[K');
  };
  return { update, end };
}
