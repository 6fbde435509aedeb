import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Incident } from '../../../protocol/incident.js';
import { judge, type Phase, trace } from '../../support/trace.js';

const ONSET = 80;

describe('time that a rank loses between its phases', () => {
  /** Four tensor-parallel ranks; from the onset on rank 2 computes and idles so much longer, and the others wait for it. */
  function verdicts(longer: { compute: number; idle: number }, usual: { compute: number; idle: number }): unknown[][] {
    const late = longer.compute + longer.idle;
    const phases = (step: number, rank: number): Phase[] => {
      const [compute, idle, wait] =
        step < ONSET ? [0, 0, 0] : rank === 2 ? [longer.compute, longer.idle, 0] : [0, 0, late];
      const times = { attention: usual.compute + compute, idle: usual.idle + idle, all_reduce: 0.4 + wait };
      const whole = times.attention + times.idle + times.all_reduce;
      const facts = { decode_tokens: 8, graph: 8 };
      const first = BigInt(Math.round(1e6 * (step * 5)));
      const at = (ms: number): bigint => 1_770_000_000_000_000_000n + first + BigInt(Math.round(1e6 * ms));
      return [
        { phase: 'step', ms: whole, start_ns: at(0), ...facts },
        { phase: 'attention', ms: times.attention, start_ns: at(0), ...facts },
        { phase: 'all_reduce', ms: times.all_reduce, start_ns: at(whole - times.all_reduce), ...facts },
      ];
    };
    const { incidents } = judge(trace({ ranks: 4, steps: 140, period: 5, phases, jitter: 0.002 }));
    return incidents.map(({ kind, cause, subject, onset_step }: Incident) => [kind, cause, subject.ranks, onset_step]);
  }

  it("is its host's, where its phases take as long as before", () => {
    const found = verdicts({ compute: 0, idle: 0.6 }, { compute: 1.6, idle: 0.1 });
    assert.deepEqual(found, [['straggler', 'host', [2], ONSET]]);
  });

  it('is computing that nobody fences, where the fenced part grows as much', () => {
    // One layer of four is fenced; all compute half as long again.
    const found = verdicts({ compute: 0.2, idle: 0.6 }, { compute: 0.4, idle: 1.2 });
    assert.deepEqual(found, [['straggler', 'compute', [2], ONSET]]);
  });
});

describe('one of two ranks that is slow from the first step on', () => {
  /** Two tensor-parallel ranks whose batches come and go; rank 1 computes so many times as long, and the other waits. */
  function verdicts(times: number): unknown[][] {
    const phases = (step: number, rank: number): Phase[] => {
      const tokens = [8, 16, 32][step % 3] as number;
      const usual = 2 + tokens / 32;
      const wait = rank === 0 ? (times - 1) * usual : 0;
      const facts = { decode_tokens: tokens, prefill_tokens: 0, graph: tokens };
      return [
        { phase: 'attention', ms: rank === 1 ? times * usual : usual, ...facts },
        { phase: 'all_reduce', ms: 0.4 + wait, group: 'tp', ...facts },
      ];
    };
    const meta = { groups: { tp: [0, 1] } };
    const { incidents } = judge(trace({ ranks: 2, steps: 140, period: 6, phases, meta, jitter: 0.005 }));
    return incidents.map(({ kind, cause, subject, onset_step, severity }) => [
      ...[kind, cause, subject.ranks, onset_step, severity],
    ]);
  }

  it('is named, with all that it costs', () => {
    assert.deepEqual(verdicts(1.5), [['straggler', 'compute', [1], 1, 'critical']]);
  });

  it('is none where GPUs differ by as much as they do by nature', () => {
    assert.deepEqual(verdicts(1.02), []);
  });
});

describe('a rank whose host is late while there is less to do than before', () => {
  it("is late for its host's sake: the other one's computing tells what the work takes", () => {
    const phases = (step: number, rank: number): Phase[] => {
      const tokens = step < ONSET ? 64 : 8;
      const late = step < ONSET ? 0 : 0.5;
      const [gap, wait] = rank === 0 ? [0.3 + late, 0] : [0.3, late];
      const facts = { decode_tokens: tokens, prefill_tokens: 0, graph: 64 };
      return [
        { phase: 'host_gap', ms: gap },
        { phase: 'attention', ms: 3, ...facts },
        { phase: 'all_reduce', ms: 0.4 + wait, group: 'tp', ...facts },
      ];
    };
    const meta = { groups: { tp: [0, 1] } };
    const { incidents } = judge(trace({ ranks: 2, steps: 140, period: 4.3, phases, meta, jitter: 0.002 }));
    assert.deepEqual(
      incidents.map(({ kind, cause, subject }) => [kind, cause, subject.ranks]),
      [['straggler', 'host', [0]]],
    );
  });
});

