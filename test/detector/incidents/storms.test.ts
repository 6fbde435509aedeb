import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newHolds } from '../../../detector/incidents/holds.js';
import { follow, type IncidentBook, type Transition } from '../../../detector/incidents/incident-book.js';
import { followStorms, newStormState, type StormState, withStorm } from '../../../detector/incidents/storms.js';
import { notificationsFor } from '../../../detector/notify/notifications.js';
import { routesOf } from '../../../detector/notify/route.js';
import { PartitionPipeline } from '../../../detector/pipeline/partition-pipeline.js';
import { BUILT_IN } from '../../../detector/rules/job-rules.js';
import { Incident, newSubject, type Subject } from '../../../protocol/incident.js';
import { simulate } from '../../../simulator/simulate.js';
import { finding } from '../rules/support.js';

const EVERYTHING = routesOf([], [{ name: 'all', minSeverity: 'info', sendResolved: true }]);
const START = 1_780_000_000_000_000_000n;

interface Trouble {
  readonly job: string;
  readonly subject?: Partial<Subject>;
  readonly kind?: Incident['kind'];
  /** Seconds at which it begins and ends. */
  readonly from: number;
  readonly to?: number;
  readonly fraction?: number;
}

/** Jobs of one partition, a step a second; the state survives as a snapshot does, by structured clone. */
class Partition {
  #state: StormState = newStormState();
  readonly #books = new Map<string, { book: IncidentBook; holds: ReturnType<typeof newHolds> }>();
  readonly log: Transition[] = [];

