import { isDeepStrictEqual } from 'node:util';
import type { IncidentKind } from '../protocol/incident.js';
import { SCENARIOS, type Truth } from '../simulator/simulate.js';
import { truthOf } from './match.js';
import type { Played } from './play.js';
import type { Alarm, Method } from './reference/method.js';

/** What a method said of one case. */
export interface MethodOutcome {
  readonly scenario: string;
  /** Its name. */
  readonly method: string;
  /** Of the kinds that it claims. */
  readonly truths: readonly { readonly truth: Truth; readonly found: boolean }[];
  readonly wrong: readonly Alarm[];
}

/** Runs a method over a case; undefined where it is not made for such a workload. The matching rule is the detector's; the right ranks are part of it. */
export function judgeMethod(method: Method, { options, truths, timelines }: Played): MethodOutcome | undefined {
  const scenario = SCENARIOS[options.scenario];
  if (!scenario || !method.workloads.includes(scenario.workload)) return undefined;
  const tolerates = new Set<IncidentKind>(scenario.tolerates);
  const found = new Set<Truth>();
  const wrong: Alarm[] = [];
  for (const timeline of timelines)
    for (const alarm of method.detect(timeline)) {
      const claimed = truthOf({ ...alarm, job: timeline.job, run: timeline.run }, truths);
      const truth = claimed && namesRanks(alarm, claimed) ? claimed : undefined;
      if (truth) found.add(truth);
      else if (!alarm.kinds.some((kind) => tolerates.has(kind))) wrong.push(alarm);
    }
  return {
    ...{ scenario: options.scenario, method: method.name, wrong },
    truths: truths
      .filter(({ kind }) => method.claims.includes(kind))
      .map((truth) => ({ truth, found: found.has(truth) })),
  };
}

/** Whoever names ranks of a fault of ranks must name the right ones: at any time some rank is the slowest. */
const namesRanks = ({ ranks }: Alarm, { subject }: Truth): boolean =>
  !subject.ranks || ranks.length === 0 || isDeepStrictEqual([...ranks].sort(), [...subject.ranks].sort());
