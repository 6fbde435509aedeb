import { parentPort } from 'node:worker_threads';
import type { SimulateOptions } from '../simulator/simulate.js';
import { runCases } from './scoreboard.js';

/** A thread that runs what it is sent: cases in, their scores out. */
parentPort?.on('message', (cases: readonly SimulateOptions[]) => parentPort?.postMessage(runCases(cases)));
