import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type DurationMark, DurationPairs } from '../../importers/duration-pairs.js';

const begin = (name: string, ts: number): DurationMark => ({ begins: true, ts: BigInt(ts), name, offset: 0 });
const end = (ts: number, name?: string): DurationMark => ({ begins: false, ts: BigInt(ts), name, offset: 0 });

function pair(marks: readonly DurationMark[]) {
  const durations: Record<string, number> = {};
  const unpaired: string[] = [];
  const pairs = new DurationPairs<DurationMark>(
    ({ name = '' }, ns) => {
      durations[name] = Number(ns);
    },
    ({ name = '' }, reason) => unpaired.push(`${name} ${reason}`),
  );
  for (const mark of marks) pairs.add(mark);
  pairs.end();
  return { durations, unpaired };
}

test('an end closes what began before it, before anything begins at the same stamp', () => {
  const answer = { durations: { Event6: 64, Event5: 283 }, unpaired: [] };
  const [b6, e6, b5, e5] = [begin('Event6', 209948), end(210012), begin('Event5', 210012), end(210295)];
  assert.deepEqual(pair([b6, e6, b5, e5]), answer);
  assert.deepEqual(pair([b6, b5, e6, e5]), answer);
});

test('a named end of no duration closes its own begin', () => {
  const marks = [begin('outer', 1), begin('inner', 5), end(5, 'inner'), end(9, 'outer')];
  assert.deepEqual(pair(marks), { durations: { inner: 0, outer: 8 }, unpaired: [] });
});

test('ends without a begin and begins without an end are told', () => {
  assert.deepEqual(pair([end(3), begin('a', 4)]), { durations: {}, unpaired: [' end_without_begin', 'a never_ended'] });
});

test('any nesting is paired as it was nested', () => {
  const { tree } = fc.letrec<{ tree: Node; children: Node[] }>((tie) => ({
    tree: fc.record({ gap: fc.integer({ min: 1, max: 9 }), children: tie('children') }),
    children: fc.oneof({ maxDepth: 4 }, fc.constant<Node[]>([]), fc.array(tie('tree'), { maxLength: 3 })),
  }));
  fc.assert(
    fc.property(tree, (root) => {
      const marks: DurationMark[] = [];
      const expected: Record<string, number> = {};
      let now = 0;
      const visit = ({ gap, children }: Node, name: string) => {
        const start = (now += gap);
        marks.push(begin(name, start));
        for (const [i, child] of children.entries()) visit(child, `${name}.${i}`);
        now += gap;
        marks.push(end(now));
        expected[name] = now - start;
      };
      visit(root, 'root');
      assert.deepEqual(pair(marks), { durations: expected, unpaired: [] });
    }),
  );
});

interface Node {
  gap: number;
  children: Node[];
}
