import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { type ImportOptions, type ImportReport, importPaths } from '../../importers/index.js';
import { type PhaseBatch, rowOf } from '../../protocol/phase-batch.js';
import type { SampleRow } from '../../protocol/sample.js';

export type ImportedRow = ReturnType<typeof rowOf> & { job: string; host: string };

export interface Imported {
  readonly batches: readonly PhaseBatch[];
  readonly rows: readonly ImportedRow[];
  readonly samples: readonly (SampleRow & { job: string })[];
  readonly report: ImportReport;
}

/** A folder with the given files, for the length of the test. */
export function folderOf(t: TestContext, files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'picket-import-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

/** Imports to the end. */
export async function importAll(paths: string | readonly string[], options: ImportOptions = {}): Promise<Imported> {
  const samples: (SampleRow & { job: string })[] = [];
  const imported = importPaths([paths].flat(), { ...options, onSample: (sample) => samples.push(sample) });
  const batches: PhaseBatch[] = [];
  for await (const batch of imported) batches.push(batch);
  const rows = batches.flatMap((batch) =>
    Array.from({ length: batch.length }, (_, i) => {
      return { ...rowOf(batch, i), job: batch.meta.job, host: batch.meta.host };
    }),
  );
  return { batches, rows, samples, report: imported.report };
}

/** Imports one file of the given name and content. */
export function importFile(t: TestContext, name: string, content: string | Uint8Array, options?: ImportOptions) {
  return importAll(join(folderOf(t, { [name]: content }), name), options);
}

/** Reasons and counts of what was dropped. */
export const droppedOf = ({ report }: Imported): Record<string, number> =>
  Object.fromEntries([...report.dropped].map(([reason, { count }]) => [reason, count]));