describe('a host that now and then launches a little later', () => {
  /** Two tensor-parallel ranks at 2 ms a step; rank 0 idles so much longer, and the other waits for it. */
  function verdicts(later: (step: number) => number): unknown[][] {
    const phases = (step: number, rank: number): Phase[] => {
      const [idle, wait] = rank === 0 ? [later(step), 0] : [0, later(step)];
      const start = 1_770_000_000_000_000_000n + BigInt(2_000_000 * step);
      const at = (ms: number): bigint => start + BigInt(Math.round(1e6 * ms));
      const facts = { decode_tokens: 8, graph: 8 };
      return [
        { phase: 'step', ms: 1.8 + later(step), start_ns: at(0), ...facts },
        { phase: 'attention', ms: 1.4, start_ns: at(0), ...facts },
        { phase: 'all_reduce', ms: 0.3 + wait, start_ns: at(1.5 + idle), ...facts },
      ];
    };
    const { incidents } = judge(trace({ ranks: 2, steps: 400, period: 2, phases, jitter: 0.002 }));
    return incidents.map(({ kind, cause, subject, onset_step }) => [kind, cause, subject.ranks, onset_step]);
  }
  const wandering = (step: number): number => (step >= ONSET && step < ONSET + 35 ? 0.06 : 0);

  it('is not told of: it has cost 2 ms in all when it is over', () => {
    assert.deepEqual(verdicts(wandering), []);
  });

  it('is told of where it lasts', () => {
    const lasting = (step: number): number => (step >= ONSET ? 0.06 : 0);
    assert.deepEqual(verdicts(lasting), [['straggler', 'host', [0], ONSET]]);
  });

  it('is told of from the step on in which it became much later', () => {
    const grown = (step: number): number => (step >= 110 ? 1.2 : wandering(step));
    assert.deepEqual(verdicts(grown), [['straggler', 'host', [0], 110]]);
  });
});

describe('replicas that serve different requests in step', () => {
  /** Two replicas of two tensor-parallel ranks; attention takes as long as the contexts of a replica say. */
  function stragglers(slower: (step: number, rank: number) => number): unknown[][] {
    const phases = (step: number, rank: number): Phase[] => {
      const replica = rank >> 1;
      // Now this replica has the longer contexts, now that one; for long stretches, as conversations have them.
      const context = 8192 * (1 + (((step >> 5) + replica) % 2) * 3) + 64 * (step % 7);
      const decode_tokens = 8 + (((step >> 5) + replica) % 2) * 8;
      const facts = { decode_tokens, context_tokens: BigInt(context), graph: 16 };
      const attention = (of: number): number => (0.8 + context / 32_768) * (1 + slower(step, of));
      const slowest = Math.max(attention(2 * replica), attention(2 * replica + 1));
      return [
        { phase: 'attention', ms: attention(rank), ...facts },
        { phase: 'all_reduce', ms: 0.3 + slowest - attention(rank), group: `tp-${replica}`, bytes: 65_536n, ...facts },
        // The replicas meet: the one with less to do waits.
        {
          phase: 'all_reduce',
          ms: 0.05 + (context > 16_384 ? 0 : 0.75),
          group: 'dp',
          bytes: 64n,
          ...facts,
          seq: 100_000n + BigInt(step),
        },
      ];
    };
    const { incidents } = judge(trace({ ranks: 4, steps: 300, period: 5, phases }));
    return incidents.map(({ kind, cause, subject }) => [kind, cause, subject.ranks]);
  }

  it('are none of them stragglers for having more to do', () => {
    assert.deepEqual(
      stragglers(() => 0),
      [],
    );
  });

  it('have one where a rank is slower than the other of its replica', () => {
    const found = stragglers((step, rank) => (rank === 3 && step >= ONSET ? 0.2 : 0));
    assert.deepEqual(found, [['straggler', 'compute', [3]]]);
  });
});
