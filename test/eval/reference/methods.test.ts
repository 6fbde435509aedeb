import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { METHODS } from '../../../eval/reference/all.js';
import { changeProbabilities } from '../../../eval/reference/change-point.js';
import { dlrover } from '../../../eval/reference/dlrover.js';
import { eroica } from '../../../eval/reference/eroica.js';
import { greyhound } from '../../../eval/reference/greyhound.js';
import { type Alarm, episodes } from '../../../eval/reference/method.js';
import { mycroft } from '../../../eval/reference/mycroft.js';
import { resiliencyExt } from '../../../eval/reference/resiliency-ext.js';
import { striaTrace } from '../../../eval/reference/stria-trace.js';
import { type Timeline, Timelines } from '../../../eval/timeline.js';
import { newJobMeta } from '../../../protocol/job-meta.js';
import { mulberry32, type Phase, trace } from '../../support/trace.js';

const ONSET = 100;
const STEPS = 200;
const RANKS = 8;
const groups = { 'tp-0': [0, 1, 2, 3], 'tp-1': [4, 5, 6, 7] };

/** Steps of 10 ms of compute, of which `slow` ranks take more from the onset on, and a collective that waits for them. */
function timeline(options: {
  compute?: (step: number, rank: number) => number;
  transfer?: (step: number, rank: number) => number;
  facts?: (step: number) => Partial<Phase>;
}): Timeline {
  const { compute = () => 10, transfer = () => 2, facts = () => ({}) } = options;
  const ranks = Array.from({ length: RANKS }, (_, rank) => rank);
  const group = (rank: number): number[] => (rank < 4 ? groups['tp-0'] : groups['tp-1']);
  const last = (step: number, rank: number): number => Math.max(...group(rank).map((each) => compute(step, each)));
  const period = (step: number): number => Math.max(...ranks.map((rank) => last(step, rank) + transfer(step, rank)));
  const timelines = new Timelines();
  for (const batch of trace({
    ...{ ranks: RANKS, steps: STEPS, period, meta: { groups } },
    phases: (step, rank) => [
      { phase: 'forward', ms: compute(step, rank), ...facts(step) },
      {
        ...{ phase: 'all_reduce', ms: last(step, rank) - compute(step, rank) + transfer(step, rank) },
        ...{ group: rank < 4 ? 'tp-0' : 'tp-1', bytes: 1_000_000 },
      },
    ],
  }))
    timelines.add(batch);
  const [only] = timelines.all();
  assert.ok(only);
  return only;
}

const slower =
  (times: number, slow: readonly number[] = [5]) =>
  (step: number, rank: number) =>
    step >= ONSET && slow.includes(rank) ? 10 * times : 10;
const first = (alarms: Alarm[]): Pick<Alarm, 'kinds' | 'ranks'> => ({
  kinds: alarms[0]?.kinds ?? [],
  ranks: alarms[0]?.ranks ?? [],
});
const straggler = { kinds: ['straggler'], ranks: [5] };

