import { TRANSFER_SPREAD } from '../baseline/conformal.js';
import type { CommGroup, CommSize } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { lowerMedian, median } from '../reference/statistics.js';
import {
  busBandwidth,
  LARGE_BYTES,
  learnTransfer,
  SURE,
  type TransferPast,
  usualTransfer,
} from '../reference/transfer-past.js';
import { episodeFinding, lossText, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Transfers that were slow from the first step on, seen by comparison within the job.
 *
 * Signatures: (1) a communicator's large messages (from 1 MiB on) reach less than half of the bus bandwidth of its
 * smaller ones; bus bandwidth grows with the size or stays, so a cliff is a fault (a report: 29.5 GB/s at 32 MiB, 5.3
 * at 64 MiB). Sizes of the last steps only: what became slow meanwhile slow-transfers tells of. (2) A communicator
 * takes more than 1.5 x as long as most others of the job for the same operation and size: comm_slow across hosts,
 * within one nvlink_stall for large messages, tp_slow_path (a slow algorithm, peer access off) for small ones. Within
 * hosts large messages of as many ranks take as long in every group: there 1.11 x is enough (bus bandwidth below 0.9),
 * 4.5 standard deviations of what groups differ by (1 % of recorded runs, or what the others do), whatever it costs.
 * Both for most of the last steps, and only while the ranks leave the collective together, so that no straggler
 * explains it.
 */
export const unevenBandwidth: Detector<UnevenState> = {
  kind: 'comm_slow',
  initial: () => ({ past: new Map(), cliffs: new Map(), groups: new Map() }),
  step,
};

export interface UnevenState {
  past: TransferPast;
  cliffs: Map<string, Case>;
  groups: Map<string, Case>;
}

interface Case {
  spell: Spell;
  slots: number[];
  acrossHosts: boolean;
  /** Bus bandwidth in GB/s of the slow messages, and of what they are compared with. */
  slow: number;
  fast: number;
  /** Sizes that are slow, bytes. */
  sizes: number[];
}

const CLIFF = 0.5;
const SLOWER = 1.5;
const MIN_SHARE = 0.02;
const RULE = { window: 12, quiet: 12 };
/** Groups to compare with: with fewer it cannot be said which is the odd one. */
const MIN_OTHERS = 2;
/** And so many where the difference may be small. */
const MIN_TWINS = 3;
/** What healthy groups differ by, at least: a standard deviation of the logarithm. */
const GROUP_SPREAD = Math.hypot(TRANSFER_SPREAD.run, TRANSFER_SPREAD.rank);

function step(state: UnevenState, { topology, views }: JobWindow, params: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  if (!view.launchBound) {
    for (const group of view.groups) for (const size of group.sizes) learnTransfer(state.past, group, size, view.step);
    for (const group of view.groups) observeSizes(state, view, group, params);
    observeGroups(state, view, params);
  }
  return [
    ...[...state.cliffs].flatMap(([name, found]) => findingOf('sizes', name, found, topology)),
    ...[...state.groups].flatMap(([name, found]) => findingOf('groups', name, found, topology)),
  ];
}

function observeSizes(state: UnevenState, view: StepView, group: CommGroup, params: DetectorParams): void {
  const bandwidths = [];
  for (const { op, bytes, usual, step } of state.past.get(group.name)?.values() ?? [])
    if (usual > 0 && view.step - step < RULE.window)
      bandwidths.push({ op, bytes, value: busBandwidth(op, group.slots.length, bytes, usual) });
  if (bandwidths.length < 2) return;
  bandwidths.sort((a, b) => a.bytes - b.bytes);
  let [lost, fast, slow] = [0, 0, 0];
  const cliff = Math.min(CLIFF, 1 / params.comm_slow.ratio);
  const sizes: number[] = [];
  for (const { op, bytes, value } of bandwidths) {
    if (bytes >= LARGE_BYTES && value < cliff * fast) {
      sizes.push(bytes);
      slow = value;
      const now = group.sizes.find((size) => size.bytes === bytes && size.op === op);
      if (now) lost += now.transfer * (1 - value / fast);
    } else fast = Math.max(fast, value);
  }
  const seen = {
    lost,
    slow,
    fast,
    sizes,
    hit: sizes.length > 0,
    sure: false,
    judged: lost > 0 || sizes.length === 0,
  };
  note(state.cliffs, view, group, seen, () => params.comm_slow);
}

function observeGroups(state: UnevenState, view: StepView, params: DetectorParams): void {
  if (view.groups.length <= MIN_OTHERS) return;
  const alike = alikeTransfers(state, view);
  for (const group of view.groups) {
    let [lost, fast, slow, sure] = [0, 0, 0, false];
    const sizes: number[] = [];
    for (const size of group.sizes) {
      const own = usualTransfer(state.past, group, size);
      const others = alike.get(sizeKey(size)) ?? [];
      const { ratio } = params[kindOf('groups', { ...group, sizes: [size.bytes] })];
      const than = slowerThan({ ...group, usual: own }, size.bytes, others, ratio);
      if (!than) continue;
      sizes.push(size.bytes);
      sure ||= than.sure;
      lost += (own - than.usual) * size.count;
      slow = busBandwidth(size.op, group.slots.length, size.bytes, own);
      fast = busBandwidth(size.op, group.slots.length, size.bytes, than.usual);
    }
    note(
      state.groups,
      view,
      group,
      { lost, slow, fast, sizes, sure, hit: lost > 0, judged: true },
      (found) => params[kindOf('groups', found)],
    );
  }
}

/** A communicator and what its transfers of one operation and size usually take, nanoseconds. */
interface Transfer extends Pick<CommGroup, 'name' | 'slots' | 'acrossHosts'> {
  readonly usual: number;
}

const sizeKey = ({ op, bytes }: CommSize): string => `${op}|${bytes}`;

/** Transfers of a step by operation and size, the quickest first. */
function alikeTransfers(state: UnevenState, view: StepView): Map<string, Transfer[]> {
  const alike = new Map<string, Transfer[]>();
  for (const group of view.groups)
    for (const size of group.sizes) {
      const transfer = { ...group, usual: usualTransfer(state.past, group, size) };
      if (Number.isNaN(transfer.usual)) continue;
      const known = alike.get(sizeKey(size));
      if (known) known.push(transfer);
      else alike.set(sizeKey(size), [transfer]);
    }
  for (const transfers of alike.values()) transfers.sort((a, b) => a.usual - b.usual);
  return alike;
}

/** What others take where a communicator is slower than they are; `sure`: so exactly that its cost does not matter. */
function slowerThan(
  own: Transfer,
  bytes: number,
  all: readonly Transfer[],
  ratio: number,
): { usual: number; sure: boolean } | undefined {
  if (!(own.usual > ratio * (all[0]?.usual as number))) return undefined;
  const others = all.filter(({ name }) => name !== own.name);
  const twins = others.filter(({ slots, acrossHosts }) => !acrossHosts && slots.length === own.slots.length);
  if (bytes >= LARGE_BYTES && !own.acrossHosts && twins.length >= MIN_TWINS) {
    const usual = lowerMedian(twins.map((each) => each.usual));
    const spread = 1.4826 * median(twins.map((each) => Math.abs(Math.log(each.usual / usual))));
    // The median of few is itself off: its variance is pi/2 of theirs over their number.
    const error = Math.max(GROUP_SPREAD, spread) * Math.sqrt(1 + Math.PI / 2 / twins.length);
    if (own.usual > Math.max(ratio, Math.exp(SURE * error)) * usual) return { usual, sure: true };
  }
  const usual = lowerMedian(others.map((each) => each.usual));
  if (others.length < MIN_OTHERS || !(own.usual > Math.max(SLOWER, ratio) * usual)) return undefined;
  return { usual, sure: false };
}

interface Seen {
  lost: number;
  slow: number;
  fast: number;
  sizes: number[];
  hit: boolean;
  /** See slowerThan. */
  sure: boolean;
  /** The slow sizes were used in this step. */
  judged: boolean;
}

function note(
  cases: Map<string, Case>,
  view: StepView,
  group: CommGroup,
  seen: Seen,
  paramsOf: (found: Case) => DetectorParams['comm_slow'],
): void {
  let known = cases.get(group.name);
  if (!known) {
    if (!seen.hit) return;
    known = { spell: newSpell(), slots: [...group.slots], acrossHosts: group.acrossHosts, slow: 0, fast: 0, sizes: [] };
    cases.set(group.name, known);
  }
  if (!seen.judged) return;
  if (seen.hit)
    Object.assign(known, { slow: rounded(seen.slow / 1e9, 2), fast: rounded(seen.fast / 1e9, 2), sizes: seen.sizes });
  const { min_effect, persistence } = paramsOf(known);
  observeSpell(
    known.spell,
    { step: view.step, startNs: view.startNs, lost: seen.lost, time: stepTimeOf(view), hit: seen.hit },
    spellRule(RULE, { persistence, min_effect: seen.sure ? min_effect : Math.max(MIN_SHARE, min_effect) }),
  );
}

function kindOf(
  by: 'sizes' | 'groups',
  { acrossHosts, sizes }: Pick<Case, 'acrossHosts' | 'sizes'>,
): 'comm_slow' | 'nvlink_stall' | 'tp_slow_path' {
  if (by === 'sizes' || acrossHosts) return 'comm_slow';
  return Math.max(...sizes) >= LARGE_BYTES ? 'nvlink_stall' : 'tp_slow_path';
}

function findingOf(by: 'sizes' | 'groups', name: string, found: Case, topology: JobTopology): Finding[] {
  const { spell, slots, slow, fast, sizes } = found;
  if (!spell.episode) return [];
  const kind = kindOf(by, found);
  const hosts = [...new Set(slots.map((slot) => topology.hosts[slot] as string))].filter((host) => host !== '');
  const compared = by === 'sizes' ? 'its smaller messages' : 'the other groups';
  return [
    episodeFinding(kind, topology, spell.episode as SpellEpisode, {
      key: `group=${name}|${by}`,
      subject: { group: name, hosts },
      cause: kind === 'tp_slow_path' ? 'configuration' : 'network',
      summary: (cost) =>
        `group ${name} moves messages of ${sizes.join(', ')} bytes at ${slow} GB/s, ${compared} at ${fast}: ${lossText(cost)}`,
      confidence: 0.8,
      evidence: { busbw_gb_s: slow, compared_busbw_gb_s: fast, message_bytes: sizes },
      runnerUp: {
        kind: 'straggler',
        why_not: 'the shortest duration over all ranks is long: nobody in the group arrives late to it',
      },
    }),
  ];
}
