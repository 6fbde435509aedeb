import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { shapeOf } from '../../../detector/baseline/shape.js';
import { busFactor, type Transfers, transfersOf } from '../../../detector/baseline/transfers.js';
import { Assembler, baseOf } from '../../../detector/pipeline/assembler.js';
import { decompose } from '../../../detector/pipeline/decompose.js';
import { newTopology } from '../../../detector/pipeline/topology.js';
import { type Phase, trace } from '../../support/trace.js';

const MB = 1 << 20;

/** The one step of a small job, as training and detectors see it. */
function stepOf(phases: (rank: number) => Phase[]) {
  const [batch] = [...trace({ ranks: 2, steps: 1, period: 10, jitter: 0, phases: (_, rank) => phases(rank) })];
  assert.ok(batch);
  const topology = newTopology(batch.meta);
  const assembler = new Assembler(topology);
  assembler.add(batch, null, false, 0n);
  const [closed] = [...assembler.closeAll()];
  assert.ok(closed);
  const view = decompose(closed.rows, topology, { base: baseOf(batch, null), ends: new Map() }, closed.live);
  return { shape: shapeOf(view, 0), transfers: transfersOf(view, topology) };
}

describe('transfers of a step', () => {
  it('are the shortest durations, by communicator, operation and size', () => {
    const { transfers } = stepOf((rank) => [
      { phase: 'all_gather', ms: 1 + rank, group: 'dp', seq: 0, bytes: MB },
      { phase: 'all_gather', ms: 3 - rank, group: 'dp', seq: 1, bytes: MB },
      { phase: 'all_gather', ms: 4, group: 'dp', seq: 2, bytes: 2 * MB },
      { phase: 'reduce_scatter', ms: 5, group: 'dp', seq: 3, bytes: MB },
      { phase: 'send', ms: 9, group: 'pp', seq: 0, bytes: MB },
    ]);
    const shape = { group: 'dp', ranks: 2, hosts: 1, launch: 'unknown' } as const;
    const expected: Transfers[] = [
      { ...shape, op: 'all_gather', bytes: MB, transferNs: 1.5e6 },
      { ...shape, op: 'all_gather', bytes: 2 * MB, transferNs: 4e6 },
      { ...shape, op: 'reduce_scatter', bytes: MB, transferNs: 5e6 },
    ];
    assert.deepEqual(transfers, expected);
  });

  it('leave out collectives that a rank did not report, and tell how they were launched', () => {
    const { transfers } = stepOf((rank) => [
      { phase: 'all_reduce', ms: 2, seq: 0, bytes: MB, graph: 8 },
      ...(rank === 0 ? [{ phase: 'all_reduce', ms: 1, seq: 1, bytes: MB, graph: 8 }] : []),
    ]);
    assert.deepEqual(
      transfers.map(({ bytes, transferNs, launch }) => [bytes, transferNs, launch]),
      [[MB, 2e6, 'graph']],
    );
  });

  it('know the bus factors of NCCL', () => {
    assert.equal(busFactor('all_reduce', 8), 1.75);
    assert.equal(busFactor('all_gather', 8), 0.875);
    assert.equal(busFactor('broadcast', 8), undefined);
  });
});

describe('shapes of a step', () => {
  it('are those of the serving batch, whichever row tells them', () => {
    const { shape } = stepOf(() => [
      { phase: 'attention', ms: 1, layer: 0, graph: 8 },
      { phase: 'step', ms: 2, prefill_tokens: 0, decode_tokens: 8, context_tokens: 999, batch: 8, graph: 8 },
    ]);
    const served = { prefillTokens: 0, decodeTokens: 8, contextTokens: 999, batch: 8, tokens: 8 };
    assert.deepEqual(shape, { ...served, microbatches: 1, graph: 8 });
  });

  it('sum training tokens over microbatches, and leave unknown what no row tells', () => {
    const { shape } = stepOf(() => [
      { phase: 'forward', ms: 1, microbatch: 0, tokens: 100 },
      { phase: 'forward', ms: 1, microbatch: 1, tokens: 200 },
    ]);
    const unknown = {
      prefillTokens: Number.NaN,
      decodeTokens: Number.NaN,
      contextTokens: Number.NaN,
      batch: Number.NaN,
    };
    assert.deepEqual(shape, { ...unknown, tokens: 300, microbatches: 2, graph: -1 });
  });
});
