import { parentPort } from 'node:worker_threads';
import type { CaseOptions } from './cases.js';
import { runCases } from './scoreboard.js';

/** A thread that runs what it is sent: cases in, their scores out. */
parentPort?.on('message', async (cases: readonly CaseOptions[]) => parentPort?.postMessage(await runCases(cases)));
