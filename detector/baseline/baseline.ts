import type { JobMeta } from '../../protocol/job-meta.js';
import { type Band, bandOf, type Calibration, upperPValue } from './conformal.js';
import {
  type BaselineFile,
  type BucketData,
  type GraphUseData,
  type PopulationData,
  parseBaseline,
  type RoleData,
} from './format.js';
import { NetworkEvaluator } from './network.js';
import { populationKey, populationName } from './population-key.js';
import { bucketOf, logFeature, type WorkShape } from './shape.js';
import { busFactor, type CollectiveShape } from './transfers.js';

/** Transfer of one collective, nanoseconds, and the bus bandwidth that it means; undefined for ops that have none. */
export interface ExpectedTransfer extends Band {
  /** GB/s, slowest to fastest. */
  readonly busbw: Band | undefined;
  /** Standard deviation, of the logarithm, of what healthy runs and communicators usually take. */
  readonly spread: number;
}

/** What healthy runs took, learnt before: synchronous, pure and the same on every machine. */
export class Baseline {
  readonly #populations: ReadonlyMap<string, Population>;

  constructor(file: BaselineFile) {
    this.#populations = new Map(file.populations.map((data) => [populationName(data.key), new Population(data)]));
  }

  /** What is expected of a job; undefined where nothing was learnt of its engine, model, device and configuration. */
  population(meta: JobMeta): Population | undefined {
    return this.#populations.get(populationName(populationKey(meta)));
  }
}

/** Reads a baseline file. Throws `bad_input` or `unsupported_version` naming file and field. */
export const loadBaseline = (text: string, file?: string): Baseline => new Baseline(parseBaseline(text, file));

/** Shapes further outside what was learnt from are not guessed at. */
const RANGE_MARGIN = Math.log(1.25);
/** Sizes of messages may lie so far apart for what lies between them to be interpolated. */
const MAX_SIZE_STEP = 8;
/** Sizes that differ less are one: half of the class width of training. */
const SAME_SIZE = 2 ** (1 / 8);
/** Rank-steps before a batch size says how it is launched, and the share that must agree. */
const MIN_GRAPH_ROWS = 5;
const AGREEMENT = 0.95;

/** Expectations of one population. */
export class Population {
  readonly data: PopulationData;
  readonly #roles: ReadonlyMap<number, RoleModel>;

  constructor(data: PopulationData) {
    this.data = data;
    this.#roles = new Map(data.roles.map((role) => [role.stage, new RoleModel(role)]));
  }

  /**
   * Duration, in nanoseconds, that a rank's work should take in a step; undefined where stage, target, bucket or shape
   * are not among what was learnt.
   *
   * @param target a phase, a class of StepView.work, or STEP_TIME
   * @param stage pipeline stage; -1: none
   */
  expectedWork(target: string, stage: number, shape: WorkShape): Band | undefined {
    const expected = this.#roles.get(stage)?.expect(target, shape);
    return expected && bandOf(expected.calibration, expected.predicted);
  }

  /** Probability that healthy work takes at least so long; undefined as for `expectedWork`. */
  pValue(target: string, stage: number, shape: WorkShape, observedNs: number): number | undefined {
    if (!(observedNs > 0 && Number.isFinite(observedNs))) return undefined;
    const expected = this.#roles.get(stage)?.expect(target, shape);
    return expected && upperPValue(expected.calibration, Math.log(observedNs) - expected.predicted);
  }

  /** Transfer of one collective, interpolated between the sizes that were seen; undefined outside of them. */
  expectedTransfer(shape: CollectiveShape): ExpectedTransfer | undefined {
    const expected = this.#transfer(shape);
    if (!expected) return undefined;
    const band = bandOf(expected.calibration, expected.predicted);
    const factor = busFactor(shape.op, shape.ranks);
    const busbw = (ns: number): number => ((factor as number) * shape.bytes) / ns;
    const { run_spread, rank_spread } = expected.calibration;
    return {
      ...band,
      spread: Math.hypot(run_spread, rank_spread),
      busbw: factor === undefined ? undefined : { q05: busbw(band.q95), q50: busbw(band.q50), q95: busbw(band.q05) },
    };
  }

  /** Probability that a healthy collective takes at least so long. */
  transferPValue(shape: CollectiveShape, observedNs: number): number | undefined {
    if (!(observedNs > 0 && Number.isFinite(observedNs))) return undefined;
    const expected = this.#transfer(shape);
    return expected && upperPValue(expected.calibration, Math.log(observedNs) - expected.predicted);
  }

