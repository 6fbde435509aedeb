import type { IncidentKind, Subject } from '../protocol/incident.js';
import type { Truth, TruthSubject } from '../simulator/faults.js';

/** Steps after the end of a fault in which it may still be reported: evidence needs some steps. */
export const GRACE_STEPS = 12;

/** What somebody says is wrong. A method that cannot tell kinds apart names all that it may mean. */
export interface Claim {
  readonly kinds: readonly IncidentKind[];
  readonly job: string;
  readonly run: string;
  /** Step at which it was said. */
  readonly step: number;
}

/** The truth that a claim tells: same job, same attempt, one of its kinds, said while it lasted or shortly after. */
export function truthOf<T extends Truth>(claim: Claim, truths: readonly T[]): T | undefined {
  return truths.find(
    ({ kind, job, run = '1', onset_step, end_step = Number.POSITIVE_INFINITY }) =>
      claim.kinds.includes(kind) &&
      claim.job === job &&
      claim.run === run &&
      claim.step >= onset_step &&
      claim.step < end_step + GRACE_STEPS,
  );
}

/**
 * Whether a subject is the truth's: what the truth names and the incident too agrees, and something of it is named.
 * A truth about the whole job is not about a stage or a link, nor about some of its ranks only.
 * @param ranksOfJob how many ranks the job has
 */
export function isSubject(found: Subject, truth: TruthSubject, ranksOfJob: number): boolean {
  const checks: boolean[] = [];
  if (truth.ranks) checks.push(same(found.ranks, truth.ranks));
  if (truth.stage !== undefined) checks.push(found.stage === truth.stage);
  if (truth.groups && found.group !== null) checks.push(truth.groups.includes(found.group));
  if (truth.nic && found.nic !== null) checks.push(found.nic === truth.nic);
  if (truth.gpu && found.gpu !== null) checks.push(found.gpu === truth.gpu);
  // A communicator lies on several hosts; the one at fault is among them.
  if (truth.hosts && found.hosts.length > 0)
    checks.push(
      found.group === null ? same(found.hosts, truth.hosts) : truth.hosts.every((host) => found.hosts.includes(host)),
    );
  if (Object.keys(truth).length === 0) return found.stage === null && [0, ranksOfJob].includes(found.ranks.length);
  return checks.length > 0 && checks.every(Boolean);
}

function same<T>(some: readonly T[], others: readonly T[]): boolean {
  const set = new Set(others);
  return set.size === new Set(some).size && some.every((each) => set.has(each));
}
