import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { KIND } from '../../protocol/vocabulary.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type JobTopology, slotOf } from '../pipeline/topology.js';
import { median } from '../reference/statistics.js';
import { episodeFinding, rounded } from './episode-finding.js';
import type { Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * A collective does not end, and who has not arrived in it.
 *
 * Signature (as in DLRover's xpu_timer and Mycroft, SOSP'25): a communication phase has begun and not ended for
 * three usual steps, at least a second. Of its communicator's ranks those that have not begun it are named; if all have,
 * it is the transfer that hangs and no rank is named. It is seen while it lasts, from rows that say `open`: the step it is
 * in never closes, so this does not wait for steps. Before three steps are known it takes half
 * an hour: first steps compile, and a recorded one took 22 minutes (training events in DLRover, which gives first steps 2 h). A checkpoint or evaluation under way on a rank explains that it has not come.
 * Nobody is said not to have arrived whose host may only not have reported yet: all hosts of such ranks must have been
 * heard since, unless twice as much time has passed.
 */
export interface OpenPhases {
  /** `slot|phase|group|step` -> one a number */
  phases: Map<string, OpenPhase[]>;
  /** Messages while anything was open, and host -> the last one of it. */
  messages: number;
  heard: Map<string, number>;
}

export interface OpenPhase {
  slot: number;
  step: number;
  phase: string;
  group: string;
  seq: number;
  startNs: bigint;
  /** So far. */
  durationNs: number;
  comm: boolean;
  /** Message in which it was first reported. */
  since: number;
}

export const newOpenPhases = (): OpenPhases => ({ phases: new Map(), messages: 0, heard: new Map() });

/** Before so many are known, nobody can say how long steps take. */
const KNOWN_STEPS = 3;
const PAUSES: ReadonlySet<string> = new Set(['checkpoint', 'evaluation']);

/** Takes in which phases of a message are still open, and which have ended since. */
export function noteOpen(open: OpenPhases, batch: PhaseBatch, keep: Uint8Array | null, topology: JobTopology): void {
  const { columns, meta } = batch;
  if (open.phases.size === 0 && !columns.open.includes(1)) return;
  open.heard.set(meta.host, ++open.messages);
  for (let i = 0; i < batch.length; i++) {
    if (keep && keep[i] === 0) continue;
    const slot = slotOf(topology, columns.rank[i] as number, meta.host);
    const phase = columns.phase.values[columns.phase.indices[i] as number] as string;
    const group = columns.group.values[columns.group.indices[i] as number] as string;
    const [seq, step] = [columns.seq.number(i), columns.step.number(i)];
    const key = `${slot}|${phase}|${group}|${step}`;
    const known = open.phases.get(key);
    // A sum of several has no number: it ends them all. What is open need not have one either.
    const all = columns.open[i] === 0 && ((columns.count[i] as number) > 1 || seq < 0);
    const others = all ? [] : (known?.filter((one) => one.seq >= 0 && one.seq !== seq) ?? []);
    if (columns.open[i] === 1) {
      const [startNs, durationNs] = [columns.start_ns.bigint(i), columns.dur_ns.number(i)];
      const since = known?.find((one) => one.seq === seq)?.since ?? open.messages;
      others.push({ slot, step, phase, group, seq, startNs, durationNs, comm: columns.kind[i] === KIND.comm, since });
    }
    if (others.length > 0) open.phases.set(key, others);
    else if (known) open.phases.delete(key);
  }
}

/** Where the run has come to, by its phases that are still open; undefined: none is. */
export function newestOf(open: OpenPhases): { step: number; ns: bigint } | undefined {
  let newest: { step: number; ns: bigint } | undefined;
  for (const { step, startNs, durationNs } of [...open.phases.values()].flat()) {
    const ns = startNs + BigInt(Math.round(durationNs));
    if (!newest || ns > newest.ns) newest = { step, ns };
  }
  return newest;
}

/** Collectives that hang now, one finding a communicator: those issued behind the first wait for it. */
export function hangingCollectives(open: OpenPhases, window: JobWindow, { comm_hang }: DetectorParams): Finding[] {
  if (open.phases.size === 0) return [];
  const limit = limitOf(window.views, comm_hang);
  const collectives = new Map<string, OpenPhase[]>();
  const phases = [...open.phases.values()].flat();
  for (const phase of phases) {
    if (!phase.comm) continue;
    const key = `${phase.group}|${phase.phase}|${phase.seq}|${phase.step}`;
    collectives.set(key, [...(collectives.get(key) ?? []), phase]);
  }
  const paused = new Set(phases.filter(({ phase }) => PAUSES.has(phase)).map(({ slot }) => slot));
  const first = new Map<string, OpenPhase[]>();
  for (const arrived of collectives.values()) {
    if (!arrived.some(({ durationNs }) => durationNs > limit)) continue;
    const [{ group, phase }] = arrived as [OpenPhase];
    const known = first.get(group || phase);
    if (!known || beginOf(arrived) < beginOf(known)) first.set(group || phase, arrived);
  }
  return [...first.values()].flatMap((arrived) => findingOf(arrived, { open, paused, limit }, window.topology));
}

const beginOf = (arrived: readonly OpenPhase[]): bigint =>
  arrived.map(({ startNs }) => startNs).sort((a, b) => (a < b ? -1 : 1))[0] as bigint;

function limitOf(views: readonly StepView[], params: DetectorParams['comm_hang']): number {
  const { steps, min_seconds, first_seconds } = params;
  if (views.length < KNOWN_STEPS) return first_seconds * 1e9;
  return Math.max(min_seconds * 1e9, steps * median(views.map(stepTimeOf)));
}

interface Hanging {
  readonly open: OpenPhases;
  readonly paused: ReadonlySet<number>;
  readonly limit: number;
}

function findingOf(arrived: OpenPhase[], { open, paused, limit }: Hanging, topology: JobTopology): Finding[] {
  const [first] = arrived as [OpenPhase];
  const members = membersOf(first, arrived, topology);
  const missing = members.filter((slot) => !arrived.some((phase) => phase.slot === slot));
  if (missing.some((slot) => paused.has(slot))) return [];
  const waited = Math.max(...arrived.map(({ durationNs }) => durationNs));
  const since = Math.min(...arrived.map((phase) => phase.since));
  const silent = missing.some((slot) => (open.heard.get(topology.hosts[slot] as string) ?? 0) < since);
  if (silent && waited < 2 * limit) return [];
  const ranks = missing.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const hosts = [...new Set(missing.map((slot) => topology.hosts[slot] as string))].filter((host) => host !== '');
  const group = first.group || null;
  const startNs = beginOf(arrived);
  const seconds = rounded(waited / 1e9, 1);
  const who = ranks.length > 0 ? `rank ${ranks.join(', ')} has not arrived` : 'all its ranks have arrived';
  return [
    episodeFinding(
      'comm_hang',
      topology,
      { onsetStep: first.step, onsetNs: startNs, lost: waited, time: waited, steps: 1, hits: 1 },
      {
        key: `group=${first.group}|${first.phase}|${first.seq}`,
        subject: { ranks, hosts, group, phase: first.phase },
        cause: ranks.length > 0 ? 'unknown' : 'network',
        summary: () => `${first.phase}${group ? ` of group ${group}` : ''} has not ended for ${seconds} s: ${who}`,
        confidence: ranks.length > 0 ? 0.9 : 0.7,
        evidence: {
          open_s: seconds,
          limit_s: rounded(limit / 1e9, 1),
          seq: first.seq,
          arrived: arrived.length,
          members: members.length,
        },
        runnerUp: {
          kind: 'transient_stall',
          why_not: 'it is not over, and several usual steps would have fitted into the time',
        },
      },
    ),
  ];
}

/** Ranks of the communicator; where nobody says who they are, the ranks of the same stage. */
function membersOf({ group, slot }: OpenPhase, arrived: readonly OpenPhase[], topology: JobTopology): number[] {
  const named = topology.meta.groups[group]
    ?.map((rank) => topology.slotOfRank.get(rank))
    .filter((known) => known !== undefined);
  if (named && named.length > 0) return named;
  if (group) return arrived.map((phase) => phase.slot);
  return topology.ranks.map((_, other) => other).filter((other) => topology.stages[other] === topology.stages[slot]);
}
