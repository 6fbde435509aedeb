import { Int64Column } from '../../protocol/int64.js';
import type { JobBatch } from './step-rows.js';
import { type BySlot, type PortTraffic, SERVING_FACTS, type ServingFact } from './step-view.js';

/** What a step's rows say of the work itself, of the engine and of the ports, while they are read. */
export interface ServingTotals {
  facts: Record<ServingFact, BySlot>;
  requests: Map<string, number>;
  launches: BySlot;
  /** GPU time of compute phases where rows say, and time of communication: of the GPU where rows say. */
  busy: BySlot;
  comm: BySlot;
  /** What the row of the whole step says of it. */
  whole: { launches: BySlot; busy: BySlot };
  ports: Map<string, PortTraffic>;
}

/** Most steps say nothing of most facts: they share one array, and the first value known gets its own. */
let nothing: BySlot = new Float64Array(0);
let noFacts = {} as Record<ServingFact, BySlot>;

export function newServingTotals(n: number): ServingTotals {
  if (nothing.length !== n) {
    nothing = new Float64Array(n).fill(Number.NaN);
    noFacts = Object.fromEntries(SERVING_FACTS.map((name) => [name, nothing])) as typeof noFacts;
  }
  const nothingYet = { launches: nothing, busy: nothing, comm: nothing };
  const whole = { launches: nothing, busy: nothing };
  return { facts: { ...noFacts }, requests: new Map(), ...nothingYet, whole, ports: new Map() };
}

const own = (values: BySlot): BySlot => (values === nothing ? values.slice() : values);

/** Every row of a step repeats what the step works on: the largest known value counts. */
export function addServing(
  totals: ServingTotals,
  { batch: { columns }, facts }: JobBatch,
  i: number,
  slot: number,
): void {
  for (const { name, column } of facts) {
    const value = column instanceof Int64Column ? column.number(i) : (column[i] as number);
    if (value >= 0) noteFact(totals, name, slot, value);
  }
  const request = columns.request.values[columns.request.indices[i] as number];
  if (!request) return;
  const tokens = Math.max(0, columns.prefill_tokens[i] as number);
  totals.requests.set(request, Math.max(totals.requests.get(request) ?? 0, tokens));
}

function noteFact(totals: ServingTotals, name: ServingFact, slot: number, value: number): void {
  if (value <= (totals.facts[name][slot] as number)) return;
  totals.facts[name] = own(totals.facts[name]);
  totals.facts[name][slot] = value;
}

export function addLaunches(
  totals: ServingTotals,
  { batch: { columns } }: JobBatch,
  i: number,
  slot: number,
  busy: number,
): void {
  const launches = columns.launches[i] as number;
  if (launches >= 0) {
    totals.launches = own(totals.launches);
    totals.launches[slot] = (totals.launches[slot] || 0) + launches;
  }
  if (busy >= 0) {
    totals.busy = own(totals.busy);
    totals.busy[slot] = (totals.busy[slot] || 0) + busy;
  }
}

export function addCommBusy(totals: ServingTotals, { batch: { columns } }: JobBatch, i: number, slot: number): void {
  const busy = columns.busy_ns.number(i);
  totals.comm = own(totals.comm);
  totals.comm[slot] = (totals.comm[slot] || 0) + (busy >= 0 ? busy : columns.dur_ns.number(i));
}

/** The row of a whole step says it of all that it launched, also between the phases that have rows. */
export function addWhole({ whole }: ServingTotals, { batch: { columns } }: JobBatch, i: number, slot: number): void {
  const said = { launches: columns.launches[i] as number, busy: columns.busy_ns.number(i) };
  for (const name of ['launches', 'busy'] as const) {
    if (said[name] < 0) continue;
    whole[name] = own(whole[name]);
    whole[name][slot] = said[name];
  }
}

/** By slot: GPU time in all phases; NaN where neither the step nor its compute phases say. */
export const busyOf = ({ busy, comm, whole }: ServingTotals): BySlot =>
  preferred(whole.busy, busy === nothing || comm === nothing ? busy : busy.map((time, i) => time + (comm[i] || 0)));

export const launchesOf = ({ launches, whole }: ServingTotals): BySlot => preferred(whole.launches, launches);

const preferred = (first: BySlot, second: BySlot): BySlot =>
  first === nothing ? second : first.map((value, slot) => (Number.isNaN(value) ? (second[slot] as number) : value));

export function addPort(
  totals: ServingTotals,
  { batch: { columns } }: JobBatch,
  i: number,
  host: string,
  time: number,
): void {
  const nic = columns.nic.values[columns.nic.indices[i] as number] ?? '';
  const link = columns.link.values[columns.link.indices[i] as number] ?? '';
  if (!nic && !link) return;
  const key = `${host}/${nic}/${link}`;
  let port = totals.ports.get(key);
  if (!port) totals.ports.set(key, (port = { host, nic, link, bytes: 0, time: 0 }));
  port.bytes += Math.max(0, columns.bytes.number(i));
  port.time += time;
}
