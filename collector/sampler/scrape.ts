import { meaningOf } from '../../protocol/sample-meaning.js';
import { type Exposed, parseExposition } from './prometheus-text.js';
import type { Reading } from './reading.js';

const MAX_BYTES = 16 * 1024 * 1024;
/** GPUs and NICs in the words of exporters: dcgm-exporter, node_exporter. */
const GPU_LABELS = ['UUID', 'uuid'] as const;
const NIC_LABELS = ['device', 'nic'] as const;

/** Asks an engine or an exporter for its metrics. Throws where it does not answer with them in time. */
export async function scrape(url: string, timeoutMs: number): Promise<Reading[]> {
  const response = await fetch(url, {
    headers: { accept: 'text/plain;version=0.0.4' },
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (!response.ok) throw new Error(`answered ${response.status}`);
  const length = Number(response.headers.get('content-length') ?? 0);
  if (length > MAX_BYTES) throw new Error(`answered with ${length} bytes, more than ${MAX_BYTES}`);
  return readingsOf(await response.text());
}

/**
 * What of an exposition detectors ask for. One reading a metric, GPU and NIC: of other labels counters are added up and of
 * gauges the largest counts, so that nobody's labels make more.
 */
export function readingsOf(text: string): Reading[] {
  const readings = new Map<string, Reading>();
  for (const exposed of parseExposition(text, (name) => meaningOf({ name, unit: '' }) !== undefined)) {
    const { name, counter, value, labels } = exposed;
    const place = placeOf(labels);
    const key = `${name}|${place.gpu ?? ''}|${place.nic ?? ''}`;
    const before = readings.get(key)?.value;
    const sum = before === undefined ? value : counter ? before + value : Math.max(before, value);
    readings.set(key, { name, value: sum, cumulative: counter, ...place });
  }
  return [...readings.values()];
}

function placeOf(labels: Exposed['labels']): Pick<Reading, 'gpu' | 'nic'> {
  const first = (names: readonly string[]): string | undefined =>
    names.map((name) => labels[name]).find((value) => value);
  const gpu = first(GPU_LABELS);
  // dcgm-exporter's `device` is the GPU's.
  const nic = gpu === undefined ? first(NIC_LABELS) : undefined;
  return { ...(gpu !== undefined && { gpu }), ...(nic !== undefined && { nic }) };
}
