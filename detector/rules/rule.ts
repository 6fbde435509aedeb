import type { Cause, IncidentKind, Severity, Subject } from '../../protocol/incident.js';
import type { DetectorParams } from '../detectors/params.js';
import type { Span } from './duration.js';
import type { Compiled } from './expression.js';
import { type Globs, globsMatch } from './globs.js';
import type { MuteWindow } from './mute.js';
import type { RULE_STATUSES } from './schema.js';
import type { Template } from './template.js';

/** Where a rule stands, for messages. */
export interface RulePlace {
  readonly file: string;
  readonly line: number;
  readonly col: number;
  readonly group: string;
}

/** A rule, checked and ready to be applied. */
export interface Rule {
  readonly id: string;
  readonly kind: IncidentKind;
  readonly status: (typeof RULE_STATUSES)[number];
  readonly place: RulePlace;
  /** Hash of all that it says: a rule that is unchanged keeps its state over a reload. */
  readonly revision: string;
  /** All that it says, group's defaults included, as written: for `picket rules diff`. */
  readonly written: Readonly<Record<string, unknown>>;
  readonly owner: string | undefined;
  readonly runbook: string | undefined;
  readonly match: Readonly<Record<'job' | 'engine' | 'model' | 'host', Globs | undefined>>;
  readonly params: Partial<DetectorParams>;
  readonly severity: Severity | { readonly warning: number; readonly critical: number };
  readonly hold: Span;
  readonly keepFiring: Span;
  readonly reopenWithin: Span;
  readonly noData: 'keep' | 'resolve';
  readonly labels: ReadonlyMap<string, Template>;
  readonly annotations: ReadonlyMap<string, Template>;
  readonly exceptions: readonly RuleException[];
  readonly mute: readonly MuteWindow[];
  readonly expression: RuleExpression | undefined;
}

export interface RuleExpression {
  readonly text: string;
  readonly holds: Compiled<boolean>;
  readonly costMs: Compiled<number> | undefined;
  /** Steps; it is evaluated once every so many. */
  readonly window: number;
  readonly per: 'job' | 'rank';
  readonly cause: Cause;
}

export interface RuleException {
  readonly name: string;
  readonly reason: string;
  /** Event time, epoch ns, from which on it no longer holds. */
  readonly until: bigint | undefined;
  readonly match: {
    readonly names: Readonly<Partial<Record<'job' | 'host' | 'nic' | 'link' | 'group' | 'phase', Globs>>>;
    readonly ranks: ReadonlySet<number> | undefined;
    readonly stages: ReadonlySet<number> | undefined;
    readonly causes: ReadonlySet<Cause> | undefined;
  };
  readonly line: number;
  readonly col: number;
}

/** A kind that is not reported for some jobs. */
export interface SwitchedOff {
  readonly kind: IncidentKind;
  readonly jobs: Globs;
  readonly reason: string;
  readonly until: bigint | undefined;
  readonly place: Omit<RulePlace, 'group'>;
}

/** Whom and what a finding or an incident is about: all that rules choose by. */
export interface Judged {
  readonly kind: IncidentKind;
  readonly subject: Subject;
  readonly cause: Cause;
}

/** Is all that the finding names excepted? A list of hosts or ranks must be covered whole. */
export function isExcepted({ match, until }: RuleException, { subject, cause }: Judged, now: bigint): boolean {
  if (until !== undefined && now >= until) return false;
  const { names, ranks, stages, causes } = match;
  const named = {
    job: [subject.job],
    host: subject.hosts,
    nic: [subject.nic],
    link: [subject.link],
    group: [subject.group],
    phase: [subject.phase],
  };
  for (const [name, globs] of Object.entries(names)) {
    const values = named[name as keyof typeof named].filter((value) => value !== null && value !== '');
    if (values.length === 0 || !values.every((value) => globsMatch(globs, value))) return false;
  }
  if (ranks && !(subject.ranks.length > 0 && subject.ranks.every((rank) => ranks.has(rank)))) return false;
  if (stages && !(subject.stage !== null && stages.has(subject.stage))) return false;
  return !causes || causes.has(cause);
}
