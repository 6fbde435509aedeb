import { bad } from './bad-option.js';
import type { Cluster } from './cluster.js';
import { range } from './communicators.js';
import type { Fault, TruthSubject } from './faults.js';
import { EXPERTS } from './measured.js';
import { FLAPS } from './measured-network.js';
import { Random } from './random.js';
import type { FaultSpec, Target } from './scenario.js';

/** What the caller says of a fault; what is missing is drawn from the seed. */
export interface FaultChoice {
  readonly seed: number;
  readonly steps: number;
  readonly strength?: number | undefined;
  readonly onset?: number | undefined;
  readonly end?: number | undefined;
  readonly rank?: number | undefined;
  readonly stage?: number | undefined;
}

/** Whom a fault hits. */
interface Place {
  readonly ranks: readonly number[];
  readonly groups?: readonly string[];
  readonly subject: TruthSubject;
}

/** When a fault begins: by default after a third of the run. There is no restart before the first step. */
export const onsetOf = ({ onset, steps }: FaultChoice, spec: FaultSpec): number =>
  Math.max(spec.restarts ? 1 : 0, onset ?? (spec.always ? 0 : Math.floor(steps / 3)));

/** Decides where and when a fault strikes. Throws `bad_input` where the cluster has no place for it. */
export function placeFault(spec: FaultSpec, choice: FaultChoice, clusters: readonly Cluster[]): Fault {
  const { seed, steps } = choice;
  const from = onsetOf(choice, spec);
  const to = choice.end ?? steps;
  if (from >= steps) throw bad('onset', `step ${from} is after the last one`, `use less than ${steps}`);
  if (to <= from) throw bad('end', `step ${to} is not after the onset, step ${from}`, 'use a later one');
  const size = (clusters[0] as Cluster).size;
  const count = size * clusters.length;
  const chosen = below('rank', choice.rank ?? Random.stream(seed, 'fault').below(count), count);
  const cluster = clusters[Math.floor(chosen / size)] as Cluster;
  const { ranks, groups, subject } = PLACES[spec.target](cluster, chosen % size, choice);
  const most = strongest(spec, ranks, cluster);
  const strength = choice.strength ?? Math.min(spec.strength, most);
  if (strength > most)
    throw bad('strength', `${strength} leaves nothing for the others`, `use at most ${most.toFixed(2)}`);
  // The second attempt counts its steps anew where it serves.
  const [onset, end] = spec.restarts ? [0, steps] : [from, spec.bursts === 'once' ? from + 1 : to];
  const struck = spec.bursts && burstsOf(spec.bursts, seed, onset, end);
  return {
    ...{ effect: spec.effect, ranks: new Set(ranks), onset, end, strength },
    ...(groups && { groups: new Set(groups) }),
    ...(spec.sizes && { sizes: spec.sizes }),
    ...(spec.aboveBatch !== undefined && { aboveBatch: spec.aboveBatch }),
    ...(struck && { steps: struck }),
    truth: {
      ...{ job: cluster.job, kind: spec.kind, cause: spec.cause, subject, onset_step: onset },
      ...(spec.restarts && { run: '2' }),
      ...(end < steps && { end_step: end }),
      strength,
    },
  };
}

const PLACES: Readonly<Record<Target, (cluster: Cluster, rank: number, choice: FaultChoice) => Place>> = {
  rank: (_, rank) => ({ ranks: [rank], subject: { ranks: [rank] } }),
  machine: (cluster, rank) => {
    const host = cluster.hostOf(rank);
    const ranks = cluster.ranksOfHost(host);
    return { ranks, subject: { hosts: [host], ranks } };
  },
  job: (cluster) => ({ ranks: range(cluster.size), subject: {} }),
  stage: (cluster, _, choice) => {
    const { pp } = cluster.layout;
    const stage = below('stage', choice.stage ?? pp - 1, pp);
    return { ranks: cluster.ranksOfStage(stage), subject: { stage } };
  },
  link: (cluster, rank) => {
    const groups = groupsWith(cluster, [rank], false);
    return { ranks: [rank], groups, subject: { hosts: [cluster.hostOf(rank)], gpu: cluster.gpuOf(rank), groups } };
  },
  nic: (cluster, rank) => {
    const groups = groupsWith(cluster, [rank], true);
    return { ranks: [rank], groups, subject: { hosts: [cluster.hostOf(rank)], nic: cluster.nicOf(rank), groups } };
  },
  host: (cluster, rank) => {
    const host = cluster.hostOf(rank);
    const ranks = cluster.ranksOfHost(host);
    const groups = groupsWith(cluster, ranks, true);
    return { ranks, groups, subject: { hosts: [host], groups } };
  },
  group: (cluster, rank) => {
    const [group] = groupsWith(cluster, [rank], true) as [string];
    const ranks = cluster.group(group);
    const hosts = [...new Set(ranks.map((member) => cluster.hostOf(member)))];
    return { ranks, groups: [group], subject: { hosts, groups: [group] } };
  },
  replicas: (cluster, rank) => {
    const { dp } = cluster.layout;
    const first = cluster.dpOf(rank);
    const favoured = range(Math.max(1, Math.round(dp / 4))).map((i) => (first + i) % dp);
    const ranks = range(cluster.size).filter((member) => favoured.includes(cluster.dpOf(member)));
    return { ranks, subject: { ranks } };
  },
  experts: (cluster, rank) => {
    const { ep } = cluster.layout;
    const first = cluster.dpOf(rank) % ep;
    const hot = range(Math.max(1, Math.round(ep * EXPERTS.hotShare))).map((i) => (first + i) % ep);
    const ranks = range(cluster.size).filter((member) => hot.includes(cluster.dpOf(member) % ep));
    return { ranks, subject: { ranks } };
  },
};

/** Communicators with one of the ranks: those that span hosts, or those that do not. */
function groupsWith(cluster: Cluster, ranks: readonly number[], inter: boolean): string[] {
  const groups = [...cluster.groups.keys()].filter(
    (name) => cluster.spansHosts(name) === inter && cluster.group(name).some((rank) => ranks.includes(rank)),
  );
  if (groups.length > 0) return groups;
  const problem = inter ? 'no communicator spans hosts' : 'no communicator lies within a host';
  throw bad(
    'ranks',
    problem,
    inter ? 'use more ranks, or a smaller gpusPerHost' : 'use more GPUs a host, or another layout',
  );
}

/** Where some get more, others must have something left. */
function strongest(spec: FaultSpec, ranks: readonly number[], cluster: Cluster): number {
  if (spec.effect !== 'router' && spec.effect !== 'experts') return Number.POSITIVE_INFINITY;
  return 0.95 * (cluster.size / ranks.length - 1);
}

function burstsOf(bursts: NonNullable<FaultSpec['bursts']>, seed: number, onset: number, end: number): Set<number> {
  const steps = range(end - onset).map((i) => onset + i);
  if (bursts === 'once') return new Set([onset]);
  if (bursts === 'every_second') return new Set(steps.filter((step) => (step - onset) % 2 === 0));
  const random = Random.stream(seed, 'flaps');
  const struck = new Set<number>();
  for (let from = onset; from < end; ) {
    const length = FLAPS.minSteps + random.below(FLAPS.maxSteps - FLAPS.minSteps + 1);
    for (let step = from; step < Math.min(end, from + length); step++) struck.add(step);
    from += length + FLAPS.minApart + random.below(FLAPS.maxApart - FLAPS.minApart + 1);
  }
  return struck;
}

function below(option: string, value: number, limit: number): number {
  if (value >= limit) throw bad(option, `${value} does not exist`, `use 0 to ${limit - 1}`);
  return value;
}
