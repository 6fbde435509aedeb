import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';
import { findingsOf, type GroupState, hasLink, observe, type TransferState } from './slow-transfers.js';

/**
 * Sends and receives between pipeline stages became slow: nvlink_stall inside a host, comm_slow or rnic_flap between hosts.
 *
 * Signature: that of slow-transfers, of the side of each transfer that came last. Schedules send and receive in one call,
 * which takes as long as what it waits for, so that what other ranks do may hide in it: a transfer must take 1.5 x the usual
 * and cost 2 % of the step, and nothing else may have been found that makes steps longer (`explained`). Many channels share
 * the links between two hosts: the one that loses most is named.
 */
export const slowChannels: Detector<TransferState> = {
  kind: 'comm_slow',
  initial: () => ({ past: new Map(), groups: new Map() }),
  step,
};

/** As for groups that are compared with others (uneven-bandwidth), and for a rank that others wait for (straggler). */
const LEAST = { ratio: 1.5, min_effect: 0.02 };
/** Keys of its findings. */
export const CHANNEL = 'channel=';

function step(state: TransferState, { topology, views }: JobWindow, given: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  const params = { ...given, nvlink_stall: stricter(given.nvlink_stall), comm_slow: stricter(given.comm_slow) };
  if (!view.launchBound)
    for (const channel of view.channels)
      if (hasLink(channel, topology)) observe(state, view, channel, stepTimeOf(view), params);
  const worst = new Map<string, { name: string; channel: GroupState; lost: number }>();
  for (const [name, channel] of state.groups) {
    const lost = (channel.lasting.episode ?? channel.bursts.episode)?.lost ?? 0;
    const between = hostsOf(channel, topology);
    if (lost > (worst.get(between)?.lost ?? 0)) worst.set(between, { name, channel, lost });
  }
  return [...worst.values()].flatMap(({ name, channel }) =>
    findingsOf(name, channel, topology, params).map((finding) => ({ ...finding, key: `${CHANNEL}${name}` })),
  );
}

const stricter = <Set extends { readonly ratio: number; readonly min_effect: number }>(set: Set): Set => ({
  ...set,
  ratio: Math.max(LEAST.ratio, set.ratio),
  min_effect: Math.max(LEAST.min_effect, set.min_effect),
});

/** Whether there or back. */
const hostsOf = ({ slots }: GroupState, { hosts }: JobTopology): string =>
  slots
    .map((slot) => hosts[slot])
    .sort()
    .join('|');
