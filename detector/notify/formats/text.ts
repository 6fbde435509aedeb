import type { AlertMessage } from '../message.js';

/** One line for a message: the alert, or how many of what. */
export function headlineOf({ alerts, truncated, group, status }: AlertMessage): string {
  const told = alerts.filter((alert) => alert.status === status);
  const count = told.length + (status === 'firing' ? truncated : 0);
  const [first] = told;
  const { alertname = '', job } = first?.labels ?? {};
  if (count === 1) return `${alertname}${job ? ` (${job})` : ''}: ${first?.annotations.summary ?? ''}`;
  const names = new Set(told.map(({ labels }) => labels.alertname));
  const where = group.labels.job ? ` in ${group.labels.job}` : '';
  return `${count} alerts ${status}${where}: ${[...names].join(', ')}`;
}

/** At most so many characters, an ellipsis at the end of what was cut; never half of a surrogate pair. */
export function clipped(text: string, max: number): string {
  if (text.length <= max) return text;
  const end = /[\uD800-\uDBFF]/.test(text[max - 2] as string) ? max - 2 : max - 1;
  return `${text.slice(0, end)}…`;
}
