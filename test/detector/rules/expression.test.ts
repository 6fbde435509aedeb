import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StepView } from '../../../detector/pipeline/step-view.js';
import { compileExpression, type ExpressionFacts } from '../../../detector/rules/expression.js';
import { PhaseWindow, type Scope } from '../../../detector/rules/phase-window.js';

const unknown = Float64Array.of(Number.NaN, Number.NaN);
/** Two ranks; rank 1 computes `ms`, rank 0 always 5 ms. Memory copies take no time, gaps are not known. */
const view = (step: number, ms: number): StepView =>
  ({
    step,
    stepTime: Float64Array.of(10e6, 12e6),
    tokens: Float64Array.of(100, 100),
    gap: unknown,
    work: {
      compute: Float64Array.of(5e6, ms * 1e6),
      memory: new Float64Array(2),
      data: new Float64Array(2),
      host: new Float64Array(2),
    },
    phases: new Map([['mlp', Float64Array.of(1e6, 2e6)]]),
  }) as unknown as StepView;
const views = [1, 2, 3, 4, 10].map((ms, step) => view(step, ms));
const window = (name: string, scope: Scope, of = views) => new PhaseWindow(name, of, scope);
const facts: ExpressionFacts = {
  now: window('now', { slot: 1 }),
  before: window('before', { slot: 1 }, views.slice(0, 2)),
  peers: window('peers', { allBut: 1 }),
  ...{ job: 'pretrain-7b', host: 'node-1', rank: 1n, stage: -1n, ranks: 2n },
};

/** True, false, or why there is no value. */
function outcomeOf(text: string): boolean | string {
  const compiled = compileExpression(text, 'bool');
  assert.ok(typeof compiled === 'function', JSON.stringify(compiled));
  try {
    return compiled(facts);
  } catch (error) {
    assert.equal((error as Error).name, 'NoValue');
    return (error as Error).message;
  }
}

describe('an expression', () => {
  it('compares statistics of phases', () => {
    const cases: [string, boolean][] = [
      ['now.compute.mean_ms == 4.0 && now.compute.median_ms == 3.0', true],
      ['now.compute.min_ms == 1.0 && now.compute.max_ms == 10.0', true],
      ['now.compute.p90_ms > 7.5 && now.compute.p90_ms < 7.7', true],
      ['now.compute.share > 0.333 && now.compute.share < 0.334', true],
      ['now.phase("mlp").mean_ms > 1.9 * peers.phase("mlp").mean_ms', true],
      ['now.compute.mean_ms > 2.0 * before.compute.mean_ms', true],
      ['now.compute.steps == 5 && before.compute.steps == 2', true],
      ['now.tokens_per_second > 8333.0 && now.tokens_per_second < 8334.0', true],
      ['abs(-1.5) == 1.5 && min(now.step.mean_ms, 1.0) == 1.0 && max(now.step.mean_ms, 1.0) == 12.0', true],
      ['job.startsWith("pretrain") && host.contains("ode") && rank == 1 && ranks == 2 && stage == -1', true],
      ['now.compute.mean_ms > 1e-10 + 4.0 - 0.0000000001', false],
      ['now["step"].mean_ms > 100.0 ? true : false', false],
    ];
    for (const [text, value] of cases) assert.equal(outcomeOf(text), value, text);
  });

  it('never fires on what is unknown, on 0/0 or a division by zero, negated or not', () => {
    const cases: [string, boolean | string][] = [
      ['now.memory.mean_ms / now.memory.mean_ms > 1.0', 'divides 0 by 0'],
      ['!(now.memory.mean_ms / now.memory.mean_ms > 1.0)', 'divides 0 by 0'],
      ['now.step.mean_ms / now.memory.mean_ms != 1.0', 'divides 12 by 0'],
      ['1 / (rank - 1) == 1', 'division by zero'],
      ['!(now.gap.mean_ms > 1.0)', 'now.gap is not known in these steps'],
      ['!(now.phase("nix").max_ms > 1.0)', 'now.phase("nix") is not known in these steps'],
      ['now.gap.share > 0.0 || rank == 2', 'now.gap is not known in these steps'],
      ['now.gap.mean_ms > 1.0 || rank == 1', true],
      ['now.memory.mean_ms > 0.0 && now.step.mean_ms / now.memory.mean_ms > 2.0', false],
    ];
    for (const [text, value] of cases) assert.equal(outcomeOf(text), value, text);
  });

  it('may call nothing that stalls, converts texts to numbers or reaches into the program', () => {
    const refused = [
      ['host.matches("(a+)+b")', 'matches() cannot be used'],
      ['double("NaN") > 1.0 || rank > 0', 'double() cannot be used'],
      ['[1, 2].all(x, x > 0) && rank > 0', 'all() cannot be used'],
      ['timestamp("2026-01-01T00:00:00Z") < timestamp(job)', 'timestamp() cannot be used'],
      ['now.constructor.mean_ms > 1.0', 'No such key: constructor'],
      ['now["__proto__"].mean_ms > 1.0', 'No such key: __proto__'],
      ['process.exit()', 'exit() cannot be used'],
      ['globalThis == 1', 'Unknown variable: globalThis'],
      ['1.0 > 2.0', 'looks at nothing and so never changes'],
      [`rank > 0${' || rank > 0'.repeat(500)}`, 'Exceeded max'],
    ] as const;
    for (const [text, message] of refused) {
      const fault = compileExpression(text, 'bool');
      assert.ok(typeof fault === 'object' && fault.message.startsWith(message), `${text}: ${JSON.stringify(fault)}`);
    }
  });

  it('is typed: whole numbers are not mixed with statistics', () => {
    const fault = compileExpression('now.step.mean_ms * 2 > 3.0', 'bool');
    assert.deepEqual(fault, {
      at: 0,
      message: 'no such overload: double * int',
      remedy: 'write whole numbers as 2.0 beside statistics',
    });
  });
});
