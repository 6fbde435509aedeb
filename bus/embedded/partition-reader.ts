import type { BusRecord } from '../bus.js';
import type { BusLog } from '../log.js';
import { decodeFrame } from './frame.js';
import { SegmentReader } from './segment-reader.js';
import { segmentBases } from './segments.js';

/** Reads one partition from an offset on, across its segments, while others write and retention removes. */
export class PartitionReader {
  readonly #dir: string;
  readonly #log: BusLog;
  #segment: SegmentReader | undefined;
  #next: bigint;
  #damage = '';
  /** Times the wanted offset was not in the log, so that reading went on at the earliest that is. */
  resets = 0;

  constructor(dir: string, start: bigint, log: BusLog) {
    this.#dir = dir;
    this.#next = start;
    this.#log = log;
  }

  /** The offset of the next record to come. */
  get next(): bigint {
    return this.#next;
  }

  /** The next records, about a mebibyte of them; none at the end of the log. */
  async read(): Promise<BusRecord[]> {
    let sealed = false;
    for (;;) {
      this.#segment ??= await this.#open();
      if (!this.#segment) return [];
      const { buffer, starts, then } = await this.#segment.read();
      const records = starts.map((start) => decodeFrame(buffer, start)).filter(({ offset }) => offset >= this.#next);
      if (records.length > 0) {
        this.#next = (records.at(-1) as BusRecord).offset + 1n;
        return records;
      }
      if (then === 'more') continue;
      const following = await this.#following(this.#segment);
      if (following === undefined) {
        if (then === 'bad') this.#tellDamage(this.#segment);
        const beyondTheEnd = then === 'end' && this.#segment.next < this.#next;
        if (!beyondTheEnd) return [];
        await this.close();
        this.#reset((await segmentBases(this.#dir))[0] ?? 0n);
      } else if (!sealed) {
        // Only now is the segment known to grow no more: what came between the read and this look must not be missed.
        sealed = true;
      } else {
        await this.#leaveFor(following, then);
        sealed = false;
      }
    }
  }

  async close(): Promise<void> {
    const segment = this.#segment;
    this.#segment = undefined;
    await segment?.close();
  }

  /** The segment that holds the next offset; the earliest one where none does. Undefined in an empty log. */
  async #open(): Promise<SegmentReader | undefined> {
    const bases = await segmentBases(this.#dir);
    const base = bases.findLast((candidate) => candidate <= this.#next) ?? bases[0];
    if (base === undefined && this.#next > 0n) this.#reset(0n);
    if (base === undefined) return undefined;
    if (base > this.#next) this.#reset(base);
    return openUnlessRemoved(this.#dir, base);
  }

  async #following(segment: SegmentReader): Promise<bigint | undefined> {
    return (await segmentBases(this.#dir)).find((base) => base > segment.base);
  }

  async #leaveFor(base: bigint, then: 'end' | 'partial' | 'bad'): Promise<void> {
    const { path, position } = this.#segment as SegmentReader;
    await this.close();
    if (then !== 'end') this.#log('error', `${path}: damaged at byte ${position}; reading goes on in the next file`);
    if (base > this.#next) this.#reset(base);
    this.#segment = await openUnlessRemoved(this.#dir, base);
  }

  /** Once: it is looked at again and again until a writer goes on behind it. */
  #tellDamage({ path, position }: SegmentReader): void {
    const place = `${path}: damaged at byte ${position}`;
    if (place !== this.#damage)
      this.#log('error', `${place}; nothing behind it is read, and the next writer cuts it off`);
    this.#damage = place;
  }

  #reset(offset: bigint): void {
    this.#log('warn', `${this.#dir}: offset ${this.#next} is not in the log; reading goes on at ${offset}`);
    this.#next = offset;
    this.resets++;
  }
}

/** Undefined where retention was quicker; the caller looks again. */
async function openUnlessRemoved(dir: string, base: bigint): Promise<SegmentReader | undefined> {
  try {
    return await SegmentReader.open(dir, base);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
