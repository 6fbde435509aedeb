import type { Incident, IncidentKind } from '../protocol/incident.js';
import { SCENARIOS, type Truth } from '../simulator/simulate.js';
import { isSubject, truthOf } from './match.js';
import type { Played } from './play.js';

/** A fault, and how it was reported first. */
export interface TruthOutcome {
  readonly truth: Truth;
  readonly found: Incident | undefined;
  readonly subjectRight: boolean;
  readonly causeRight: boolean;
  /** From the first faulty step to the one at which it was reported. */
  readonly delaySteps: number;
  readonly delaySeconds: number;
  /** Share of more time that the job takes from the onset on; NaN unknown. */
  readonly slowdown: number;
}

/** A played case, judged. */
export interface Outcome {
  readonly played: Pick<Played, 'options' | 'steps' | 'gpuHours'>;
  readonly truths: readonly TruthOutcome[];
  readonly wrong: readonly Incident[];
  /** Neither right nor wrong: kinds that the scenario tolerates, as a report of what is really uneven. */
  readonly tolerated: readonly Incident[];
  /** Further reports of what was reported. */
  readonly repeats: number;
}

/** @param healthy the same case's times without the fault, where known */
export function judge(played: Played, healthy?: Played['timeFrom']): Outcome {
  const { options, steps, gpuHours } = played;
  const tolerates = new Set<IncidentKind>(SCENARIOS[played.options.scenario]?.tolerates);
  const first = new Map<Truth, Incident>();
  const wrong: Incident[] = [];
  const tolerated: Incident[] = [];
  let repeats = 0;
  for (const incident of played.incidents) {
    const { kind, subject, detected_step } = incident;
    const truth = truthOf({ kinds: [kind], job: subject.job, run: subject.run, step: detected_step }, played.truths);
    if (truth && !first.has(truth)) first.set(truth, incident);
    else if (truth) repeats++;
    else (tolerates.has(kind) ? tolerated : wrong).push(incident);
  }
  return {
    played: { options, steps, gpuHours },
    truths: played.truths.map((truth) => outcomeOf(truth, first.get(truth), played, healthy)),
    ...{ wrong, tolerated, repeats },
  };
}

function outcomeOf(
  truth: Truth,
  found: Incident | undefined,
  { startOf, timeFrom, ranksPerJob }: Played,
  healthy: Played['timeFrom'] | undefined,
): TruthOutcome {
  const where = [truth.job, truth.run ?? '1', truth.onset_step] as const;
  const onset = startOf(...where);
  return {
    ...{ truth, found },
    subjectRight: found !== undefined && isSubject(found.subject, truth.subject, ranksPerJob),
    causeRight: found?.cause === truth.cause,
    delaySteps: found ? found.detected_step - truth.onset_step : Number.NaN,
    delaySeconds: found && onset !== undefined ? Number(epochNs(found.detected_at) - onset) / 1e9 : Number.NaN,
    slowdown: healthy ? timeFrom(...where) / healthy(...where) - 1 : Number.NaN,
  };
}

/** Nanoseconds of an RFC 3339 time in UTC. */
export function epochNs(time: string): bigint {
  const [seconds, fraction = ''] = time.replace('Z', '').split('.');
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0').slice(0, 9));
}
