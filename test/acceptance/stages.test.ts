import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type TraceSpec, trace } from '../support/trace.js';

/** Public reports of pipeline stages with too much work. */

const STAGES = 8;
const meta = { ranks: Array.from({ length: STAGES }, (_, rank) => ({ rank, stage: rank })) };

function pipeline(times: readonly number[], phase: string, period: number): TraceSpec {
  const phases: TraceSpec['phases'] = (_, rank) => [{ phase, ms: times[rank] as number }];
  return { ranks: STAGES, steps: 200, period, phases, meta, jitter: 0.002 };
}

describe('an output head on the last of 8 decode stages', () => {
  it('is a stage imbalance', () => {
    const { incidents } = judge(trace(pipeline([3.153, 3.15, 3.15, 3.15, 3.15, 3.15, 3.15, 3.901], 'decode', 3.901)));
    assert.equal(incidents.length, 1);
    const [incident] = incidents;
    assert.deepEqual([incident?.kind, incident?.subject.stage, incident?.severity], ['stage_imbalance', 7, 'warning']);
  });

  it('is none where it makes 0.1 % of a prefill', () => {
    const { incidents } = judge(trace(pipeline([410, 410, 410, 410, 410, 410, 410, 410.4], 'prefill', 411)));
    assert.deepEqual(incidents, []);
  });
});
