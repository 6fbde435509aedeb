import { openSqliteStore } from '../../../detector/store/sqlite-store.js';

/** Program of a test: opens the store named by its argument, says so, and stays. */
const store = openSqliteStore({ path: process.argv[2] as string, now: () => 0 });
process.stdout.write('open\n');
setInterval(() => store.check(), 60_000);
