import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Finding } from '../../../detector/detectors/finding.js';
import { type Holds, newHolds } from '../../../detector/incidents/holds.js';
import {
  follow,
  type IncidentBook,
  resolveSilent,
  revise,
  type Transition,
} from '../../../detector/incidents/incident-book.js';
import { BUILT_IN } from '../../../detector/rules/job-rules.js';
import { nsOf } from '../../../detector/rules/mute.js';
import type { RuleSet } from '../../../detector/rules/rule-set.js';
import type { Incident } from '../../../protocol/incident.js';
import { fileOf, finding, ruleSet } from './support.js';

const START = nsOf('2026-06-01T12:00:00Z');

/** A job whose steps take a second of event time; its state survives as a snapshot does, by structured clone. */
class Job {
  #book: IncidentBook = new Map();
  #holds: Holds = newHolds();
  #set: RuleSet;
  #step = -1;
  readonly log: string[] = [];
  last: Incident | undefined;

  constructor(set: RuleSet) {
    this.#set = set;
  }

  /** Steps in each of which these findings hold. */
  steps(count: number, ...findings: Finding[]): this {
    for (let i = 0; i < count; i++) {
      this.#step++;
      [this.#book, this.#holds] = structuredClone([this.#book, this.#holds]);
      this.#note(follow(this.#book, findings, this.#step, this.#now, this.#policy, this.#holds));
    }
    return this;
  }

  gap(seconds: number): this {
    this.#step += seconds;
    return this;
  }

  reload(set: RuleSet): this {
    this.#set = set;
    this.#note(revise(this.#book, { step: this.#step, ns: this.#now }, this.#policy, this.#holds));
    return this;
  }

  silence(): this {
    this.#note(resolveSilent(this.#book, { step: this.#step, ns: this.#now }, this.#policy, this.#holds));
    return this;
  }

  get open(): number {
    return this.#book.size;
  }

  get suppressed(): [string, number][] {
    return [...this.#holds.counts];
  }

  get #now(): bigint {
    return START + BigInt(this.#step) * 1_000_000_000n;
  }

  get #policy() {
    return this.#set.forJob({ job: 'job' });
  }

  #note(transitions: readonly Transition[]): void {
    for (const { before, after } of transitions) {
      const { event, note, step } = after.timeline.at(-1) as Incident['timeline'][number];
      this.log.push(`${step} ${event} ${before?.status ?? 'new'}: ${note}`);
      this.last = after;
    }
  }
}

const job = (...rules: string[]): Job => new Job(ruleSet(fileOf(...rules)));
const slow = finding();
const OPENED = 'opened new: warning: rank 2 is slow';
const GONE = 'resolved open: no longer seen';

describe('an incident under a rule', () => {
  it('opens once its finding has lasted for `for`, in event time or in steps', () => {
    assert.deepEqual(job('{id: a, kind: straggler, for: 5s}').steps(5, slow).steps(2).steps(7, slow).log, [
      `12 ${OPENED}`,
    ]);
    assert.deepEqual(job('{id: a, kind: straggler, for: 3 steps}').steps(4, slow).log, [`3 ${OPENED}`]);
    assert.deepEqual(job('{id: a, kind: straggler}').steps(2, slow).steps(1).log, [`0 ${OPENED}`, `2 ${GONE}`]);
  });

  it('does not open because a pause in the data was as long as `for`', () => {
    const paused = job('{id: a, kind: straggler, for: 300s}').steps(50, slow).steps(1).gap(350).steps(200, slow);
    assert.deepEqual(paused.log, []);
    assert.deepEqual(paused.steps(101, slow).log, [`701 ${OPENED}`]);
  });

  it('stays open for `keep_firing_for` after it was last seen, and goes on as itself when it comes back', () => {
    const kept = job('{id: a, kind: straggler, keep_firing_for: 5s}').steps(3, slow).steps(4);
    const again = finding({ onsetStep: 7, onsetNs: START + 7_000_000_000n });
    kept.steps(3, again);
    assert.deepEqual(kept.log, [`0 ${OPENED}`]);
    assert.equal(kept.open, 1);
    assert.deepEqual(kept.steps(6).log, [`0 ${OPENED}`, `15 ${GONE}`]);
    assert.equal(kept.last?.onset_step, 5, 'the onset is frozen at opening');
  });

  it('does not take over the incident of another subject', () => {
    const other = finding({ key: 'ranks=3', onsetStep: 7 });
    const kept = job('{id: a, kind: straggler, keep_firing_for: 5s}').steps(3, slow).steps(1).steps(1, other);
    assert.equal(kept.open, 2);
  });

  it('does not open in a mute window, opens at its end if it still lasts, and is not ended by one', () => {
    const mute = 'mute: [{name: m, starts: "2026-06-01T12:00:00Z", ends: "2026-06-01T12:00:10Z"}]';
    const muted = job(`{id: a, kind: straggler, ${mute}}`).steps(12, slow);
    assert.deepEqual(muted.log, [`10 ${OPENED}`]);
    assert.deepEqual(muted.suppressed, [['rule a, mute "m"', 1]]);
    const waited = job(`{id: a, kind: straggler, for: 5s, ${mute}}`).steps(12, slow);
    assert.deepEqual(waited.log, [`10 ${OPENED}`], 'the wait for `for` goes on meanwhile');
    const late = 'mute: [{name: m, starts: "2026-06-01T12:00:05Z", ends: "2026-06-01T12:00:10Z"}]';
    assert.deepEqual(job(`{id: a, kind: straggler, ${late}}`).steps(8, slow).steps(1).log, [
      `0 ${OPENED}`,
      `8 ${GONE}`,
    ]);
  });

  it('changes severity with its cost, by the thresholds of its rule', () => {
    const life = job('{id: a, kind: straggler, severity: {warning: 0.1, critical: 0.3}}');
    life
      .steps(1, slow)
      .steps(1, finding({ fraction: 0.31 }))
      .steps(1, finding({ fraction: 0.29 }))
      .steps(1, finding({ fraction: 0.2 }));
    assert.deepEqual(life.log, [`0 ${OPENED}`, '1 escalated open: critical', '3 eased open: warning']);
  });

  it('carries rule, commit, labels and annotations', () => {
    const text = fileOf(
      '{id: a, kind: straggler, owner: me, runbook: "https://r/1", labels: {team: "x {{ job }}"}, annotations: {what: "{{ $value }} % at step {{ last_step }}"}}',
    );
    const life = new Job(ruleSet(text)).steps(1, slow);
    assert.deepEqual(life.last?.rule, {
      id: 'a',
      commit: 'c1',
      labels: { owner: 'me', team: 'x job' },
      annotations: { runbook_url: 'https://r/1', what: '15 % at step 0' },
    });
    life.steps(1, finding({ fraction: 0.25 }));
    assert.equal(life.last?.rule.annotations?.what, '25 % at step 1');
    assert.equal(life.last?.rule.labels?.team, 'x job');
  });
});

