import { createHash } from 'node:crypto';
import {
  type Incident,
  SEVERITIES,
  type Severity,
  severityOf,
  type TimelineEntry,
  timestampOf,
} from '../../protocol/incident.js';
import type { Finding } from '../detectors/finding.js';

/** Incidents of one job and run that are not over, by `kind|key`. Plain data. */
export type IncidentBook = Map<string, Incident>;

/** A change that people may want to hear of. */
export interface Transition {
  readonly before: Incident | undefined;
  readonly after: Incident;
}

/** Severity eases only once the cost is this far below the line, so that a cost near it does not flap. */
const EASE_MARGIN = 0.02;
/** An incident that changes severity for days keeps its first and last entries only. */
const MAX_TIMELINE = 50;

/** Takes in all that holds after a step that began at `now` (event time): opens, updates and resolves; says what changed. */
export function follow(book: IncidentBook, findings: readonly Finding[], step: number, now: bigint): Transition[] {
  const transitions: Transition[] = [];
  if (findings.length === 0 && book.size === 0) return transitions;
  const at = timestampOf(now);
  const present = new Set<string>();
  for (const finding of findings) {
    const name = `${finding.kind}|${finding.key}|${finding.onsetStep}`;
    present.add(name);
    const before = book.get(name);
    const after = before ? updated(before, finding, step, at) : opened(finding, step, at);
    book.set(name, after);
    if (!before || before.severity !== after.severity) transitions.push({ before, after });
  }
  for (const [name, before] of book) {
    if (present.has(name)) continue;
    book.delete(name);
    transitions.push({ before, after: resolved(before, step, at) });
  }
  return transitions;
}

/**
 * Hash of job, run, kind, subject key and onset, frozen at opening: the same whatever path the rows took. Neither file
 * names, offsets nor wall clock enter.
 */
export function incidentId(finding: Finding): string {
  const { job, run } = finding.subject;
  const facts = [job, run, finding.kind, finding.key, String(finding.onsetStep)];
  return createHash('sha256').update(facts.join('\0')).digest('hex').slice(0, 16);
}

function opened(finding: Finding, step: number, at: string): Incident {
  const severity = severityOf(finding.kind, finding.cost.step_fraction);
  return {
    id: incidentId(finding),
    kind: finding.kind,
    ...factsOf(finding),
    severity,
    status: 'open',
    onset_step: finding.onsetStep,
    detected_step: step,
    last_step: step,
    started_at: timestampOf(finding.onsetNs),
    detected_at: at,
    resolved_at: null,
    rule: { id: finding.kind, commit: null },
    timeline: [{ at, step, event: 'opened', note: `${severity}: ${finding.summary}` }],
  };
}

const factsOf = (finding: Finding) => ({
  subject: finding.subject,
  cause: finding.cause,
  summary: finding.summary,
  cost: finding.cost,
  confidence: finding.confidence,
  evidence: finding.evidence,
  runner_up: finding.runnerUp,
});

function updated(before: Incident, finding: Finding, step: number, at: string): Incident {
  const after = { ...before, ...factsOf(finding), last_step: step };
  const severity = severityNow(before, finding);
  if (severity === before.severity) return after;
  const event = SEVERITIES.indexOf(severity) > SEVERITIES.indexOf(before.severity) ? 'escalated' : 'eased';
  return { ...after, severity, timeline: extended(before.timeline, { at, step, event, note: severity }) };
}

function severityNow(before: Incident, finding: Finding): Severity {
  const { step_fraction } = finding.cost;
  const now = severityOf(finding.kind, step_fraction);
  const eased = SEVERITIES.indexOf(now) < SEVERITIES.indexOf(before.severity);
  return eased && severityOf(finding.kind, step_fraction + EASE_MARGIN) === before.severity ? before.severity : now;
}

function resolved(before: Incident, step: number, at: string): Incident {
  const entry: TimelineEntry = { at, step, event: 'resolved', note: 'no longer seen' };
  return { ...before, status: 'resolved', resolved_at: at, timeline: extended(before.timeline, entry) };
}

function extended(timeline: readonly TimelineEntry[], entry: TimelineEntry): TimelineEntry[] {
  const kept = timeline.length < MAX_TIMELINE ? timeline : [timeline[0] as TimelineEntry, ...timeline.slice(2)];
  return [...kept, entry];
}
