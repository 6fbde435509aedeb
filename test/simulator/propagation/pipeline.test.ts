import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Action, type Message, playPipeline, schedule } from '../../../simulator/propagation/pipeline.js';

const text = (action: Action): string =>
  'compute' in action
    ? `${action.compute === 'forward' ? 'F' : 'B'}${action.microbatch}`
    : action.exchange
        .map(({ sends, gradient, microbatch }) => `${sends ? '>' : '<'}${gradient ? 'g' : 'a'}${microbatch}`)
        .join('+');

/** Plays a pipeline whose stages take `work[stage]` for a forward and twice that for a backward. */
function play(work: number[], microbatches: number, transferNs: number, late: number[] = []) {
  const free = work.map((_, stage) => late[stage] ?? 0);
  const waits: { stage: number; messages: readonly Message[]; start: number; end: number }[] = [];
  const actions = work.map((_, stage) => schedule(stage, work.length, microbatches));
  playPipeline(actions, microbatches, 1, {
    compute: (stage, phase) => {
      free[stage] = (free[stage] as number) + (work[stage] as number) * (phase === 'forward' ? 1 : 2);
    },
    free: (stage) => free[stage] as number,
    transferNs: () => transferNs,
    slowness: () => 1,
    exchanged: (stage, _lane, messages, start, end) => {
      waits.push({ stage, messages, start, end });
      free[stage] = end;
    },
  });
  return { free, waits };
}

test('the schedule is the one of trace ST: stage 0 and 2 of 4 with 4 microbatches', () => {
  assert.deepEqual(schedule(0, 4, 4).map(text), 'F0 >a0 F1 >a1 F2 >a2 F3 >a3+<g0 B0 <g1 B1 <g2 B2 <g3 B3'.split(' '));
  assert.deepEqual(
    schedule(2, 4, 4).map(text),
    '<a0 F0 >a0 <a1 F1 >a1+<g0 B0 >g0+<a2 F2 >a2+<g1 B1 >g1+<a3 F3 >a3+<g2 B2 >g2 <g3 B3 >g3'.split(' '),
  );
});

test('equal stages take (microbatches + stages - 1) forwards and backwards', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 12 }), (stages, microbatches) => {
      const { free } = play(Array(stages).fill(1), microbatches, 0);
      assert.equal(free[0], 3 * (microbatches + stages - 1));
    }),
  );
});

test('a heavy last stage becomes the clock and the others wait for it', () => {
  const { free, waits } = play([1, 1, 1, 2], 8, 0);
  assert.equal(free[0], 3 * 3 + 8 * 6);
  const waited = [0, 1, 2, 3].map((stage) =>
    waits.filter((wait) => wait.stage === stage).reduce((sum, wait) => sum + wait.end - wait.start, 0),
  );
  assert.ok(Math.max(...waited) === Math.max(...waited.slice(0, 3)));
  assert.equal(waited[3], 3, 'the heavy stage waits only for the first microbatch');
});

test('no message moves before both sides have posted it, and each takes its transfer', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 6 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 0, max: 50 }),
      (work, microbatches, late) => {
        const { waits } = play(work, microbatches, 2, [late]);
        const sides = new Map<string, { start: number; end: number }[]>();
        for (const { messages, start, end } of waits)
          for (const { boundary, gradient, microbatch } of messages) {
            const key = `${boundary} ${gradient} ${microbatch}`;
            sides.set(key, [...(sides.get(key) ?? []), { start, end }]);
          }
        assert.equal(sides.size, 2 * (work.length - 1) * microbatches);
        for (const both of sides.values()) {
          assert.equal(both.length, 2);
          const met = Math.max(...both.map((side) => side.start));
          for (const side of both) assert.ok(side.end >= met + 2);
        }
      },
    ),
  );
});

test('a late first stage delays the last by as much', () => {
  const onTime = play([1, 1, 1], 4, 0).free[2] as number;
  assert.equal(play([1, 1, 1], 4, 0, [100]).free[2], onTime + 100);
});
