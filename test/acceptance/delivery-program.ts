import { pino } from 'pino';
import { systemClock } from '../../detector/notify/clock.js';
import { notificationsFor } from '../../detector/notify/notifications.js';
import { Sender } from '../../detector/notify/sender.js';
import { openSqliteStore } from '../../detector/store/sqlite-store.js';
import { receiverOf, sending, until } from '../detector/notify/support.js';
import { commitTo, PARTITION } from '../detector/store/support.js';
import { CHANGES, MAX_ATTEMPTS, type Plan } from './delivery-plan.js';

/**
 * Program of a test: commits what is left of the changes, one by one, and sends; it ends by itself only once all is told, what
 * was given up included, if it is to `finish`. Otherwise it waits to be killed.
 */
const { path, receivers: urls, allow, names, changes, finish } = JSON.parse(process.argv[2] as string) as Plan;

let asked = 0;
/** Names that answer with another of their addresses each time. */
const resolve = async (name: string) => {
  const addresses = names[name] as string[];
  const address = addresses[asked++ % addresses.length] as string;
  return [{ address, family: address.includes(':') ? 6 : 4 }];
};
const facts = { allowAddresses: allow, timeoutMs: 1000, maxAttempts: MAX_ATTEMPTS };
const receivers = Object.entries(urls).map(([name, url]) => receiverOf(name, { url }, facts));
const store = openSqliteStore({ path, now: Date.now });
const wiring = sending(store, receivers);
const sender = new Sender({
  ...{ ...wiring, clock: systemClock, random: Math.random, externalUrl: 'http://picket', resolve },
  ...{ retry: { baseMs: 5, maxMs: 40 }, log: pino({ enabled: false }) },
});
sender.start();
const { epoch, checkpoint } = store.acquire(PARTITION);
for (let next = Number(checkpoint?.nextOffset ?? 0); next < changes; next++) {
  const [before, after] = CHANGES[next] as (typeof CHANGES)[0];
  commitTo(store, {
    ...{ epoch, checkpoint: { nextOffset: BigInt(next + 1), restartOffset: 0n, snapshot: new Uint8Array() } },
    ...{ incidents: [after], notifications: notificationsFor(before, after, wiring.routes) },
  });
  sender.wake();
  await new Promise((resolve) => setImmediate(resolve));
}
const settled = (): boolean => {
  const { pending, failed } = store.outbox.counts();
  return pending + failed === 0;
};
if (finish) {
  await until(settled, 'all to be told', 60_000);
  while (store.outbox.redrive({ receiver: 'flaky' }) + store.outbox.redrive({ receiver: 'gone' }) > 0) {
    sender.wake();
    await until(settled, 'what was given up to be told', 60_000);
  }
  await sender.close(1000);
  store.close();
}
