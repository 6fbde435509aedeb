import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PicketError } from '../../protocol/errors.js';
import { INCIDENT_KINDS } from '../../protocol/incident.js';
import { SCENARIOS, type SimulateOptions, simulate, truth } from '../../simulator/simulate.js';

const run = { scenario: 'straggler', ranks: 8, steps: 30, seed: 1 };
const refused = (options: SimulateOptions, field: string, text: RegExp): void =>
  assert.throws(
    () => simulate(options),
    (error) =>
      error instanceof PicketError &&
      error.code === 'bad_input' &&
      error.place.field === field &&
      text.test(error.message),
    field,
  );

test('an unknown scenario is refused with the list of known ones', () => {
  refused({ ...run, scenario: 'slow' }, 'scenario', /"slow" is not known; use one of healthy, healthy-tokens-vary, /);
  refused({ ...run, scenario: 'toString' }, 'scenario', /not known/);
});

test('what makes no sense is refused by name', () => {
  refused({ ...run, ranks: 1 }, 'ranks', /./);
  refused({ ...run, steps: 0 }, 'steps', /./);
  refused({ ...run, seed: 0.5 }, 'seed', /./);
  refused({ ...run, strength: -1 }, 'strength', /./);
  refused({ ...run, rank: 8 }, 'rank', /8 does not exist; use 0 to 7/);
  refused({ ...run, onset: 30 }, 'onset', /after the last/);
  refused({ ...run, onset: 20, end: 20 }, 'end', /not after the onset/);
  refused({ ...run, stage: 1 }, 'stage', /no meaning in scenario "straggler"/);
  refused({ ...run, scenario: 'healthy', strength: 0.1 }, 'strength', /no meaning/);
  refused({ ...run, layout: { dp: 3 } }, 'layout', /must be 8 ranks/);
  refused({ ...run, layout: { tp: 3 } }, 'layout', /must be 8 ranks/);
  refused({ ...run, ranks: 16, layout: { tp: 16 } }, 'layout.tp', /spans hosts/);
  refused({ ...run, scenario: 'stage', layout: { pp: 1 } }, 'layout.pp', /at least 2 stages/);
  refused({ ...run, scenario: 'stage', stage: 4 }, 'stage', /use 0 to 3/);
  refused({ ...run, scenario: 'serving-healthy', microbatches: 2 }, 'microbatches', /no meaning/);
  refused({ ...run, scenario: 'serving-healthy', layout: { pp: 2 } }, 'layout.pp', /without pipeline/);
  refused({ ...run, detail: 'whole' }, 'detail', /no meaning/);
  refused({ ...run, scenario: 'serving-healthy', requestRate: 2 }, 'requestRate', /no meaning/);
  refused({ ...run, scenario: 'kv-recompute', requestRate: 2 }, 'requestRate', /no meaning/);
  refused({ ...run, scenario: 'comm-hang', end: 20 }, 'end', /no meaning/);
  refused({ ...run, hangSeconds: 3 }, 'hangSeconds', /no meaning/);
  refused({ ...run, scenario: 'rnic-flap' }, 'ranks', /no communicator spans hosts; use more ranks/);
  refused({ ...run, scenario: 'nvlink-stall', gpusPerHost: 1 }, 'ranks', /no communicator lies within a host/);
  refused({ ...run, scenario: 'expert-imbalance', layout: { ep: 3 } }, 'layout.ep', /3 does not divide dp, which is 8/);
  refused({ ...run, scenario: 'expert-imbalance', layout: { dp: 1, tp: 8 } }, 'layout.ep', /at least 2 ranks/);
  refused({ ...run, scenario: 'expert-imbalance', strength: 4 }, 'strength', /use at most 2.85/);
  refused({ ...run, scenario: 'sched-imbalance', layout: { tp: 8 } }, 'layout.dp', /at least 2 replicas/);
  refused({ ...run, scenario: 'serving-scheduled', requestLog: 'a', requestMix: 'mooncake' }, 'requestMix', /a log/);
  refused({ ...run, scenario: 'serving-straggler-host', ranks: 11 }, 'layout.tp', /even number/);
  refused({ ...run, speed: 2 } as SimulateOptions, 'options', /speed/);
});

test('every scenario runs on two hosts of four, and where it cannot run it says why', () => {
  for (const scenario of Object.keys(SCENARIOS)) {
    assert.ok([...simulate({ scenario, ranks: 8, gpusPerHost: 4, steps: 2, seed: 1 })].length > 0, scenario);
    for (const ranks of [2, 3, 5, 6, 12, 24]) {
      try {
        assert.ok([...simulate({ scenario, ranks, steps: 2, seed: 1 })].length > 0, `${scenario} ${ranks}`);
      } catch (error) {
        assert.ok(error instanceof PicketError && error.place.remedy, `${scenario} ${ranks}: ${error}`);
      }
    }
  }
});

test('every scenario is a fault, a look-alike or healthy', () => {
  for (const [name, { fault, lookalikeOf }] of Object.entries(SCENARIOS)) {
    assert.equal(name.startsWith('lookalike-'), lookalikeOf !== undefined, name);
    assert.ok(!(fault && lookalikeOf), name);
  }
  const kinds = new Set(Object.values(SCENARIOS).map(({ fault }) => fault?.kind));
  const alike = new Set(Object.values(SCENARIOS).map(({ lookalikeOf }) => lookalikeOf));
  for (const kind of INCIDENT_KINDS.filter((known) => known !== 'data_quality')) {
    assert.ok(kinds.has(kind), kind);
    assert.ok(alike.has(kind), `look-alike of ${kind}`);
  }
});

test('truth names what was asked for, and nothing in healthy runs', () => {
  assert.deepEqual(truth({ ...run, scenario: 'healthy' }), []);
  assert.deepEqual(truth({ ...run, rank: 3, onset: 7, end: 9, strength: 0.5, job: 'j' }), [
    {
      job: 'j',
      kind: 'straggler',
      cause: 'compute',
      subject: { ranks: [3] },
      onset_step: 7,
      end_step: 9,
      strength: 0.5,
    },
  ]);
  assert.deepEqual(truth({ ...run, scenario: 'stage' })[0]?.subject, { stage: 3 });
  assert.equal(truth({ ...run, scenario: 'stage', ranks: 6 })[0]?.subject.stage, 1);
  const serving = truth({ ...run, scenario: 'serving-straggler-host', ranks: 16, rank: 13 })[0];
  assert.deepEqual([serving?.job, serving?.subject], ['sim-serving-straggler-host-1', { ranks: [5] }]);
});

test('the seed chooses the rank, and all ranks are chosen by some seed', () => {
  const chosen = new Set(Array.from({ length: 60 }, (_, seed) => truth({ ...run, seed })[0]?.subject.ranks?.[0]));
  assert.equal(chosen.size, 8);
});
