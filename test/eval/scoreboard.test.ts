import assert from 'node:assert/strict';
import { test } from 'node:test';
import { casesOf, DEVELOPMENT_SEEDS, REPORT_SEEDS, STRENGTHS } from '../../eval/cases.js';
import { play } from '../../eval/play.js';
import { epochNs, judge } from '../../eval/score.js';
import { failuresText, runCases, tablesText } from '../../eval/scoreboard.js';
import { planOf } from '../../simulator/plan.js';
import { SCENARIOS } from '../../simulator/simulate.js';

const straggler = { scenario: 'straggler', ranks: 8, steps: 120, seed: 4, strength: 0.5 };

test('one small run gives the same scoreboard twice', async () => {
  const text = async (): Promise<string> => {
    const scores = await runCases([straggler, { scenario: 'healthy', ranks: 8, steps: 60, seed: 4 }]);
    return tablesText(scores) + failuresText(scores.outcomes);
  };
  const texts = [await text(), await text()];
  assert.equal(texts[0], texts[1]);
  assert.match(texts[0] as string, /^\| straggler \| 1 \| 1\.000 \|/m);
});

test('a plain straggler is found with its delay and its cost', async () => {
  const { outcomes } = await runCases([straggler]);
  const [outcome] = outcomes;
  const [found] = outcome?.truths ?? [];
  assert.equal(found?.found?.kind, 'straggler');
  assert.ok(found.subjectRight && found.causeRight);
  assert.ok(found.delaySteps >= 0 && found.delaySteps <= 12);
  assert.ok(found.delaySeconds > 0.3 * found.delaySteps);
  assert.ok(found.slowdown > 0.2 && found.slowdown < 0.5, String(found.slowdown));
  assert.deepEqual(failuresText(outcomes).split('\n').at(-2), 'None.');
});

test('what was said of something else is wrong, and the fault is missed', () => {
  const played = play(straggler, false);
  const [truth] = played.truths;
  assert.ok(truth);
  const other = { ...played, truths: [{ ...truth, kind: 'comm_slow' as const }] };
  const outcome = judge(other);
  assert.equal(outcome.truths[0]?.found, undefined);
  assert.deepEqual(
    outcome.wrong.map(({ kind }) => kind),
    ['straggler'],
  );
  assert.match(failuresText([outcome]), /missed comm_slow of ranks \d\n- .*wrong \w+ straggler at step/);
});

test('GPU-hours and steps are those of all ranks and jobs', () => {
  const played = play({ scenario: 'serving-healthy', ranks: 16, steps: 40, seed: 1, stepSeconds: 10 }, true);
  assert.equal(played.steps, 80);
  assert.equal(played.ranksPerJob, 8);
  const hours = played.timelines.map(({ steps }) => (8 * ((steps.at(-1)?.starts[0] ?? 0) / 1e9)) / 3600);
  const sum = hours.reduce((a, b) => a + b, 0);
  assert.ok(played.gpuHours > sum && played.gpuHours < 1.05 * sum, `${played.gpuHours} ${sum}`);
});

test('times of incidents keep their nanoseconds', () => {
  assert.equal(epochNs('2026-02-02T02:40:56.083531897Z'), 1_769_999_999_000_000_000n + 57_083_531_897n);
});

test('the report has seeds of its own, and every case can be played', () => {
  assert.ok(REPORT_SEEDS.every((seed) => !DEVELOPMENT_SEEDS.includes(seed)));
  for (const ranks of [8, 64, 256, 1024]) {
    const cases = casesOf([1], [ranks]);
    assert.deepEqual([...new Set(cases.map(({ scenario }) => scenario))], Object.keys(SCENARIOS));
    for (const { baseline, ...options } of cases) assert.ok(planOf(options).jobs.length > 0);
    assert.ok(cases.some(({ scenario, baseline }) => scenario === 'tp-slow-path' && baseline));
    const strengths = cases.filter(({ scenario }) => scenario === 'straggler').map(({ strength }) => strength);
    assert.deepEqual(strengths, [...STRENGTHS]);
  }
});
