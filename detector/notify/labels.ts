import {
  Cause,
  INCIDENT_KINDS,
  type Incident,
  type IncidentKind,
  SEVERITIES,
  type Severity,
} from '../../protocol/incident.js';
import { IDENTITY_FIELDS } from '../rules/template.js';
import type { LabelSet } from '../store/outbox.js';

/** Beyond this many, ranks (as ranges) and hosts of one label are counted only. */
const MAX_LISTED = 16;

/** Labels that an incident has whatever its rule adds, as far as it is about them. */
export const LABEL_NAMES: readonly string[] = [
  ...['alertname', 'severity', 'cause', 'incident_id', 'rule'],
  // Requests are too many and too short-lived to route by.
  ...IDENTITY_FIELDS.filter((field) => field !== 'requests'),
];
/** Labels that have no other values. */
export const LABEL_VALUES: Readonly<Record<string, readonly string[]>> = {
  kind: INCIDENT_KINDS,
  severity: SEVERITIES,
  cause: Cause.options,
};

/**
 * An incident's identity as labels, with those that its rule adds; what was measured never becomes one, or every update would
 * be a new alert. A rule's label does not replace one of ours.
 */
export function labelsOf(incident: Incident, severity: Severity): LabelSet {
  const { id, kind, cause, subject, rule } = incident;
  const { job, run, stage, group, link, nic, phase, instance, gpu, graph, source } = subject;
  const ranks = listed(rangesOf(subject.ranks));
  const hosts = listed(subject.hosts);
  const facts = { job, run, ranks, hosts, stage, group, link, nic, phase, instance, gpu, graph, source };
  const added = Object.entries(rule.labels ?? {}).filter(([, value]) => value !== '');
  const own = { alertname: alertName(kind), kind, severity, cause, incident_id: id, rule: rule.id };
  const labels: Record<string, string> = { ...Object.fromEntries(added), ...own };
  for (const [name, value] of Object.entries(facts)) if (value !== null && value !== '') labels[name] = String(value);
  return labels;
}

/** Kind in camel case, as alert names are written: `PicketStageImbalance`. */
export const alertName = (kind: IncidentKind): string =>
  `Picket${kind.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}`;

/** Values with commas between; of a long list the first ones and how many more there are. */
export function listed(values: readonly unknown[]): string {
  const shown = values.slice(0, MAX_LISTED).join(',');
  return values.length > MAX_LISTED ? `${shown} and ${values.length - MAX_LISTED} more` : shown;
}

/** Runs of consecutive numbers: 0,1,2,5 becomes "0-2", "5". */
function rangesOf(ranks: readonly number[]): string[] {
  const ranges: [first: number, last: number][] = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range && rank <= range[1] + 1) range[1] = rank;
    else ranges.push([rank, rank]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
}

const FNV_OFFSET = 0xcbf29ce484222325n;
const FNV_PRIME = 0x100000001b3n;
const SEPARATOR = Uint8Array.of(0xff);

/** Prometheus's fingerprint of a label set: FNV-1a 64 over names and values in order of name, each followed by 0xFF; 16 hex digits. */
export function fingerprintOf(labels: LabelSet): string {
  let hash = FNV_OFFSET;
  const parts = Object.keys(labels)
    .sort()
    .flatMap((name) => [name, labels[name] as string]);
  for (const part of parts)
    for (const byte of Buffer.concat([Buffer.from(part), SEPARATOR]))
      hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * FNV_PRIME);
  return hash.toString(16).padStart(16, '0');
}

/** As Prometheus writes a label set. */
export const labelSetText = (labels: LabelSet): string =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(', ')}}`;
