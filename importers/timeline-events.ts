import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { TraceEvent } from './chrome-events.js';
import { type TimelineEvent, timelineRows } from './ndtimeline.js';

type Thread = Pick<TimelineEvent, 'stage' | 'tp'>;

/** NDTimeline's Chrome form: a process a data parallel rank, and threads named `PP rank 0, TP rank 0, compute`. */
export class TimelineEvents {
  readonly #events: { readonly thread: string; readonly event: Omit<TimelineEvent, keyof Thread> }[] = [];
  readonly #threads = new Map<string, Thread>();

  get length(): number {
    return this.#events.length;
  }

  add({ name = '', pid, tid, args = {} }: TraceEvent, startNs: bigint, durNs: bigint): void {
    const event = {
      optype: name,
      dp: Number(pid),
      step: integer(args.step),
      seq: integer(args.seq_id),
      microbatch: integer(args.mb_id),
      startNs: Number(startNs),
      durNs: Number(durNs),
    };
    this.#events.push({ thread: `${pid}/${tid}`, event });
  }

  /** Takes thread names; they may stand after the events. */
  metadata({ name, pid, tid, args }: TraceEvent): void {
    if (name !== 'thread_name') return;
    const [, stage, tp] = /PP rank (\d+), TP rank (\d+)/.exec(String(args?.name)) ?? [];
    if (stage !== undefined) this.#threads.set(`${pid}/${tid}`, { stage: Number(stage), tp: Number(tp) });
  }

  rows(job: string): PhaseBatch {
    const events = this.#events.map(({ thread, event }): TimelineEvent => {
      return { ...event, ...(this.#threads.get(thread) ?? { stage: 0, tp: 0 }) };
    });
    return timelineRows(job, events);
  }
}

const integer = (value: unknown): number => (Number.isSafeInteger(value) ? (value as number) : -1);
