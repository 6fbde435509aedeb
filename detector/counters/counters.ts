import type { SampleRow } from '../../protocol/sample.js';
import { meaningOf, type Role } from '../../protocol/sample-meaning.js';

/**
 * What the counters and events of a job's hosts have said. Counters are totals since somebody's boot, so that only what
 * they grow by counts, and what they stood at when first seen is nothing. Plain data: it goes into snapshots.
 */
export interface Counters {
  /** Port, GPU, link or rank by `host|nic|gpu|link|rank`. */
  sources: Map<string, Source>;
  /** The same by host. */
  byHost: Map<string, Source[]>;
  /** Keys of the sources whose port has been down. */
  flapped: Set<string>;
  /** Keys of the sources that send pause frames. */
  pausing: Set<string>;
  /** Series of all sources. */
  series: number;
  counts: SampleCounts;
  /** Samples of a time that no step has come to yet; latest first once `inOrder`. */
  waiting: SampleRow[];
  inOrder: boolean;
  /** Errors that ranks reported, oldest first. */
  errors: ReportedError[];
}

export interface SampleCounts {
  taken: number;
  /** Older than the newest of their series: a message that came twice, or out of order. */
  late: number;
  /** Of a name that no detector asks for. */
  unused: number;
  /** Not followed: there are MAX_SERIES already. */
  overflow: number;
}

export interface Source {
  host: string;
  nic: string;
  gpu: string;
  link: string;
  rank: number;
  /** By the sample's name. */
  series: Map<string, Series>;
  outages: Outage[];
}

export interface Series {
  role: Role;
  /** Milliseconds of the epoch, by the host's clock. */
  atMs: number;
  /** Of a counter as it stands, not scaled; of a gauge in the role's unit. */
  value: number;
  /** From, to (milliseconds) and by how much (in the role's unit) a counter grew, oldest first; where it did not, nothing. */
  grown: number[];
}

/** A port was down. */
export interface Outage {
  downMs: number;
  /** NaN: it is down. */
  upMs: number;
  /** Only a counter says so: it was down some time in between. */
  within: boolean;
  /** What the port carried before, bytes a second; NaN unknown. */
  usualRate: number;
}

export interface ReportedError {
  rank: number;
  host: string;
  atMs: number;
}

/** A thousand hosts of eight GPUs and NICs, eight counters each, twice over. */
const MAX_SERIES = 262_144;
/** About 50 MB. */
const MAX_WAITING = 200_000;
const MAX_GROWTHS = 16;
const MAX_OUTAGES = 32;
const MAX_ERRORS = 1024;
/** A sample that is older than its series by more than messages are ever late means that the host's clock was set back. */
const LATENESS_MS = 300_000;
/** An event and the counter that counted it are one outage. */
const SAME_OUTAGE_MS = 1000;
const WRAP_32 = 2 ** 32;

export const newCounters = (): Counters => ({
  sources: new Map(),
  byHost: new Map(),
  flapped: new Set(),
  pausing: new Set(),
  series: 0,
  counts: { taken: 0, late: 0, unused: 0, overflow: 0 },
  waiting: [],
  inOrder: true,
  errors: [],
});

/** Takes note of a sample, whenever it comes: `advance` puts it into the order of time in which steps see it. */
export function addSample(counters: Counters, sample: SampleRow): void {
  counters.waiting.push(sample);
  counters.inOrder = false;
  if (counters.waiting.length > MAX_WAITING) {
    putInOrder(counters);
    // No step comes to their time, or only late: better early than without bound.
    for (const early of counters.waiting.splice(MAX_WAITING >> 1).reverse()) take(counters, early);
  }
}

/** Lets time come to `ns`: what was sampled until then counts from now on. */
export function advance(counters: Counters, ns: bigint): void {
  const { waiting } = counters;
  if (waiting.length === 0) return;
  putInOrder(counters);
  while (waiting.length > 0 && (waiting.at(-1) as SampleRow).time_ns <= ns) take(counters, waiting.pop() as SampleRow);
}

function putInOrder(counters: Counters): void {
  if (!counters.inOrder) counters.waiting.sort((a, b) => (a.time_ns > b.time_ns ? -1 : a.time_ns < b.time_ns ? 1 : 0));
  counters.inOrder = true;
}

function take(counters: Counters, sample: SampleRow): void {
  const meaning = meaningOf(sample);
  const { counts } = counters;
  if (!meaning || !Number.isFinite(sample.value)) {
    counts.unused++;
    return;
  }
  const atMs = Number(sample.time_ns) / 1e6;
  const { key, source } = sourceOf(counters, sample);
  const { role, scale } = meaning;
  let series = source.series.get(sample.name);
  if (!series) {
    if (counters.series >= MAX_SERIES) {
      counts.overflow++;
      return;
    }
    counters.series++;
    source.series.set(sample.name, (series = { role, atMs: Number.NaN, value: Number.NaN, grown: [] }));
  }
  if (atMs <= series.atMs && atMs > series.atMs - LATENESS_MS && !isEvent(role)) {
    counts.late++;
    return;
  }
  counts.taken++;
  if (sample.cumulative) count(counters, key, source, series, atMs, sample.value, scale);
  else {
    Object.assign(series, { atMs, value: sample.value * scale });
    note(counters, key, source, role, atMs, sample.value);
  }
}

const isEvent = (role: Role): boolean => role === 'port_down' || role === 'port_up' || role === 'error';

