import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CaseOptions } from './cases.js';
import type { Scores } from './scoreboard.js';

/**
 * Runs cases on some threads; the scores are in the order of the cases, whoever was first.
 * Rejects with the error of the first case that fails.
 * @param onScores as each portion is done
 * @param limitMs begins no further portion after so long
 */
export async function runParallel(
  cases: readonly CaseOptions[],
  threads: number,
  onScores: (scores: Scores) => void,
  limitMs = Number.POSITIVE_INFINITY,
): Promise<Scores> {
  const portions = portionsOf(cases);
  const done: Scores[] = [];
  let next = 0;
  const started = performance.now();
  const work = async (): Promise<void> => {
    const worker = new Worker(new URL('./worker.js', import.meta.url));
    try {
      for (let i = next++; i < portions.length && performance.now() - started < limitMs; i = next++) {
        worker.postMessage(portions[i]);
        const [scores] = (await once(worker, 'message')) as [Scores];
        done[i] = scores;
        onScores(scores);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: threads }, work));
  return { outcomes: done.flatMap(({ outcomes }) => outcomes), methods: done.flatMap(({ methods }) => methods) };
}

/** Cases that differ in strength only stay together: they share the run without the fault. */
function portionsOf(cases: readonly CaseOptions[]): CaseOptions[][] {
  const portions = new Map<string, CaseOptions[]>();
  for (const options of cases) {
    const key = JSON.stringify({ ...options, strength: undefined, baseline: undefined });
    portions.set(key, [...(portions.get(key) ?? []), options]);
  }
  return [...portions.values()];
}
