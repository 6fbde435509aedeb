import type { FailPoint } from '../failpoints.js';
import type { AttemptOutcome, Message } from '../store/outbox.js';
import { AddressGuard } from './address-guard.js';
import { CircuitBreaker } from './circuit-breaker.js';
import type { Credentials, Receiver } from './config.js';
import { Dispatcher } from './dispatcher.js';
import { alertsRequest } from './formats/alertmanager.js';
import { requestOf } from './formats/format.js';
import { type Outgoing, post } from './http-post.js';
import { type AlertMessage, alertMessage, alertOf } from './message.js';
import { DEFAULT_RETRY, mayHaveArrived, octaveMs, type Reply, type RetryPolicy, verdictOf } from './retry.js';
import type { SenderDeps } from './sender.js';

/** Requests of one receiver under way at a time. */
const MAX_IN_FLIGHT = 4;
/** A receiver that says it is gone for good is asked again after so long. */
const GONE_MS = 3_600_000;
/** The end of an alert is pushed to an Alertmanager again for so long: it may have been restarted between. */
const RESEND_OVER_MS = 300_000;
const RESEND_ALERTS = 500;
const CUT_OFF = 'killed at its last attempt';

/** A message, what is told of it, and what its receiver knows then. */
type Telling = ReturnType<typeof alertMessage> & { readonly message: Message };

/** Sends to one receiver. */
export class ReceiverLoop {
  readonly #receiver: Receiver;
  readonly #deps: SenderDeps;
  readonly #guard: AddressGuard;
  readonly #dispatcher: Dispatcher;
  readonly #breaker: CircuitBreaker;
  readonly #retry: RetryPolicy;
  readonly #aborted: AbortSignal;
  #known: Credentials;
  #resendAtMs: number;
  #storeFailures = 0;
  #finishing = false;
  #woken = false;
  #endSleep: (() => void) | undefined;

