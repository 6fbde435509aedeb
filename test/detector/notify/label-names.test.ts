import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDetectorConfig } from '../../../detector/config.js';
import { unknownInRoutes } from '../../../detector/notify/label-names.js';
import { LABEL_NAMES, labelsOf } from '../../../detector/notify/labels.js';
import { RouteConfig } from '../../../detector/notify/route.js';
import { newSubject } from '../../../protocol/incident.js';
import { newIncident } from '../store/support.js';

test('the labels that are known are those of an incident about everything', () => {
  const names = { group: 'g', link: 'l', nic: 'n', phase: 'p', instance: 'i', gpu: 'u', source: 's' };
  const subject = newSubject('j', '1', { ranks: [0], hosts: ['h'], stage: 1, graph: 8, ...names });
  const labels = labelsOf({ ...newIncident('a'), subject }, 'info');
  assert.deepEqual(Object.keys(labels).sort(), [...LABEL_NAMES].sort());
});

test('a value that an enumeration lacks is an error at its line, with what was meant', () => {
  const messageOf = (match: string): string => {
    const text = `bus: {kind: embedded, dir: l}\nstore: {path: d}\nreceivers: [{name: r, url: "https://r.example"}]\nroutes:\n  - receiver: r\n    match: ${match}\n`;
    try {
      parseDetectorConfig(text, 'd.yaml');
      return 'accepted';
    } catch (error) {
      return (error as Error).message;
    }
  };
  const at = 'd.yaml:6: field "routes.0.match';
  const cases: [string, string][] = [
    ['{severity: [critical, warning], kind: "comm_*", cause: "!host", job: anything}', 'accepted'],
    ['{severity: critcal}', `${at}.severity": "critcal" is no severity; did you mean "critical"?`],
    ['{severity: [info, Warn]}', `${at}.severity": "Warn" is no severity; did you mean "warning"?`],
    ['{severity: page}', `${at}.severity": "page" is no severity; known are info, warning, critical`],
    ['{kind: "!stragler"}', `${at}.kind": "stragler" is no kind; did you mean "straggler"?`],
    ['{cause: "net*k"}', 'accepted'],
    [
      '{cause: "dsk*"}',
      `${at}.cause": "dsk*" is no cause; known are compute, host, data, memory, network, workload, configuration, unknown`,
    ],
  ];
  for (const [match, message] of cases) assert.equal(messageOf(match), message);
});

test('a label that no incident has is told with what was meant, unless a rule adds it', () => {
  const of = (facts: object, ofRules: string[] = []) =>
    unknownInRoutes([RouteConfig.parse({ receiver: 'r', ...facts })], new Set(ofRules)).map(
      ({ error, isSlip }) => `${isSlip ? 'slip' : 'unknown'} ${error.message}`,
    );
  assert.deepEqual(of({ match: { job: 'a', host: 'h', team: 't' }, group_by: ['job', 'team'] }, ['team']), []);
  assert.deepEqual(of({ match: { sevrity: 'info', role: 'x' }, group_by: ['...'] }, ['role']), [
    'slip field "routes.0.match.sevrity": no incident has a label "sevrity"; did you mean "severity"?',
  ]);
  assert.deepEqual(of({ group_by: ['job', 'host'] }), [
    'slip field "routes.0.group_by.1": no incident has a label "host"; did you mean "hosts"?',
  ]);
  assert.deepEqual(of({ match: { team: 't' } }), [
    `unknown field "routes.0.match.team": no incident has a label "team"; known are host, ${LABEL_NAMES.join(', ')}`,
  ]);
});