function sourceOf(
  { sources, byHost }: Counters,
  { host, nic, gpu, link, rank }: SampleRow,
): { key: string; source: Source } {
  const key = `${host}|${nic}|${gpu}|${link}|${rank}`;
  let source = sources.get(key);
  if (!source) {
    source = { host, nic, gpu, link, rank, series: new Map(), outages: [] };
    sources.set(key, source);
    const ofHost = byHost.get(host);
    if (ofHost) ofHost.push(source);
    else byHost.set(host, [source]);
  }
  return { key, source };
}

/** Takes in how a counter stands. */
function count(
  counters: Counters,
  key: string,
  source: Source,
  series: Series,
  atMs: number,
  value: number,
  scale: number,
): void {
  const before = series.atMs;
  // A clock that was set back tells no time between the two.
  const by = atMs > before ? growth(series.value, value) : 0;
  Object.assign(series, { atMs, value });
  if (!(by > 0)) return;
  series.grown.push(before, atMs, by * scale);
  if (series.grown.length > 3 * MAX_GROWTHS) mergeOldest(series.grown);
  if (series.role === 'tx_pause') counters.pausing.add(key);
  if (series.role === 'link_downed') countOutages(counters, key, source, before, atMs, by);
}

/** A counter that falls has wrapped around 32 bits or begun anew; what it then grew by is not known and counts nothing. */
function growth(before: number, now: number): number {
  if (now >= before) return now - before;
  const wrapped = now + WRAP_32 - before;
  return before < WRAP_32 && wrapped < WRAP_32 / 4 ? wrapped : 0;
}

function mergeOldest(grown: number[]): void {
  const [from, , by, , to, andBy] = grown as [number, number, number, number, number, number];
  grown.splice(0, 6, from, to, by + andBy);
}

function note(counters: Counters, key: string, source: Source, role: Role, atMs: number, value: number): void {
  if (role === 'error') {
    counters.errors.push({ rank: source.rank, host: source.host, atMs });
    counters.errors.sort((a, b) => a.atMs - b.atMs);
    if (counters.errors.length > MAX_ERRORS) counters.errors.shift();
  } else if (role === 'port_down' || (role === 'port_state' && value === 0)) goesDown(counters, key, source, atMs);
  else if (role === 'port_up' || role === 'port_state') comesUp(source, atMs);
}

function goesDown(counters: Counters, key: string, source: Source, atMs: number): void {
  const { outages } = source;
  const last = outages.at(-1);
  if (last && Number.isNaN(last.upMs)) return;
  // The counter was read before the event came.
  if (last?.within && atMs > last.downMs - SAME_OUTAGE_MS && atMs < last.upMs + SAME_OUTAGE_MS) outages.pop();
  outages.push({ downMs: atMs, upMs: Number.NaN, within: false, usualRate: carried(source) });
  if (outages.length > MAX_OUTAGES) outages.shift();
  counters.flapped.add(key);
}

function comesUp({ outages }: Source, atMs: number): void {
  const last = outages.at(-1);
  if (last && Number.isNaN(last.upMs) && atMs >= last.downMs) last.upMs = atMs;
}

/** A counter of outages grew: those that no event told of were some time since it was last read. */
function countOutages(counters: Counters, key: string, source: Source, fromMs: number, toMs: number, by: number): void {
  const { outages } = source;
  const told = outages.filter(({ downMs }) => downMs > fromMs - SAME_OUTAGE_MS && downMs < toMs + SAME_OUTAGE_MS);
  const usualRate = carried(source);
  for (let i = told.length; i < Math.min(by, MAX_OUTAGES); i++)
    outages.push({ downMs: fromMs, upMs: toMs, within: true, usualRate });
  outages.sort((a, b) => a.downMs - b.downMs).splice(0, outages.length - MAX_OUTAGES);
  counters.flapped.add(key);
}

/** By how much the counters of a role have grown since a time (milliseconds of the epoch); 0 where there are none. */
export function grownSince(source: Source, role: Role, sinceMs: number): number {
  let sum = 0;
  for (const series of source.series.values()) {
    if (series.role !== role) continue;
    for (let i = 0; i < series.grown.length; i += 3) {
      const [from, to, by] = [series.grown[i], series.grown[i + 1], series.grown[i + 2]] as [number, number, number];
      if (to > sinceMs) sum += by * Math.min(1, (to - sinceMs) / (to - from));
    }
  }
  return sum;
}

/** When the counters of a role were last read, milliseconds of the epoch; NaN: there are none. */
function readAt(source: Source, role: Role): number {
  let at = Number.NaN;
  for (const series of source.series.values()) if (series.role === role && !(series.atMs <= at)) at = series.atMs;
  return at;
}

/** Growth a second of the counters of a role since a time (by default all that is remembered); NaN where they say nothing. */
export function rate(source: Source, role: Role, sinceMs = Number.NEGATIVE_INFINITY): number {
  let first = Number.POSITIVE_INFINITY;
  for (const series of source.series.values())
    if (series.role === role && series.grown.length > 0) first = Math.min(first, series.grown[0] as number);
  const from = Math.max(first, sinceMs);
  const seconds = (readAt(source, role) - (Number.isFinite(from) ? from : Number.NaN)) / 1000;
  return seconds > 0 ? grownSince(source, role, from) / seconds : Number.NaN;
}

/** Bytes a second that a port sends and receives; NaN unknown. */
export function carried(source: Source, sinceMs?: number): number {
  const [sent, received] = [rate(source, 'tx_bytes', sinceMs), rate(source, 'rx_bytes', sinceMs)];
  return Number.isNaN(sent) ? received : sent + (received || 0);
}

/** The latest value of a gauge; NaN: there is none. */
export function gauge(source: Source, role: Role): number {
  for (const series of source.series.values()) if (series.role === role) return series.value;
  return Number.NaN;
}
