import type { SourceBatch } from './importer.js';

/**
 * All sources as one stream, always from the one whose next batch begins at the lowest step, so that files of one job
 * (one a rank, one a host) are read side by side.
 */
export async function* mergeBySteps(sources: readonly AsyncIterable<SourceBatch>[]): AsyncGenerator<SourceBatch> {
  const open = sources.map((source) => source[Symbol.asyncIterator]());
  try {
    const heads: { readonly source: AsyncIterator<SourceBatch>; batch: SourceBatch }[] = [];
    for (const source of open) {
      const next = await source.next();
      if (!next.done) heads.push({ source, batch: next.value });
    }
    while (heads.length > 0) {
      const lowest = heads.reduce((a, b) => (firstStep(b.batch) < firstStep(a.batch) ? b : a));
      yield lowest.batch;
      const next = await lowest.source.next();
      if (next.done) heads.splice(heads.indexOf(lowest), 1);
      else lowest.batch = next.value;
    }
  } finally {
    for (const source of open) await source.return?.();
  }
}

const firstStep = ({ batch }: SourceBatch): number => (batch.length > 0 ? batch.columns.step.number(0) : -1);
