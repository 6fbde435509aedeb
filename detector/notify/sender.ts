import type { Logger } from 'pino';
import type { FailPoints } from '../failpoints.js';
import type { AlertGroups, MessageState, Outbox } from '../store/outbox.js';
import type { Resolve } from './address-guard.js';
import type { Clock } from './clock.js';
import type { Receiver } from './config.js';
import type { post } from './http-post.js';
import { ReceiverLoop } from './receiver-loop.js';
import type { RetryPolicy } from './retry.js';
import type { Route } from './route.js';
import type { Silences } from './silences.js';

export interface SenderDeps {
  readonly groups: AlertGroups;
  readonly outbox: Outbox;
  readonly receivers: readonly Receiver[];
  readonly routes: readonly Route[];
  readonly silences: Pick<Silences, 'until'>;
  readonly clock: Clock;
  /** Uniform in [0, 1); spreads retries. */
  readonly random: () => number;
  readonly externalUrl: string;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Told of every outcome that was recorded. */
  readonly onAttempt?: (receiver: string, outcome: MessageState) => void;
  /** Told when a receiver is left alone, and when it is asked again as usual. */
  readonly onCircuit?: (receiver: string, open: boolean) => void;
  readonly failPoints?: FailPoints | undefined;
  readonly retry?: RetryPolicy;
  /** Given by tests. */
  readonly resolve?: Resolve;
  readonly post?: typeof post;
}

/**
 * Sends what the outbox holds, at least once: an attempt is recorded after its answer, so a crash between gives the same
 * message, with the same id, once more. Each receiver has a loop of its own and waits for no other.
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
    const { groups, outbox, receivers, log } = this.#deps;
    groups.reconsider();
    const abandoned = outbox.abandonOthers(receivers.map(({ name }) => name));
    if (abandoned > 0) log.warn({ abandoned }, 'notifications given up: their receivers are not configured');
    this.#running = Promise.all(this.#loops.map((loop) => loop.run()));
  }

  /** To be called after a commit with notifications, and when silences have changed. */
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