describe('an incident whose finding comes back', () => {
  const again = (onsetStep: number): Finding =>
    finding({ onsetStep, onsetNs: START + BigInt(onsetStep) * 1_000_000_000n });
  const events = ({ last }: Job): string[] => (last as Incident).timeline.map(({ step, event }) => `${step} ${event}`);

  it('goes on as itself within `reopen_within`, five minutes by default, and counts it', () => {
    const life = job('{id: a, kind: straggler}').steps(3, slow).steps(1);
    const { id } = life.last as Incident;
    life.gap(298).steps(1, again(302));
    assert.deepEqual(events(life), ['0 opened', '3 resolved', '302 reopened']);
    const { reopened, onset_step, detected_step, status, resolved_at, cost } = life.last as Incident;
    assert.deepEqual([life.last?.id, reopened, status, resolved_at], [id, 1, 'open', null]);
    assert.deepEqual([onset_step, detected_step], [5, 0], 'the first onset stays');
    assert.equal(cost.gpu_seconds, 2, 'what it cost before is not forgotten');
  });

  it('is another one after that, on another subject, or where the rule says 0', () => {
    const ids = (life: Job, ...findings: Finding[]): number => {
      const first = life.steps(3, slow).steps(1).last?.id;
      const second = life.gap(life === late ? 299 : 10).steps(1, ...findings).last;
      assert.equal(second?.reopened, undefined);
      return new Set([first, second?.id]).size;
    };
    const late = job('{id: a, kind: straggler}');
    assert.equal(ids(late, again(303)), 2);
    assert.equal(ids(job('{id: a, kind: straggler}'), finding({ key: 'ranks=3', onsetStep: 14 })), 2);
    assert.equal(ids(job('{id: a, kind: straggler, reopen_within: 0s}'), again(14)), 2);
  });

  it('goes on without an end where the old finding ends in the step in which the new one begins', () => {
    const life = job('{id: a, kind: straggler}').steps(3, slow).steps(1, again(3));
    assert.deepEqual(events(life), ['0 opened', '3 resolved', '3 reopened']);
    assert.equal(life.open, 1);
    const kept = job('{id: a, kind: straggler, keep_firing_for: 5s}').steps(3, slow).steps(1, again(3));
    assert.deepEqual([kept.open, kept.log], [1, [`0 ${OPENED}`]]);
  });

  it('flaps from its second reopening on: it then ends only once it has been quiet for `reopen_within`', () => {
    const life = job('{id: a, kind: straggler, reopen_within: 20s}');
    for (let i = 0; i < 5; i++) life.steps(1, again(10 * i)).steps(9);
    assert.deepEqual(events(life), ['0 opened', '1 resolved', '10 reopened', '11 resolved', '20 reopened']);
    assert.match(life.last?.timeline.at(-1)?.note as string, /flaps: stays open until/);
    assert.equal(life.open, 1);
    life.steps(12);
    assert.equal(events(life).at(-1), '61 resolved');
    assert.equal(life.last?.reopened, 2);
  });

  it('is not opened again by what opens in a mute window', () => {
    const mute = 'mute: [{name: m, starts: "2026-06-01T12:00:05Z", ends: "2026-06-01T12:00:30Z"}]';
    const life = job(`{id: a, kind: straggler, ${mute}}`).steps(3, slow).steps(5).steps(30, again(8));
    assert.deepEqual(events(life), ['0 opened', '3 resolved', '30 reopened']);
  });
});

