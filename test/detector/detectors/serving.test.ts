import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Phase, type TraceSpec, trace } from '../../support/trace.js';

/** What is said of an engine of one rank whose steps follow each other, or of several that step together. */
function said(steps: number, ms: (step: number) => number, phases: TraceSpec['phases'], ranks = 1): unknown[][] {
  const { incidents } = judge(trace({ ranks, steps, period: (step) => 1.05 * ms(step), phases }));
  return incidents.map(({ kind, subject, onset_step, status }) => [kind, subject.ranks, onset_step, status]);
}

const decode = (facts: Partial<Phase> = {}): Phase => ({
  ...{ phase: 'decode', ms: 2.2, decode_tokens: 16, graph: 16 },
  ...facts,
});
const mixed = (facts: Partial<Phase>): Phase => decode({ phase: 'mixed', request: 'long', ...facts });

describe('prefills that hold up decodes', () => {
  const prompt = mixed({ ms: 30, prefill_tokens: 4096, graph: 0 });
  const every = (n: number, from: number, to: number) => (step: number) =>
    step >= from && step < to && step % n === 0 ? [prompt] : [decode()];

  it('are found where a dozen decodes lie between two of them, and end once no more come', () => {
    const phases = every(13, 104, 260);
    const found = said(
      360,
      (step) => phases(step)[0]?.ms ?? 0,
      (step) => phases(step),
    );
    assert.deepEqual(found, [['prefill_blocking', [], 104, 'resolved']]);
  });

  it('are none where they cost less than a fifth of the time', () => {
    const phases = every(13, 104, 360);
    const short = mixed({ ms: 9, prefill_tokens: 1024, graph: 0 });
    const found = said(
      360,
      (step) => (phases(step)[0] === prompt ? 9 : 2.2),
      (step) => (phases(step)[0] === prompt ? [short] : [decode()]),
    );
    assert.deepEqual(found, []);
  });
});

describe('steps that prefill a little and take five times as long for want of a graph', () => {
  const ONSET = 100;
  const captured = (step: number): Phase =>
    step % 2 === 0 ? mixed({ ms: 3.3, prefill_tokens: 240, graph: 256 }) : decode();
  const eager = (facts: Partial<Phase>) => mixed({ ms: 13, prefill_tokens: 230, graph: 0, ...facts });
  const verdicts = (before: (step: number) => Phase, after: (step: number) => Phase): unknown[][] => {
    const phase = (step: number): Phase => (step < ONSET ? before : after)(step);
    return said(
      200,
      (step) => phase(step).ms,
      (step) => [phase(step)],
    );
  };
  const idle = { launches: 240, busy_ns: 3_200_000n };

  it('are missing graphs, no prefills that block, where as many tokens ran in one before', () => {
    for (const facts of [idle, {}])
      assert.deepEqual(
        verdicts(captured, () => eager(facts)),
        [['no_cuda_graph', [0], ONSET, 'open']],
      );
  });

  it('are missing graphs from the first step on, where nothing ever ran in one and the GPU idles', () => {
    const always = () => eager(idle);
    assert.deepEqual(verdicts(always, always), [['no_cuda_graph', [0], 0, 'open']]);
  });

  it('are missing graphs where the row of the whole step alone says how busy the GPU is', () => {
    const phases = (): Phase[] => [
      { phase: 'attention', ms: 6, decode_tokens: 8, prefill_tokens: 0, graph: 0 },
      { phase: 'step', ms: 6, decode_tokens: 8, prefill_tokens: 0, graph: 0, launches: 400, busy_ns: 1_000_000n },
    ];
    assert.deepEqual(
      said(100, () => 6, phases).map(([kind]) => kind),
      ['no_cuda_graph'],
    );
  });

  it('are how this engine prefills, where only its decodes ever ran in graphs', () => {
    const some = (step: number): Phase => (step % 4 === 0 ? eager({ ...idle, ms: 6 }) : decode());
    assert.deepEqual(verdicts(some, some), []);
  });

  it('are none where the batch is larger than what is captured, or the GPU has enough to do', () => {
    const large = () => eager({ ...idle, prefill_tokens: 2048 });
    const busy = () => eager({ ...idle, busy_ns: 12_600_000n });
    assert.deepEqual([...verdicts(large, large), ...verdicts(busy, busy)], []);
  });

  it('hold nobody up, where smaller steps launched so take as long', () => {
    const sizes = (step: number): Phase => (step % 2 === 0 ? eager({ prefill_tokens: 60 }) : eager({}));
    assert.deepEqual(
      verdicts(() => decode(), sizes),
      [],
    );
  });
});

describe('work done again', () => {
  const again = mixed({ ms: 4, prefill_tokens: 256, graph: 256, recomputed_tokens: 256n, kv_usage: 0.97 });
  const verdicts = (recomputes: (step: number) => boolean) =>
    said(
      200,
      (step) => (recomputes(step) ? 4 : 2.2),
      (step) => [recomputes(step) ? again : decode({ kv_usage: 0.97 })],
    );

  it('for one request that was preempted once is nothing to report', () => {
    assert.deepEqual(
      verdicts((step) => step >= 100 && step < 108),
      [],
    );
  });

  it('is reported where it comes again, and where it goes on', () => {
    const twice = verdicts((step) => step >= 100 && step < 120 && step % 10 < 4);
    assert.deepEqual(twice, [['kv_recompute', [], 100, 'resolved']]);
    const goesOn = verdicts((step) => step >= 100);
    assert.deepEqual(goesOn, [['kv_recompute', [], 100, 'open']]);
  });
});

describe('requests on eight ranks', () => {
  const STEPS = 600;
  /** Requests running and waiting by step and rank. */
  const verdicts = (queue: (step: number, rank: number) => [running: number, waiting: number], stepMs = 10) =>
    said(
      STEPS,
      () => stepMs,
      (step, rank) => {
        const [running, waiting] = queue(step, rank);
        return [{ phase: 'decode', ms: stepMs, decode_tokens: running, graph: 64, running, waiting, kv_usage: 0.4 }];
      },
      8,
    );
  const even: [number, number] = [8, 0];

  it('are unevenly spread where two ranks are sent more and more', () => {
    const found = verdicts((step, rank) => (step < 100 ? even : rank < 6 ? [5, 0] : [12, 4 + ((step - 100) >> 4)]));
    const [kind, ranks, onset] = found[0] ?? [];
    assert.deepEqual([found.length, kind, ranks], [1, 'sched_imbalance', [6, 7]]);
    assert.ok(Number(onset) >= 100 && Number(onset) < 130, `onset at ${onset}`);
  });

  it('are not where a first burst is worked off', () => {
    const burst = (step: number): [number, number] => [12, Math.max(0, 40 - (step >> 2))];
    assert.deepEqual(
      verdicts((step, rank) => (rank > 0 ? [5, 0] : burst(step))),
      [],
    );
  });

  it('are not where another rank has the queue every few steps', () => {
    assert.deepEqual(
      verdicts((step, rank) => ((step >> 3) % 8 === rank ? [8, 10] : even)),
      [],
    );
  });

  it('are not where all hold as many, though some wait behind a long prompt', () => {
    assert.deepEqual(
      verdicts((_, rank) => (rank === 3 ? [3, 5] : even)),
      [],
    );
  });
});