  constructor(receiver: Receiver, deps: SenderDeps, aborted: AbortSignal) {
    this.#receiver = receiver;
    this.#deps = deps;
    this.#known = receiver.credentials();
    this.#guard = new AddressGuard(receiver.allowAddresses, deps.resolve);
    this.#dispatcher = new Dispatcher(receiver.name, deps);
    this.#retry = deps.retry ?? DEFAULT_RETRY;
    this.#breaker = new CircuitBreaker(this.#retry, deps.random);
    this.#aborted = aborted;
    this.#resendAtMs = receiver.format === 'alertmanager' ? 0 : Number.POSITIVE_INFINITY;
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
    const { name } = this.#receiver;
    try {
      const now = clock.now();
      const dispatched = this.#dispatcher.dispatch(now);
      if (now < this.#breaker.untilMs) return dispatched ? 0 : this.#breaker.untilMs - now;
      const batch = outbox.due(name, now, this.#breaker.open ? 1 : MAX_IN_FLIGHT);
      if (batch.length > 0) {
        await this.#deliverAll(batch);
      } else if (now >= this.#resendAtMs) await this.#resend(now);
      else if (!dispatched) return this.#idleMs(now);
      this.#storeFailures = 0;
      return 0;
    } catch (error) {
      log.error({ receiver: name, err: error }, 'outbox unavailable');
      return octaveMs(++this.#storeFailures, this.#retry, random());
    }
  }

  #idleMs(now: number): number | undefined {
    const times = [this.#deps.outbox.nextDueMs(this.#receiver.name), this.#dispatcher.nextDueMs(), this.#resendAtMs];
    const next = Math.min(...times.map((at) => at ?? Number.POSITIVE_INFINITY));
    return Number.isFinite(next) ? Math.max(1, next - now) : undefined;
  }

  async #deliverAll(batch: readonly Message[]): Promise<void> {
    const { externalUrl, outbox } = this.#deps;
    const telling = batch.map((message) => ({
      ...{ message, ...alertMessage(message, externalUrl, this.#receiver.sendResolved) },
    }));
    const sent: Telling[] = [];
    for (const each of telling) {
      const { message, told } = each;
      if (told.alerts.length === 0) this.#record(each, { state: 'void' }, 'nothing to tell');
      else if (message.attempts < this.#receiver.maxAttempts) sent.push(each);
      else this.#record(each, { state: 'dead', error: CUT_OFF, arrived: true }, CUT_OFF);
    }
    outbox.beginAttempts(sent.map(({ message }) => message.id));
    const results = await Promise.allSettled(sent.map((each) => this.#deliver(each)));
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  async #deliver(telling: Telling): Promise<void> {
    this.#hit('notify.before_send');
    const reply = await this.#post(telling.told);
    this.#hit('notify.after_send');
    // Not the receiver's failure, but ours.
    const cutOff = reply.status === undefined && this.#aborted.aborted;
    const outcome = cutOff
      ? ({ state: 'pending', arrived: mayHaveArrived(reply) } as const)
      : this.#judge(telling.message, reply);
    this.#record(telling, outcome, reply.error);
  }

  #record({ message, learned }: Telling, outcome: AttemptOutcome, reply: string): void {
    const { outbox, log, onAttempt } = this.#deps;
    const { name } = this.#receiver;
    outbox.recordAttempt(message.id, outcome, learned);
    this.#hit('notify.after_ack');
    if (outcome.state === 'pending') return;
    onAttempt?.(name, outcome.state);
    const incidents = message.entries.slice(0, 10).map(({ incident }) => incident.id);
    const facts = { receiver: name, message: message.id, incidents, attempt: message.attempts + 1, reply };
    if (outcome.state === 'failed') log.warn(facts, 'notification failed, will be tried again');
    else if (outcome.state === 'dead') log.error(facts, 'notification given up');
    else log.info(facts, outcome.state === 'void' ? 'nothing to notify of' : 'notification delivered');
  }

  #post(told: AlertMessage): Promise<Reply> {
    return this.#send((credentials, nowMs) =>
      requestOf(this.#receiver, told, { credentials, nowMs, externalUrl: this.#deps.externalUrl }),
    );
  }

  async #send(requestFor: (credentials: Credentials, nowMs: number) => Outgoing): Promise<Reply> {
    const { clock, post: send = post } = this.#deps;
    const { timeoutMs } = this.#receiver;
    return send(requestFor(this.#credentials(), clock.now()), { guard: this.#guard, timeoutMs, clock }, this.#aborted);
  }

  /** A file that cannot be read while it is replaced leaves what was known before in use. */
  #credentials(): Credentials {
    try {
      this.#known = this.#receiver.credentials();
    } catch (error) {
      this.#deps.log.warn(
        { receiver: this.#receiver.name, err: error },
        'secrets cannot be read; the last ones are used',
      );
    }
    return this.#known;
  }

  /** Has what it tells last longer than four sendings; a failure is made good by the next. */
  async #resend(now: number): Promise<void> {
    const { outbox, externalUrl, log } = this.#deps;
    const { name, resendMs } = this.#receiver;
    this.#resendAtMs = now + resendMs;
    const alerts = outbox.told(name, now - RESEND_OVER_MS).map(({ incident, labels, over }) => {
      const endsAt = over ? (incident.resolved_at ?? new Date(now).toISOString()) : incident.resolved_at;
      return alertOf(incident, labels, endsAt, externalUrl);
    });
    for (let i = 0; i < alerts.length && !this.#aborted.aborted; i += RESEND_ALERTS) {
      const some = alerts.slice(i, i + RESEND_ALERTS);
      const reply = await this.#send((credentials, nowMs) => {
        const { url, body } = alertsRequest(some, resendMs, { credentials, nowMs, externalUrl });
        return {
          url,
          body,
          headers: { ...credentials.headers, 'content-type': 'application/json', 'user-agent': 'picket' },
        };
      });
      if (verdictOf(reply.status) !== 'delivered')
        log.warn({ receiver: name, reply: reply.error }, 'alerts could not be sent again');
    }
  }

  #judge({ attempts }: Message, reply: Reply): AttemptOutcome {
    const { status, error, retryAfterMs } = reply;
    const arrived = mayHaveArrived(reply);
    const verdict = verdictOf(status);
    const now = this.#deps.clock.now();
    if (verdict !== 'retry') this.#circuit(() => this.#breaker.succeeded());
    if (verdict === 'delivered') return { state: 'delivered' };
    if (status === 410) this.#breaker.pause(now + GONE_MS);
    if (verdict === 'retry') this.#circuit(() => this.#breaker.failed(now));
    if (verdict === 'reject' || attempts + 1 >= this.#receiver.maxAttempts) return { state: 'dead', error, arrived };
    // Bounded, or one wrong header would silence a receiver for ever.
    const askedMs = status === 429 || status === 503 ? Math.min(retryAfterMs ?? 0, this.#retry.maxMs) : 0;
    this.#breaker.pause(now + askedMs);
    const delayMs = Math.max(askedMs, octaveMs(attempts + 1, this.#retry, this.#deps.random()));
    return { state: 'failed', error, arrived, retryAtMs: Math.ceil(now + delayMs) };
  }

  #circuit(change: () => void): void {
    const was = this.#breaker.open;
    change();
    const { open } = this.#breaker;
    if (open === was) return;
    this.#deps.onCircuit?.(this.#receiver.name, open);
    const facts = { receiver: this.#receiver.name };
    if (open) this.#deps.log.error(facts, 'receiver keeps failing: it is asked rarely until it answers');
    else this.#deps.log.info(facts, 'receiver answers again');
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
