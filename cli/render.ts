import type { Incident } from '../protocol/incident.js';
import type { Analysis } from './analyze.js';
import { printable } from './printable.js';

/** What a person reads: every incident with its cost, its evidence and the explanation that lost. */
export function renderAnalysis({ incidents, quality, rows, seconds, unclaimed, suppressed }: Analysis): string {
  const parts = incidents.map(renderIncident);
  if (incidents.length === 0) parts.push(rows > 0 ? 'No incident.' : 'Nothing was judged: no row could be used.');
  if (quality.length > 0)
    parts.push(['Data quality:', ...quality.map(({ summary }) => `  ${printable(summary)}`)].join('\n'));
  if (suppressed.size > 0)
    parts.push(
      ['Not reported, as the rules say:', ...[...suppressed].map(([reason, count]) => `  ${count} x ${reason}`)].join(
        '\n',
      ),
    );
  if (unclaimed.length > 0)
    parts.push(['Not read, no importer knows them:', ...unclaimed.map((path) => `  ${printable(path)}`)].join('\n'));
  parts.push(`${rows.toLocaleString('en')} row${rows === 1 ? '' : 's'} in ${seconds} s`);
  return parts.join('\n\n');
}

export function renderIncident(incident: Incident): string {
  const { subject, cost, evidence, runner_up } = incident;
  const until =
    incident.status === 'resolved' ? `over by step ${incident.last_step}` : `still so at step ${incident.last_step}`;
  const numbers = Object.entries(evidence).map(
    ([name, value]) => `${name} ${Array.isArray(value) ? `[${value.join(', ')}]` : value}`,
  );
  return [
    `${incident.severity.toUpperCase()}  ${incident.kind} in ${subject.job}: ${incident.summary}`,
    `  when      since step ${incident.onset_step} (${incident.started_at}), found at step ${incident.detected_step}, ${until}`,
    `  cost      ${cost.ms_per_step} ms a step, ${(100 * cost.step_fraction).toFixed(1)} % of it; ${cost.gpu_seconds} GPU-seconds so far`,
    `  cause     ${incident.cause} (confidence ${incident.confidence})`,
    `  evidence  ${numbers.join(', ')}`,
    ...(runner_up ? [`  not       ${runner_up.kind}: ${runner_up.why_not}`] : []),
    ...(incident.reopened ? [`  again     came back ${incident.reopened} times after it had ended`] : []),
    ...(incident.part_of ? [`  part of   ${incident.part_of}`] : []),
    `  id        ${incident.id}`,
  ]
    .map(printable)
    .join('\n');
}
