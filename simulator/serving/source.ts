import type { Cluster } from '../cluster.js';
import { range } from '../communicators.js';
import type { Fault } from '../faults.js';
import { REQUESTS, type RequestStatistics } from '../measured-requests.js';
import { ENGINE } from '../measured-serving.js';
import type { CheckedOptions } from '../options.js';
import { Random } from '../random.js';
import { type Arrivals, ClosedArrivals, OpenArrivals } from '../requests/arrivals.js';
import { LoggedRequests, readRequestLog } from '../requests/log.js';
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
  /** Which of the jobs that share the requests this is. */
  readonly engine: { readonly first: number; readonly of: number };
}

/** What a serving job works on. Throws `bad_input` where a request log cannot be read. */
export function loadSource({ options, spec, cluster, faults, scale, engine }: SourceParts): LoadSource {
  const { seed, steps } = options;
  const { job, layout } = cluster;
  if (spec.load !== 'scheduled')
    return new RecordedLoad(Random.stream(seed, job, 'load'), spec, faults, scale, Math.floor(steps / 3));
  const mix = options.requestMix ?? spec.mix ?? 'azure-conv';
  const statistics = REQUESTS[mix];
  const schedulers = range(layout.dp).map(
    () =>
      new Scheduler(
        {
          maxTokens: spec.chunked === false ? Number.POSITIVE_INFINITY : ENGINE.chunkTokens,
          maxRunning: spec.maxRunning ?? ENGINE.maxRunning,
          reserves: spec.reserves ?? false,
        },
        new KvCache(kvTokens(spec, faults, statistics)),
      ),
  );
  const rate = options.requestRate ?? (statistics.perStep * 1e9) / (NOMINAL_STEP_NS * scale);
  const stream = streamOf(options, job, statistics, 1e9 / (rate * layout.dp), engine);
  return new ScheduledLoad({
    ...{ schedulers, faults, scale },
    arrivals: arrivalsOf(stream, spec, faults, layout.dp),
    router: new Router(Random.stream(seed, job, 'router'), spec.routing, faults, layout.tp),
    random: Random.stream(seed, job, 'long prompts'),
  });
}

function streamOf(
  { seed, requestLog }: CheckedOptions,
  job: string,
  statistics: RequestStatistics,
  meanGapNs: number,
  engine: SourceParts['engine'],
): RequestStream {
  if (requestLog !== undefined) return new LoggedRequests(readRequestLog(requestLog), meanGapNs, engine);
  return new SyntheticRequests(Random.stream(seed, job, 'requests'), statistics, meanGapNs);
}

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
function kvTokens(spec: ServingSpec, faults: readonly Fault[], statistics: RequestStatistics): number {
  const needed = (spec.concurrency ?? 0) * heldTokens(statistics);
  const fault = faults.find(({ effect }) => effect === 'kv');
  if (fault) return (KV_HEADROOM * needed) / (1 + fault.strength);
  return spec.tightKv ? needed : ENGINE.kvTokens;
}

/** KV entries that a running request holds on average: its prompt and half its answer. */
function heldTokens({ promptLog, promptSpread, outputLog, outputSpread }: RequestStatistics): number {
  const mean = (log: number, spread: number): number => Math.exp(log + spread ** 2 / 2);
  return mean(promptLog, promptSpread) + mean(outputLog, outputSpread) / 2;
}
