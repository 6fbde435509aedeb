import { accessSync, constants, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { busOptionsOf } from '../bus/config.js';
import { makeFolder } from '../bus/folder.js';
import { openBus } from '../bus/open.js';
import { native } from '../native/ts/binding.js';
import { listSegments, openSegment, SegmentError } from '../native/ts/index.js';
import { PicketError } from '../protocol/errors.js';
import { encodeHeartbeat } from '../protocol/heartbeat.js';
import { listenAt } from '../protocol/listen.js';
import { TOPICS } from '../protocol/topics.js';
import { BusSink } from './bus-sink.js';
import { Collector } from './collector.js';
import type { CollectorConfig } from './config.js';
import { FileSink } from './file-sink.js';
import { buildServer } from './http.js';
import type { Sink } from './message.js';
import { type CollectorMetrics, createMetrics } from './metrics.js';
import { Outbox } from './outbox.js';
import type { RunBook } from './run-book.js';
import { readRunBook, runKeeper } from './run-book-file.js';
import { Sampler } from './sampler/sampler.js';
import { Spool } from './spool.js';

export interface CollectorAppDeps {
  readonly config: CollectorConfig;
  /** Name of this host. */
  readonly host: string;
  readonly version: string;
  readonly log: Logger;
  /** Told of an error after which the process must restart. */
  readonly onFatal: (error: Error) => void;
}

export interface RunningCollector {
  /** Base URL of the HTTP interface. */
  readonly url: string;
  close(): Promise<void>;
}

const SCAN_MS = 1000;
const CLOSE_DEADLINE_MS = 5000;

/** Composition root of the collector: opens everything in order, and closes it in the reverse one. */
export async function startCollector(deps: CollectorAppDeps): Promise<RunningCollector> {
  const closers: [string, () => unknown][] = [];
  const close = async (): Promise<void> => {
    for (const [name, closer] of closers.splice(0).reverse())
      await Promise.resolve()
        .then(closer)
        .catch((error) => deps.log.error({ err: error, name }, 'closing failed'));
  };
  try {
    return { url: await open(deps, (name, closer) => closers.push([name, closer])), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function open(deps: CollectorAppDeps, onClose: (name: string, closer: () => unknown) => void): Promise<string> {
  const { config, log, onFatal } = deps;
  loadAddon();
  const runsFile = join(config.state_dir, 'runs.json');
  const runs = inStateDir(() => {
    makeFolder(config.state_dir);
    accessSync(config.state_dir, constants.W_OK);
    return readRunBook(runsFile);
  });
  const keepRuns = runKeeper(runsFile, runs, (error) => {
    log.warn({ err: error }, 'the numbers of runs cannot be kept for a restart; tried every second');
  });
  const parts = assemble(deps, runs);
  const { collector, outbox, sink, segments, metrics } = parts;
  onClose('sink', () => sink.close());
  // Behind the last rows.
  onClose('last heartbeat', () => sendHeartbeat(deps, parts, true));
  onClose('outbox', () => outbox.close(CLOSE_DEADLINE_MS));

  const server = buildServer({
    registry: metrics.registry,
    reasons: () => [
      ...(segments.failure ? [`${config.segments_dir} cannot be read: ${segments.failure}`] : []),
      ...(outbox.failure ? [`${sink.name} takes no messages: ${outbox.failure.message}`] : []),
    ],
    trace: (seconds) => collector.trace.json(collector.epochTime(Date.now() - 1000 * seconds)),
    log,
  });
  onClose('http', () => server.close());
  await listenAt(config.http, (address) => server.listen(address));

  const loop = startLoop(collector, config.poll_ms, metrics, onFatal, keepRuns);
  onClose('collector', () => {
    clearTimeout(loop.timer);
    collector.close(Date.now());
    keepRuns();
  });
  const beats = setInterval(() => void sendHeartbeat(deps, parts, false), config.heartbeat_seconds * 1000);
  onClose('heartbeats', () => clearInterval(beats));
  void sendHeartbeat(deps, parts, false);
  if (config.sink.kind !== 'files') {
    const sampler = samplerOf(deps, parts);
    sampler.start();
    onClose('sampler', () => sampler.close());
  }
  return urlOf(server);
}

/** Past the spool, as heartbeats: the next reading holds what a lost one did. */
function samplerOf({ config, host, log }: CollectorAppDeps, { collector, sink, metrics }: Parts): Sampler {
  const failing = new Set<string>();
  return new Sampler({
    config: config.samples,
    host,
    jobs: () => collector.liveJobs,
    now: Date.now,
    send: (messages) => sink.send(messages),
    onSent: (samples) => metrics.samplesSent.inc(samples),
    onFailed: (source, what, error) => {
      metrics.sampleFailed(source);
      if (!failing.has(what)) log.warn({ source, what, error: error.message }, 'no samples from here; told once');
      failing.add(what);
    },
  });
}

interface Parts {
  readonly collector: Collector;
  readonly outbox: Outbox;
  readonly spool: Spool;
  readonly sink: Sink;
  readonly segments: SegmentFolder;
  readonly metrics: CollectorMetrics;
  /** Totals since the start. */
  readonly rows: { sent: number; lost: number };
  readonly startedMs: number;
}

/** The way of the rows: collector -> outbox -> sink, and what is counted on it. */
function assemble({ config, host, log }: CollectorAppDeps, runs: RunBook): Parts {
  const startedMs = Date.now();
  const metrics = createMetrics();
  const rows = { sent: 0, lost: 0 };
  const loseRows = (reason: Parameters<CollectorMetrics['rowsLost']>[0], lost: number): void => {
    metrics.rowsLost(reason, lost);
    rows.lost += lost;
  };
  const sink = sinkOf(config, log);
  const spool = openSpool(config, log, (lost) => loseRows('spool_full', lost));
  const outbox = new Outbox({
    sink,
    spool,
    wait,
    onSent: (messages, sent) => {
      metrics.messagesSent.inc(messages);
      metrics.rowsSent.inc(sent);
      rows.sent += sent;
    },
    onDropped: loseRows,
    log: (level, message) => log[level]({ part: 'outbox' }, message),
  });
  const segments = new SegmentFolder(config.segments_dir);
  const collector = new Collector({
    config,
    host,
    registry: {
      list: () => segments.list(),
      open: (path) => openSegment(path, true),
      remove: (path) => segments.remove(path),
      onRefused: (path, error) => log.warn({ segment: path, error: error.message }, 'a segment cannot be read'),
    },
    runs,
    metrics,
    push: (messages) => outbox.push(messages),
    onTooLarge: (lost) => loseRows('too_large', lost),
    log: (level, facts, message) => log[level](facts, message),
    startedMs,
  });
  return { collector, outbox, spool, sink, segments, metrics, rows, startedMs };
}

/** Scans and ticks by the clock; at once again while more waits in the segments. */
function startLoop(
  collector: Collector,
  pollMs: number,
  metrics: CollectorMetrics,
  onFatal: (error: Error) => void,
  afterScan: () => void,
): { timer: NodeJS.Timeout } {
  let scannedMs = Number.NEGATIVE_INFINITY;
  const turn = (): void => {
    try {
      const started = performance.now();
      if (started - scannedMs >= SCAN_MS) {
        scannedMs = started;
        collector.scan(Date.now());
        afterScan();
      }
      const more = collector.tick(Date.now());
      metrics.loopBusy.inc((performance.now() - started) / 1000);
      loop.timer = setTimeout(turn, more ? 0 : pollMs);
    } catch (error) {
      onFatal(error as Error);
    }
  };
  const loop = { timer: setTimeout(turn, 0) };
  return loop;
}

/** Goes past the spool: an old heartbeat says nothing. */
async function sendHeartbeat(deps: CollectorAppDeps, parts: Parts, stopping: boolean): Promise<void> {
  const { config, host, version, log } = deps;
  const { collector, outbox, spool, sink, metrics, rows, startedMs } = parts;
  const ok = outbox.failure === undefined;
  const spool_bytes = spool.bytes;
  metrics.spoolBytes.set(spool_bytes);
  metrics.sinkUp.set(ok ? 1 : 0);
  const nowMs = Date.now();
  const value = encodeHeartbeat({
    host,
    version,
    started_at: new Date(startedMs).toISOString(),
    sent_at: new Date(nowMs).toISOString(),
    interval_s: config.heartbeat_seconds,
    stopping,
    ...collector.heartbeat(nowMs),
    rows: { ...rows },
    sink: { name: sink.name, ok },
    spool_bytes,
  });
  if (!ok) return;
  await sink
    .send([{ topic: TOPICS.collectors, key: host, value, rows: 0 }])
    .catch((error) => log.warn({ error: (error as Error).message }, 'the heartbeat was not sent'));
}

/** The folder that engines make their segments in; it may come later than the collector. */
class SegmentFolder {
  readonly #dir: string;
  failure: string | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  list(): string[] {
    try {
      const paths = listSegments(this.#dir);
      this.failure = undefined;
      return paths;
    } catch (error) {
      this.failure = (error as Error).message;
      return [];
    }
  }

  remove(path: string): void {
    try {
      rmSync(path);
    } catch {
      // Another user's: the next engine removes it.
    }
  }
}

function sinkOf({ sink, partitions }: CollectorConfig, log: Logger): Sink {
  if (sink.kind === 'files') return new FileSink(sink.dir, sink.max_bytes, Date.now);
  const options = busOptionsOf(sink, (level, message) => log[level]({ part: 'bus' }, message));
  const topics = [TOPICS.phases, TOPICS.samples, TOPICS.collectors].map((topic) => ({ topic, partitions }));
  // The outbox tries again by itself, and writes to disk meanwhile.
  return new BusSink(sink.kind, () => openBus(options.kind === 'kafka' ? { ...options, retries: 2 } : options), topics);
}

const openSpool = ({ state_dir, spool_bytes }: CollectorConfig, log: Logger, onLost: (rows: number) => void): Spool =>
  inStateDir(
    () =>
      new Spool({
        dir: join(state_dir, 'spool'),
        maxBytes: spool_bytes,
        onDropped: (messages, rows) => {
          log.warn({ messages, rows }, 'messages on disk are lost: the spool is full, or a file of it damaged');
          onLost(rows);
        },
      }),
  );

/** Before anything else: without it there is nothing to do. */
function loadAddon(): void {
  try {
    native();
  } catch (cause) {
    if (!(cause instanceof SegmentError)) throw cause;
    throw new PicketError('not_found', cause.message, {}, { cause });
  }
}

/** What fails in the folder of the state is a mistake of the configuration. */
function inStateDir<T>(work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof PicketError) throw cause;
    const place = { field: 'state_dir', remedy: 'give a folder that this user may write to' };
    throw new PicketError('bad_config', `cannot be used: ${(cause as Error).message}`, place, { cause });
  }
}

/** Resolves after so long, or with `wake`. */
async function wait(ms: number, wake: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([late, wake]);
  clearTimeout(timer);
}

function urlOf(server: FastifyInstance): string {
  const address = server.server.address();
  return typeof address === 'object' && address ? `http://127.0.0.1:${address.port}` : '';
}
