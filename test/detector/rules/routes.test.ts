import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import fastify, { type FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import type { ReloadOutcome, RuleStatus } from '../../../detector/rules/manager.js';
import { createRuleMetrics } from '../../../detector/rules/metrics.js';
import { ruleRoutes } from '../../../detector/rules/routes.js';

const problem = { file: 'a.yml', line: 2, col: 10, level: 'error', check: 'yaml', message: 'm', remedy: 'r' } as const;
const failure = { commit: 'c2', message: '1 error in the rules', problems: [problem] };
const good: RuleStatus = {
  ...{ source: 'folder x', commit: 'c1', rules: 15, files: ['a.yml'], loadedAtMs: 1000, attemptedAtMs: 2000 },
  ...{ failure: null, kindsWithoutRule: [] },
};

function server(t: TestContext, reload: () => Promise<ReloadOutcome>, status = good): FastifyInstance {
  const app = fastify();
  ruleRoutes(app, { reload, status: () => status });
  t.after(() => app.close());
  return app;
}

describe('POST /-/reload', () => {
  it('answers 200 with the commit now in force, whatever body a webhook brings', async (t) => {
    const app = server(t, async () => ({ state: 'unchanged', commit: 'c1', rules: 15 }));
    for (const type of ['application/json', 'application/x-www-form-urlencoded', 'text/weird', undefined]) {
      const headers = { ...(type && { 'content-type': type }), 'gitsync-hash': 'abc' };
      const response = await app.inject({
        method: 'POST',
        url: '/-/reload',
        headers,
        ...(type && { payload: '{not json' }),
      });
      assert.deepEqual([response.statusCode, response.json()], [200, { state: 'unchanged', commit: 'c1', rules: 15 }]);
    }
  });

  it('answers 422 with every mistake when the rules cannot be used', async (t) => {
    const response = await server(t, async () => ({ state: 'failed', failure })).inject({
      method: 'POST',
      url: '/-/reload',
    });
    assert.equal(response.statusCode, 422);
    assert.equal(response.headers['content-type'], 'application/problem+json');
    assert.deepEqual([response.json().detail, response.json().errors], ['1 error in the rules', [problem]]);
  });

  it('answers within a second when a fetch takes longer', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const app = server(t, () => new Promise(() => {}));
    await app.ready();
    const answer = app.inject({ method: 'POST', url: '/-/reload' });
    let done = false;
    void answer.then(() => (done = true));
    while (!done) {
      t.mock.timers.tick(900);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const response = await answer;
    assert.deepEqual([response.statusCode, response.json()], [200, { state: 'in_progress' }]);
  });

  it('answers other methods 405', async (t) => {
    const response = await server(t, () => Promise.reject(new Error('never'))).inject({
      method: 'GET',
      url: '/-/reload',
    });
    assert.deepEqual([response.statusCode, response.headers.allow], [405, 'POST']);
  });
});

it('GET /v1/status/rules says what is in force, since when, and why nothing newer is', async (t) => {
  const reload = () => Promise.reject(new Error('never'));
  const ok = await server(t, reload).inject('/v1/status/rules');
  assert.deepEqual(ok.json(), {
    ...{ source: 'folder x', commit: 'c1', rules: 15, files: ['a.yml'], loaded_at: '1970-01-01T00:00:01.000Z' },
    last_attempt: { at: '1970-01-01T00:00:02.000Z', ok: true, failure: null },
    kinds_without_rule: [],
  });
  const bad = await server(t, reload, { ...good, failure }).inject('/v1/status/rules');
  assert.deepEqual(bad.json().last_attempt, { at: '1970-01-01T00:00:02.000Z', ok: false, failure });
});

it('metrics tell commit, number, success and its time', async () => {
  const registry = new Registry();
  const metrics = createRuleMetrics(registry);
  const read = async (): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('picket_rules'));
  metrics.set(good);
  assert.deepEqual(await read(), [
    'picket_rules_loaded 15',
    'picket_rules_last_reload_successful 1',
    'picket_rules_last_reload_success_timestamp_seconds 2',
    'picket_rules_info{commit="c1"} 1',
  ]);
  metrics.set({ ...good, attemptedAtMs: 9000, failure });
  assert.deepEqual((await read()).slice(0, 3), [
    'picket_rules_loaded 15',
    'picket_rules_last_reload_successful 0',
    'picket_rules_last_reload_success_timestamp_seconds 2',
  ]);
  metrics.set({ ...good, commit: 'c3' });
  assert.deepEqual((await read()).slice(3), ['picket_rules_info{commit="c3"} 1'], 'one series, not one a commit');
});
