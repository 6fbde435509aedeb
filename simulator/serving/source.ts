import type { Cluster } from '../cluster.js';
import { range } from '../communicators.js';
import type { Fault } from '../faults.js';
import { REQUESTS, type RequestStatistics } from '../measured-requests.js';
import { ENGINE } from '../measured-serving.js';
import type { CheckedOptions } from '../options.js';
import { Random } from '../random.js';
import { type Arrivals, ClosedArrivals, OpenArrivals } from '../requests/arrivals.js';
import { type LoggedRequest, LoggedRequests } from '../requests/log.js';
import type { RequestStream } from '../requests/request.js';
import { SyntheticRequests } from '../requests/synthetic.js';
import type { ServingSpec } from '../scenario.js';
import { NOMINAL_STEP_NS } from './cost.js';
import { KvCache } from './kv-cache.js';
import type { LoadSource } from './load.js';
import { RecordedLoad } from './recorded-load.js';
import { Router } from './router.js';
import { ScheduledLoad } from './scheduled-load.js';
import { Scheduler } from './scheduler.js';

export interface SourceParts {
  readonly options: CheckedOptions;
  readonly spec: ServingSpec;
  readonly cluster: Cluster;
  readonly faults: readonly Fault[];
  readonly scale: number;
  /** Requests to replay instead of synthetic ones. */
  readonly log: readonly LoggedRequest[] | undefined;
  /** Which of the jobs that share the requests this is. */
  readonly engine: { readonly first: number; readonly of: number };
}

/** What a serving job works on. */
export function loadSource(parts: SourceParts): LoadSource {
  const { options, spec, cluster, faults, scale, log, engine } = parts;
  const { seed, steps, requestRate } = options;
  const { job, layout } = cluster;
  if (spec.load !== 'scheduled')
    return new RecordedLoad(Random.stream(seed, job, 'load'), spec, faults, scale, Math.floor(steps / 3));
  const statistics = REQUESTS[options.requestMix ?? spec.mix ?? 'azure-conv'];
  const { perStep, heldTokens } = log ? demandOfLog(log) : demandOf(statistics);
  const rate = requestRate ?? (perStep * 1e9) / (NOMINAL_STEP_NS * scale);
  const meanGapNs = 1e9 / (rate * layout.dp);
  const stream = log
    ? new LoggedRequests(log, meanGapNs, engine)
    : new SyntheticRequests(Random.stream(seed, job, 'requests'), statistics, meanGapNs);
  const kvTokens = kvTokensOf(spec, faults, heldTokens);
  return new ScheduledLoad({
    schedulers: range(layout.dp).map(() => schedulerOf(spec, kvTokens)),
    arrivals: arrivalsOf(stream, spec, faults, layout.dp),
    router: new Router(Random.stream(seed, job, 'router'), spec.routing, faults, layout.tp),
    random: Random.stream(seed, job, 'long prompts'),
    faults,
    scale,
  });
}

function schedulerOf({ chunked, maxRunning, reserves }: ServingSpec, kvTokens: number): Scheduler {
  const options = {
    maxTokens: chunked === false ? Number.POSITIVE_INFINITY : ENGINE.chunkTokens,
    maxRunning: maxRunning ?? ENGINE.maxRunning,
    reserves: reserves ?? false,
  };
  return new Scheduler(options, new KvCache(kvTokens));
}

/** What requests ask of an engine. */
interface Demand {
  /** How many come in a nominal decode step. */
  readonly perStep: number;
  /** KV entries that a running one holds on average: its prompt and half its answer. */
  readonly heldTokens: number;
}

function demandOf({ promptLog, promptSpread, outputLog, outputSpread, perStep }: RequestStatistics): Demand {
  const mean = (log: number, spread: number): number => Math.exp(log + spread ** 2 / 2);
  return { perStep, heldTokens: mean(promptLog, promptSpread) + mean(outputLog, outputSpread) / 2 };
}

function demandOfLog(log: readonly LoggedRequest[]): Demand {
  const mean = (of: (request: LoggedRequest) => number): number =>
    log.reduce((sum, request) => sum + of(request), 0) / log.length;
  const prompt = mean(({ promptTokens }) => promptTokens);
  return {
    perStep: PROMPT_TOKENS_PER_STEP / prompt,
    heldTokens: prompt + mean(({ outputTokens }) => outputTokens) / 2,
  };
}

/** What the synthetic requests like azure-conv bring. */
const PROMPT_TOKENS_PER_STEP = 50;

function arrivalsOf(
  stream: RequestStream,
  { concurrency }: ServingSpec,
  faults: readonly Fault[],
  replicas: number,
): Arrivals {
  if (concurrency === undefined) return new OpenArrivals(stream);
  // Where the cache will be too small for the clients, it is because most of them come with the onset.
  const few = (step: number): boolean => faults.some(({ effect, onset }) => effect === 'kv' && step < onset);
  return new ClosedArrivals(stream, (step) => Math.ceil((few(step) ? FEW_CLIENTS : 1) * concurrency) * replicas);
}

/** Share of its clients that a cache has room for which will be too small. */
const FEW_CLIENTS = 0.3;
/** Room over the mean with which requests are hardly ever preempted: then a fifth too little costs a fifth of all tokens. */
const KV_HEADROOM = 1.3;

/** Size of a replica's cache: ample, just as large as the load needs, or too small for it. */
function kvTokensOf(spec: ServingSpec, faults: readonly Fault[], heldTokens: number): number {
  const needed = (spec.concurrency ?? 0) * heldTokens;
  const fault = faults.find(({ effect }) => effect === 'kv');
  if (fault) return (KV_HEADROOM * needed) / (1 + fault.strength);
  return spec.tightKv ? needed : ENGINE.kvTokens;
}
