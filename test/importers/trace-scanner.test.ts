import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TraceScanner } from '../../importers/trace-scanner.js';
import { MAX_JSON_VALUE_BYTES } from '../../protocol/limits.js';

/** Scans the text in chunks of the given size. */
function scan(text: string, chunkBytes = text.length * 4) {
  const events: { event: unknown; offset: number }[] = [];
  const fields: Record<string, unknown> = {};
  const scanner = new TraceScanner(new Set(['base', 'rank']), {
    event: (event, offset) => events.push({ event: JSON.parse(event), offset }),
    field(name, value) {
      fields[name] = JSON.parse(value);
    },
  });
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += chunkBytes) scanner.push(bytes.subarray(at, at + chunkBytes));
  scanner.end();
  return { events: events.map(({ event }) => event), offsets: events.map(({ offset }) => offset), fields };
}

test('events are found in a list and in an object, with the wanted fields before and after them', () => {
  assert.deepEqual(scan('[{"a":1}, {"b":[2,"]"]}]').events, [{ a: 1 }, { b: [2, ']'] }]);
  const { events, fields } = scan('{"rank": 3 , "other":{"x":[1]},"traceEvents":[{"a":1}],"base":12,"s":"}"}');
  assert.deepEqual(events, [{ a: 1 }]);
  assert.deepEqual(fields, { rank: 3, base: 12 });
});

test('only traceEvents at the top holds events', () => {
  assert.deepEqual(scan('{"x":{"traceEvents":[{"no":1}]},"traceEvents":[]}').events, []);
});

test('any JSON is cut alike, in chunks of any size', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()), { maxLength: 6 }),
      fc.jsonValue(),
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom(undefined, 1),
      (events, base, chunk, indent) => {
        const text = JSON.stringify({ other: base, traceEvents: events, base }, null, indent);
        const found = scan(text, chunk);
        assert.deepEqual(found.events, JSON.parse(JSON.stringify(events)));
        assert.deepEqual(found.fields.base, JSON.parse(JSON.stringify(base)));
      },
    ),
  );
});

test('offsets are bytes of the file', () => {
  assert.deepEqual(scan('\ufeff[{"é":1},{"b":2}]', 3).offsets, [4, 13]);
});

test('a list may lack its closing bracket, an object may not', () => {
  assert.deepEqual(scan('[{"a":1},\n').events, [{ a: 1 }]);
  assert.throws(() => scan('{"traceEvents":[{"a":1}]'), { message: /byte 24: the JSON is cut short/ });
});

test('an event that is cut short is refused with its place', () => {
  assert.throws(() => scan('[{"a":1},{"b":"x'), { code: 'bad_input', message: /byte 16: the JSON is cut short/ });
});

test('what is not a trace is refused where it departs from one', () => {
  assert.throws(() => scan('<!DOCTYPE html>'), { message: /byte 0: expected "{" or "\[", found "<!DOCTYPE ht"/ });
  assert.throws(() => scan('{"truth": 1}'), { message: /there is no "traceEvents" list/ });
  assert.throws(() => scan('{"a" 1}'), { message: /byte 5: expected ":"/ });
  assert.throws(() => scan('[{"a":1} {"b":1}]'), { message: /byte 9: expected "," or "\]"/ });
  assert.throws(() => scan('[] x'), { message: /byte 3: expected the end of the file/ });
  assert.throws(() => scan('[,]'), { message: /byte 1: expected a value/ });
});

test('a value beyond the limit is refused with its field and the limit', () => {
  const huge = (start: string) => () => {
    const scanner = new TraceScanner(new Set(), { event() {}, field() {} });
    scanner.push(Buffer.from(start));
    const chunk = Buffer.alloc(8 * 1024 * 1024, 'x');
    for (let bytes = 0; bytes <= MAX_JSON_VALUE_BYTES; bytes += chunk.length) scanner.push(chunk);
  };
  const limit = `one value exceeds ${MAX_JSON_VALUE_BYTES} bytes`;
  assert.throws(huge('{"stackFrames":"'), { code: 'too_large', message: `byte 15: field "stackFrames": ${limit}` });
  assert.throws(huge('[{"name":"\\"a","args":{"stack":"'), {
    code: 'too_large',
    message: `byte 1: field "traceEvents[].args": ${limit}`,
  });
});
