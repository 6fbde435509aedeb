import { TRANSFER_SPREAD } from '../baseline/conformal.js';
import { launchOf } from '../baseline/shape.js';
import { hasBusyGpu } from '../pipeline/busy-gpu.js';
import type { CommGroup, CommSize } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { median } from '../reference/statistics.js';
import { LARGE_BYTES, SURE } from '../reference/transfer-past.js';
import { episodeFinding, lossText, rounded } from './episode-finding.js';
import { type Detector, type Finding, type JobWindow, WINDOW_STEPS } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Transfers that are slow from the first step on, which only an expectation from outside of the run can see.
 *
 * Signature: collectives take more than the fleet's baseline expects of the same operation, size, number of ranks and hosts
 * in nearly all of the last steps, or the median of the last ones of a size does. Steps of one run say little of the next:
 * medians of ten recorded runs of two H200 GPUs differ by 1.4 % (of one size by 6 %), single steps by 1.5 %. More is 4.5
 * standard deviations of what runs and communicators differ by, as the baseline measured it (one of 300,000 healthy sizes
 * lies further out), 1.11 x at least (bus bandwidth below 0.9), and beyond the baseline's 95 % line for single steps.
 * Between hosts, where others use the network too, it is 1.25 x, and 2 % of the step.
 *
 * Between hosts that is comm_slow where there are large messages; small ones alone tell of latency, and not of a port's
 * bandwidth. Within a host bandwidth is missing where the larger messages are the worse, or there are large ones only:
 * nvlink_stall. So it is where they were as expected before. Where all or only the small ones suffer, a slow algorithm runs:
 * tp_slow_path. While a GPU of the group is busy with something else, nothing is judged. Where no baseline knows a collective,
 * the same communicator in the job's attempt before, of the same engine, model, device and configuration, tells what to
 * expect; on the first attempt nothing is said.
 */
export const expectedTransfers: Detector<ExpectedState> = {
  kind: 'tp_slow_path',
  initial: () => ({ groups: new Map() }),
  step,
};

export interface ExpectedState {
  groups: Map<string, GroupState>;
}

type Kind = 'tp_slow_path' | 'comm_slow' | 'nvlink_stall';

interface GroupState {
  spell: Spell;
  slots: number[];
  hosts: number;
  /** By operation and logarithm of the message size. */
  sizes: Map<string, SizeState>;
  /** Of the running episode: what an incident is does not change. */
  kind: Kind | null;
  /** Of the last slow step, microseconds a collective. */
  nowUs: number;
  expectedUs: number;
  /** Who expects it. */
  from: string;
}

interface SizeState {
  /** Of one message, the last one. */
  bytes: number;
  /** The last transfers over what is expected of them, and their median. */
  ratios: Ring;
  usual: number;
  /** See ExpectedTransfer. */
  spread: number;
  /** The median is more than healthy runs differ by; and when it was last renewed. */
  slow: boolean;
  step: number;
  /** The last one is; and it was as expected before, in this run. */
  slowNow: boolean;
  wasUsual: boolean;
}

const RULE = { window: 12, quiet: 12 };
/** Transfers of a size whose median is looked at, and from how many on. */
const KEPT = 12;
const KNOWN_AT = 8;
/** Two attempts of one job differ as two runs do. */
const ATTEMPT_SPREAD = Math.SQRT2 * TRANSFER_SPREAD.run;
/** Standard normal quantile. */
const Q95 = 1.645;
const BETWEEN_HOSTS = { ratio: 1.25, min_effect: 0.02 };
/** The largest messages lack bandwidth that are so much further off than the smallest (logarithms), and surely so. */
const STARVED = 1.5;
const SURELY_STARVED = 2 * Math.SQRT2;

function step(state: ExpectedState, window: JobWindow, params: DetectorParams): Finding[] {
  const { topology, views, expectations, earlier } = window;
  const view = views.at(-1) as StepView;
  if ((expectations || earlier) && !view.launchBound)
    for (const group of view.groups) {
      if (!group.acrossHosts && hasBusyGpu(view, group.slots)) continue;
      const hosts = new Set(group.slots.map((slot) => topology.hosts[slot])).size;
      observe(state, view, group, hosts, params, (size) => expectedOf(window, view, group, hosts, size));
    }
  return [...state.groups].flatMap(([name, group]) =>
    group.spell.episode ? [found(name, group, group.spell.episode, topology)] : [],
  );
}

/** Groups that are slow now: their transfers are nothing to expect of a later attempt. */
export const slowGroups = ({ groups }: ExpectedState): Set<string> =>
  new Set([...groups].flatMap(([name, { spell }]) => (spell.episode ? [name] : [])));

/** What a collective should take, nanoseconds, and who says so. */
interface Expected {
  readonly q50: number;
  readonly q95: number;
  readonly spread: number;
  readonly from: string;
}

function expectedOf(
  { expectations, earlier }: JobWindow,
  view: StepView,
  group: CommGroup,
  hosts: number,
  { key, op, bytes }: CommSize,
): Expected | undefined {
  const ranks = group.slots.length;
  const launch = launchOf(view.graph[group.slots[0] as number] as number);
  const ofFleet = expectations?.expectedTransfer({ op, ranks, hosts, launch, bytes });
  if (ofFleet) return { ...ofFleet, from: 'the fleet' };
  const before = earlier?.get(key);
  if (!before || before.ranks !== ranks || !(bytes > 0)) return undefined;
  const { usual, spread } = before;
  return { q50: usual, q95: usual * (1 + Q95 * spread), spread: ATTEMPT_SPREAD, from: 'the attempt before' };
}

