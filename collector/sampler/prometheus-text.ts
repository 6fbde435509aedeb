/** One line of an exposition. */
export interface Exposed {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** It is declared a counter. */
  readonly counter: boolean;
}

/** `name{labels} value timestamp`; label values may hold escaped quotes, and braces. */
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"/g;
const TYPE = /^# TYPE (\S+) (\w+)/;

/**
 * Reads the Prometheus text format (and what of OpenMetrics is alike), lines of `wanted` names only; lines that are none
 * are left out. Histograms' and summaries' lines are read as they stand.
 */
export function* parseExposition(text: string, wanted: (name: string) => boolean): Generator<Exposed> {
  let counter = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) {
      const [, name, type] = TYPE.exec(line) ?? [];
      if (name !== undefined) counter = type === 'counter' ? name : '';
      continue;
    }
    const [, name, labels = '', text = ''] = LINE.exec(line) ?? [];
    if (name === undefined || !wanted(name)) continue;
    const value = text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text);
    if (!Number.isFinite(value)) continue;
    // OpenMetrics declares a counter without the suffix of its lines.
    yield { name, labels: labelsOf(labels), value, counter: name === counter || name === `${counter}_total` };
  }
}

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name, value] of text.matchAll(LABEL))
    labels[name as string] = (value as string).replace(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
  return labels;
}
