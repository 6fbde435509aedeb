import { KIND_NAMES } from '../protocol/vocabulary.js';
import type { PhaseKey } from './phase-table.js';

/** What events of one segment are shown under. */
export interface TraceSource {
  readonly name: string;
  /** Grows as phases are registered. */
  readonly keys: readonly PhaseKey[];
}

const MAX_SOURCES = 65_536;
/** Host threads are told from lanes by their sign. */
const THREAD_IDS_FROM = 4096;
const CHUNK_EVENTS = 2000;

/** The newest phases of all segments in a ring of fixed memory, to look at in Perfetto. Times are epoch times. */
export class TraceRing {
  readonly #epochBase: bigint;
  readonly #capacity: number;
  readonly #sources: Uint16Array;
  readonly #keys: Uint16Array;
  readonly #lanes: Int32Array;
  readonly #starts: Float64Array;
  readonly #durations: Float64Array;
  readonly #steps: Float64Array;
  readonly #names = new Map<number, TraceSource>();
  #nextSource = 0;
  #next = 0;
  #count = 0;

  constructor(capacity: number, epochBase: bigint) {
    this.#capacity = capacity;
    this.#epochBase = epochBase;
    this.#sources = new Uint16Array(capacity);
    this.#keys = new Uint16Array(capacity);
    this.#lanes = new Int32Array(capacity);
    this.#starts = new Float64Array(capacity);
    this.#durations = new Float64Array(capacity);
    this.#steps = new Float64Array(capacity);
  }

  /** A number for a segment's events. The names of segments without events in the ring are forgotten. */
  addSource(source: TraceSource, inUse: ReadonlySet<number>): number {
    const shown = new Set(this.#sources.subarray(0, this.#count));
    for (const number of this.#names.keys()) if (!shown.has(number) && !inUse.has(number)) this.#names.delete(number);
    const number = this.#nextSource++ % MAX_SOURCES;
    this.#names.set(number, source);
    return number;
  }

  /** @param lane of the segment; of a host thread `hostLane` of its id */
  add(source: number, key: number, lane: number, start: number, duration: number, step: number): void {
    const at = this.#next;
    this.#sources[at] = source;
    this.#keys[at] = key;
    this.#lanes[at] = lane;
    this.#starts[at] = start;
    this.#durations[at] = duration;
    this.#steps[at] = step;
    this.#next = at + 1 === this.#capacity ? 0 : at + 1;
    if (this.#count < this.#capacity) this.#count++;
  }

  /** Chrome JSON of the phases that ended after `since`, in pieces. */
  *json(since: number): Generator<string> {
    const base = BigInt(Math.floor(since));
    yield `{"displayTimeUnit":"ns","baseTimeNanoseconds":${this.#epochBase + base},"traceEvents":[\n`;
    const lanes = new Map<string, [number, number]>();
    let events: string[] = [];
    // A phase that comes while the answer is being read may take the place of an old one in it.
    const [first, count] = [this.#next - this.#count + this.#capacity, this.#count];
    for (let n = 0; n < count; n++) {
      const at = (first + n) % this.#capacity;
      if ((this.#starts[at] as number) + (this.#durations[at] as number) < since) continue;
      lanes.set(`${this.#sources[at]} ${this.#lanes[at]}`, [this.#sources[at] as number, this.#lanes[at] as number]);
      events.push(this.#event(at, Number(base)));
      if (events.length < CHUNK_EVENTS) continue;
      yield events.join('');
      events = [];
    }
    yield `${events.join('')}${this.#metadata(lanes.values())}\n]}\n`;
  }

  #event(at: number, base: number): string {
    const source = this.#sources[at] as number;
    const { name = '', kind = 0, op = '', group = '' } = this.#names.get(source)?.keys[this.#keys[at] as number] ?? {};
    const args = { step: this.#steps[at], ...(op && { op }), ...(group && { group }) };
    return `${JSON.stringify({
      ph: 'X',
      name,
      cat: KIND_NAMES[kind],
      pid: source,
      tid: threadId(this.#lanes[at] as number),
      ts: ((this.#starts[at] as number) - base) / 1000,
      dur: (this.#durations[at] as number) / 1000,
      args,
    })},\n`;
  }

  #metadata(lanes: Iterable<[number, number]>): string {
    const events: object[] = [];
    const named = new Set<number>();
    for (const [pid, lane] of lanes) {
      const name = lane < 0 ? `host thread ${-1 - lane}` : `lane ${lane}`;
      events.push({ ph: 'M', name: 'thread_name', pid, tid: threadId(lane), args: { name } });
      if (named.has(pid)) continue;
      named.add(pid);
      events.push({ ph: 'M', name: 'process_name', pid, args: { name: this.#names.get(pid)?.name ?? '' } });
    }
    // Always one event, so that the comma before it is right.
    events.push({ ph: 'M', name: 'trace_end', pid: 0, args: {} });
    return events.map((event) => JSON.stringify(event)).join(',\n');
  }
}

/** The lane that stands for a host thread. */
export const hostLane = (thread: number): number => -1 - thread;

const threadId = (lane: number): number => (lane < 0 ? THREAD_IDS_FROM - 1 - lane : lane);
