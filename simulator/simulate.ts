import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { SampleRow } from '../protocol/sample.js';
import type { Fault, Truth } from './faults.js';
import type { SimulateOptions } from './options.js';
import { planOf } from './plan.js';
import { play, type SimulatedMessage } from './play.js';

export type { Truth } from './faults.js';
export type { SimulateOptions } from './options.js';
export type { SimulatedMessage } from './play.js';
export { SCENARIOS } from './scenarios/index.js';

/**
 * A fleet's phase rows as its collectors would send them: one message a host every few steps, of at most
 * MAX_MESSAGE_ROWS rows; times by each host's own clock. The same options give the same rows.
 * Throws `bad_input` before the first batch if an option makes no sense.
 */
export function simulate(options: SimulateOptions): Generator<PhaseBatch, void, undefined> {
  return phasesOf(play(planOf(options), false));
}

/** The counters and events that the hosts' agents would send: what NIC and NVLink say. In order of time by each host's clock. */
export function simulateSamples(options: SimulateOptions): Generator<SampleRow, void, undefined> {
  return samplesOf(play(planOf(options), true));
}

/** Both, each message when it is sent. */
export function simulateStream(options: SimulateOptions): Generator<SimulatedMessage, void, undefined> {
  return play(planOf(options), true);
}

/** What is really wrong in the run of these options: for tests and scoreboards only. */
export function truth(options: SimulateOptions): Truth[] {
  return planOf(options).jobs.flatMap(({ faults }) => faults.map((fault: Fault) => fault.truth));
}

function* phasesOf(messages: Iterable<SimulatedMessage>): Generator<PhaseBatch, void, undefined> {
  for (const message of messages) if (message.type === 'phases') yield message.batch;
}

function* samplesOf(messages: Iterable<SimulatedMessage>): Generator<SampleRow, void, undefined> {
  for (const message of messages) if (message.type === 'samples') yield* message.samples;
}
