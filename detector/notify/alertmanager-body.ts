import type { Incident, Severity } from '../../protocol/incident.js';
import type { Notification } from '../store/store.js';
import { fingerprintOf, type Labels, labelsOf, listed } from './labels.js';

/** Alertmanager's webhook message, version "4". */
export interface AlertmanagerBody {
  readonly receiver: string;
  readonly status: 'firing' | 'resolved';
  readonly alerts: readonly Alert[];
  readonly notification_reason: string;
  readonly groupLabels: Labels;
  readonly commonLabels: Labels;
  readonly commonAnnotations: Labels;
  readonly externalURL: string;
  readonly version: '4';
  readonly groupKey: string;
  readonly truncatedAlerts: 0;
}

export interface Alert {
  readonly status: 'firing' | 'resolved';
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL: string;
  readonly fingerprint: string;
}

/** Go's zero time, which stands for "has not ended". */
const NOT_ENDED = '0001-01-01T00:00:00Z';

/**
 * The message for a notification. An incident is a group of its own; its alert carries the severity as a label, so when that
 * rises the alert told before ends as the new one begins, and the end of an incident is told under the severity last told.
 */
export function alertmanagerBody(notification: Notification, externalUrl: string): AlertmanagerBody {
  const { incident, event, toldSeverity, receiver } = notification;
  const firing = event !== 'resolved';
  const alert = (severity: Severity, endsAt: string | null) => alertOf(incident, severity, endsAt, externalUrl);
  const alerts: Alert[] = firing ? [alert(incident.severity, null)] : [];
  if (toldSeverity && !(firing && toldSeverity === incident.severity))
    alerts.push(alert(toldSeverity, incident.resolved_at ?? lastChangeOf(incident)));
  const labels = (alerts[0] as Alert).labels;
  const groupLabels = { alertname: labels.alertname as string, incident_id: incident.id };
  return {
    receiver,
    status: firing ? 'firing' : 'resolved',
    alerts,
    notification_reason: reasonOf(notification),
    groupLabels,
    commonLabels: commonTo(alerts.map((each) => each.labels)),
    commonAnnotations: (alerts[0] as Alert).annotations,
    externalURL: externalUrl,
    version: '4',
    groupKey: `{}:${labelSetText(groupLabels)}`,
    truncatedAlerts: 0,
  };
}

function reasonOf({ event, toldSeverity }: Notification): string {
  if (event === 'resolved') return 'all alerts resolved';
  return toldSeverity === null ? 'first notification' : 'new alerts added';
}

function alertOf(incident: Incident, severity: Severity, endsAt: string | null, externalUrl: string): Alert {
  const labels = labelsOf(incident, severity);
  return {
    status: endsAt === null ? 'firing' : 'resolved',
    labels,
    annotations: annotationsOf(incident),
    startsAt: incident.started_at,
    endsAt: endsAt ?? NOT_ENDED,
    generatorURL: `${externalUrl}/v1/incidents/${encodeURIComponent(incident.id)}`,
    fingerprint: fingerprintOf(labels),
  };
}

const lastChangeOf = (incident: Incident): string => incident.timeline.at(-1)?.at ?? incident.detected_at;

/** The rule's annotations take the place of ours of the same name: an operator may write another summary. */
function annotationsOf({ summary, subject, cost, confidence, evidence, runner_up, ...incident }: Incident): Labels {
  const numbers = Object.entries(evidence).map(([name, value]) => `${name}=${evidenceText(value)}`);
  const facts = [`onset step ${incident.onset_step}`, `confidence ${round(confidence)}`, ...numbers];
  const percent = round(cost.step_fraction * 100);
  const annotations: Record<string, string> = {
    summary,
    description: `${summary}. ${facts.join(', ')}`,
    cost: `${round(cost.ms_per_step)} ms a step (${percent} %), ${round(cost.gpu_seconds)} GPU-seconds so far`,
  };
  if (runner_up) annotations.runner_up = `${runner_up.kind}: ${runner_up.why_not}`;
  if (subject.requests.length > 0) annotations.requests = listed(subject.requests);
  return { ...annotations, ...incident.rule.annotations };
}

function evidenceText(value: Incident['evidence'][string]): string {
  if (Array.isArray(value)) return `[${listed(value.map(round))}]`;
  return String(typeof value === 'number' ? round(value) : value);
}

/** Four significant digits, integers whole: enough for a person. */
const round = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(4)));

function commonTo(sets: readonly Labels[]): Labels {
  const entries = Object.entries(sets[0] ?? {});
  return Object.fromEntries(entries.filter(([name, value]) => sets.every((set) => set[name] === value)));
}

const labelSetText = (labels: Labels): string =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(', ')}}`;