  constructor(...troubles: Trouble[]) {
    const last = Math.max(...troubles.map(({ from, to }) => to ?? from));
    const jobs = [...new Set(troubles.map(({ job }) => job))];
    for (let second = 0; second <= last; second++) {
      const transitions = jobs.flatMap((job) => this.#step(job, second, troubles));
      this.#state = structuredClone(this.#state);
      this.log.push(...followStorms(this.#state, transitions));
    }
  }

  #step(job: string, second: number, troubles: readonly Trouble[]): Transition[] {
    let own = this.#books.get(job);
    if (!own) this.#books.set(job, (own = { book: new Map(), holds: newHolds() }));
    const now = START + BigInt(second) * 1_000_000_000n;
    const findings = troubles.flatMap(({ from, to = Number.POSITIVE_INFINITY, ...trouble }, i) => {
      if (trouble.job !== job || second < from || second >= to) return [];
      const subject = newSubject(job, '1', { ranks: [i], hosts: [`node-${i}`], ...trouble.subject });
      const { kind = 'straggler', fraction = 0.15 } = trouble;
      return [{ ...finding({ kind, key: `ranks=${i}`, fraction, onsetStep: from, onsetNs: now }), subject }];
    });
    return follow(own.book, findings, second, now, BUILT_IN, own.holds);
  }

  get storms(): Incident[] {
    const open = [...this.#state.storms.values()].map(({ incident }) => incident);
    const all = [...this.log.map(({ after }) => after), ...open];
    return [...new Map(all.map((incident) => [incident.id, incident])).values()].filter(({ storm }) => storm);
  }

  /** What one receiver of everything hears, in order. */
  get told(): string[] {
    return this.log
      .flatMap(({ before, after }) => notificationsFor(before, after, EVERYTHING))
      .map(
        ({ event, incident }) =>
          `${event} ${incident.storm ? `storm of ${incident.storm.members.length}` : incident.subject.ranks}`,
      );
  }

  get members(): Incident[] {
    const newest = new Map(this.log.map(({ after }) => [after.id, after]));
    return [...newest.values()].filter(({ storm }) => !storm).map((incident) => withStorm(this.#state, incident));
  }
}

/** Ranks of one host or job that become slow one after the other. */
const troubles = (
  count: number,
  of: (i: number) => Omit<Trouble, 'from'>,
  from = (i: number): number => i,
): Trouble[] => Array.from({ length: count }, (_, i) => ({ from: from(i), ...of(i) }));

describe('a storm', () => {
  it('is one incident that names the host its members share, across jobs', () => {
    const { storms, members } = new Partition(
      ...troubles(7, (i) => ({
        job: `job-${i}`,
        subject: { hosts: ['node-3', `node-9${i}`] },
        kind: i < 5 ? 'straggler' : 'comm_slow',
      })),
    );
    assert.equal(storms.length, 1);
    const [storm] = storms as [Incident];
    Incident.parse(storm);
    assert.deepEqual(storm.subject.hosts, ['node-3']);
    assert.deepEqual(
      [storm.kind, storm.subject.job, storm.cause, storm.storm?.common],
      ['straggler', '', 'compute', 'host'],
    );
    assert.deepEqual(
      storm.storm?.members,
      members.map(({ id }) => id),
      'linked, none is lost',
    );
    assert.ok(members.every((member) => member.part_of === storm.id && Incident.parse(member)));
    assert.equal(
      storm.summary,
      '7 incidents of 7 jobs opened together, with host node-3 in common: 5 straggler, 2 comm_slow',
    );
    assert.equal(storm.cost.gpu_seconds, 7, 'jobs add up');
  });

  it('is told once, and its members no more; what was told before is told to be over', () => {
    const { told } = new Partition(
      ...troubles(8, (i) => ({
        job: 'job',
        to: 20 + i,
        subject: { hosts: ['node-3'] },
        fraction: i === 6 ? 0.3 : 0.15,
      })),
    );
    assert.deepEqual(
      told.filter((each) => !each.startsWith('resolved')),
      ['opened 0', 'opened 1', 'opened 2', 'opened 3', 'opened storm of 5', 'escalated storm of 7'],
    );
    assert.equal(told.at(-1), 'resolved storm of 8');
  });

  it('tells nobody of its members one by one where they open in one step', () => {
    const { told } = new Partition(
      ...troubles(
        6,
        () => ({ job: 'job' }),
        () => 0,
      ),
    );
    assert.deepEqual(told, ['opened storm of 6']);
  });

  it('takes the most specific thing that nearly all share, and the job else', () => {
    const common = (...given: Trouble[]): (string | undefined)[] =>
      new Partition(...given).storms.map(({ storm }) => storm?.common);
    assert.deepEqual(common(...troubles(5, () => ({ job: 'job', subject: { hosts: ['a'], nic: 'mlx5_0' } }))), ['nic']);
    assert.deepEqual(common(...troubles(5, () => ({ job: 'job', subject: { hosts: [], group: 'dp' } }))), ['group']);
    assert.deepEqual(common(...troubles(5, () => ({ job: 'job', subject: { hosts: [], stage: 3 } }))), ['stage']);
    assert.deepEqual(common(...troubles(5, () => ({ job: 'job' }))), ['job']);
    const half = troubles(
      10,
      (i) => ({ job: 'job', subject: { hosts: [i % 2 ? 'a' : `b${i}`] } }),
      () => 0,
    );
    assert.deepEqual(common(...half), ['job']);
  });

  it('is not seen in few, in what lies far apart, in what only informs, nor in jobs that have nothing in common', () => {
    const none = (...given: Trouble[]): void => assert.deepEqual(new Partition(...given).storms, []);
    none(...troubles(4, () => ({ job: 'job' })));
    none(
      ...troubles(
        8,
        () => ({ job: 'job' }),
        (i) => 80 * i,
      ),
    );
    none(...troubles(8, () => ({ job: 'job', kind: 'transient_stall' })));
    none(...troubles(19, (i) => ({ job: `job-${i}` })));
    assert.equal(new Partition(...troubles(20, (i) => ({ job: `job-${i}` }))).storms[0]?.storm?.common, '');
  });

  it('does not take in what comes long after it, nor what shares nothing with it', () => {
    const storm = troubles(5, () => ({ job: 'job' }));
    const { told, storms } = new Partition(...storm, { job: 'job', from: 400 }, { job: 'other', from: 6 });
    assert.deepEqual(told.slice(4), ['opened storm of 5', 'opened 6', 'opened 5']);
    assert.equal(storms[0]?.storm?.members.length, 5);
  });

  it('ends with its last member, at that time', () => {
    const { storms } = new Partition(...troubles(5, (i) => ({ job: 'job', to: 10 + i })), { job: 'late', from: 30 });
    assert.equal(storms[0]?.status, 'resolved');
    assert.deepEqual(
      storms[0]?.timeline.map(({ event, step }) => `${step} ${event}`),
      ['4 opened', '14 resolved'],
    );
  });
});

describe('a host whose network is slow for all its groups', () => {
  const messages = [...simulate({ scenario: 'comm-slow-host', ranks: 64, steps: 100, seed: 1 })];
  const play = (restarts: boolean): Transition[] => {
    let pipeline = new PartitionPipeline();
    return messages.flatMap((batch, i) => {
      if (restarts && i % 3 === 2) {
        const snapshot = pipeline.snapshot();
        pipeline = new PartitionPipeline();
        assert.ok(pipeline.restore(snapshot));
        for (const [k, earlier] of messages.slice(0, i).entries())
          pipeline.add(earlier, { place: '', offset: BigInt(k), again: true });
      }
      return pipeline.add(batch, { place: '', offset: BigInt(i), again: false });
    });
  };
  const whole = play(false);

  it('pages once', () => {
    const told = whole.flatMap(({ before, after }) => notificationsFor(before, after, EVERYTHING));
    assert.deepEqual(
      told.map(({ event, incident }) => `${event} ${incident.summary}`),
      ['opened 8 incidents opened together, with job sim-comm-slow-host in common: 8 comm_slow'],
    );
  });

  it('is the same storm however often the detector restarts', () => {
    assert.deepEqual(play(true), whole);
  });
});
