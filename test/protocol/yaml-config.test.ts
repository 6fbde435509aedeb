import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as z from 'zod';
import { PicketError } from '../../protocol/errors.js';
import { atYamlField, parseYamlConfig } from '../../protocol/yaml-config.js';

const Config = z.strictObject({
  http: z.strictObject({ port: z.int().max(65_535, 'is no port; write 1 to 65535') }),
  bus: z
    .discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('kafka') }),
      z.strictObject({ kind: z.literal('embedded') }),
    ])
    .optional(),
  level: z.enum(['info', 'warn']).optional(),
  wait: z.number().positive().lt(60).optional(),
  title: z.string().max(2).optional(),
  names: z.array(z.strictObject({ name: z.string() })).default([]),
});

function messageOf(text: string): string {
  try {
    parseYamlConfig(Config, text, 'c.yaml', 'see example.yaml');
  } catch (error) {
    if (error instanceof PicketError && error.code === 'bad_config') return error.message;
    throw error;
  }
  return 'accepted';
}

test('of what is no YAML: the place, what was read and what to do', () => {
  const cases: [string, string][] = [
    ['http: {port: 1}\n', 'accepted'],
    [
      'http:\n  port: 1: 2\n',
      'c.yaml:2:9: Nested mappings are not allowed in compact mappings, reading `port: 1: 2`; put the value in quotes, or its second key on a line of its own',
    ],
    ['http:\n\tport: 1\n', 'c.yaml:2:1: Tabs are not allowed as indentation, reading `port: 1`; indent with spaces'],
    [
      'http: {port: 1}\nhttp: {port: 2}\n',
      'c.yaml:2:1: Map keys must be unique, reading `http: {port: 2}`; keep one of them',
    ],
    ['http: "port\n', 'c.yaml:2:1: Missing closing "quote; close what is open'],
    [
      'http: {port: 1}\n---\nhttp: {port: 2}\n',
      'c.yaml:2:1: a second YAML document begins here and would be ignored, reading `---`; move it to a file of its own',
    ],
    ['http: {port: 1}\nx: \ufffd', 'c.yaml:2:4: is no UTF-8 text; save the file as UTF-8'],
    ['', 'c.yaml:1:1: is empty; see example.yaml'],
  ];
  for (const [text, message] of cases) assert.equal(messageOf(text), message);
});

test('what is nested so deeply that a parser would not survive it is refused, and nothing else', () => {
  const indented = (depth: number) => Array.from({ length: depth }, (_, i) => `${' '.repeat(i)}a:\n`).join('');
  const deep = [...['[', '{a: ', '- ', '? '].map((each) => each.repeat(20_000)), indented(1000)];
  for (const text of deep) assert.match(messageOf(text), /^c\.yaml:1:1: is nested too deeply.*; write it flat$/);
  for (const text of [indented(300), `a: ${'[]'.repeat(5000)}`, `http: {port: 1} # ${'-'.repeat(5000)}`])
    assert.doesNotMatch(messageOf(text), /nested/);
});

test('of what is no configuration: file, line, field and what to do', () => {
  const cases: [string, string][] = [
    ['http: {port: 70000}', 'c.yaml:1: field "http.port": is no port; write 1 to 65535'],
    [
      'http: {port: 1}\nbus: {kind: kafak}',
      'c.yaml:2: field "bus.kind": is none of the values there are; did you mean "kafka"? use one of kafka, embedded',
    ],
    ['http: {port: 1}\nbus: {}', 'c.yaml:2: field "bus.kind": is missing; add it: one of kafka, embedded'],
    ['http: {port: 1}\nlevel: off', 'c.yaml:2: field "level": is none of the values there are; use one of info, warn'],
    ['http: {port: 80a}', 'c.yaml:1: field "http.port": must be a number; write a plain number, such as 5 or 0.05'],
    ['http: {port: 1}\nwait: 0', 'c.yaml:2: field "wait": must be more than 0; give more'],
    ['http: {port: 1}\nwait: 60', 'c.yaml:2: field "wait": must be less than 60; give less'],
    ['http: {port: 1}\ntitle: abc', 'c.yaml:2: field "title": must be at most 2 characters; give less'],
    ['a list', 'c.yaml:1: must be a mapping of fields; write {field: value}, or a field a line'],
    ['names: []\nhttp: {}', 'c.yaml:2: field "http.port": is missing; see example.yaml'],
    ['{}', 'c.yaml:1: field "http": is missing; see example.yaml'],
    ['http: {port: 1}\nname: []', 'c.yaml:2: field "name": is not known; did you mean "names"?'],
    [
      'http: {port: 1}\nnames:\n  - {name: a}\n  - {name: b, colour: red}',
      'c.yaml:4: field "names.1.colour": is not known; see example.yaml',
    ],
    [
      'http:\n  prot: 1\n',
      'c.yaml:2: field "http.port": is missing (also line 2 "http.prot": is not known; did you mean "port"?); see example.yaml',
    ],
  ];
  for (const [text, message] of cases) assert.equal(messageOf(text), message);
});

test('an error that names a field gets file and line; one that names a file keeps it', () => {
  const at = (place: object): string => {
    const error = atYamlField(new PicketError('bad_config', 'is in use', place), 'a: 1\nhttp:\n  port: 5\n', 'c.yaml');
    return (error as Error).message;
  };
  assert.equal(at({ field: 'http.port' }), 'c.yaml:3: field "http.port": is in use');
  assert.equal(at({ field: 'http.host' }), 'c.yaml:2: field "http.host": is in use');
  assert.equal(at({ field: 'http.port', file: 'other' }), 'other: field "http.port": is in use');
  assert.equal(at({}), 'is in use');
});
