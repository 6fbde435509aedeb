import type { Metric, Registry } from 'prom-client';
import { KIND_NAMES, type KindName, PHASES } from '../protocol/vocabulary.js';
import type { PhaseKey } from './phase-table.js';

const NAME = 'picket_phase_duration_seconds';
const HELP = 'Durations of single phases; names outside the vocabulary are "other".';
const BUCKETS_S = [
  1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];
const BUCKETS_NS = Float64Array.from(BUCKETS_S, (seconds) => seconds * 1e9);
const KNOWN: ReadonlySet<string> = new Set(PHASES);

interface Series {
  readonly labels: { readonly phase: string; readonly kind: KindName };
  /** By bucket, not summed up; the last is for what is longer than all. */
  readonly counts: Float64Array;
  sumNs: number;
}

/** A Prometheus histogram of a million phases a second: prom-client's own costs more than all the rest of the collector. */
export class PhaseDurations {
  readonly #series: Series[] = [];
  readonly #byLabels = new Map<string, number>();

  constructor(registry: Registry) {
    // All that a registry asks of a metric.
    const metric = { name: NAME, help: HELP, type: 'histogram', aggregator: 'sum', get: async () => this.#get() };
    registry.registerMetric(metric as unknown as Metric);
  }

  /** The series that phases of a key go to. */
  seriesOf({ name, kind }: Pick<PhaseKey, 'name' | 'kind'>): number {
    const labels = { phase: KNOWN.has(name) ? name : 'other', kind: KIND_NAMES[kind] as KindName };
    const text = `${labels.phase} ${labels.kind}`;
    let series = this.#byLabels.get(text);
    if (series === undefined) {
      series = this.#series.push({ labels, counts: new Float64Array(BUCKETS_NS.length + 1), sumNs: 0 }) - 1;
      this.#byLabels.set(text, series);
    }
    return series;
  }

  observe(series: number, durationNs: number): void {
    const one = this.#series[series] as Series;
    let bucket = 0;
    while (bucket < BUCKETS_NS.length && durationNs > (BUCKETS_NS[bucket] as number)) bucket++;
    one.counts[bucket] = (one.counts[bucket] as number) + 1;
    one.sumNs += durationNs;
  }

  #get() {
    const values = this.#series.flatMap(({ labels, counts, sumNs }) => {
      let sum = 0;
      const buckets = [...BUCKETS_S, '+Inf'].map((le, i) => {
        sum += counts[i] as number;
        return { metricName: `${NAME}_bucket`, labels: { ...labels, le }, value: sum };
      });
      return [
        ...buckets,
        { metricName: `${NAME}_sum`, labels, value: sumNs / 1e9 },
        { metricName: `${NAME}_count`, labels, value: sum },
      ];
    });
    return { name: NAME, help: HELP, type: 'histogram', aggregator: 'sum', values };
  }
}
