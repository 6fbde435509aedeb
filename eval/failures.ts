import type { Incident } from '../protocol/incident.js';
import type { Outcome } from './score.js';

/** Every miss, wrong subject and wrong incident, one line each; wrong incidents of one kind and run together. */
export function failuresOf({ played, truths, wrong }: Outcome): string[] {
  const { scenario, ranks, seed, baseline } = played.options;
  const strength = truths[0] ? ` strength ${truths[0].truth.strength}` : '';
  const head = `${scenario}${baseline ? ' with a baseline' : ''}${strength}, ${ranks} ranks, seed ${seed}`;
  const lines = truths.flatMap(({ truth, found, subjectRight, slowdown }) => {
    const what = `${truth.kind} of ${subjectText(truth.subject)}`;
    const slower = Number.isFinite(slowdown) ? ` (job ${(100 * slowdown).toFixed(1)} % slower)` : '';
    if (!found) return [`${head}: missed ${what}${slower}${wrong.length === 0 ? ', nothing said' : ''}`];
    return subjectRight ? [] : [`${head}: ${what} was said to be of ${subjectText(found.subject)}`];
  });
  const alike = new Map<string, Incident[]>();
  for (const incident of wrong) {
    const key = `${incident.severity} ${incident.kind}`;
    alike.set(key, [...(alike.get(key) ?? []), incident]);
  }
  for (const [key, [first, ...rest]] of alike)
    if (first)
      lines.push(
        `${head}: wrong ${key}${rest.length > 0 ? ` x ${rest.length + 1}, the first` : ''} at step ${first.detected_step} of ${subjectText(first.subject)}: ${first.summary}`,
      );
  return lines;
}

/** What a subject names, short. */
function subjectText(subject: object): string {
  const named = Object.entries(subject).filter(
    ([name, value]) =>
      !['job', 'run'].includes(name) && value !== null && !(Array.isArray(value) && value.length === 0),
  );
  return named.length === 0 ? 'the job' : named.map(([name, value]) => `${name} ${value}`).join(', ');
}
