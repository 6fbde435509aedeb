import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Bus, Consumer } from '../bus/bus.js';
import { busOptionsOf } from '../bus/config.js';
import { openBus } from '../bus/open.js';
import { listenAt } from '../protocol/listen.js';
import { deadLetterTopic, TOPICS } from '../protocol/topics.js';
import type { Baseline } from './baseline/baseline.js';
import type { DetectorConfig } from './config.js';
import type { FailPoints } from './failpoints.js';
import { buildServer } from './http/server.js';
import { IncidentPublisher } from './incidents/publisher.js';
import type { WorkerDeps } from './ingest/partition-worker.js';
import { Partitions } from './ingest/partitions.js';
import { createMetrics, type DetectorMetrics } from './metrics.js';
import { systemClock } from './notify/clock.js';
import { readSecret, resolveReceiver, type SecretSources } from './notify/config.js';
import { unknownInRoutes } from './notify/label-names.js';
import { type RouteConfig, routesOf } from './notify/route.js';
import { Sender } from './notify/sender.js';
import { Silences } from './notify/silences.js';
import { readinessLog } from './readiness.js';
import type { RuleManager } from './rules/manager.js';
import { openRules } from './rules/open.js';
import { openSqliteStore } from './store/sqlite-store.js';
import type { Store } from './store/store.js';

export interface DetectorDeps {
  readonly config: DetectorConfig;
  /** What healthy runs take. */
  readonly baseline?: Baseline | undefined;
  readonly secrets: SecretSources;
  readonly log: Logger;
  readonly failPoints?: FailPoints | undefined;
  /** Told once the consumer has stopped for good: the process must restart. */
  readonly onFatal: (error: Error) => void;
}

export interface RunningDetector {
  /** Base URL of the HTTP interface. */
  readonly url: string;
  readonly store: Store;
  /** Looks at the rules now instead of at the next poll. */
  reloadRules(): void;
  close(): Promise<void>;
}

const TICK_MS = 1000;
const PRUNE_EVERY_TICKS = 600;
const PRUNE_ROWS = 500;
const DAY_MS = 86_400_000;
const CLOSE_DEADLINE_MS = 5000;
/** A consumer that has fetched nothing for so long while messages wait is stuck. */
const STUCK_AFTER_MS = 60_000;

