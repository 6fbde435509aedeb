import type { CommGroup } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { type Links, linksOf } from '../reference/links.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { busBandwidth } from '../reference/transfer-past.js';
import { episodeFinding, lossText } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * GPUs that NVLink joins reduce no faster than PCIe would: it is not in use. It shows without a past and without a fleet,
 * from what the job says its device is.
 *
 * Signature: in ten steps in a row that have all-reduces of 16 MiB or more within a host (64 MiB outside CUDA graphs) the
 * fastest had less bus bandwidth than the device's PCIe carries one way, a seventh of its NVLink or less; one that has more
 * shows that NVLink is there. Two recorded H200 reduce 16 MiB at 203 GB/s and 768 MiB at 233 to 278 of NVLink's 450; with
 * peer access off, through host memory, at 28. Only all-reduces: what `bytes` are of a gather differs by who tells of it;
 * and not those between pipeline stages, which wait for more than each other. What is lost is the time over that at half of
 * NVLink's rate.
 */
export const unusedNvlink: Detector<UnusedState> = {
  kind: 'nvlink_stall',
  initial: () => ({ groups: new Map() }),
  step,
};

export interface UnusedState {
  groups: Map<string, GroupState>;
}

interface GroupState {
  spell: Spell;
  slots: number[];
  /** Bytes a second, since NVLink was last seen in use. */
  fastest: number;
}

const RULE = { window: 12, quiet: 12 };
const LARGE_BYTES = 16 << 20;
/** So many take longer than a host needs to launch what lies around them. */
const LARGE_BYTES_LAUNCHED = 64 << 20;
/** Share of NVLink's rate that large reductions reach. */
const USUAL_SHARE = 0.5;

function step(state: UnusedState, { topology, views }: JobWindow, { nvlink_stall }: DetectorParams): Finding[] {
  const links = linksOf(topology.meta.device);
  if (!links) return [];
  const view = views.at(-1) as StepView;
  for (const group of view.groups) if (isOfOneHost(group, topology)) observe(state, view, group, links, nvlink_stall);
  return [...state.groups].flatMap(([name, group]) =>
    group.spell.episode ? [found(name, group, group.spell.episode, links, topology)] : [],
  );
}

const isOfOneHost = ({ acrossHosts, sameStage, slots }: CommGroup, { hosts, clocks }: JobTopology): boolean =>
  !acrossHosts && sameStage && slots.every((slot) => hosts[slot] !== '' && clocks[slot] !== 'host');

function observe(
  { groups }: UnusedState,
  view: StepView,
  { name, slots, sizes }: CommGroup,
  { nvlink, pcie }: Links,
  params: DetectorParams['nvlink_stall'],
): void {
  const captured = slots.every((slot) => (view.graph[slot] as number) > 0);
  let [best, lost] = [0, 0];
  for (const { op, bytes, count, transfer } of sizes) {
    if (op !== 'all_reduce' || bytes < (captured ? LARGE_BYTES : LARGE_BYTES_LAUNCHED)) continue;
    const bandwidth = busBandwidth(op, slots.length, bytes, transfer / count);
    best = Math.max(best, bandwidth);
    lost += transfer * Math.max(0, 1 - bandwidth / (USUAL_SHARE * nvlink));
  }
  if (best === 0) return;
  let known = groups.get(name);
  if (!known) groups.set(name, (known = newGroup(slots)));
  if (best >= pcie) groups.set(name, newGroup(slots));
  else {
    known.fastest = Math.max(known.fastest, best);
    const entry = { step: view.step, startNs: view.startNs, time: stepTimeOf(view), lost, hit: true };
    observeSpell(known.spell, entry, spellRule(RULE, params));
  }
}

const newGroup = (slots: readonly number[]): GroupState => ({ spell: newSpell(), slots: [...slots], fastest: 0 });

const gigabytes = (bandwidth: number): number => Math.round(bandwidth / 1e9);

function found(
  name: string,
  { slots, fastest }: GroupState,
  episode: SpellEpisode,
  { nvlink, pcie }: Links,
  topology: JobTopology,
): Finding {
  const ranks = slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const { device } = topology.meta;
  return episodeFinding('nvlink_stall', topology, episode, {
    key: `group=${name}|device`,
    subject: {
      group: name,
      hosts: [topology.hosts[slots[0] as number] as string],
      link: ranks.length === 2 ? ranks.join('-') : null,
    },
    cause: 'configuration',
    summary: (cost) =>
      `collectives of group ${name} reach ${gigabytes(fastest)} GB/s at most, no more than PCIe, where NVLink of ${device} carries ${gigabytes(nvlink)}: ${lossText(cost)}`,
    confidence: 0.9,
    evidence: { fastest_gb_s: gigabytes(fastest), nvlink_gb_s: gigabytes(nvlink), pcie_gb_s: gigabytes(pcie) },
    runnerUp: { kind: 'tp_slow_path', why_not: 'large messages are slow, which need bandwidth whatever the algorithm' },
  });
}
