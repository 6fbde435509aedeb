import { type Counters, carried, type Outage, type Source } from '../counters/counters.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { median } from '../reference/statistics.js';
import { learnTransfer, type TransferPast, usualTransfer } from '../reference/transfer-past.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * A NIC's port goes down and up again, or is up again and no longer used.
 *
 * Signature: port events or counters (`port_down`, `port_up`, `link_downed`, carrier) say when the port was down, and
 * the steps of that time lose 2 % or more (or what rules ask for, if more) to slower transfers of its host over what those
 * take otherwise; without collectives across hosts, to their own length. Where nothing is lost a blip is nothing. Two such
 * outages within 12 hours (the time that gpud looks back on; it asks for three), or one that outlasts the first transport
 * timeout of a queue pair (4.096 us x 2^20 with NCCL's default NCCL_IB_TIMEOUT=20): shorter ones a retransmission bridges. Three outages within a
 * minute are critical and two a warning whatever they cost: what comes next are completion errors and a hang
 * (NVIDIA/nccl 905, 1557). Over ten minutes after the last outage, unless the port carries less than a tenth of what it
 * did before while others of its host work (NVIDIA/nccl 2157: connections do not return to it).
 */
export const portFlap: Detector<PortFlapState> = {
  kind: 'rnic_flap',
  initial: () => ({ past: new Map(), hosts: new Map(), times: newRing(USUAL_STEPS), steps: [], ports: new Map() }),
  step,
};

export interface PortFlapState {
  past: TransferPast;
  /** Communicator across hosts -> its hosts. */
  hosts: Map<string, Set<string>>;
  /** Times of the last steps without trouble, for jobs without collectives across hosts. */
  times: Ring;
  /** The last steps: outages are heard of later than the steps they fell into. */
  steps: StepCost[];
  ports: Map<string, PortState>;
}

interface StepCost {
  step: number;
  startNs: bigint;
  startMs: number;
  endMs: number;
  time: number;
  /** Nanoseconds over what is usual: of communicators across hosts or, without any, of the step itself. */
  lost: readonly { readonly group: string; readonly over: number }[];
  over: number;
}

interface PortState {
  /** By when the port went down. */
  tallies: Map<number, Tally>;
  open: { onsetStep: number; onsetNs: bigint } | null;
  /** Since the onset, nanoseconds. */
  lost: number;
  time: number;
  steps: number;
  hits: number;
  judgedStep: number;
  /** Of an outage's time, that must be lost. */
  minShare: number;
}

/** What an outage has cost. */
interface Tally {
  lost: number;
  time: number;
  throughStep: number;
  firstStep: number;
  firstNs: bigint;
}

const USUAL_STEPS = 32;
const KNOWN_AT = 8;
const MAX_STEPS = 512;
const MIN_SHARE = 0.02;
const LOOK_BACK_MS = 12 * 3600e3;
const TRANSPORT_TIMEOUT_MS = 4295;
const QUIET_MS = 600e3;
const MINUTE_MS = 60e3;
/** Share at stake by the number of outages within a minute: the lines of a warning and of a critical incident. */
const STAKES = [0, 0, 0.1, 0.2] as const;
const UNUSED = 0.1;
/** Before that connections may still be on their way back: NCCL tries to recover five times, seconds apart. */
const RETURN_MS = 30e3;

function step(
  state: PortFlapState,
  { topology, views, counters }: JobWindow,
  { rnic_flap }: DetectorParams,
): Finding[] {
  if (!counters || counters.sources.size === 0) return [];
  observe(state, views.at(-1) as StepView, topology, hasTrouble(state, counters));
  if (counters.flapped.size === 0) return [];
  const nowMs = (state.steps.at(-1) as StepCost).endMs;
  return [...counters.flapped].flatMap((key) => {
    const source = counters.sources.get(key) as Source;
    let port = state.ports.get(key);
    if (!port) state.ports.set(key, (port = newPort()));
    port.minShare = Math.max(MIN_SHARE, rnic_flap.min_effect);
    judge(port, source, counters, lossesOf(state, source.host), nowMs);
    return port.open ? [findingOf(port, source, counters, topology, nowMs)] : [];
  });
}

const newPort = (): PortState => ({
  ...{ tallies: new Map(), open: null, lost: 0, time: 0, steps: 0, hits: 0, judgedStep: -1, minShare: MIN_SHARE },
});

/** A port is down, or what went down is not over: then steps are not as usual. */
function hasTrouble({ ports }: PortFlapState, { flapped, sources }: Counters): boolean {
  for (const key of flapped)
    if (ports.get(key)?.open || Number.isNaN(sources.get(key)?.outages.at(-1)?.upMs)) return true;
  return false;
}

/** Notes what the step lost to slow transfers, by communicator. */
function observe(state: PortFlapState, view: StepView, topology: JobTopology, trouble: boolean): void {
  const time = stepTimeOf(view);
  const startMs = Number(view.startNs) / 1e6;
  const groups = view.launchBound ? [] : view.groups.filter(({ acrossHosts }) => acrossHosts);
  const lost = groups.map((group) => {
    let over = 0;
    for (const size of group.sizes) {
      const usual = usualTransfer(state.past, group, size);
      if (!Number.isNaN(usual)) over += size.transfer - usual * size.count;
      if (!trouble) learnTransfer(state.past, group, size, view.step);
    }
    if (!state.hosts.has(group.name))
      state.hosts.set(group.name, new Set(group.slots.map((slot) => topology.hosts[slot] as string)));
    return { group: group.name, over };
  });
  const over = state.times.count < KNOWN_AT ? 0 : time - median(ringValues(state.times));
  if (!trouble) pushRing(state.times, time);
  state.steps.push({ step: view.step, startNs: view.startNs, startMs, endMs: startMs + time / 1e6, time, lost, over });
  if (state.steps.length > MAX_STEPS) state.steps.shift();
}

/** The last steps, and what each lost on a host. */
interface Losses {
  readonly steps: readonly StepCost[];
  lostIn(step: StepCost): number;
}

const lossesOf = ({ steps, hosts }: PortFlapState, host: string): Losses => ({
  steps,
  lostIn({ lost, over }) {
    if (lost.length === 0) return over;
    let most = 0;
    for (const each of lost) if (each.over > most && hosts.get(each.group)?.has(host)) most = each.over;
    return most;
  },
});

function judge(port: PortState, source: Source, counters: Counters, losses: Losses, nowMs: number): void {
  for (const outage of source.outages) charge(port, outage, losses);
  for (const downMs of port.tallies.keys()) if (downMs < nowMs - LOOK_BACK_MS) port.tallies.delete(downMs);
  const costly = costlyOf(port, source);
  const last = costly.at(-1);
  const unused = isUnused(source, counters, nowMs);
  const over = last === undefined || (!unused && nowMs - last.upMs > QUIET_MS);
  const lasts = last !== undefined && !last.within && (last.upMs || nowMs) - last.downMs > TRANSPORT_TIMEOUT_MS;
  if (over) Object.assign(port, { ...newPort(), tallies: port.tallies });
  else if (!port.open && (costly.length > 1 || lasts)) {
    const { firstStep, firstNs } = port.tallies.get((costly[0] as Outage).downMs) as Tally;
    port.open = { onsetStep: firstStep, onsetNs: firstNs };
  }
  if (port.open) chargeEpisode(port, port.open.onsetStep, losses);
}

/** Adds the steps that fell into an outage to its cost. */
function charge(port: PortState, { downMs, upMs }: Outage, { steps, lostIn }: Losses): void {
  let tally = port.tallies.get(downMs);
  if (!tally) port.tallies.set(downMs, (tally = { lost: 0, time: 0, throughStep: -1, firstStep: -1, firstNs: 0n }));
  for (let i = firstAfter(steps, tally.throughStep); i < steps.length; i++) {
    const each = steps[i] as StepCost;
    if (each.startMs > upMs) return;
    tally.throughStep = each.step;
    if (each.endMs < downMs) continue;
    if (tally.firstStep < 0) Object.assign(tally, { firstStep: each.step, firstNs: each.startNs });
    tally.lost += lostIn(each);
    tally.time += each.time;
  }
}

function firstAfter(steps: readonly StepCost[], step: number): number {
  let i = steps.length;
  while (i > 0 && (steps[i - 1] as StepCost).step > step) i--;
  return i;
}

const costlyOf = ({ tallies, minShare }: PortState, { outages }: Source): Outage[] =>
  outages.filter(({ downMs }) => {
    const tally = tallies.get(downMs);
    return tally !== undefined && tally.time > 0 && tally.lost >= minShare * tally.time;
  });

function chargeEpisode(port: PortState, onset: number, { steps, lostIn }: Losses): void {
  for (let i = firstAfter(steps, Math.max(port.judgedStep, onset - 1)); i < steps.length; i++) {
    const each = steps[i] as StepCost;
    const lost = lostIn(each);
    port.judgedStep = each.step;
    port.lost += Math.max(0, lost);
    if (lost >= port.minShare * each.time) port.hits++;
    port.time += each.time;
    port.steps++;
  }
}

/** The port is up and carries nothing of what it did, while another of its host does. */
function isUnused(source: Source, { byHost }: Counters, nowMs: number): boolean {
  const last = source.outages.at(-1);
  if (!last || !(nowMs - last.upMs > RETURN_MS) || !(last.usualRate > 0)) return false;
  const least = UNUSED * last.usualRate;
  const others = (byHost.get(source.host) ?? []).filter((other) => other !== source);
  return carried(source, last.upMs) < least && others.some((other) => carried(other, last.upMs) > least);
}

function findingOf(port: PortState, source: Source, counters: Counters, topology: JobTopology, nowMs: number): Finding {
  const { host, nic } = source;
  const costly = costlyOf(port, source);
  const last = costly.at(-1) as Outage;
  const inMinute = costly.filter(({ downMs }) => downMs > last.downMs - MINUTE_MS).length;
  const unused = isUnused(source, counters, nowMs);
  const downSeconds = costly.reduce((sum, { downMs, upMs }) => sum + ((upMs || nowMs) - downMs) / 1000, 0);
  const now = Number.isNaN(last.upMs) ? 'is down' : unused ? 'is up again, and unused' : 'is up';
  const episode = { ...port, ...(port.open as NonNullable<PortState['open']>) };
  return {
    ...episodeFinding('rnic_flap', topology, episode, {
      key: `port=${host}/${nic}`,
      subject: { hosts: [host], nic },
      cause: 'network',
      summary: ({ msPerStep, share }) =>
        `port ${nic} of ${host} went down ${costly.length} time${costly.length > 1 ? 's' : ''} and ${now}: ${msPerStep} ms of a step are lost (${percent(share)} %)`,
      confidence: 0.95,
      evidence: {
        outages: costly.length,
        outages_in_a_minute: inMinute,
        down_s: rounded(downSeconds, 1),
        port: unused ? 'up, unused' : Number.isNaN(last.upMs) ? 'down' : 'up',
      },
      runnerUp: {
        kind: 'comm_slow',
        why_not: 'transfers are slow while the port is down, and only then',
      },
    }),
    stake: STAKES[Math.min(inMinute, STAKES.length - 1)] as number,
  };
}
