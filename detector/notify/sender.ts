import type { Logger } from 'pino';
import type { FailPoint, FailPoints } from '../failpoints.js';
import type { AttemptOutcome, Notification, Outbox } from '../store/store.js';
import { AddressGuard, type Resolve } from './address-guard.js';
import type { Clock } from './clock.js';
import type { Receiver } from './config.js';
import { post } from './http-post.js';
import { backoffMs, DEFAULT_RETRY, type Reply, type RetryPolicy, verdictOf } from './retry.js';
import { webhookRequest } from './webhook.js';

export interface SenderDeps {
  readonly outbox: Outbox;
  readonly receivers: readonly Receiver[];
  readonly clock: Clock;
  /** Uniform in [0, 1); spreads retries. */
  readonly random: () => number;
  readonly externalUrl: string;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Told of every attempt that was recorded. */
  readonly onAttempt?: (receiver: string, outcome: AttemptOutcome['state']) => void;
  readonly failPoints?: FailPoints | undefined;
  /** Given by tests. */
  readonly resolve?: Resolve;
  readonly post?: typeof post;
  readonly retry?: RetryPolicy;
}

/**
 * Sends what the outbox holds, at least once: an attempt is recorded after its answer, so a crash between gives the same
 * notification, with the same id, once more. Each receiver has a loop of its own and waits for no other.
 */
export class Sender {
  readonly #deps: SenderDeps;
  readonly #loops: ReceiverLoop[];
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(deps: SenderDeps) {
    this.#deps = deps;
    this.#loops = deps.receivers.map((receiver) => new ReceiverLoop(receiver, deps, this.#abort.signal));
  }

  /** Begins to send. What waits for receivers that are no longer configured is given up. Throws `store_unavailable`. */
  start(): void {
    const { outbox, receivers, log } = this.#deps;
    const abandoned = outbox.abandonOthers(receivers.map(({ name }) => name));
    if (abandoned > 0) log.warn({ abandoned }, 'notifications given up: their receivers are not configured');
    this.#running = Promise.all(this.#loops.map((loop) => loop.run()));
  }

  /** To be called after a commit with notifications. */
  wake(): void {
    for (const loop of this.#loops) loop.wake();
  }

  /** Sends what is due now, for `deadlineMs` at most; retries and what is left wait in the outbox. Close the store only after it. */
  async close(deadlineMs: number): Promise<void> {
    const stopTimer = this.#deps.clock.after(deadlineMs, () => this.#abort.abort());
    for (const loop of this.#loops) loop.finish();
    await this.#running;
    stopTimer();
  }
}

/** Requests of one receiver under way at a time. */
const MAX_IN_FLIGHT = 4;

class ReceiverLoop {
  readonly #receiver: Receiver;
  readonly #deps: SenderDeps;
  readonly #guard: AddressGuard;
  readonly #retry: RetryPolicy;
  readonly #aborted: AbortSignal;
  /** Epoch ms before which the receiver asked to be left alone. */
  #pausedUntil = 0;
  #storeFailures = 0;
  #finishing = false;
  #woken = false;
  #endSleep: (() => void) | undefined;

  constructor(receiver: Receiver, deps: SenderDeps, aborted: AbortSignal) {
    this.#receiver = receiver;
    this.#deps = deps;
    this.#guard = new AddressGuard(receiver.allowAddresses, deps.resolve);
    this.#retry = deps.retry ?? DEFAULT_RETRY;
    this.#aborted = aborted;
  }

  wake(): void {
    this.#woken = true;
    this.#endSleep?.();
  }

  finish(): void {
    this.#finishing = true;
    this.wake();
  }

  async run(): Promise<void> {
    while (!this.#aborted.aborted) {
      const waitMs = await this.#sendDue();
      if (waitMs === 0) continue;
      if (this.#finishing) return;
      await this.#sleep(waitMs);
    }
  }

  /** Sends one batch. Returns how long nothing will be due: 0 when there may be more, undefined when nothing waits. */
  async #sendDue(): Promise<number | undefined> {
    const { clock, outbox, random, log } = this.#deps;
    try {
      const now = clock.now();
      if (now < this.#pausedUntil) return this.#pausedUntil - now;
      const batch = outbox.due(this.#receiver.name, now, MAX_IN_FLIGHT);
      if (batch.length === 0) {
        const dueMs = outbox.nextDueMs(this.#receiver.name);
        return dueMs === undefined ? undefined : Math.max(1, dueMs - now);
      }
      const sent = await Promise.allSettled(batch.map((notification) => this.#deliver(notification)));
      for (const result of sent) if (result.status === 'rejected') throw result.reason;
      this.#storeFailures = 0;
      return 0;
    } catch (error) {
      log.error({ receiver: this.#receiver.name, err: error }, 'outbox unavailable');
      return backoffMs(++this.#storeFailures, this.#retry, random());
    }
  }

  async #deliver(notification: Notification): Promise<void> {
    const { outbox, log, onAttempt } = this.#deps;
    const { name } = this.#receiver;
    this.#hit('notify.before_send');
    const reply = await this.#post(notification);
    // Cut off by our own end: not the receiver's failure, so not an attempt.
    if (reply.status === undefined && this.#aborted.aborted) return;
    this.#hit('notify.after_send');
    const outcome = this.#judge(notification, reply);
    outbox.recordAttempt(notification.id, outcome);
    this.#hit('notify.after_ack');
    onAttempt?.(name, outcome.state);
    const facts = {
      receiver: name,
      notification: notification.id,
      incident: notification.incident.id,
      event: notification.event,
      attempt: notification.attempts + 1,
      reply: reply.error,
    };
    if (outcome.state === 'delivered') log.info(facts, 'notification delivered');
    else if (outcome.state === 'failed') log.warn(facts, 'notification failed, will be tried again');
    else log.error(facts, 'notification given up');
  }

  #post(notification: Notification): Promise<Reply> {
    const { clock, externalUrl, post: send = post } = this.#deps;
    const request = webhookRequest(this.#receiver, notification, externalUrl, clock.now());
    return send(request, { guard: this.#guard, timeoutMs: this.#receiver.timeoutMs, clock }, this.#aborted);
  }

  #judge({ attempts }: Notification, { status, error, retryAfterMs }: Reply): AttemptOutcome {
    const verdict = verdictOf(status);
    if (verdict === 'delivered') return { state: 'delivered' };
    if (verdict === 'reject' || attempts + 1 >= this.#receiver.maxAttempts) return { state: 'dead', error };
    const now = this.#deps.clock.now();
    // Bounded, or one wrong header would silence a receiver for ever.
    const askedMs = status === 429 || status === 503 ? Math.min(retryAfterMs ?? 0, this.#retry.maxMs) : 0;
    this.#pausedUntil = Math.max(this.#pausedUntil, now + askedMs);
    const delayMs = Math.max(askedMs, backoffMs(attempts + 1, this.#retry, this.#deps.random()));
    return { state: 'failed', error, retryAtMs: Math.ceil(now + delayMs) };
  }

  #hit(point: FailPoint): void {
    this.#deps.failPoints?.hit(point);
  }

  async #sleep(ms: number | undefined): Promise<void> {
    if (!this.#woken)
      await new Promise<void>((resolve) => {
        const stopTimer = ms === undefined ? () => {} : this.#deps.clock.after(ms, resolve);
        this.#endSleep = () => {
          stopTimer();
          resolve();
        };
      });
    this.#woken = false;
    this.#endSleep = undefined;
  }
}
