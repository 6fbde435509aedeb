import type { IncidentKind, Subject } from '../../protocol/incident.js';
import type { CommGroup } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { servingTokens } from '../reference/decode-past.js';
import { hasHits, newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import {
  busBandwidth,
  type EarlierTransfers,
  LARGE_BYTES,
  learnTransfer,
  type TransferPast,
  usualSpread,
  usualTransfer,
} from '../reference/transfer-past.js';
import { episodeFinding, lossText, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * The transfer itself became slow, not the ranks: nvlink_stall inside a host, comm_slow between hosts for good,
 * rnic_flap between hosts in bursts.
 *
 * Signature: the shortest duration of a communicator's collectives over its ranks, which holds no waiting, is more than
 * 1.11 x what the same operation and size took before in this job: its bus bandwidth is below 0.9. On recorded H200 GPUs
 * transfers of healthy steps vary by 1.5 %, and medians of 12 of them by 8 % at most. Lasting: in 10 of the last 12 steps.
 * Within a host nobody else uses the link, so that one that carries less is told of before the job feels it; small messages,
 * which tell of latency, and networks that others share must cost 1 % of the step. On a busy network it must be two
 * standard deviations beyond the usual as well, which 1 step in 40 is, and 10 of 12 never.
 * Bursts: three times the usual, at least three separate times, and in between as usual.
 */
export const slowTransfers: Detector<TransferState> = {
  kind: 'nvlink_stall',
  initial: () => ({ past: new Map(), groups: new Map() }),
  step,
};

export interface TransferState {
  past: TransferPast;
  groups: Map<string, GroupState>;
}

/** What a job's next attempt can expect. */
export const usualTransfers = ({ past, groups }: TransferState): EarlierTransfers =>
  new Map(
    [...past].flatMap(([group, sizes]) => {
      const ranks = groups.get(group)?.slots.length ?? 0;
      return [...sizes].flatMap(([key, { usual, spread }]) =>
        usual > 0 ? [[key, { group, ranks, usual, spread }]] : [],
      );
    }),
  );

export interface GroupState {
  lasting: Spell;
  bursts: Spell;
  /** Steps at which a burst began, the last ones. */
  began: number[];
  /** Steps in a row of whose sizes none was known. */
  unjudged: number;
  /** They were slow in the last step. */
  slow: boolean;
  acrossHosts: boolean;
  slots: number[];
  /** Of the last hit: bus bandwidth in GB/s now and usually, and the size it was measured at. */
  now: number;
  usual: number;
  bytes: number;
}

const LASTING = { window: 12, quiet: 12 };
const BURSTS = { window: 600, quiet: 600 };
const MAX_BURSTS = 12;
/** Steps of unknown sizes after which the job does other work than before, to be learnt anew. */
const PATIENCE = 600;

/** Share of the step that slow messages must cost which tell of no bandwidth. */
const LATENCY_EFFECT = 0.01;

/** Standard deviations of a communicator's own transfers. */
const NOISE = 2;

function step(state: TransferState, { topology, views }: JobWindow, params: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  const time = stepTimeOf(view);
  // Where kernels are launched one by one, a collective holds the launches of its ranks as well.
  if (!view.launchBound)
    for (const group of view.groups) if (hasLink(group, topology)) observe(state, view, group, time, params);
  return [...state.groups].flatMap(([name, group]) => findingsOf(name, group, topology, params));
}

/** Ranks of a host without GPUs share its memory: what a host's clock says of them is who had to wait for a processor. */
export const hasLink = ({ acrossHosts, slots }: CommGroup, { clocks }: JobTopology): boolean =>
  acrossHosts || slots.some((slot) => clocks[slot] !== 'host');

/** Takes in what a step's transfers of a group took. */
export function observe(
  state: TransferState,
  view: StepView,
  group: CommGroup,
  time: number,
  { nvlink_stall, comm_slow, rnic_flap }: DetectorParams,
): void {
  const params = group.acrossHosts ? comm_slow : nvlink_stall;
  let known = state.groups.get(group.name);
  if (!known) state.groups.set(group.name, (known = newGroup(group)));
  let [lost, burst, starved, judged] = [0, false, false, false];
  const troubled = hasHits(known.lasting);
  const batched = servingTokens(view) !== undefined;
  for (const size of group.sizes) {
    // Messages of a serving step grow with its batch: where no row says by how much, none can be compared.
    if (size.bytes < 0 && batched) continue;
    const each = size.transfer / size.count;
    const usual = usualTransfer(state.past, group, size);
    const isKnown = !Number.isNaN(usual);
    judged ||= isKnown;
    if (each > Math.max(params.ratio, 1 + NOISE * usualSpread(state.past, group, size)) * usual) {
      lost += (each - usual) * size.count;
      burst ||= each > rnic_flap.ratio * usual;
      starved ||= size.bytes >= LARGE_BYTES;
      const gigabytes = (taken: number): number =>
        rounded(busBandwidth(size.op, group.slots.length, size.bytes, taken) / 1e9, 2);
      Object.assign(known, { now: gigabytes(each), usual: gigabytes(usual), bytes: size.bytes });
    } else if (isKnown ? !known.lasting.episode : !troubled || known.unjudged >= PATIENCE)
      learnTransfer(state.past, group, size, view.step);
  }
  // A step of sizes never seen before, as those that prefill are, says neither that it lasts nor that it is over.
  known.unjudged = judged ? 0 : known.unjudged + 1;
  if (!judged && known.unjudged < PATIENCE) return;
  const hit = lost > Math.max(params.min_effect, starved ? 0 : LATENCY_EFFECT) * time;
  const entry = { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time };
  observeSpell(known.lasting, { ...entry, hit }, spellRule(LASTING, params));
  // Between two bursts transfers are as usual, not only short of a burst.
  if (hit && burst && !known.slow) known.began = [...known.began, view.step].slice(-MAX_BURSTS);
  known.slow = hit;
  const { min_effect: share, bursts: hits } = rnic_flap;
  observeSpell(known.bursts, { ...entry, hit: hit && burst }, { ...BURSTS, hits, share });
}

const newGroup = ({ acrossHosts, slots }: CommGroup): GroupState => ({
  lasting: newSpell(),
  bursts: newSpell(),
  began: [],
  unjudged: 0,
  slow: false,
  acrossHosts,
  slots: [...slots],
  now: 0,
  usual: 0,
  bytes: 0,
});

export function findingsOf(
  name: string,
  group: GroupState,
  topology: JobTopology,
  { rnic_flap: { bursts: minBursts } }: DetectorParams,
): Finding[] {
  const { lasting, bursts, began, acrossHosts } = group;
  if (lasting.episode)
    return [found(acrossHosts ? 'comm_slow' : 'nvlink_stall', lasting.episode, name, group, topology)];
  const flaps =
    acrossHosts && bursts.episode && began.filter((step) => step >= (bursts.episode as SpellEpisode).onsetStep).length;
  if (flaps && flaps >= minBursts) return [found('rnic_flap', bursts.episode as SpellEpisode, name, group, topology)];
  return [];
}

function found(
  kind: IncidentKind,
  episode: SpellEpisode,
  name: string,
  group: GroupState,
  topology: JobTopology,
): Finding {
  const { now, usual, bytes, slots } = group;
  const ranks = slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const what = kind === 'rnic_flap' ? 'falls again and again' : 'has fallen';
  return episodeFinding(kind, topology, episode, {
    key: `group=${name}`,
    subject: subjectOf(kind, name, slots, ranks, topology),
    cause: 'network',
    summary: (cost) =>
      `bandwidth of group ${name} (ranks ${ranks.join(', ')}) ${what} from ${usual} to ${now} GB/s: ${lossText(cost)}`,
    confidence: 0.85,
    evidence: { busbw_gb_s: now, usual_busbw_gb_s: usual, message_bytes: bytes },
    runnerUp: {
      kind: 'straggler',
      why_not:
        'even the rank that nobody waits for spends the time inside the collective: it is the transfer, not an arrival',
    },
  });
}

function subjectOf(
  kind: IncidentKind,
  group: string,
  slots: readonly number[],
  ranks: number[],
  topology: JobTopology,
): Partial<Subject> {
  const hosts = [...new Set(slots.map((slot) => topology.hosts[slot] as string))].filter((host) => host !== '');
  // Between two GPUs of a host the group is the link.
  const link = kind === 'nvlink_stall' && ranks.length === 2 ? ranks.join('-') : null;
  return { group, hosts, link };
}
