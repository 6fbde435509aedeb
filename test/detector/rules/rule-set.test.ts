import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatProblem } from '../../../detector/rules/problem.js';
import { contentHash, loadRules } from '../../../detector/rules/rule-set.js';
import { fileOf } from './support.js';

const a = { path: 'a.yml', text: fileOf('{id: a1, kind: straggler}', '{id: a2, kind: comm_slow}') };
const b = { path: 'b.yml', text: fileOf('{id: b1, kind: rnic_flap}') };

describe('a rule set', () => {
  it('is in the order of its files by path, whatever order they were read in', () => {
    const { set } = loadRules([b, a], 'c1');
    assert.deepEqual(
      set?.rules.map(({ id }) => id),
      ['a1', 'a2', 'b1'],
    );
    assert.deepEqual(set?.kindsWithoutRule().length, 12);
  });

  it('knows which labels its rules add', () => {
    const labelled = { path: 'l.yml', text: fileOf('{id: l1, kind: comm_hang, owner: net, labels: {team: a}}') };
    assert.deepEqual(loadRules([a, b], 'c1').set?.labelNames(), new Set());
    assert.deepEqual(loadRules([a, labelled], 'c1').set?.labelNames(), new Set(['owner', 'team']));
  });

  it('is refused whole for one mistake in one file, and every mistake is told', () => {
    const bad = { path: 'c.yml', text: fileOf('{id: c1, kind: nix}') };
    const { set, problems } = loadRules([a, bad, b, { path: 'd.yml', text: '' }], 'c1');
    assert.equal(set, undefined);
    assert.deepEqual(
      problems.map(({ file }) => file),
      ['c.yml', 'd.yml'],
    );
  });

  it('may not hold an id twice, in other files neither', () => {
    const { set, problems } = loadRules([a, b, { path: 'c.yml', text: fileOf('{id: a2, kind: straggler}') }], 'c1');
    assert.equal(set, undefined);
    assert.deepEqual(problems.map(formatProblem), [
      'c.yml:5:9: group "g", rule "a2": the id is taken by the rule at a.yml:6; give each rule an id of its own',
    ]);
  });

  it('parses only the files whose text has changed', () => {
    const first = loadRules([a, b], 'c1');
    assert.equal(first.parsed, 2);
    const second = loadRules([a, { ...b, text: b.text.replace('b1', 'b2') }], 'c2', first.files);
    assert.equal(second.parsed, 1);
    assert.equal(second.set?.rule('a1'), first.set?.rule('a1'), 'the very same rule');
    assert.ok(second.set?.rule('b2') && !second.set.rule('b1'));
  });

  it('is named by its commit, or by a hash of paths and texts', () => {
    assert.equal(loadRules([a, b], 'abc').set?.commit, 'abc');
    assert.equal(loadRules([b, a], null).set?.commit, loadRules([a, b], null).set?.commit);
    assert.match(contentHash([a, b]), /^content-[0-9a-f]{12}$/);
    assert.notEqual(contentHash([a]), contentHash([{ ...a, path: 'x.yml' }]));
    assert.notEqual(contentHash([{ path: 'a', text: 'bc' }]), contentHash([{ path: 'ab', text: 'c' }]));
  });

  it('of a thousand rules loads in less than two seconds', () => {
    const texts = Array.from({ length: 50 }, (_, f) => ({
      path: `f${f}.yml`,
      text: fileOf(
        ...Array.from(
          { length: 20 },
          (_, r) =>
            `{id: r-${f}-${r}, kind: straggler, match: {job: "team-${f}-*"}, for: 30s, annotations: {x: "{{ job }}"}}`,
        ),
      ),
    }));
    const before = process.cpuUsage();
    assert.equal(loadRules(texts, 'c1').set?.rules.length, 1000);
    const { user } = process.cpuUsage(before);
    assert.ok(user < 2e6, `${user / 1e3} ms of processor time`);
  });
});
