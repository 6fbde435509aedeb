import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { routesOf } from '../../../detector/notify/route.js';
import { RuleFailureIncidents } from '../../../detector/rules/failure-incidents.js';
import type { RuleStatus } from '../../../detector/rules/manager.js';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';

const status = (commit: string | null): RuleStatus => ({
  ...{ source: 'x', commit: 'c1', rules: 15, files: [], loadedAtMs: 1, attemptedAtMs: 2, kindsWithoutRule: [] },
  failure: commit === null ? null : { commit, message: `1 error in ${commit}`, problems: [] },
});

it('rules that cannot be used are one incident a commit, over a restart too, and end when better ones are in force', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'picket-rules-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const routes = routesOf([], [{ name: 'all', minSeverity: 'info', sendResolved: true }]);
  let store = openSqliteStore({ path: join(folder, 's.db'), now: () => 5 });
  let incidents = new RuleFailureIncidents(store, routes);
  assert.equal(incidents.follow(status(null), 1000), false);
  assert.equal(incidents.follow(status('c2'), 2000), true);
  assert.equal(incidents.follow(status('c2'), 3000), false);
  store.close();

  store = openSqliteStore({ path: join(folder, 's.db'), now: () => 5 });
  t.after(() => store.close());
  incidents = new RuleFailureIncidents(store, routes);
  assert.equal(incidents.follow(status('c2'), 4000), false, 'the restart finds it open');
  const [open] = store.openIncidents();
  assert.deepEqual(
    [open?.kind, open?.severity, open?.subject.source, open?.started_at],
    ['data_quality', 'info', 'rules', '1970-01-01T00:00:02.000000000Z'],
  );
  assert.equal(open?.summary, 'the rules of commit c2 cannot be used, those of c1 stay in force: 1 error in c2');
  assert.equal(incidents.follow(status('c3'), 5000), true);
  assert.deepEqual(
    store.openIncidents().map(({ evidence }) => evidence.commit),
    ['c3'],
  );
  assert.equal(incidents.follow(status(null), 6000), true);
  assert.deepEqual(store.openIncidents(), []);
  const told = store.groups
    .due('all', 1e12, 10)
    .map(({ pending }) => pending.map(({ event, incident }) => `${event} ${incident.evidence.commit}`));
  assert.deepEqual(told.sort(), [
    ['opened c2', 'resolved c2'],
    ['opened c3', 'resolved c3'],
  ]);
});