function observe(
  state: ExpectedState,
  view: StepView,
  group: CommGroup,
  hosts: number,
  params: DetectorParams,
  expect: (size: CommSize) => Expected | undefined,
): void {
  let known = state.groups.get(group.name);
  const floor = floorOf(known, hosts, params);
  let [lost, judged] = [0, false];
  for (const size of group.sizes) {
    const expected = expect(size);
    if (!expected) continue;
    const { op, bytes, count, transfer } = size;
    if (!known) state.groups.set(group.name, (known = newGroup(group, hosts)));
    judged = true;
    const each = transfer / count;
    const least = Math.max(floor.ratio, Math.exp(SURE * expected.spread));
    noteSize(known, op, bytes, { ratio: each / expected.q50, least, spread: expected.spread, step: view.step });
    if (each <= least * expected.q50 || each <= expected.q95) continue;
    lost += (each - expected.q50) * count;
    Object.assign(known, {
      nowUs: rounded(each / 1e3, 1),
      expectedUs: rounded(expected.q50 / 1e3, 1),
      from: expected.from,
    });
  }
  if (!known || !judged) return;
  const entry = { step: view.step, startNs: view.startNs, lost, time: stepTimeOf(view) };
  // Batches of other sizes in between do not make a size quicker.
  const hit = lost > 0 || [...known.sizes.values()].some(({ slow, step: at }) => slow && at > view.step - WINDOW_STEPS);
  if (!observeSpell(known.spell, { ...entry, hit }, spellRule(RULE, floor))) known.kind = null;
  else known.kind ??= kindOf(known);
}

const newGroup = ({ slots }: CommGroup, hosts: number): GroupState => ({
  spell: newSpell(),
  slots: [...slots],
  hosts,
  sizes: new Map(),
  kind: null,
  nowUs: 0,
  expectedUs: 0,
  from: '',
});

function noteSize(
  { sizes }: GroupState,
  op: string,
  bytes: number,
  { ratio, least, spread, step }: { ratio: number; least: number; spread: number; step: number },
): void {
  const key = `${op}|${Math.round(Math.log2(bytes))}`;
  let size = sizes.get(key);
  if (!size) {
    size = { bytes, ratios: newRing(KEPT), usual: 1, spread, slow: false, slowNow: false, wasUsual: false, step };
    sizes.set(key, size);
  }
  pushRing(size.ratios, ratio);
  const usual = median(ringValues(size.ratios));
  Object.assign(size, { bytes, usual, spread, step, slowNow: ratio > least });
  if (size.ratios.count < KNOWN_AT) return;
  size.slow = usual > least;
  size.wasUsual ||= usual < Math.sqrt(least);
}

/** What is filed as another kind must satisfy that kind's parameters as well. */
function floorOf(known: GroupState | undefined, hosts: number, params: DetectorParams): DetectorParams['tp_slow_path'] {
  const { ratio, min_effect, persistence } = params[known ? kindOf(known) : 'tp_slow_path'];
  const shared = hosts > 1 ? BETWEEN_HOSTS : { ratio: 1, min_effect: 0 };
  return {
    ratio: Math.max(ratio, params.tp_slow_path.ratio, shared.ratio),
    min_effect: Math.max(min_effect, params.tp_slow_path.min_effect, shared.min_effect),
    persistence,
  };
}

/** From the smallest messages to the largest. */
const bySize = ({ sizes }: GroupState): SizeState[] => [...sizes.values()].sort((a, b) => a.bytes - b.bytes);

function kindOf(group: GroupState): Kind {
  if (group.kind) return group.kind;
  const sizes = bySize(group);
  const [small, large] = [sizes[0], sizes.at(-1)] as [SizeState, SizeState];
  if (group.hosts > 1) return large.bytes >= LARGE_BYTES ? 'comm_slow' : 'tp_slow_path';
  const starved =
    sizes.length > 1 &&
    Math.log(large.usual) > STARVED * Math.log(Math.max(1, small.usual)) + SURELY_STARVED * large.spread;
  // An algorithm is chosen when a run begins: what becomes slow later is the link.
  const changed = sizes.some(({ slowNow, wasUsual }) => slowNow && wasUsual);
  return starved || changed || small.bytes >= LARGE_BYTES ? 'nvlink_stall' : 'tp_slow_path';
}

function found(name: string, group: GroupState, episode: SpellEpisode, topology: JobTopology): Finding {
  const { slots, nowUs, expectedUs, from } = group;
  const ranks = slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const named = [...new Set(slots.map((slot) => topology.hosts[slot] as string))].filter((host) => host !== '');
  const kind = kindOf(group);
  const starved = kind !== 'tp_slow_path';
  const sizes = bySize(group);
  return episodeFinding(kind, topology, episode, {
    key: `group=${name}`,
    subject: {
      group: name,
      hosts: named,
      link: kind === 'nvlink_stall' && ranks.length === 2 ? ranks.join('-') : null,
    },
    cause: starved ? 'network' : 'configuration',
    summary: (cost) =>
      `collectives of group ${name} (ranks ${ranks.join(', ')}) take ${nowUs} us where ${from} takes ${expectedUs}: ${lossText(cost)}`,
    confidence: 0.9,
    evidence: {
      transfer_us: nowUs,
      expected_us: expectedUs,
      message_bytes: sizes.map(({ bytes }) => bytes),
      times_expected: sizes.map(({ usual }) => rounded(usual, 2)),
    },
    runnerUp: {
      kind: starved ? 'tp_slow_path' : 'nvlink_stall',
      why_not: starved
        ? `${sizes.length > 1 ? 'the larger' : 'large'} messages lie far from what is expected: bandwidth is missing`
        : 'large messages are no further from what is expected than small ones: the algorithm, not the bandwidth',
    },
  });
}