/** Composition root of the detector: opens everything in order, and closes it in the reverse one. */
export async function startDetector(deps: DetectorDeps): Promise<RunningDetector> {
  const closers: [string, () => unknown][] = [];
  const close = async (): Promise<void> => {
    for (const [name, closer] of closers.splice(0).reverse())
      await Promise.resolve(closer()).catch((error) => deps.log.error({ err: error, name }, 'closing failed'));
  };
  try {
    return { ...(await open(deps, (name, closer) => closers.push([name, closer]))), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function open(
  { config, baseline, secrets, log, failPoints, onFatal }: DetectorDeps,
  onClose: OnClose,
): Promise<Omit<RunningDetector, 'close'>> {
  const { now } = systemClock;
  const receivers = config.receivers.map((receiver) => resolveReceiver(receiver, secrets));
  const routes = routesOf(config.routes, receivers);
  const metrics = createMetrics();
  for (const { name } of receivers) metrics.addReceiver(name);

  const { store, bus, producer } = await openOutside(config, log, onClose);
  const late: { consumer?: Consumer; sender?: Sender; partitions?: Partitions } = {};
  const publisher = new IncidentPublisher(store.feed, producer, log);
  onClose('publisher', () => publisher.wake());
  const onNotifications = (): void => late.sender?.wake();
  const silences = new Silences({ store: store.silences, now, onChange: () => reconsider(store, onNotifications) });
  const rules = openRules({
    ...{ config: config.rules, storePath: config.store.path, env: secrets.env, registry: metrics.registry },
    ...{ store, routes, now, log, onNotifications },
    onChange: () => {
      late.partitions?.revise();
      if (late.partitions) checkRouteLabels(config.routes, rules.manager, log, false);
    },
  });
  onClose('rules', () => rules.manager.close());
  const probes = [...probesOf(store, late), rules.probe];
  const server = buildServer({
    ...{ incidents: store, outbox: store.outbox, silences, now, onRedrive: onNotifications },
    staleAfterMs: config.stale_seconds * 1000,
    apiTokens: apiTokensOf(config, secrets),
    receivers: receivers.map(({ name }) => name),
    ruleLabels: () => rules.manager.current.labelNames(),
    probes,
    registry: metrics.registry,
    log,
  });
  rules.routes(server);
  onClose('http', () => server.close());
  await listenAt(config.http, (address) => server.listen(address));
  const url = urlOf(server);

  const sender = new Sender({
    ...{ groups: store.groups, outbox: store.outbox, receivers, routes, silences, log, failPoints },
    ...{ clock: systemClock, random: Math.random },
    externalUrl: (config.http.external_url ?? url).replace(/\/+$/, ''),
    ...{ onAttempt: metrics.notificationAttempt, onCircuit: metrics.receiverCircuit },
  });
  late.sender = sender;
  sender.start();
  onClose('sender', () => sender.close(CLOSE_DEADLINE_MS));

  await rules.manager.start();
  checkRouteLabels(config.routes, rules.manager, log, rules.manager.status().rules > 0);

  const checkpointMs = config.checkpoint_seconds * 1000;
  const workers: WorkerDeps = {
    ...{ checkpointMs, store, producer, routes, metrics, log, now, onNotifications, failPoints },
    monotonic: () => performance.now(),
    baseline,
    storms: { ...config.storms, windowMs: config.storms.window_seconds * 1000 },
    ...{ rules: rules.manager, onSuppressed: (findings) => rules.metrics.suppressed.inc(findings) },
  };
  const consumer = await bus.consumer(config.group, [TOPICS.phases, TOPICS.samples]);
  late.consumer = consumer;
  const partitions = (late.partitions = new Partitions(consumer, workers));
  onClose('partitions', () => partitions.commitAll());
  onClose('consumer', () => consumer.close());
  await consumer.start(partitions);

  const tellReady = readinessLog(probes, log, url);
  tellReady();
  const ticker = startTicker({
    config,
    store,
    silences,
    metrics,
    partitions,
    consumer,
    publisher,
    tellReady,
    onFatal,
    log,
  });
  onClose('ticker', () => clearInterval(ticker));
  return { url, store, reloadRules: () => void rules.manager.reload() };
}

type OnClose = (name: string, closer: () => unknown) => void;

/** Store and bus: all that outlives a detector. */
async function openOutside(config: DetectorConfig, log: Logger, onClose: OnClose) {
  const { path, synchronous } = config.store;
  const store = openSqliteStore({ path, synchronous, now: systemClock.now });
  onClose('store', () => store.close());

  const bus = await openBus(busOptionsOf(config.bus, (level, message) => log[level]({ part: 'bus' }, message)));
  onClose('bus', () => bus.close());
  await createTopics(bus, config.partitions);
  const producer = await bus.producer();
  onClose('producer', () => producer.close());
  return { store, bus, producer };
}

/** Reads them once, so that a detector does not start without. */
function apiTokensOf({ http: { api_token_file: file } }: DetectorConfig, secrets: SecretSources) {
  if (file === undefined) return undefined;
  const tokens = (): string[] => readSecret({ file }, 'http.api_token_file', secrets).split(/\s+/);
  tokens();
  return tokens;
}

/** Which alerts are held back has changed. */
function reconsider(store: Store, wake: () => void): void {
  store.groups.reconsider();
  wake();
}

/** With rules at hand a slip of the pen in a route keeps a detector from starting; all else is told, for rules to come may add it. */
function checkRouteLabels(configs: readonly RouteConfig[], rules: RuleManager, log: Logger, strict: boolean): void {
  for (const { error, isSlip } of unknownInRoutes(configs, rules.current.labelNames())) {
    if (strict && isSlip) throw error;
    log.warn({ part: 'routes' }, error.message);
  }
}

interface TickDeps {
  readonly config: DetectorConfig;
  readonly store: Store;
  readonly silences: Silences;
  readonly metrics: DetectorMetrics;
  readonly partitions: Partitions;
  readonly consumer: Consumer;
  readonly publisher: IncidentPublisher;
  readonly tellReady: () => void;
  readonly onFatal: (error: Error) => void;
  readonly log: Logger;
}

function startTicker(deps: TickDeps): NodeJS.Timeout {
  const { partitions, publisher, tellReady, log } = deps;
  let ticks = 0;
  return setInterval(() => {
    tick(deps, ticks++ % PRUNE_EVERY_TICKS === 0);
    partitions.commitDue().catch((error) => log.error({ err: error }, 'what waits could not be committed'));
    void publisher.wake();
    tellReady();
  }, TICK_MS);
}

function tick(
  { config, store, silences, metrics, partitions, consumer, onFatal, log }: TickDeps,
  prune: boolean,
): void {
  const { failed, lag, offsetResets, rebalances } = consumer.health();
  if (failed) {
    onFatal(failed);
    return;
  }
  try {
    partitions.lookForSilence(config.idle_seconds * 1000, config.forget_seconds * 1000);
    metrics.setOpenIncidents(store.openIncidents());
    metrics.setOutbox(store.outbox.counts());
    metrics.silencesActive.set(silences.active(systemClock.now()));
    if (prune) store.prune(config.store.retention_days * DAY_MS, PRUNE_ROWS);
  } catch (error) {
    log.error({ err: error }, 'periodic work failed');
  }
  metrics.setLag(lag);
  metrics.offsetResets.set(offsetResets);
  metrics.rebalances.set(rebalances);
}

function probesOf(store: Store, health: { readonly consumer?: Consumer }) {
  return [
    { name: 'store', check: () => void store.check() },
    {
      name: 'bus',
      check: () => {
        const { joined, failed, lag, lastFetchMs } = health.consumer?.health() ?? {};
        if (failed) return `the consumer has stopped: ${failed.message}`;
        if (!joined) return 'the consumer has not joined its group yet';
        const behind = [...(lag ?? new Map()).values()].some((messages) => messages > 0n);
        const quiet = performance.now() - (lastFetchMs ?? 0);
        return behind && quiet > STUCK_AFTER_MS
          ? `messages wait, and none was fetched for ${Math.round(quiet / 1000)} s`
          : undefined;
      },
    },
  ];
}

const WITH_DEAD_LETTERS: ReadonlySet<string> = new Set([TOPICS.phases, TOPICS.samples]);

async function createTopics(bus: Bus, partitions: number): Promise<void> {
  await bus.createTopics(
    [TOPICS.phases, TOPICS.samples, TOPICS.collectors, TOPICS.incidents]
      .flatMap((topic) => [topic, ...(WITH_DEAD_LETTERS.has(topic) ? [deadLetterTopic(topic)] : [])])
      .map((topic) => ({ topic, partitions })),
  );
}

function urlOf(server: FastifyInstance): string {
  const address = server.server.address();
  return typeof address === 'object' && address ? `http://127.0.0.1:${address.port}` : '';
}
