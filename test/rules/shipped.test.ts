import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { analyze } from '../../cli/analyze.js';
import { readRuleSet, readRuleTexts } from '../../cli/rules/read.js';
import { runTestFile } from '../../cli/rules/test-run.js';
import { isTestPath } from '../../detector/rules/rule-file.js';
import { ruleFileJsonSchema } from '../../detector/rules/schema.js';
import { INCIDENT_KINDS } from '../../protocol/incident.js';
import { sharedData } from '../support/shared-data.js';
import { EXCERPT, picket } from './support.js';

describe('the rules that come with Picket', () => {
  it('have no problems, and report every kind', () => {
    const { exit, out } = picket(['rules', 'check']);
    assert.deepEqual([exit, out], [0, `5 files, ${INCIDENT_KINDS.length} rules: no problems\n`]);
  });

  it('have tests beside each file, of what must fire and of what must not; all pass', async () => {
    const topics = readdirSync('rules').filter((name) => /^[a-z-]+\.yml$/.test(name));
    for (const topic of topics) assert.ok(existsSync(`rules/${topic.replace('.yml', '.test.yml')}`), topic);
    const tested = new Set<string>();
    for (const file of await readRuleTexts(['rules'], isTestPath)) {
      for (const [, rule] of file.text.matchAll(/rule: (\w+)/g)) tested.add(rule as string);
      assert.match(file.text, /expect: \[\]/, `${file.path} has nothing that must not fire`);
      for (const { name, failures } of await runTestFile(file, (path) => readRuleTexts([path]), /^/))
        assert.deepEqual(failures, [], `${file.path}: ${name}`);
    }
    assert.deepEqual(
      [...INCIDENT_KINDS].filter((kind) => !tested.has(kind)),
      [],
    );
  });

  it('report what is reported without rules', async () => {
    const set = await readRuleSet('rules');
    const facts = sharedData('h200-tp2/phases.parquet');
    for (const path of [EXCERPT, ...(facts.skip ? [] : [facts.path])]) {
      const without = await analyze([path], {});
      const under = await analyze([path], {}, { current: set });
      const bare = (incidents: typeof under.incidents) =>
        incidents.map(({ rule: { id }, ...rest }) => ({ ...rest, rule: id }));
      assert.deepEqual(bare(under.incidents), bare(without.incidents));
      assert.deepEqual([...under.suppressed], []);
      assert.ok(under.incidents.every(({ rule }) => rule.commit === set.commit));
    }
  });
});

it('rules/schema.json is what `picket rules schema` prints', () => {
  assert.deepEqual(JSON.parse(readFileSync('rules/schema.json', 'utf8')), ruleFileJsonSchema());
  assert.deepEqual(JSON.parse(picket(['rules', 'schema']).out), ruleFileJsonSchema());
});
