import type { Incident } from '../../protocol/incident.js';
import type { LabelSet } from '../store/outbox.js';
import { listed } from './labels.js';

/** What a person reads of an incident. The rule's annotations take the place of ours of the same name. */
export function annotationsOf({
  summary,
  subject,
  cost,
  confidence,
  evidence,
  runner_up,
  ...incident
}: Incident): LabelSet {
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
