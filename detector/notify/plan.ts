import { createHash } from 'node:crypto';
import type { Incident } from '../../protocol/incident.js';
import type { DueGroup, GroupPlan, PendingChange, PlannedMessage } from '../store/outbox.js';
import type { GroupTiming } from './route.js';

/** Incidents of one message: more of them make further ones. */
export const MAX_ALERTS = 200;

/** Until when (epoch ms) nobody is to be told that an incident fires; undefined: now is no such time. */
export type MutedUntil = (incident: Incident) => number | undefined;

/** What to do with a group at `nowMs`: pure, so that the store can carry it out whole. */
export function planGroup(
  receiver: string,
  group: DueGroup,
  timing: GroupTiming,
  mutedUntil: MutedUntil,
  nowMs: number,
): GroupPlan {
  return new Planner(receiver, group, timing, mutedUntil, nowMs).plan();
}

const NOTHING: Omit<GroupPlan, 'dueMs'> = { messages: [], held: [], superseded: [] };

/** Changes of one incident. */
interface News {
  readonly changes: readonly PendingChange[];
  /** Only what came of them is told. */
  readonly whole: boolean;
}

class Planner {
  /** When the first of the times comes at which what is muted now may be told. */
  #unmutedMs = Number.POSITIVE_INFINITY;

  constructor(
    readonly receiver: string,
    readonly group: DueGroup,
    readonly timing: GroupTiming,
    readonly mutedUntil: MutedUntil,
    readonly nowMs: number,
  ) {}

  plan(): GroupPlan {
    const { pending, flushedMs } = this.group;
    const [first] = pending;
    if (!first) return this.#reminder();
    const { waitMs, intervalMs } = this.timing;
    const readyMs = Math.max(first.createdMs + waitMs, (flushedMs ?? Number.NEGATIVE_INFINITY) + intervalMs);
    if (this.nowMs < readyMs) return { ...NOTHING, dueMs: readyMs };
    const current = pending.filter(({ superseded }) => !superseded);
    const { held, news } = this.#sorted(current);
    const messages = waitMs === 0 && intervalMs === 0 ? this.#oneByOne(news) : this.#together(news);
    const told = messages.length > 0 ? { ...NOTHING, messages, dueMs: this.#repeatAtMs(this.nowMs) } : this.#reminder();
    return {
      ...{ ...told, held: held.flat().map(seqOf) },
      superseded: pending.filter(({ superseded }) => superseded).map(seqOf),
      dueMs: earliest(told.dueMs, this.#unmutedMs),
    };
  }

  /** By incident: changes that must wait, and those that may be told. What is over is told whoever asked for silence. */
  #sorted(changes: readonly PendingChange[]): { held: PendingChange[][]; news: News[] } {
    const byIncident = new Map<string, PendingChange[]>();
    for (const change of changes)
      byIncident.set(change.incident.id, [...(byIncident.get(change.incident.id) ?? []), change]);
    const [held, news]: [PendingChange[][], News[]] = [[], []];
    for (const each of byIncident.values()) {
      const { event, incident } = each.at(-1) as PendingChange;
      const muted = this.#isMuted(incident);
      if (muted && event !== 'resolved') held.push(each);
      else news.push({ changes: each, whole: muted || each.some((change) => change.held) });
    }
    return { held, news };
  }

  #isMuted(incident: Incident): boolean {
    const untilMs = this.mutedUntil(incident);
    if (untilMs !== undefined) this.#unmutedMs = Math.min(this.#unmutedMs, untilMs);
    return untilMs !== undefined;
  }

  /** A message for every change, in order; of what had to wait, as it is now. */
  #oneByOne(news: readonly News[]): PlannedMessage[] {
    return news
      .flatMap(({ changes, whole }) => (whole ? [changes] : changes.map((change) => [change])))
      .sort((a, b) => (a[0] as PendingChange).seq - (b[0] as PendingChange).seq)
      .map((changes) => this.#message(changes));
  }

  #together(news: readonly News[]): PlannedMessage[] {
    const messages: PlannedMessage[] = [];
    for (let i = 0; i < news.length; i += MAX_ALERTS) {
      const some = news.slice(i, i + MAX_ALERTS).flatMap(({ changes }) => changes);
      messages.push(this.#message(some.sort((a, b) => a.seq - b.seq)));
    }
    return messages;
  }

  /** With what else fires in the group, as far as there is room. */
  #message(changes: readonly PendingChange[]): PlannedMessage {
    const named = new Set(changes.map(({ incident }) => incident.id));
    const others = this.group.told.filter(
      ({ incident }) => !named.has(incident.id) && this.mutedUntil(incident) === undefined,
    );
    const also = others.slice(0, Math.max(0, MAX_ALERTS - named.size));
    const id = changes.length === 1 ? (changes[0] as PendingChange).id : idOf(changes.map((change) => change.id));
    return { id, changes: changes.map(seqOf), also: also.map(seqOf), truncated: others.length - also.length };
  }

  #reminder(): GroupPlan {
    const { told, flushedMs, waiting, key } = this.group;
    const repeatAtMs = this.#repeatAtMs(flushedMs ?? this.nowMs);
    if (repeatAtMs === undefined || told.length === 0) return { ...NOTHING, dueMs: undefined };
    if (this.nowMs < repeatAtMs) return { ...NOTHING, dueMs: repeatAtMs };
    const firing = told.filter(({ incident }) => !this.#isMuted(incident));
    const dueMs = this.#repeatAtMs(this.nowMs);
    if (waiting || firing.length === 0) return { ...NOTHING, dueMs: earliest(dueMs, this.#unmutedMs) };
    const also = firing.slice(0, MAX_ALERTS).map(seqOf);
    const id = idOf([this.receiver, key, 'reminder', String(flushedMs)]);
    return { ...NOTHING, messages: [{ id, changes: [], also, truncated: firing.length - also.length }], dueMs };
  }

  #repeatAtMs(sinceMs: number): number | undefined {
    return this.timing.repeatMs === 0 ? undefined : sinceMs + this.timing.repeatMs;
  }
}

function earliest(...times: readonly (number | undefined)[]): number | undefined {
  const first = Math.min(...times.map((at) => at ?? Number.POSITIVE_INFINITY));
  return Number.isFinite(first) ? first : undefined;
}

const seqOf = ({ seq }: { readonly seq: number }): number => seq;

const idOf = (facts: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 32);
