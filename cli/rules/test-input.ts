import { dirname, resolve } from 'node:path';
import type { Finding } from '../../detector/detectors/finding.js';
import { newHolds } from '../../detector/incidents/holds.js';
import { follow, type IncidentBook, type Transition } from '../../detector/incidents/incident-book.js';
import { PartitionPipeline } from '../../detector/pipeline/partition-pipeline.js';
import type { RuleSet } from '../../detector/rules/rule-set.js';
import { importPaths } from '../../importers/index.js';
import { type Incident, newSubject } from '../../protocol/incident.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../../protocol/phase-batch.js';
import type { SampleRow } from '../../protocol/sample.js';
import { canonicalPhase, KIND, kindOfPhase, OPS } from '../../protocol/vocabulary.js';
import { type SimulateOptions, simulateStream } from '../../simulator/simulate.js';
import type { RuleTest } from './test-file.js';

/** Epoch ns at which the steps of a test begin. */
const START_NS = 1_770_000_000_000_000_000n;

/** What rules make of a test's input: every incident as it was in the end. */
export async function incidentsOf(test: RuleTest, set: RuleSet, testPath: string): Promise<Incident[]> {
  if (test.findings) return lastOf(followFindings(test.findings, set));
  const pipeline = new PartitionPipeline({ current: set });
  const transitions: Transition[] = [];
  let offset = 0n;
  for await (const batch of batchesOf(test, testPath, (samples) => pipeline.addSamples(samples)))
    transitions.push(...pipeline.add(batch, { place: '', offset: offset++, again: false }));
  transitions.push(...pipeline.flush());
  const incidents = lastOf(transitions, pipeline.openIncidents());
  const job = test.trace?.job;
  return job === undefined ? incidents : incidents.filter(({ subject }) => subject.job === job);
}

function lastOf(transitions: readonly Transition[], open: readonly Incident[] = []): Incident[] {
  return [...new Map([...transitions.map(({ after }) => after), ...open].map((each) => [each.id, each])).values()];
}

function batchesOf(
  { trace, simulate: options, series }: RuleTest,
  testPath: string,
  take: (samples: readonly SampleRow[]) => void,
): AsyncIterable<PhaseBatch> | Iterable<PhaseBatch> {
  if (trace)
    return importPaths([resolve(dirname(testPath), trace.path)], {
      ...{ scenario: trace.scenario, onSample: (sample) => take([sample]) },
    });
  if (options) return simulatedBatches(options as SimulateOptions, take);
  return seriesBatches(series as NonNullable<typeof series>);
}

function* simulatedBatches(
  options: SimulateOptions,
  take: (samples: readonly SampleRow[]) => void,
): Generator<PhaseBatch> {
  for (const message of simulateStream(options))
    if (message.type === 'phases') yield message.batch;
    else take(message.samples);
}

/** One message a step; phases of a rank follow each other as they are listed. */
function* seriesBatches({
  job,
  engine,
  model,
  ranks,
  hosts,
  stages,
  period,
  phases,
}: NonNullable<RuleTest['series']>): Generator<PhaseBatch> {
  const builder = new PhaseBatchBuilder(
    newJobMeta(job, {
      ...(engine !== undefined && { engine }),
      ...(model !== undefined && { model }),
      ranks: Array.from({ length: ranks }, (_, rank) => ({
        rank,
        ...(hosts && { host: hosts[rank % hosts.length] as string }),
        ...(stages && { stage: stages[rank % stages.length] as number }),
      })),
    }),
  );
  const steps = Math.max(...phases.map(({ values }) => values.length));
  let start = START_NS;
  for (let step = 0; step < steps; step++) {
    let longest = 0;
    for (let rank = 0; rank < ranks; rank++) {
      let at = 0;
      for (const { phase, values } of phasesOf(phases, rank)) {
        const ms = values[step] ?? Number.NaN;
        if (Number.isNaN(ms)) continue;
        const dur_ns = Math.round(ms * 1e6);
        const name = canonicalPhase(phase);
        const op = (OPS as readonly string[]).includes(name) ? { op: name, seq: step } : {};
        builder.push({
          rank,
          step,
          phase: name,
          kind: KIND[kindOfPhase(name)],
          start_ns: start + BigInt(at),
          dur_ns,
          ...op,
        });
        at += dur_ns;
      }
      longest = Math.max(longest, at);
    }
    start += BigInt(period === undefined ? longest : Math.round(period * 1e6));
    if (builder.length > 0) yield builder.take();
  }
}

/** The series of a rank: one of its own comes before that of all ranks. */
function phasesOf(phases: NonNullable<RuleTest['series']>['phases'], rank: number): typeof phases {
  const own = new Set(phases.filter((each) => each.rank === rank).map(({ phase }) => phase));
  return phases.filter((each) => each.rank === rank || (each.rank === undefined && !own.has(each.phase)));
}

/** Findings as a detector would give them, past the detectors. */
function followFindings(
  { job, engine, model, interval, series }: NonNullable<RuleTest['findings']>,
  set: RuleSet,
): Transition[] {
  const policy = set.forJob(
    newJobMeta(job, { ...(engine !== undefined && { engine }), ...(model !== undefined && { model }) }),
  );
  const [book, holds] = [new Map() as IncidentBook, newHolds()];
  const onsets = series.map(() => -1);
  const timeOf = (step: number): bigint => START_NS + BigInt(Math.round(step * interval * 1e6));
  const steps = Math.max(...series.map(({ step_fraction }) => step_fraction.length));
  const transitions: Transition[] = [];
  for (let step = 0; step < steps; step++) {
    const findings = series.flatMap((each, i): Finding[] => {
      const fraction = each.step_fraction[step] ?? Number.NaN;
      if (Number.isNaN(fraction)) onsets[i] = -1;
      else if (onsets[i] === -1) onsets[i] = step;
      const onset = onsets[i] as number;
      return onset < 0 ? [] : [findingOf(each, i, fraction, interval, { step: onset, ns: timeOf(onset) }, job)];
    });
    transitions.push(...follow(book, findings, step, timeOf(step), policy, holds));
  }
  return [...transitions, ...[...book.values()].map((after) => ({ before: after, after }))];
}

function findingOf(
  { kind, subject, cause }: NonNullable<RuleTest['findings']>['series'][number],
  index: number,
  fraction: number,
  interval: number,
  onset: { step: number; ns: bigint },
  job: string,
): Finding {
  const facts = Object.fromEntries(Object.entries(subject).filter(([, value]) => value !== undefined));
  return {
    ...{ kind, key: `test=${index}`, subject: newSubject(job, '1', facts), cause, summary: `${kind} of the test` },
    ...{ onsetStep: onset.step, onsetNs: onset.ns, confidence: 1, evidence: {}, runnerUp: null },
    cost: { ms_per_step: fraction * interval, step_fraction: fraction, gpu_seconds: 0 },
  };
}