describe('after a reload an incident', () => {
  const rule = '{id: a, kind: straggler, for: 5s}';
  const without = ruleSet(fileOf('{id: z, kind: comm_slow}'), 'c2');

  it('goes on where its rule is unchanged, with the commit it was opened under; so does the wait for `for`', () => {
    const open = new Job(ruleSet(fileOf(rule)))
      .steps(6, slow)
      .reload(ruleSet(fileOf(rule), 'c2'))
      .steps(1, slow)
      .steps(1);
    assert.deepEqual(open.log, [`5 ${OPENED}`, `7 ${GONE}`]);
    assert.equal(open.last?.rule.commit, 'c1');
    const waiting = new Job(ruleSet(fileOf(rule)))
      .steps(3, slow)
      .reload(ruleSet(fileOf('{id: b, kind: comm_slow}', rule), 'c2'))
      .steps(3, slow);
    assert.deepEqual(waiting.log, [`5 ${OPENED}`]);
    const edited = new Job(ruleSet(fileOf(rule)))
      .steps(3, slow)
      .reload(ruleSet(fileOf('{id: a, kind: straggler, for: 4s}'), 'c2'))
      .steps(5, slow);
    assert.deepEqual(edited.log, [`7 ${OPENED}`], 'an edited rule waits anew');
  });

  it('is resolved at once and says why when its rule is gone, excepts it or is switched off', () => {
    const life = job('{id: a, kind: straggler}').steps(2, slow).reload(without).steps(3, slow);
    assert.deepEqual(life.log, [
      `0 ${OPENED}`,
      '1 resolved open: rule a applies no longer: no rule reports straggler here (rules of c2)',
    ]);
    assert.equal(life.open, 0);
    const excepted = ruleSet(
      fileOf('{id: a, kind: straggler, exceptions: [{name: x, reason: old node, match: {ranks: [2]}}]}'),
    );
    assert.match(
      job('{id: a, kind: straggler}').steps(2, slow).reload(excepted).log[1] as string,
      /exception "x": old node \(rules of c1\)$/,
    );
    const off = ruleSet('apiVersion: picket/v1\nswitched_off: [{kind: straggler, jobs: "j*", reason: a test}]\n');
    assert.match(
      job('{id: a, kind: straggler}').steps(2, slow).reload(off).log[1] as string,
      /switched off for the job: a test \(rules of c1\)$/,
    );
  });

  it('opens again as itself when its rule comes back while the finding lasts', () => {
    const life = job('{id: a, kind: straggler}').steps(2, slow);
    const { id } = life.last as Incident;
    life
      .reload(without)
      .steps(2, slow)
      .reload(ruleSet(fileOf('{id: a, kind: straggler}'), 'c3'))
      .steps(2, slow)
      .steps(1);
    assert.deepEqual(
      life.log.map((line) => line.split(':')[0]),
      ['0 opened new', '1 resolved open', '4 reopened resolved', '6 resolved open'],
    );
    assert.deepEqual(
      life.last?.timeline.map(({ event }) => event),
      ['opened', 'resolved', 'reopened', 'resolved'],
    );
    assert.deepEqual([life.last?.id, life.last?.detected_step], [id, 0]);
  });

  it('belongs to the rule that decides on it now', () => {
    const life = job('{id: a, kind: straggler}')
      .steps(2, slow)
      .reload(ruleSet(fileOf('{id: b, kind: straggler}'), 'c2'))
      .steps(1);
    assert.deepEqual(life.log, [`0 ${OPENED}`, `2 ${GONE}`]);
    assert.deepEqual(life.last?.rule, { id: 'b', commit: 'c2' });
  });
});

describe('when a job falls silent an incident', () => {
  it('stays open, or is resolved where its rule asks for that, and comes back with the data', () => {
    assert.deepEqual(job('{id: a, kind: straggler}').steps(2, slow).silence().log, [`0 ${OPENED}`]);
    const life = job('{id: a, kind: straggler, noData: resolve}').steps(2, slow).silence().gap(100).steps(1, slow);
    assert.deepEqual(life.log.slice(1), [
      '1 resolved open: no data of the job since step 1',
      '102 reopened resolved: warning: rank 2 is slow',
    ]);
  });
});

it('without rules everything is as it was before there were any', () => {
  const book: IncidentBook = new Map();
  const [{ after }] = follow(book, [slow], 7, START, BUILT_IN, newHolds()) as [Transition];
  assert.deepEqual(after.rule, { id: 'straggler', commit: null });
  assert.deepEqual(follow(new Map(), [slow], 7, START), [{ before: undefined, after }]);
});
