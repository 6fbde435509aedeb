import { createHash } from 'node:crypto';
import { type Incident, SEVERITIES, type Severity, type Subject, type TimelineEntry } from '../../protocol/incident.js';
import { levelOf, scopesOf, sharedScopes, subjectOf, textOf } from './storm-scope.js';

/** What is kept of a member of a storm. Plain data. */
export interface Member {
  readonly kind: Incident['kind'];
  readonly subject: Subject;
  readonly severity: Severity;
  readonly cause: Incident['cause'];
  readonly cost: Incident['cost'];
  readonly confidence: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly runbook: string | undefined;
  readonly open: boolean;
}

export interface Storm {
  /** An incident joins it that has this in common with its first members. */
  readonly scope: string;
  readonly incident: Incident;
  readonly members: ReadonlyMap<string, Member>;
  /** Event time at which its newest member opened, epoch ms. */
  lastMs: number;
  /** When a member last changed. */
  readonly newest: Pick<TimelineEntry, 'at' | 'step'>;
}

const memberOf = ({ kind, subject, severity, cause, cost, confidence, rule, status }: Incident): Member => ({
  ...{ kind, subject, severity, cause, cost, confidence, labels: rule.labels ?? {} },
  ...{ runbook: rule.annotations?.runbook_url, open: status !== 'resolved' },
});

/** @param opened its first members, in the order in which they opened */
export function stormOpened(scope: string, opened: readonly Incident[], lastMs: number): Storm {
  const [first] = opened as [Incident];
  const newest = opened.at(-1) as Incident;
  const members = new Map(opened.map((incident) => [incident.id, memberOf(incident)]));
  const facts = factsOf(members);
  const severity = worst([...members.values()]);
  const { at, step } = newest.timeline.at(-1) as TimelineEntry;
  const incident: Incident = {
    id: createHash('sha256').update(['storm', scope, first.id].join('\0')).digest('hex').slice(0, 16),
    ...facts,
    ...{ severity, status: 'open', onset_step: Math.min(...opened.map(({ onset_step }) => onset_step)) },
    ...{ detected_step: step, last_step: step, detected_at: at, resolved_at: null },
    started_at: opened.map(({ started_at }) => started_at).sort()[0] as string,
    rule: { id: 'storm', commit: first.rule.commit, ...textsOf(members) },
    timeline: [{ at, step, event: 'opened', note: `${severity}: ${facts.summary}` }],
  };
  return { scope, incident, members, lastMs, newest: { at, step } };
}

/** The storm after members have changed, or joined. Its severity only rises: each easing member would be news otherwise. */
export function stormWith(storm: Storm, changed: readonly Incident[]): Storm {
  const { incident } = storm;
  const members = new Map([...storm.members, ...changed.map((member) => [member.id, memberOf(member)] as const)]);
  const { at, step } = (changed.at(-1) as Incident).timeline.at(-1) as TimelineEntry;
  const severity = worst([...members.values(), incident]);
  const escalated: TimelineEntry[] =
    severity === incident.severity ? [] : [{ at, step, event: 'escalated', note: severity }];
  return {
    ...{ ...storm, members, newest: { at, step } },
    incident: {
      ...{ ...incident, ...factsOf(members), severity },
      last_step: Math.max(incident.last_step, step),
      rule: { ...incident.rule, ...textsOf(members) },
      timeline: [...incident.timeline, ...escalated],
    },
  };
}

/** The storm whose last member is over. */
export function stormResolved({ incident, members, newest }: Storm): Incident {
  const note = `all ${members.size} incidents are over`;
  const entry: TimelineEntry = { ...newest, event: 'resolved', note };
  return { ...incident, status: 'resolved', resolved_at: newest.at, timeline: [...incident.timeline, entry] };
}

function factsOf(members: ReadonlyMap<string, Member>) {
  const all = [...members.values()];
  const kinds = countBy(all, ({ kind }) => kind);
  const causes = new Set(all.map(({ cause }) => cause));
  const shared = sharedScopes(all.map(scopesOf), () => 1);
  return {
    kind: (kinds[0] as [Incident['kind'], number])[0],
    subject: subjectOf(
      shared,
      all.map(({ subject }) => subject),
    ),
    cause: causes.size === 1 ? ([...causes][0] as Incident['cause']) : ('unknown' as const),
    summary: summaryOf(all, shared, kinds),
    cost: costOf(all),
    confidence: Math.max(...all.map(({ confidence }) => confidence)),
    evidence: {
      incidents: all.length,
      still_open: all.filter(({ open }) => open).length,
      ...Object.fromEntries(kinds),
    },
    runner_up: null,
    storm: { common: levelOf(shared[0] as string), members: [...members.keys()] },
  };
}

/** Incidents of one job lose the same time together: the largest counts, and jobs add up. */
function costOf(members: readonly Member[]): Incident['cost'] {
  const largest = (read: (cost: Incident['cost']) => number): number =>
    Math.max(...members.map(({ cost }) => read(cost)));
  const byJob = new Map<string, number>();
  for (const { subject, cost } of members)
    byJob.set(subject.job, Math.max(byJob.get(subject.job) ?? 0, cost.gpu_seconds));
  return {
    ms_per_step: largest((cost) => cost.ms_per_step),
    step_fraction: largest((cost) => cost.step_fraction),
    gpu_seconds: Math.round([...byJob.values()].reduce((sum, each) => sum + each, 0) * 1000) / 1000,
  };
}

function summaryOf(all: readonly Member[], shared: readonly string[], kinds: readonly [string, number][]): string {
  const jobs = new Set(all.map(({ subject }) => subject.job)).size;
  const counts = kinds.map(([kind, count]) => `${count} ${kind}`).join(', ');
  return `${all.length} incidents${jobs > 1 ? ` of ${jobs} jobs` : ''} opened together, with ${textOf(shared)} in common: ${counts}`;
}

/** Labels that all members have alike, and the runbook where it is one. */
function textsOf(members: ReadonlyMap<string, Member>): Pick<Incident['rule'], 'labels' | 'annotations'> {
  const [first, ...others] = [...members.values()] as [Member, ...Member[]];
  const labels = Object.entries(first.labels).filter(([name, value]) =>
    others.every((member) => member.labels[name] === value),
  );
  const runbook = others.every((member) => member.runbook === first.runbook) ? first.runbook : undefined;
  return {
    ...(labels.length > 0 && { labels: Object.fromEntries(labels) }),
    ...(runbook !== undefined && { annotations: { runbook_url: runbook } }),
  };
}

/** Values with how many have them, the most frequent first. */
function countBy<T>(all: readonly Member[], read: (member: Member) => T): [T, number][] {
  const counts = new Map<T, number>();
  for (const member of all) counts.set(read(member), (counts.get(read(member)) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

const worst = (all: readonly { readonly severity: Severity }[]): Severity =>
  SEVERITIES[Math.max(...all.map(({ severity }) => SEVERITIES.indexOf(severity)))] as Severity;
