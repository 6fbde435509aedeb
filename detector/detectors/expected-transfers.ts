import { launchOf } from '../baseline/shape.js';
import type { CommGroup } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { LARGE_BYTES } from '../reference/transfer-past.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Transfers that are slow from the first step on, which only an expectation from outside of the run can see.
 *
 * Signature: collectives take more than 1.25 x what the fleet's baseline expects of the same operation, size, number of
 * ranks and hosts, beyond its 95 % line, in nearly all of the last steps. Between hosts that is comm_slow where there are
 * large messages; small ones alone tell of latency, and not of a port's bandwidth. Within a host bandwidth is missing where
 * the larger messages are the worse, or there are large ones only: nvlink_stall. Where all or only the small ones suffer, a
 * slow algorithm runs: tp_slow_path. Without a baseline nothing is said.
 */
export const expectedTransfers: Detector<ExpectedState> = {
  kind: 'tp_slow_path',
  initial: () => ({ groups: new Map() }),
  step,
};

export interface ExpectedState {
  groups: Map<string, GroupState>;
}

interface GroupState {
  spell: Spell;
  slots: number[];
  hosts: number;
  /** Message size -> its last transfer over the expected one. */
  ratios: Map<number, number>;
  /** Of the last slow step, microseconds a collective. */
  nowUs: number;
  expectedUs: number;
}

const RULE = { window: 12, quiet: 12 };
/** So much further from what is expected than the smallest messages: the largest lack bandwidth. */
const STARVED = 1.25;

function step(state: ExpectedState, window: JobWindow, params: DetectorParams): Finding[] {
  const { topology, views, expectations } = window;
  const view = views.at(-1) as StepView;
  if (expectations && !view.launchBound)
    for (const group of view.groups) {
      const hosts = new Set(group.slots.map((slot) => topology.hosts[slot])).size;
      const launch = launchOf(view.graph[group.slots[0] as number] as number);
      observe(state, view, group, hosts, params, (op, bytes) =>
        expectations.expectedTransfer({ op, ranks: group.slots.length, hosts, launch, bytes }),
      );
    }
  return [...state.groups].flatMap(([name, group]) =>
    group.spell.episode ? [found(name, group, group.spell.episode, topology)] : [],
  );
}

function observe(
  state: ExpectedState,
  view: StepView,
  group: CommGroup,
  hosts: number,
  params: DetectorParams,
  expect: (op: string, bytes: number) => { q50: number; q95: number } | undefined,
): void {
  let known = state.groups.get(group.name);
  const floor = floorOf(known, params);
  let [lost, judged] = [0, false];
  for (const { op, bytes, count, transfer } of group.sizes) {
    const expected = expect(op, bytes);
    if (!expected) continue;
    if (!known) {
      known = { spell: newSpell(), slots: [...group.slots], hosts, ratios: new Map(), nowUs: 0, expectedUs: 0 };
      state.groups.set(group.name, known);
    }
    judged = true;
    const each = transfer / count;
    known.ratios.set(bytes, each / expected.q50);
    if (each <= floor.ratio * expected.q50 || each <= expected.q95) continue;
    lost += (each - expected.q50) * count;
    Object.assign(known, { nowUs: rounded(each / 1e3, 1), expectedUs: rounded(expected.q50 / 1e3, 1) });
  }
  if (!known || !judged) return;
  observeSpell(
    known.spell,
    { step: view.step, startNs: view.startNs, lost, time: stepTimeOf(view), hit: lost > 0 },
    spellRule(RULE, floor),
  );
}

/** What is filed as another kind must satisfy that kind's parameters as well. */
function floorOf(
  known: GroupState | undefined,
  { tp_slow_path, ...others }: DetectorParams,
): DetectorParams['tp_slow_path'] {
  const kind = known ? kindOf(known) : 'tp_slow_path';
  if (kind === 'tp_slow_path') return tp_slow_path;
  const { ratio, min_effect, persistence } = others[kind];
  return {
    ratio: Math.max(ratio, tp_slow_path.ratio),
    min_effect: Math.max(min_effect, tp_slow_path.min_effect),
    persistence,
  };
}

/** Times what is expected, from the smallest messages to the largest. */
const ratiosBySize = ({ ratios }: GroupState): number[] => [...ratios].sort(([a], [b]) => a - b).map(([, r]) => r);

function kindOf(group: GroupState): 'tp_slow_path' | 'comm_slow' | 'nvlink_stall' {
  if (group.hosts > 1) return Math.max(...group.ratios.keys()) >= LARGE_BYTES ? 'comm_slow' : 'tp_slow_path';
  const bySize = ratiosBySize(group);
  const starved = bySize.length > 1 && (bySize.at(-1) as number) > STARVED * (bySize[0] as number);
  return starved || Math.min(...group.ratios.keys()) >= LARGE_BYTES ? 'nvlink_stall' : 'tp_slow_path';
}

function found(name: string, group: GroupState, episode: SpellEpisode, topology: JobTopology): Finding {
  const { slots, ratios, nowUs, expectedUs } = group;
  const ranks = slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const named = [...new Set(slots.map((slot) => topology.hosts[slot] as string))].filter((host) => host !== '');
  const kind = kindOf(group);
  const starved = kind !== 'tp_slow_path';
  const sizes = [...ratios.keys()].sort((a, b) => a - b);
  return episodeFinding(kind, topology, episode, {
    key: `group=${name}`,
    subject: {
      group: name,
      hosts: named,
      link: kind === 'nvlink_stall' && ranks.length === 2 ? ranks.join('-') : null,
    },
    cause: starved ? 'network' : 'configuration',
    summary: ({ msPerStep, share }) =>
      `collectives of group ${name} (ranks ${ranks.join(', ')}) take ${nowUs} us where the fleet takes ${expectedUs}: ${msPerStep} ms of a step are lost (${percent(share)} %)`,
    confidence: 0.9,
    evidence: {
      transfer_us: nowUs,
      expected_us: expectedUs,
      message_bytes: sizes,
      times_expected: ratiosBySize(group).map((ratio) => rounded(ratio, 2)),
    },
    runnerUp: {
      kind: starved ? 'tp_slow_path' : 'nvlink_stall',
      why_not: starved
        ? `${sizes.length > 1 ? 'the larger' : 'large'} messages lie far from what is expected: bandwidth is missing`
        : 'large messages are no further from what is expected than small ones: the algorithm, not the bandwidth',
    },
  });
}
