import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { newSpell, observeSpell, type Spell } from '../reference/spell.js';
import { median } from '../reference/statistics.js';
import { episodeFinding, ms, percent } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * The host side of (nearly) all ranks of one host became slow: threads not bound, CPUs taken away or throttled.
 *
 * Signature: host time of most ranks of a host lies far over their own past, GPU work as before.
 * Which rank comes last changes from step to step, so that no rank can be blamed, and none is: the host is. What is lost
 * is the longest host time over what is usual. One rank alone is the straggler detector's.
 */
export const slowHost: Detector<HostState> = {
  kind: 'straggler',
  initial: () => ({ past: [], hosts: new Map() }),
  step,
};

export interface HostState {
  /** By slot: host time of the last steps before any trouble. */
  past: Ring[];
  hosts: Map<string, { spell: Spell; usualMs: number; nowMs: number }>;
}

const STEPS = 32;
const KNOWN_AT = 10;
/** Share of the host's ranks, and of the step by which each must be over its past. */
const MOST = 0.6;
const MIN_SHARE = 0.1;
/** As soon as a rank could be taken for a straggler, so that none is. */
const RULE = { window: 4, hits: 3, quiet: 10 };
/** On fewer ranks a host cannot be told from them. */
const MIN_RANKS = 3;

function step(state: HostState, { topology, views }: JobWindow, { straggler }: DetectorParams): Finding[] {
  const share = Math.max(MIN_SHARE, straggler.min_effect);
  const view = views.at(-1) as StepView;
  for (const [host, slots] of slotsByHost(topology))
    if (slots.length >= MIN_RANKS) observe(state, view, host, slots, share);
  return [...state.hosts].flatMap(([host, known]) => {
    const { spell, usualMs, nowMs } = known;
    if (!spell.episode) return [];
    const ranks = (slotsByHost(topology).get(host) ?? [])
      .map((slot) => topology.ranks[slot] as number)
      .sort((a, b) => a - b);
    return [
      episodeFinding('straggler', topology, spell.episode, {
        key: `host=${host}`,
        subject: { hosts: host === '' ? [] : [host], ranks },
        cause: 'host',
        summary: ({ msPerStep, share }) =>
          `the host side of ${host === '' ? 'all ranks' : `host ${host}`} takes ${nowMs} ms a step instead of ${usualMs}: ${msPerStep} ms are lost (${percent(share)} %)`,
        confidence: 0.85,
        evidence: { host_ms: nowMs, usual_host_ms: usualMs, ranks: ranks.length },
        runnerUp: {
          kind: 'comm_slow',
          why_not: 'the host time of the ranks has grown itself; collectives only wait for it',
        },
      }),
    ];
  });
}

function slotsByHost(topology: JobTopology): Map<string, number[]> {
  const hosts = new Map<string, number[]>();
  topology.hosts.forEach((host, slot) => {
    const slots = hosts.get(host);
    if (slots) slots.push(slot);
    else hosts.set(host, [slot]);
  });
  return hosts;
}

function observe(state: HostState, view: StepView, host: string, slots: readonly number[], share: number): void {
  const time = stepTimeOf(view);
  const now = slots.map((slot) => view.work.host[slot] as number);
  const past = slots.map((slot) => (state.past[slot] ??= newRing(STEPS)));
  const usual = past.map((ring) => (ring.count < KNOWN_AT ? Number.NaN : median(ringValues(ring))));
  const over = now.filter((hostTime, i) => hostTime - (usual[i] as number) > MIN_SHARE * time);
  const hit = over.length >= MOST * slots.length;
  let known = state.hosts.get(host);
  if (!known) state.hosts.set(host, (known = { spell: newSpell(), usualMs: 0, nowMs: 0 }));
  if (hit) Object.assign(known, { usualMs: ms(median(usual)), nowMs: ms(Math.max(...now)) });
  else if (!known.spell.episode)
    past.forEach((ring, i) => {
      if (!Number.isNaN(view.stepTime[slots[i] as number])) pushRing(ring, now[i] as number);
    });
  const lost = hit ? Math.max(...now) - median(usual) : 0;
  observeSpell(known.spell, { step: view.step, startNs: view.startNs, lost, time, hit }, { ...RULE, share });
}