  /** Are steps that only decode so many tokens launched as CUDA graphs? Undefined where that was not seen, or varied. */
  expectsGraph(decodeTokens: number): boolean | undefined {
    const known = this.data.graphs.filter(({ rows }) => rows >= MIN_GRAPH_ROWS);
    const above = known.find(({ decode_tokens }) => decode_tokens >= decodeTokens);
    if (!(decodeTokens > 0) || !above) return undefined;
    // A graph also serves the batches that are padded up to it; what lies between a graph and none is not known.
    const below = known.findLast(({ decode_tokens }) => decode_tokens <= decodeTokens) ?? above;
    const shares = [below, above].map(({ rows, graph_rows }) => graph_rows / rows);
    if (shares.every((share) => share >= AGREEMENT)) return true;
    return shares.every((share) => share <= 1 - AGREEMENT) ? false : undefined;
  }

  /** How steps that only decode exactly so many tokens were launched, and what they took; undefined: none was seen. */
  graphUse(decodeTokens: number): GraphUseData | undefined {
    return this.data.graphs.find(({ decode_tokens }) => decode_tokens === decodeTokens);
  }

  #transfer({ op, ranks, hosts, launch, bytes }: CollectiveShape): Expected | undefined {
    if (!(bytes > 0 && Number.isFinite(bytes))) return undefined;
    const alike = this.data.collectives.filter(
      (one) => one.op === op && one.ranks === ranks && one.hosts === hosts && one.launch === launch,
    );
    const nearest = alike.toSorted((a, b) => distance(a.bytes, bytes) - distance(b.bytes, bytes))[0];
    if (!nearest) return undefined;
    if (distance(nearest.bytes, bytes) <= Math.log(SAME_SIZE))
      return { predicted: nearest.center, calibration: nearest.transfer };
    const below = alike.filter((one) => one.bytes < bytes).sort((a, b) => b.bytes - a.bytes)[0];
    const above = alike.filter((one) => one.bytes > bytes).sort((a, b) => a.bytes - b.bytes)[0];
    if (!below || !above || above.bytes > MAX_SIZE_STEP * below.bytes) return undefined;
    const share = distance(below.bytes, bytes) / distance(below.bytes, above.bytes);
    return { predicted: below.center + share * (above.center - below.center), calibration: nearest.transfer };
  }
}

const distance = (a: number, b: number): number => Math.abs(Math.log(a / b));

interface Expected {
  /** Log of nanoseconds that residuals are taken about. */
  readonly predicted: number;
  readonly calibration: Calibration;
}

class RoleModel {
  readonly #role: RoleData;
  readonly #network: NetworkEvaluator;
  readonly #targets: ReadonlyMap<string, number>;
  readonly #inputs: Float32Array;
  /** Ranks of a step mostly have the same shape, and each is asked for every target: the last one is kept. */
  #last: { shape: WorkShape; bucket: BucketData; outputs: Float32Array } | undefined;

  constructor(role: RoleData) {
    this.#role = role;
    this.#network = new NetworkEvaluator(role.network);
    this.#targets = new Map(role.targets.map(({ name }, i) => [name, i]));
    this.#inputs = new Float32Array(role.features.length);
  }

  expect(target: string, shape: WorkShape): Expected | undefined {
    const output = this.#targets.get(target);
    if (output === undefined) return undefined;
    const known = this.#evaluate(shape);
    const calibration = known?.bucket.targets[target];
    if (!known || !calibration) return undefined;
    const { center, scale } = this.#role.targets[output] as RoleData['targets'][number];
    return { predicted: center + scale * (known.outputs[output] as number), calibration };
  }

  #evaluate(shape: WorkShape): { bucket: BucketData; outputs: Float32Array } | undefined {
    if (this.#last && sameShape(this.#last.shape, shape)) return this.#last;
    const bucket = this.#role.buckets[bucketOf(shape)];
    if (!bucket) return undefined;
    for (const [i, { name, mean, scale }] of this.#role.features.entries()) {
      const value = logFeature(shape, name);
      const [least, most] = bucket.ranges[i] as [number, number];
      if (!(value >= least - RANGE_MARGIN && value <= most + RANGE_MARGIN)) return undefined;
      this.#inputs[i] = (value - mean) / scale;
    }
    this.#last = { shape, bucket, outputs: this.#network.evaluate(this.#inputs) };
    return this.#last;
  }
}

const sameShape = (a: WorkShape, b: WorkShape): boolean =>
  a === b ||
  (Object.is(a.prefillTokens, b.prefillTokens) &&
    Object.is(a.decodeTokens, b.decodeTokens) &&
    Object.is(a.contextTokens, b.contextTokens) &&
    Object.is(a.batch, b.batch) &&
    Object.is(a.tokens, b.tokens) &&
    a.microbatches === b.microbatches &&
    a.graph === b.graph);
