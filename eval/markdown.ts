import type { Table } from './tables.js';

/** A section with the table. */
export function sectionOf({ title, note, columns, rows }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [`## ${title}`, '', note, '', line(columns), line(columns.map(() => '---')), ...rows.map(line), ''].join('\n');
}
