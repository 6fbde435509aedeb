import { printable } from '../printable.js';
import type { Difference, Fired, RuleTally } from './backtest-run.js';

export interface BacktestReport {
  /** Of the rules that were tried, and of those they were compared with. */
  readonly commit: string;
  readonly against: string | null;
  readonly rows: number;
  /** Incidents that reached warning or critical, and how many may. */
  readonly alerts: number;
  readonly limit: number | null;
  readonly rules: readonly RuleTally[];
  readonly fired: readonly Fired[];
  readonly suppressed: Readonly<Record<string, number>>;
  readonly without_value: Readonly<Record<string, string>>;
  readonly difference: Difference | null;
}

/** Incidents beyond this many are counted only. */
const MAX_LISTED = 20;

/** What a person reads: by rule how often and how long, the incidents, what was held back, and the difference. */
export function renderBacktest(report: BacktestReport): string {
  const { commit, rows, fired, alerts, limit, suppressed, without_value, difference, against } = report;
  const held = Object.entries(suppressed).map(([reason, count]) => `${count} x ${reason}`);
  const silent = Object.entries(without_value).map(([rule, reason]) => `${rule}: ${reason}`);
  const count = `${rows.toLocaleString('en')} rows, rules of ${commit}: ${fired.length} incident${fired.length === 1 ? '' : 's'}, ${alerts} of them alerts (warning or critical)`;
  return [
    count,
    ...(fired.length > 0 ? [table(report.rules), listed('Incidents', fired.map(lineOf))] : []),
    ...(held.length > 0 ? [listed('Not reported, as the rules say', held)] : []),
    ...(silent.length > 0 ? [listed('Expressions that never had a value', silent)] : []),
    ...(difference ? [renderDifference(difference, against as string)] : []),
    ...(limit === null ? [] : [`${alerts > limit ? 'REFUSED' : 'ok'}: ${alerts} alerts, at most ${limit} allowed`]),
  ].join('\n\n');
}

function table(rules: readonly RuleTally[]): string {
  const rows = rules
    .filter(({ incidents }) => incidents > 0)
    .map(({ rule, incidents, alerts, openings, open_seconds, longest_seconds, gpu_seconds }) =>
      [rule, incidents, alerts, openings, open_seconds, longest_seconds, gpu_seconds].map(String),
    );
  const lines = [['rule', 'incidents', 'alerts', 'openings', 'open s', 'longest s', 'GPU s lost'], ...rows];
  const widths = (lines[0] as string[]).map((_, i) => Math.max(...lines.map((line) => (line[i] as string).length)));
  const quiet = rules.length - rows.length;
  return [
    ...lines.map((line) =>
      line
        .map((cell, i) => (i === 0 ? cell.padEnd(widths[i] as number) : cell.padStart(widths[i] as number)))
        .join('  '),
    ),
    `${quiet} other rules did not fire`,
  ].join('\n');
}

function lineOf({ incident, severity, openSeconds }: Fired): string {
  const { subject, summary, detected_step, status, rule } = incident;
  const end = status === 'resolved' ? 'over' : 'to the end';
  return `${severity} ${subject.job}, rule ${rule.id}, from step ${detected_step}, open ${openSeconds.toFixed(1)} s (${end}): ${summary}`;
}

function listed(title: string, lines: readonly string[]): string {
  const more = lines.length - MAX_LISTED;
  return [
    `${title}:`,
    ...lines.slice(0, MAX_LISTED).map((line) => `  ${printable(line)}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ].join('\n');
}

function renderDifference({ only_new, only_old, changed }: Difference, against: string): string {
  if (only_new.length + only_old.length + changed.length === 0) return `No difference to the rules of ${against}.`;
  const lines = [
    ...only_new.map((each) => `+ ${lineOf(each)}`),
    ...only_old.map((each) => `- ${lineOf(each)}`),
    ...changed.map(({ is, what }) => `~ ${is.incident.subject.job}, ${is.incident.kind}: ${what.join(', ')}`),
  ];
  return listed(`Difference to the rules of ${against} (+ only now, - no longer, ~ changed)`, lines);
}
