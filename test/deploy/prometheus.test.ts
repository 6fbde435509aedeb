import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createMetrics as collectorMetrics } from '../../collector/metrics.js';
import { createMetrics as detectorMetrics } from '../../detector/metrics.js';
import { createRuleMetrics } from '../../detector/rules/metrics.js';
import { needsDebian, runDebian } from '../support/debian.js';

const RULES = 'deploy/prometheus/picket.rules.yml';

const detector = detectorMetrics();
detector.addReceiver('ops');
createRuleMetrics(detector.registry);
const collector = collectorMetrics();

test('promtool finds nothing to object to in the metrics of detector and collector', needsDebian, async () => {
  for (const { registry } of [detector, collector])
    assert.deepEqual(runDebian('promtool', ['check', 'metrics'], await registry.metrics()), { status: 0, output: '' });
  // It would say so.
  assert.equal(runDebian('promtool', ['check', 'metrics'], '# TYPE x_total gauge\nx_total 1\n').status, 3);
});

test('promtool accepts the alerting rules for Picket itself, and their tests pass', needsDebian, () => {
  const check = runDebian('promtool', ['check', 'rules', '--lint=all', '--lint-fatal', RULES]);
  assert.equal(check.status, 0, check.output);
  const tests = runDebian('promtool', ['test', 'rules', RULES.replace('.rules.', '.rules.test.')]);
  assert.equal(tests.status, 0, tests.output);
});

test('the alerting rules ask for metrics that are there', () => {
  const known = [detector, collector].flatMap(({ registry }) => registry.getMetricsAsArray().map(({ name }) => name));
  const expressions = [...readFileSync(RULES, 'utf8').matchAll(/^ *expr: (.*)$/gm)].map(([, expr]) => expr as string);
  const asked = expressions.flatMap((expr) =>
    [...expr.matchAll(/picket_\w+/g)].map(([name]) => name.replace(/_bucket$/, '')),
  );
  assert.ok(asked.length >= 15);
  assert.deepEqual(
    asked.filter((name) => !known.includes(name)),
    [],
  );
});
