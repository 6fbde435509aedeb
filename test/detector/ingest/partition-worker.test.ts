import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { PartitionWorker } from '../../../detector/ingest/partition-worker.js';
import { createMetrics } from '../../../detector/metrics.js';
import { BUILT_IN_RULES } from '../../../detector/rules/rules-in-force.js';
import type { Commit, Store } from '../../../detector/store/store.js';
import { encodePhases } from '../../../protocol/arrow.js';
import { newJobMeta } from '../../../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../../../protocol/phase-batch.js';
import { simulate } from '../../../simulator/simulate.js';
import { T0 } from '../../support/trace.js';
import { PARTITION, temporaryStore } from '../store/support.js';

const HOUR = 3_600_000;
const straggler: PhaseBatch[] = [
  ...simulate({ scenario: 'straggler', ranks: 8, steps: 60, seed: 5, stepsPerBatch: 3, strength: 0.5 }),
];

/** A worker on a store of its own, clocks that are set by hand, and what a commit takes of the monotonic one. */
function setUp(t: TestContext) {
  const { store, clock } = temporaryStore(t);
  const state = { ms: 0, commitMs: 0, offset: 0n, commits: [] as Commit[] };
  const slow: Store = Object.assign(Object.create(store) as Store, {
    commit: (commit: Commit) => {
      store.commit(commit);
      state.ms += state.commitMs;
      state.commits.push(commit);
    },
    acquire: store.acquire.bind(store),
    job: store.job.bind(store),
    openIncidents: store.openIncidents.bind(store),
  });
  const metrics = createMetrics();
  const worker = () =>
    new PartitionWorker(PARTITION, {
      ...{ store: slow, routes: [], rules: BUILT_IN_RULES, metrics, checkpointMs: 1000 },
      producer: { send: async () => {}, close: async () => {} },
      log: { info: () => {}, warn: () => {}, error: () => {} },
      now: () => clock.nowMs,
      monotonic: () => state.ms,
      onSuppressed: () => {},
      onNotifications: () => {},
    });
  const records = (batches: readonly PhaseBatch[]) =>
    batches.map((batch) => ({ offset: state.offset++, key: 'k', headers: {}, value: encodePhases(batch) }));
  return { store, clock, state, metrics, worker, records };
}

test('commits without news take a tenth of the time at most', async (t) => {
  const { state, worker, records } = setUp(t);
  const one = worker();
  state.commitMs = 400;
  state.ms = 1000;
  const quiet = [...simulate({ scenario: 'healthy', ranks: 4, steps: 40, seed: 6, stepsPerBatch: 3 })];
  await one.records(records(quiet.slice(0, 1)));
  assert.equal(state.commits.length, 1);
  for (let i = 1; i <= 7; i++) {
    state.ms += 500;
    await one.records(records(quiet.slice(i, i + 1)));
  }
  assert.equal(state.commits.length, 1);
  state.ms += 100;
  assert.notEqual(one.commitIfDue(), undefined);
});

test('a clock that is set back or forward holds no commit up and silences no job', async (t) => {
  const { clock, state, worker, records } = setUp(t);
  const one = worker();
  await one.records(records(straggler.slice(0, 1)));
  clock.nowMs -= HOUR;
  state.ms += 1000;
  assert.notEqual(one.commitIfDue(), undefined);
  clock.nowMs += 100 * HOUR;
  state.ms += 1000;
  assert.equal(one.lookForSilence(60_000, HOUR), undefined);
});

test('a job that sends nothing for long is forgotten and its incident ends, also over a restart', async (t) => {
  const { store, clock, state, worker, records } = setUp(t);
  const one = worker();
  await one.records(records(straggler));
  one.commit();
  assert.deepEqual(
    store.openIncidents().map(({ kind }) => kind),
    ['straggler'],
  );
  assert.equal(store.checkpoint(PARTITION)?.jobs?.size, 2);
  clock.nowMs += 2 * HOUR;
  const two = worker();
  two.lookForSilence(60_000, 3 * HOUR);
  assert.equal(store.openIncidents().length, 1);
  state.ms += HOUR;
  assert.notEqual(two.lookForSilence(60_000, 3 * HOUR), undefined);
  assert.equal(store.openIncidents().length, 0);
  assert.equal(store.checkpoint(PARTITION)?.jobs?.size, 0);
});

test('impossible rows are counted by what is wrong with them, each once', async (t) => {
  const { state, metrics, worker, records } = setUp(t);
  const one = worker();
  const builder = new PhaseBatchBuilder(newJobMeta('odd'));
  for (const rank of [-1, 0, -1]) builder.push({ rank, step: 1, phase: 'forward', start_ns: T0, dur_ns: 1000 });
  const odd = builder.take();
  for (let i = 0; i < 2; i++) {
    state.ms += 1000;
    await one.records(records([odd]));
  }
  assert.equal(state.commits.length, 2);
  const text = await metrics.registry.getSingleMetricAsString('picket_rows_dropped_total');
  assert.match(text, /\{reason="rank_out_of_range"\} 4$/m);
});

test('incidents end whose state cannot be read, so that none stays open for ever', async (t) => {
  const { store, worker, records } = setUp(t);
  const one = worker();
  await one.records(records(straggler));
  one.commit();
  const checkpoint = store.checkpoint(PARTITION);
  assert.ok(checkpoint);
  const { epoch } = store.acquire(PARTITION);
  const parts = { partition: PARTITION, incidents: [], notifications: [], jobs: [] };
  store.commit({ ...parts, epoch, checkpoint: { ...checkpoint, snapshot: Uint8Array.of(0, 255), jobs: new Map() } });
  const [open] = store.openIncidents();
  assert.ok(open);
  worker().revise();
  assert.deepEqual(store.openIncidents(), []);
  assert.match(store.incident(open.id)?.timeline.at(-1)?.note ?? '', /could not be read after a restart/);
  assert.equal(store.checkpoint(PARTITION)?.jobs?.size, 0);
});

test('what a job has counted stays counted when it is forgotten', async (t) => {
  const { state, metrics, worker, records } = setUp(t);
  const one = worker();
  await one.records(records(straggler));
  state.ms += HOUR;
  one.lookForSilence(60_000, HOUR);
  assert.match(await metrics.registry.getSingleMetricAsString('picket_steps_closed_total'), / 60$/m);
  await one.records(records(straggler));
  one.lookForSilence(0, HOUR);
  one.commit();
  assert.match(await metrics.registry.getSingleMetricAsString('picket_steps_closed_total'), / 120$/m);
});
