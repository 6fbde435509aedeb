import type { IncidentKind } from '../../protocol/incident.js';
import { expectedTransfers } from './expected-transfers.js';
import type { Detector, Finding } from './finding.js';
import { idleNics } from './idle-nics.js';
import { kvRecompute } from './kv-recompute.js';
import { loadImbalance } from './load-imbalance.js';
import { noCudaGraph } from './no-cuda-graph.js';
import { pauseFrames } from './pause-frames.js';
import { portFlap } from './port-flap.js';
import { prefillBlocking } from './prefill-blocking.js';
import { rotatingPauses } from './rotating-pauses.js';
import { schedImbalance } from './sched-imbalance.js';
import { CHANNEL, slowChannels } from './slow-channels.js';
import { slowHost } from './slow-host.js';
import { slowRank } from './slow-rank.js';
import { slowTransfers } from './slow-transfers.js';
import { stageImbalance } from './stage-imbalance.js';
import { stepDrift } from './step-drift.js';
import { straggler } from './straggler.js';
import { transientStall } from './transient-stall.js';
import { unevenBandwidth } from './uneven-bandwidth.js';
import { unitJump } from './unit-jump.js';

/** A detector whose state nobody but itself looks into. */
const named = <State>(name: string, detector: Detector<State>) => ({ name, detector: detector as Detector });

/** Every detector, in the order in which their explanations take precedence. */
export const DETECTORS: readonly { readonly name: string; readonly detector: Detector }[] = [
  named('unit-jump', unitJump),
  named('no-cuda-graph', noCudaGraph),
  named('prefill-blocking', prefillBlocking),
  named('kv-recompute', kvRecompute),
  named('sched-imbalance', schedImbalance),
  named('idle-nics', idleNics),
  named('load-imbalance', loadImbalance),
  named('stage-imbalance', stageImbalance),
  named('port-flap', portFlap),
  named('pause-frames', pauseFrames),
  named('expected-transfers', expectedTransfers),
  named('slow-transfers', slowTransfers),
  named('uneven-bandwidth', unevenBandwidth),
  named('slow-channels', slowChannels),
  named('slow-host', slowHost),
  named('straggler', straggler),
  named('slow-rank', slowRank),
  named('rotating-pauses', rotatingPauses),
  named('transient-stall', transientStall),
  named('step-drift', stepDrift),
];

/** Kinds that already say why steps became longer. */
const EXPLAIN_DRIFT: ReadonlySet<IncidentKind> = new Set([
  'no_cuda_graph',
  'prefill_blocking',
  'kv_recompute',
  'sched_imbalance',
  'load_imbalance',
  'straggler',
  'nvlink_stall',
  'comm_slow',
  'rnic_flap',
  'comm_hang',
  'tp_slow_path',
  'transient_stall',
]);

const TRANSFERS: ReadonlySet<IncidentKind> = new Set(['nvlink_stall', 'comm_slow', 'tp_slow_path']);

/** Keys of ranks that are slow but cost the others little. */
const SLOW_RANK = 'slow=';

/** A host that is slow as a whole is not its ranks one by one. */
const ranksOfSlowHost = (findings: readonly Finding[]): Set<number> =>
  new Set(findings.filter(({ key }) => key.startsWith('host=')).flatMap(({ subject }) => subject.ranks));

/** Of what two detectors say of one subject what began first: its own past and the fleet may both tell of a link. */
function single(findings: readonly Finding[]): Finding[] {
  const first = new Map<string, Finding>();
  for (const finding of findings) {
    const name = `${finding.kind}|${finding.key}`;
    const known = first.get(name);
    if (!known || finding.onsetStep < known.onsetStep) first.set(name, finding);
  }
  return [...first.values()];
}

/** Onsets so many steps apart may be one: slow transfers are believed after 10 of 12 steps. */
const SAME_ONSET_STEPS = 12;

/**
 * Work that takes a GPU's processors and memory from its rank takes them from the collectives that run there too: on two
 * H200, matrix products beside the steps of one rank lowered the bus bandwidth of its all-reduces from 7.6 to 5.0 GB/s. A
 * link cannot make compute longer, so that a rank whose compute grew by more is the reason.
 */
function isCrowded(transfer: Finding, findings: readonly Finding[], members: readonly number[]): boolean {
  const slows = ({ kind, key, cause, subject, cost, onsetStep }: Finding): boolean =>
    kind === 'straggler' &&
    !key.startsWith(SLOW_RANK) &&
    (cause === 'compute' || cause === 'memory') &&
    subject.ranks.some((rank) => members.includes(rank)) &&
    cost.ms_per_step > transfer.cost.ms_per_step &&
    Math.abs(onsetStep - transfer.onsetStep) <= SAME_ONSET_STEPS;
  return TRANSFERS.has(transfer.kind) && findings.some(slows);
}

/**
 * Leaves out what another finding explains: while durations come in another unit nothing can be said of them, and a drift
 * of the whole job is what remains when nothing else is found.
 *
 * @param ranksOf the members of a group
 */
export function explained(all: readonly Finding[], ranksOf: (group: string) => readonly number[]): Finding[] {
  if (all.length === 0) return [];
  const findings = single(all);
  const unusable = findings.filter(({ kind }) => kind === 'data_quality');
  if (unusable.length > 0) return unusable;
  const late = findings.some(({ kind, cause }) => kind === 'straggler' && cause === 'host');
  const isChannel = ({ key }: Finding): boolean => key.startsWith(CHANNEL);
  const others = findings.filter((finding) => !isChannel(finding) && !finding.key.startsWith(SLOW_RANK));
  const found = others.some(({ kind }) => EXPLAIN_DRIFT.has(kind));
  const channelsTell = !found && others.every(({ kind }) => kind !== 'stage_imbalance');
  const drift = found || (channelsTell && findings.some(isChannel));
  const straggling = new Set(
    findings.flatMap(({ kind, key, subject }) =>
      kind === 'straggler' && !key.startsWith(SLOW_RANK) ? subject.ranks : [],
    ),
  );
  const slowHosts = ranksOfSlowHost(findings);
  const slowGroups = new Set(
    findings.filter(({ key }) => /^group=[^|]*$/.test(key)).map(({ subject }) => subject.group),
  );
  return findings.filter((finding) => {
    const { kind, key, cause, subject } = finding;
    if (kind === 'step_drift') return !drift;
    if (isChannel(finding)) return channelsTell;
    if (subject.group && isCrowded(finding, findings, ranksOf(subject.group))) return false;
    if (key === 'rotating') return !late;
    if (key.startsWith(SLOW_RANK)) return !subject.ranks.some((rank) => straggling.has(rank));
    // A group that lies behind its own past or the fleet need not be compared with others as well.
    if (/^group=.*\|(groups|sizes)$/.test(key)) return !slowGroups.has(subject.group);
    const ofSlowHost = kind === 'straggler' && cause === 'host' && !key.startsWith('host=');
    return !(ofSlowHost && subject.ranks.every((rank) => slowHosts.has(rank)));
  });
}
