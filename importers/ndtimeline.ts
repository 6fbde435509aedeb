import { type JobMeta, newJobMeta } from '../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../protocol/phase-batch.js';
import { canonicalPhase, KIND, kindOfPhase } from '../protocol/vocabulary.js';

/** One operation of a training rank as NDTimeline records it. */
export interface TimelineEvent {
  readonly optype: string;
  readonly dp: number;
  readonly tp: number;
  readonly stage: number;
  readonly step: number;
  /** Number of the operation within the step, rank and optype. */
  readonly seq: number;
  /** -1: none. */
  readonly microbatch: number;
  /** Since the first step. */
  readonly startNs: number;
  readonly durNs: number;
}

/** NDTimeline gives times within a job only; they are laid from here on (2023-11-14), so that the same file gives the same rows. */
const BASE_NS = 1_700_000_000_000_000_000n;

/** What NDTimeline's names mean: the phase, and which communicator of the rank it runs on. */
const OPTYPES: Record<string, { phase: string; group?: (layout: Layout, at: Place) => Group | undefined }> = {
  'forward-compute': { phase: 'forward' },
  'backward-compute': { phase: 'backward' },
  'forward-send': { phase: 'send', group: (layout, at) => layout.pair(at, layout.neighbour(at, 1)) },
  'forward-recv': { phase: 'recv', group: (layout, at) => layout.pair(layout.neighbour(at, -1), at) },
  'backward-send': { phase: 'send', group: (layout, at) => layout.pair(at, layout.neighbour(at, -1)) },
  'backward-recv': { phase: 'recv', group: (layout, at) => layout.pair(layout.neighbour(at, 1), at) },
  'grads-reduce-scatter': {
    phase: 'reduce_scatter',
    group: (layout, { stage, tp }) => layout.group(`grads stage ${stage}`, tp, (at) => at.stage === stage),
  },
  'params-all-gather': {
    phase: 'all_gather',
    group: (layout, { stage, tp }) => layout.group(`params stage ${stage}`, tp, (at) => at.stage === stage),
  },
  'embedding-grads-all-reduce': {
    phase: 'all_reduce',
    group: (layout, { dp, tp }) =>
      layout.group(`embedding dp ${dp}`, tp, (at) => at.dp === dp && (at.stage === 0 || at.stage === layout.lastStage)),
  },
  'layernorm-grads-all-reduce': {
    phase: 'all_reduce',
    group: (layout, { dp, stage }) =>
      layout.groupOfAll(`tp dp ${dp} stage ${stage}`, (at) => at.dp === dp && at.stage === stage),
  },
  'optimizer-clip-main-grad': { phase: 'all_reduce', group: (layout) => layout.groupOfAll('world', () => true) },
};

/** Rows of a recorded job, by step and start; ranks are numbered by stage, then data parallel, then tensor parallel rank. */
export function timelineRows(job: string, events: readonly TimelineEvent[]): PhaseBatch {
  const layout = new Layout(events);
  const rows = new PhaseBatchBuilder(newJobMeta(job));
  const inOrder = [...events].sort((a, b) => a.step - b.step || a.startNs - b.startNs);
  for (const event of inOrder) {
    const type = OPTYPES[event.optype];
    const phase = type?.phase ?? canonicalPhase(event.optype);
    const group = type?.group?.(layout, event)?.name ?? '';
    rows.push({
      rank: layout.rankOf(event),
      step: event.step,
      microbatch: event.microbatch,
      phase,
      kind: phase === 'gc' ? KIND.host : KIND[kindOfPhase(phase)],
      start_ns: BASE_NS + BigInt(event.startNs),
      dur_ns: event.durNs,
      op: type?.group ? phase : '',
      group,
      seq: event.seq,
    });
  }
  return { ...rows.take(), meta: newJobMeta(job, layout.facts()) };
}

type Place = Pick<TimelineEvent, 'dp' | 'tp' | 'stage'>;

interface Group {
  readonly name: string;
  readonly ranks: number[];
}

/** The ranks of the job, and the communicators met so far. */
class Layout {
  readonly lastStage: number;
  readonly #places: readonly Place[];
  readonly #rankOfKey: ReadonlyMap<string, number>;
  readonly #groups = new Map<string, Group>();

  constructor(places: readonly Place[]) {
    const known = new Map(places.map(({ dp, tp, stage }) => [keyOf({ dp, tp, stage }), { dp, tp, stage }]));
    this.#places = [...known.values()].sort((a, b) => a.stage - b.stage || a.dp - b.dp || a.tp - b.tp);
    this.#rankOfKey = new Map(this.#places.map((place, rank) => [keyOf(place), rank]));
    this.lastStage = this.#places.at(-1)?.stage ?? 0;
  }

  rankOf(place: Place): number {
    return this.#rankOfKey.get(keyOf(place)) ?? -1;
  }

  neighbour({ dp, tp, stage }: Place, by: 1 | -1): Place {
    return { dp, tp, stage: stage + by };
  }

  /** The direction of a pipeline from one rank to its neighbour; undefined at the ends. */
  pair(from: Place, to: Place): Group | undefined {
    const ranks = [this.rankOf(from), this.rankOf(to)];
    return ranks.includes(-1) ? undefined : this.#add(`pp ${ranks.join('->')}`, () => ranks);
  }

  /** Ranks of one tensor parallel index. */
  group(name: string, tp: number, includes: (place: Place) => boolean): Group {
    return this.groupOfAll(tp === 0 ? name : `${name} tp ${tp}`, (place) => place.tp === tp && includes(place));
  }

  groupOfAll(name: string, includes: (place: Place) => boolean): Group {
    return this.#add(name, () => this.#places.flatMap((place, rank) => (includes(place) ? [rank] : [])));
  }

  facts(): Pick<JobMeta, 'groups' | 'ranks'> {
    const groups = [...this.#groups.values()].map(({ name, ranks }) => [name, ranks.sort((a, b) => a - b)]);
    return {
      groups: Object.fromEntries(groups),
      ranks: this.#places.map(({ dp, tp, stage }, rank) => ({ rank, dp, tp, pp: stage, stage })),
    };
  }

  #add(name: string, ranks: () => number[]): Group {
    let group = this.#groups.get(name);
    if (!group) this.#groups.set(name, (group = { name, ranks: ranks() }));
    return group;
  }
}

const keyOf = ({ dp, tp, stage }: Place): string => `${stage}/${dp}/${tp}`;
