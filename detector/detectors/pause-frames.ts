import { type Counters, gauge, rate, type Source } from '../counters/counters.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { hasHits, newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * A host cannot take in what it is sent: its NIC tells its peers to pause, no packet is lost, and all transfers to it are slow.
 *
 * Signature (NVIDIA/daqiri 250: 400 Gb/s capped at 308, every drop counter 0): a port sends pause frames, and receives less
 * than its line rate in the time of transfers across hosts. The share lost is what is missing to the line rate, and no more
 * than the frames can stop: each at most 65,535 quanta of 512 bit times (IEEE 802.3 annex 31B), or what the counter of pause
 * durations says. That share of the transfers' time is lost. It is the side that sends pauses, never the one that gets them;
 * frames since boot are nothing. Lasting: 1 % of the step in 10 of the last 12. Without line rate or durations nothing is
 * said here, and pauses only tell whose slow transfers others have found (counters/corroborate.ts).
 */
export const pauseFrames: Detector<PauseState> = {
  kind: 'comm_slow',
  initial: () => ({ nextMs: 0, ports: new Map() }),
  step,
};

export interface PauseState {
  nextMs: number;
  ports: Map<string, PortPause>;
}

interface PortPause {
  spell: Spell;
  /** Of the time of transfers. */
  share: number;
  framesPerSecond: number;
  received: number;
  speed: number;
}

const EVERY_MS = 1000;
const WINDOW_MS = 30_000;
const PAUSE_BITS = 65_535 * 512;
const RULE = { window: 12, quiet: 12 };

function step(state: PauseState, { topology, views, counters }: JobWindow, { comm_slow }: DetectorParams): Finding[] {
  if (!counters || counters.pausing.size === 0) return [];
  const view = views.at(-1) as StepView;
  const nowMs = Number(view.startNs) / 1e6;
  const time = stepTimeOf(view);
  if (nowMs >= state.nextMs) {
    state.nextMs = nowMs + EVERY_MS;
    for (const key of counters.pausing) measure(state, key, counters, view, topology, nowMs);
  }
  return [...state.ports].flatMap(([key, port]) => {
    const source = counters.sources.get(key) as Source;
    const lost = port.share * transferTime(view, source.host, topology);
    const hit = lost > comm_slow.min_effect * time;
    const entry = { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time, hit };
    observeSpell(port.spell, entry, spellRule(RULE, comm_slow));
    if (port.spell.episode) return [findingOf(port, port.spell.episode, source, topology)];
    if (!hasHits(port.spell)) state.ports.delete(key);
    return [];
  });
}

/** Longest time of a communicator across hosts that the host takes part in, nanoseconds. */
function transferTime(view: StepView, host: string, topology: JobTopology): number {
  let longest = 0;
  for (const { acrossHosts, transfer, slots } of view.groups)
    if (acrossHosts && transfer > longest && slots.some((slot) => topology.hosts[slot] === host)) longest = transfer;
  return longest;
}

function measure(
  { ports }: PauseState,
  key: string,
  { sources }: Counters,
  view: StepView,
  topology: JobTopology,
  nowMs: number,
): void {
  const source = sources.get(key) as Source;
  const known = ports.get(key);
  const busy = transferTime(view, source.host, topology) / stepTimeOf(view);
  const since = nowMs - WINDOW_MS;
  const framesPerSecond = rate(source, 'tx_pause', since);
  const paused = rate(source, 'tx_pause_ns', since) / 1e9;
  const speed = gauge(source, 'nic_speed');
  const received = rate(source, 'rx_bytes', since) / busy;
  const missing = 1 - received / speed;
  const most = Number.isNaN(paused) ? (framesPerSecond * PAUSE_BITS) / (8 * speed) : paused;
  const bound = Math.min(Number.isNaN(missing) ? paused : missing, most / busy, 1);
  const share = Number.isNaN(bound) ? 0 : Math.max(0, bound);
  const facts = { share, framesPerSecond, received, speed };
  if (known) Object.assign(known, facts);
  else if (share > 0) ports.set(key, { spell: newSpell(), ...facts });
}

function findingOf(port: PortPause, episode: SpellEpisode, { host, nic }: Source, topology: JobTopology): Finding {
  const [frames, share] = [Math.round(port.framesPerSecond), percent(port.share)];
  return episodeFinding('comm_slow', topology, episode, {
    key: `port=${host}/${nic}|pause`,
    subject: { hosts: [host], nic },
    cause: 'network',
    summary: ({ msPerStep, share: ofStep }) =>
      `port ${nic} of ${host} sends ${frames} pause frames a second, and transfers to it lose ${share} % of their time: ${msPerStep} ms of a step (${percent(ofStep)} %)`,
    confidence: 0.85,
    evidence: {
      tx_pause_per_s: frames,
      ...(port.received > 0 ? { received_gb_s: rounded(port.received / 1e9, 1) } : {}),
      ...(port.speed > 0 ? { line_rate_gb_s: rounded(port.speed / 1e9, 1) } : {}),
      lost_share_of_transfers: rounded(port.share),
    },
    runnerUp: { kind: 'rnic_flap', why_not: 'the port was not down' },
  });
}
