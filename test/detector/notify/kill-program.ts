import { pino } from 'pino';
import { parseFailPoint } from '../../../detector/failpoints.js';
import { systemClock } from '../../../detector/notify/clock.js';
import { notificationsFor } from '../../../detector/notify/notifications.js';
import { Sender } from '../../../detector/notify/sender.js';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';
import { commitTo, newIncident } from '../store/support.js';
import { receiverOf, sending } from './support.js';

/** Program of a test: commits an incident and sends its notification, dying at the fail point that its arguments name, if any. */
const [path, url, spec] = process.argv.slice(2) as [string, string, string?];
const failPoints = spec ? parseFailPoint(spec, () => process.kill(process.pid, 'SIGKILL')) : undefined;
const receivers = [receiverOf('ops', { url })];
const store = openSqliteStore({ path, now: Date.now });
const wiring = sending(store, receivers);
const incidents = ['a', 'b'].map((id) => newIncident(id));
failPoints?.hit('store.before_commit');
commitTo(store, {
  incidents,
  notifications: incidents.flatMap((each) => notificationsFor(undefined, each, wiring.routes)),
});
failPoints?.hit('store.after_commit');
const sender = new Sender({
  ...wiring,
  clock: systemClock,
  random: Math.random,
  externalUrl: 'http://picket',
  log: pino({ enabled: false }),
  failPoints,
});
sender.start();
await sender.close(10_000);
store.close();
