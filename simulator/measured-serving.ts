import type { Points } from './interpolate.js';

/*
 * Serving, as recorded in h200-tp2: two H200 GPUs, tensor parallel, a decoder of 16 layers 4,096 wide. Scenarios healthy
 * and healthy_2 (1,000 steps), no_graph, no_graph_from_start, prefill_blocking and gc_pause; medians of a step's sums over
 * the layers. More GPUs in the group are taken to do the same: nothing was recorded of them.
 */
const US = 1e3;
const MS = 1e6;

export const SERVING = {
  layers: 16,
  hidden: 4096,
  /** Batches of the recordings, each sequence with about 1,024 tokens of context. */
  batches: [1, 8, 32, 64],
  contextTokens: 1024,
  /** Step less its phases: norms and what lies between, a layer. */
  layerGapNs: 6 * US,
  /** Constant difference between GPUs by bucket and phase: ratio of the two ranks' sums -1.5 to +1.3 %, mean distance 0.85 %. */
  gpuSpread: 0.0075,
  /** One layer about its own median; 16 of them give the step's sums 0.0047 (attention) and 0.0025 (mlp), as measured. */
  attentionWhite: 0.0175,
  mlpWhite: 0.012,
  /** So that the step's sum of 32 transfers varies by the measured 0.0115-0.0149. */
  transferWhite: 0.075,
  /** Host between two steps: median 3-6 us, 99 % quantile 11-17; then launch until the GPU begins: 20-40, 91-118. */
  hostGapNs: 4 * US,
  hostGapSpread: 0.55,
  launchNs: 22 * US,
  launchSpread: 0.6,
  /** gc_pause: 120 ms; how often is our choice: healthy means rarely. */
  pauseNs: 120 * MS,
  pauseRate: 1 / 2000,
} as const;

/** GPU time of a step, by what is in its batch. */
export const COST: {
  readonly attentionNs: Points;
  readonly mlpNs: Points;
  readonly allReduceNs: Points;
  readonly prefillNs: number;
  readonly prefillTokenNs: number;
  readonly prefillPairNs: number;
} = {
  /** By tokens of context: batches of 1, 8, 32 and 64. */
  attentionNs: [
    [1024, 763 * US],
    [8 * 1024, 780 * US],
    [32 * 1024, 883 * US],
    [64 * 1024, 1100 * US],
  ],
  /** By tokens in the batch: decodes, then prefills of 512 to 4,096 (+ 32 decodes); between 64 and 512 nothing was recorded. */
  mlpNs: [
    [1, 866 * US],
    [8, 922 * US],
    [32, 935 * US],
    [64, 916 * US],
    [256, 1280 * US],
    [512, 2.3 * MS],
    [1024, 4.05 * MS],
    [2048, 7.7 * MS],
    [4128, 15.87 * MS],
  ],
  /** By tokens in the batch, 8 KB each: transfer of 32 all-reduces. Prefills below 2,048 show their launches instead. */
  allReduceNs: [
    [1, 317 * US],
    [8, 337 * US],
    [32, 373 * US],
    [64, 429 * US],
    [2048, 2.62 * MS],
    [4128, 4.68 * MS],
  ],
  /** Attention of a prefill beyond that of a decode, fitted to 1.5, 2.0, 3.55 and 8.4 ms at 512 to 4,096 tokens: fixed, a token, a pair of them. */
  prefillNs: 240 * US,
  prefillTokenNs: 703,
  prefillPairNs: 0.528,
};

/** Steps launched kernel by kernel: the slower host of a group sets the pace, the other ranks wait for it in the all-reduces. */
export const EAGER = {
  /** A prefill between decodes under graphs. Whole steps: 10 % quantile 11.5 ms, median 16.2, 90 % quantile 21.5. */
  prefillNs: 11.5 * MS,
  /** Logarithm of a host's pace about its own, from step to step; no_graph: correlation of neighbours 0.6-0.76. */
  spread: 0.2,
  memory: 0.75,
  /** Between processes: no_graph 10.5 ms a step, no_graph_from_start 19.6. */
  hostSpread: 0.25,
  /** How the slower rank's step falls on its phases: 3.7, 2.8, 3.1 of 11.1 ms; the rest lies between them. */
  attentionShare: 0.335,
  mlpShare: 0.25,
  allReduceShare: 0.28,
  /** Kernels a layer; our choice, in the order of the 280 a token of paiml/realizar#36. */
  attentionLaunches: 7,
  mlpLaunches: 6,
  allReduceLaunches: 2,
} as const;

/** Prefills of the recorded load: alone, launched eagerly. */
export const PREFILL = {
  share: 0.058,
  tokens: [512, 1024, 2048],
  /** The first of 1,024 and of 2,048 tokens took 44 to 72 ms longer on both ranks: something is made for a new shape. */
  firstStallFrom: 1024,
  stallMinNs: 44 * MS,
  stallMaxNs: 72 * MS,
} as const;

/** A serving engine's set-up, as vLLM's defaults go unless said otherwise. */
export const ENGINE = {
  /** CUDA graphs are captured for batches of these many tokens. */
  graphs: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  /** Tokens a step where prompts are cut: small, so that decodes hardly feel a chunk. */
  chunkTokens: 256,
  maxRunning: 64,
  blockTokens: 16,
  /** A block of Mooncake's trace. */
  chunkOfPrefix: 512,
  /** KV cache where it is ample: about 128 KB a token in 100 GB. */
  kvTokens: 800_000,
  /** Agreeing on batch sizes between replicas that step together: a small all-reduce. Our choice. */
  syncNs: 25 * US,
} as const;