describe('the methods of others', () => {
  it('say nothing of a healthy run', () => {
    for (const method of METHODS.filter(({ name }) => !['StriaTrace'].includes(name)))
      assert.deepEqual(method.detect(timeline({})), [], method.name);
  });

  it('NVIDIA: a rank a third slower is a straggler, one a fifth slower is none', () => {
    assert.deepEqual(first(resiliencyExt.detect(timeline({ compute: slower(1.5) }))), straggler);
    assert.deepEqual(resiliencyExt.detect(timeline({ compute: slower(1.2) })), []);
  });

  it('DLRover: a rank of more than twice the median, twice in a row', () => {
    const alarms = dlrover.detect(timeline({ compute: slower(2.2) }));
    assert.deepEqual(first(alarms), straggler);
    assert.equal(alarms[0]?.step, ONSET + 1);
    assert.deepEqual(dlrover.detect(timeline({ compute: slower(1.8) })), []);
    const once = (step: number, rank: number): number => (step === ONSET && rank === 5 ? 30 : 10);
    assert.deepEqual(dlrover.detect(timeline({ compute: once })), []);
  });

  it('Greyhound: a change point of more than 10 %, then the rank or the communicator', () => {
    assert.deepEqual(first(greyhound.detect(timeline({ compute: slower(1.3) }))), straggler);
    assert.deepEqual(greyhound.detect(timeline({ compute: slower(1.06) })), []);
    const transfer = (step: number, rank: number): number => (step >= ONSET && rank >= 4 ? 6 : 2);
    assert.deepEqual(first(greyhound.detect(timeline({ transfer }))), {
      kinds: ['nvlink_stall'],
      ranks: groups['tp-1'],
    });
  });

  it('Mycroft: twice the interval or half the throughput', () => {
    assert.deepEqual(first(mycroft.detect(timeline({ compute: slower(2.5) }))), straggler);
    assert.deepEqual(mycroft.detect(timeline({ compute: slower(1.7) })), []);
    const transfer = (step: number, rank: number): number => (step >= ONSET && rank >= 4 ? 5 : 2);
    assert.deepEqual(first(mycroft.detect(timeline({ transfer }))), { kinds: ['nvlink_stall'], ranks: groups['tp-1'] });
  });

  it('StriaTrace: a decode above the line of its tokens, and none where tokens explain it', () => {
    const random = mulberry32(7);
    const tokens = Array.from({ length: STEPS }, () => 10 + Math.floor(90 * random()));
    const facts = (step: number): Partial<Phase> => ({ decode_tokens: tokens[step] as number });
    const byTokens = (step: number): number => 5 + (tokens[step] as number) / 10;
    const all = (step: number): number => byTokens(step) * (step >= 150 ? 1.5 : 1);
    const alarms = striaTrace.detect(timeline({ facts, compute: all }));
    assert.ok(alarms.some(({ step }) => step >= 150));
    // By its rule about one step of a hundred lies above a P99 line; a jump of all steps is far more.
    const late = (some: Alarm[]): number => some.filter(({ step }) => step >= 150).length;
    assert.ok(late(striaTrace.detect(timeline({ facts, compute: byTokens }))) <= 2);
  });

  it('EROICA: iterations 5 % slower, then the rank beyond five deviations', () => {
    assert.ok(
      eroica
        .detect(timeline({ compute: slower(1.3) }))
        .some(({ kinds, ranks }) => kinds.includes('straggler') && ranks.join() === '5'),
    );
    assert.deepEqual(eroica.detect(timeline({ compute: slower(1.02) })), []);
  });

  it('count what goes on as one alarm', () => {
    const alarm = (step: number, rank = 1): Alarm => ({ kinds: ['straggler'], step, ranks: [rank] });
    const steps = episodes([alarm(1), alarm(2), alarm(2, 3), alarm(14), alarm(40)]).map(({ step }) => step);
    assert.deepEqual(steps, [1, 2, 40]);
  });
});

describe('change points', () => {
  it('are where the mean jumps and nowhere else', () => {
    const random = mulberry32(3);
    const values = Array.from({ length: 160 }, (_, i) => (i < 80 ? 100 : 120) + random());
    const certain = changeProbabilities(values, 1 / 250, 3).flatMap((p, i) => (p > 0.9 && i > 10 ? [i] : []));
    assert.ok(certain.length > 0);
    assert.ok(
      certain.every((i) => i >= 80 && i <= 84),
      certain.join(),
    );
  });
});

describe('timelines', () => {
  it('keep attempts of a job apart', () => {
    const timelines = new Timelines();
    for (const run of ['1', '2'])
      for (const batch of trace({
        ranks: 2,
        steps: 3,
        period: 5,
        meta: newJobMeta('case', { run }),
        phases: () => [{ phase: 'forward', ms: 1 }],
      }))
        timelines.add(batch);
    assert.deepEqual(
      timelines.all().map(({ run, steps }) => [run, steps.length]),
      [
        ['1', 3],
        ['2', 3],
      ],
    );
  });
});
