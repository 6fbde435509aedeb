import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Phase, sampleAt, type TraceSpec, trace } from '../support/trace.js';

/** Public reports from serving engines. */

const decode = (facts: Partial<Phase> = {}): Phase => ({
  phase: 'decode',
  ms: 3.67,
  decode_tokens: 1,
  request: 'A',
  ...facts,
});
const prefill = (facts: Partial<Phase> = {}): Phase => ({
  phase: 'prefill',
  ms: 147.4,
  prefill_tokens: 601,
  request: 'B',
  ...facts,
});
const total = (phases: Phase[]): number => phases.reduce((sum, { ms }) => sum + ms, 0);

/** One engine; iterations follow each other without a gap. */
function engine(iterations: Phase[][]): TraceSpec {
  return {
    ranks: 1,
    steps: iterations.length,
    period: (step) => total(iterations[step] as Phase[]) * 1.02,
    phases: (step) => iterations[step] as Phase[],
  };
}

/** The same, but for a pause before one of them, milliseconds. */
const paused = (iterations: Phase[][], before: number, ms: number): TraceSpec => ({
  ...engine(iterations),
  period: (step) => total(iterations[step] as Phase[]) * 1.02 + (step + 1 === before ? ms : 0),
});

const repeat = (n: number, phases: (i: number) => Phase[]): Phase[][] => Array.from({ length: n }, (_, i) => phases(i));

describe('an engine that does nothing for a while', () => {
  const stalls = (iteration: () => Phase[]): string[] =>
    judge(trace(paused(repeat(60, iteration), 40, 1500))).incidents.map(({ kind }) => kind);

  it('had no requests where nobody decodes after it', () => {
    assert.deepEqual(
      stalls(() => [prefill()]),
      [],
    );
  });

  it('stalls where a request waits for its next token', () => {
    assert.deepEqual(
      stalls(() => [decode()]),
      ['transient_stall'],
    );
  });
});

describe('a long prompt and a running decode', () => {
  it('is prefill blocking while it lasts, with the prompt as culprit', () => {
    const { incidents } = judge(
      trace(
        engine([
          ...repeat(270, () => [decode()]),
          ...repeat(109, () => [prefill(), decode()]),
          ...repeat(200, () => [decode()]),
        ]),
      ),
    );
    assert.deepEqual(
      incidents.map(({ kind, severity }) => [kind, severity]),
      [['prefill_blocking', 'critical']],
    );
    const [incident] = incidents;
    assert.deepEqual(incident?.subject.requests, ['B']);
    assert.equal(incident?.evidence.held_up, 'A');
    assert.ok((incident?.onset_step ?? 0) >= 269 && (incident?.onset_step ?? 0) <= 271);
    assert.equal(incident?.status, 'resolved');
    assert.ok((incident?.last_step ?? 999) - 379 <= 10, `closed after step ${incident?.last_step}`);
  });

  it("is nobody's loss where nobody decodes", () => {
    const iterations = repeat(8, () => [prefill({ ms: 1169, prefill_tokens: 8192 })]);
    assert.deepEqual(judge(trace(engine(iterations))).incidents, []);
  });

  it('is normal where the engine prefills in small chunks', () => {
    const chunk = prefill({ ms: 6, prefill_tokens: 256 });
    const { incidents } = judge(
      trace(engine([...repeat(50, () => [decode()]), ...repeat(100, () => [chunk, decode()])])),
    );
    assert.deepEqual(incidents, []);
  });
});

describe('KV cache pressure', () => {
  /** A minute of iterations in which a share of the tokens is worked on again. */
  const pressure = (computed: number, again: number): TraceSpec =>
    engine(
      repeat(300, () => [
        {
          phase: 'mixed',
          ms: 200,
          prefill_tokens: computed / 300,
          decode_tokens: 4,
          recomputed_tokens: again / 300,
          kv_usage: 0.96,
          request: 'r',
        },
      ]),
    );

  for (const [computed, again, severity] of [
    [168_000, 0, undefined],
    [190_000, 28_500, 'warning'],
    [247_800, 79_800, 'critical'],
    [399_000, 231_000, 'critical'],
    [791_800, 623_948, 'critical'],
  ] as const)
    it(`${Math.round((100 * again) / computed)} % of the work done again: ${severity ?? 'none'}`, () => {
      const { incidents } = judge(trace(pressure(computed, again)));
      assert.deepEqual(
        incidents.map((incident) => [incident.kind, incident.severity]),
        severity ? [['kv_recompute', severity]] : [],
      );
    });

  it('is found where decoding collapses after a retraction, though the batch is larger', () => {
    const { incidents } = judge(
      trace(
        engine([
          ...repeat(60, () => [decode({ ms: 1000, batch: 4, decode_tokens: 4, kv_usage: 0.93 })]),
          ...repeat(12, (i) => [
            { phase: 'kv_recompute', ms: 4000 + 480 * i, prefill_tokens: 2000, decode_tokens: 6, kv_usage: 0.92 },
            decode({ ms: 1000, batch: 6, decode_tokens: 6, kv_usage: 0.92 }),
          ]),
        ]),
      ),
    );
    const [incident] = incidents.filter(({ kind }) => kind === 'kv_recompute');
    assert.deepEqual([incident?.severity, incident?.status], ['critical', 'open']);
  });

  it("tells what the engine's own metrics say of it, retractions since it began only", () => {
    const spec = engine([
      ...repeat(60, () => [decode({ ms: 1000, batch: 4, decode_tokens: 4 })]),
      ...repeat(12, () => [
        { phase: 'kv_recompute', ms: 6000, prefill_tokens: 2000, decode_tokens: 6 },
        decode({ ms: 1000, batch: 6, decode_tokens: 6 }),
      ]),
    ]);
    const retracted = { name: 'sglang:num_retracted_requests_total', host: 'node-a', cumulative: true };
    const samples = [
      ...[0, 30, 58].map((at) => sampleAt(at, { ...retracted, value: 41 })),
      ...[90, 120].map((at) => sampleAt(at, { ...retracted, value: 43 })),
      sampleAt(90, { name: 'sglang:token_usage', host: 'node-a', value: 0.92 }),
    ];
    const { incidents } = judge(trace({ ...spec, meta: { host: 'node-a' } }), samples);
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.instance]),
      [['kv_recompute', 'critical', 'node-a']],
    );
    const { kv_usage, preemptions } = incidents[0]?.evidence ?? {};
    assert.deepEqual([kv_usage, preemptions], [0.92, 2]);
  });
});

describe('decoding without CUDA graphs', () => {
  const eager = decode({ ms: 9, decode_tokens: 3, batch: 3, graph: 0, launches: 280, busy_ns: 3_100_000n });

  it('is found from the first step on by idle GPU time between many launches', () => {
    const { incidents } = judge(trace(engine(repeat(400, () => [eager]))));
    assert.deepEqual(
      incidents.map(({ kind, severity }) => [kind, severity]),
      [['no_cuda_graph', 'critical']],
    );
  });

  it('is not said of a captured graph, nor of eager prefills', () => {
    const captured = decode({ ms: 3.4, decode_tokens: 3, batch: 3, graph: 4, launches: 1, busy_ns: 3_100_000n });
    const prefilled = (i: number) =>
      prefill({ ms: 30, graph: 0, launches: 280, busy_ns: 12_000_000n, request: `r${i}` });
    const iterations = repeat(400, (i) => [i % 5 === 4 ? prefilled(i) : captured]);
    assert.deepEqual(judge(trace(engine(iterations))).incidents, []);
  });
});
