import type { Incident } from '../../protocol/incident.js';

export type NotificationEvent = 'opened' | 'escalated' | 'resolved';

export type LabelSet = Readonly<Record<string, string>>;

/** Alerts that are told together. */
export interface AlertGroup {
  /** Constant text that identifies it at its receiver. */
  readonly key: string;
  /** Which route's timing holds for it. */
  readonly route: string;
  readonly labels: LabelSet;
}

/** A change of an incident that a receiver is to hear of. */
export interface NewNotification {
  /** Constant for one change and receiver: what is written or sent twice has one id. */
  readonly id: string;
  readonly receiver: string;
  readonly event: NotificationEvent;
  /** The incident as it was then. */
  readonly incident: Incident;
  /** Undefined: only for a receiver that was to hear of the incident already, in the group it then had. */
  readonly group: AlertGroup | undefined;
}

/** A change that no message carries yet. */
export interface PendingChange {
  readonly seq: number;
  readonly id: string;
  readonly event: NotificationEvent;
  readonly incident: Incident;
  readonly createdMs: number;
  /** It has waited for a silence or a maintenance window to end, or was given up once. */
  readonly held: boolean;
  /** A later change of the incident has been dealt with already. */
  readonly superseded: boolean;
}

/** An incident whose receiver was last told that it fires. */
export interface ToldIncident {
  /** Of the change that told so. */
  readonly seq: number;
  /** As it was told. */
  readonly incident: Incident;
}

/** A group that is to be looked at. */
export interface DueGroup extends AlertGroup {
  /** Epoch milliseconds at which its last message was made; null: none yet. */
  readonly flushedMs: number | null;
  /** A message of it is still on its way. */
  readonly waiting: boolean;
  readonly pending: readonly PendingChange[];
  readonly told: readonly ToldIncident[];
}

export interface PlannedMessage {
  readonly id: string;
  /** `seq` of the changes it tells; empty for a reminder. */
  readonly changes: readonly number[];
  /** `seq` of changes told before whose incidents still fire: they are named beside. */
  readonly also: readonly number[];
  /** How many more fire than are named. */
  readonly truncated: number;
}

/** What becomes of a due group. */
export interface GroupPlan {
  readonly messages: readonly PlannedMessage[];
  /** `seq` of changes that go on waiting for a silence or window to end. */
  readonly held: readonly number[];
  /** `seq` of changes that are out of date. */
  readonly superseded: readonly number[];
  /** Epoch milliseconds; undefined: when something changes. */
  readonly dueMs: number | undefined;
}

/** Changes on their way into messages. Every method may throw `store_unavailable`. */
export interface AlertGroups {
  due(receiver: string, nowMs: number, limit: number): DueGroup[];
  /** Carries out plans by key of the group, all or none. A message beyond what may wait for a receiver is given up at once. */
  flush(receiver: string, plans: ReadonlyMap<string, GroupPlan>): void;
  /** Epoch milliseconds. */
  nextDueMs(receiver: string): number | undefined;
  /** Has every group looked at now in which something waits or fires: silences or routes have changed. */
  reconsider(): void;
}

/** One incident in a message. */
export interface MessageEntry {
  readonly seq: number;
  readonly event: NotificationEvent;
  readonly incident: Incident;
  /** Labels under which the receiver was last told that the incident fires; null: not told, or told that it is over. */
  readonly told: LabelSet | null;
}

/** What a receiver gets in one request. */
export interface Message {
  readonly id: string;
  readonly receiver: string;
  /** Attempts begun so far. */
  readonly attempts: number;
  readonly group: AlertGroup;
  /** It tells nothing new. */
  readonly reminder: boolean;
  readonly truncated: number;
  /** The newest change of each incident, in order. */
  readonly entries: readonly MessageEntry[];
}

export type AttemptOutcome =
  | { readonly state: 'delivered' }
  /** Cut off by our own end: it counts as no attempt, though it may have arrived. */
  | { readonly state: 'pending'; readonly arrived: boolean }
  /** Not sent: the receiver was never told of what it ends. */
  | { readonly state: 'void' }
  /** To be tried again at `retryAtMs`, epoch milliseconds; it may have arrived all the same. */
  | { readonly state: 'failed'; readonly error: string; readonly arrived: boolean; readonly retryAtMs: number }
  /** Given up; it may have arrived all the same. */
  | { readonly state: 'dead'; readonly error: string; readonly arrived: boolean };

/** What a receiver knows after a message: the labels under which an incident fires; null: that it is over. */
export interface Learned {
  readonly incident: string;
  readonly seq: number;
  readonly labels: LabelSet | null;
}

export const MESSAGE_STATES = ['pending', 'failed', 'delivered', 'dead', 'void'] as const;
export type MessageState = (typeof MESSAGE_STATES)[number];
/** Of messages; a change that no message carries yet counts as pending, or held where a silence or window holds it back. */
export type OutboxCounts = Readonly<Record<MessageState | 'held', number>>;

/** A message as people look at it. */
export interface MessageInfo {
  readonly id: string;
  readonly receiver: string;
  readonly groupKey: string;
  readonly state: MessageState;
  readonly attempts: number;
  readonly createdMs: number;
  readonly changedMs: number;
  readonly error: string | null;
  readonly incidents: readonly string[];
}

export interface MessageFilter {
  readonly state?: MessageState | undefined;
  readonly receiver?: string | undefined;
}

/** An incident as a receiver was told of it, for receivers that must be told again and again. */
export interface ToldNow {
  /** As it is now. */
  readonly incident: Incident;
  readonly labels: LabelSet;
  /** The receiver was told that it is over. */
  readonly over: boolean;
}

/**
 * Messages on their way, in order for each group and receiver: a later one is not due while an earlier one waits. An incident
 * stays in its group, so its changes are in order too. Every method may throw `store_unavailable`.
 */
export interface Outbox {
  /** Messages of a receiver that may be sent now, the longest due first. */
  due(receiver: string, nowMs: number, limit: number): Message[];
  /** Epoch milliseconds at which the next message of a receiver is due; undefined: none waits. */
  nextDueMs(receiver: string): number | undefined;
  /** Counts attempts before they are made: however often the program is killed meanwhile, no more are made than were asked for. */
  beginAttempts(ids: readonly string[]): void;
  /**
   * @param learned what the receiver knows once the message is delivered. Of one that is given up and may have arrived at some
   * attempt it is taken to know what fires, so that it is told the end.
   */
  recordAttempt(id: string, outcome: AttemptOutcome, learned: readonly Learned[]): void;
  /** What a receiver was told fires, or since `overSinceMs` that it is over. */
  told(receiver: string, overSinceMs: number): ToldNow[];
  /** Gives up what waits for any other than these receivers; returns how many. */
  abandonOthers(receivers: readonly string[]): number;
  counts(): OutboxCounts;
  /** Newest first, those before `beforeSeq` when given; `nextSeq` leads to the next page. */
  list(
    filter: MessageFilter,
    beforeSeq: number | undefined,
    limit: number,
  ): { items: MessageInfo[]; nextSeq: number | undefined };
  /**
   * Has what was given up told anew as things are now: what has changed since is told by its newest state, and what is over
   * without having been told is not told at all. Returns how many messages that were.
   */
  redrive(filter: { readonly id?: string | undefined; readonly receiver?: string | undefined }): number;
}
