/*
 * Magnitudes and noise of healthy jobs. Everything here was measured, on:
 *   h200-train  two H200 GPUs training data parallel (20 ms a step, eager) and pipeline parallel, 240 steps a scenario
 *   h200-tp2    two H200 GPUs serving tensor parallel with CUDA graphs, scenarios healthy and healthy_2, 1,000 steps
 *   ndtimeline  ByteDance-Seed/StragglerAnalysis trace ST: 2 data parallel x 4 stages, 32 sampled steps of 2.2 s
 *   dlrover     training events of a production job in intelligent-machine-learning/dlrover
 * Not modelled: GPUs at their power limit compute 6 % faster once they wait for more than about 12 % of a step (h200-train
 * train_slow_*, train_dataload), and swing by 10-20 % for 0.2 s about once a second in their first 3 s of load.
 * "Robust" is 1.4826 x the median absolute deviation of the logarithm; noise is given as a standard deviation of the logarithm.
 */
const US = 1e3;
const MS = 1e6;

export const TRAINING = {
  /** ndtimeline, medians of a microbatch on stages 0-2 (0.0676 s, 0.1446 s). */
  forwardNs: 67.6 * MS,
  backwardNs: 144.6 * MS,
  /** ndtimeline, minimum over the group's ranks: grads-reduce-scatter, params-all-gather, embedding all-reduce. */
  reduceScatterNs: 50.5 * MS,
  allGatherNs: 24.2 * MS,
  embeddingAllReduceNs: 10.5 * MS,
  /** ndtimeline, optimizer-clip-main-grad, 1 % quantile over all ranks: what is left of it without the wait. */
  gradNormNs: 4.9 * MS,
  optimizerNs: 38.2 * MS,
  /** ndtimeline, forward-send and backward-send of ranks whose peer already waits. */
  sendNs: 0.45 * MS,
  /** h200-train train_healthy, all-reduce of 805 MB over NVLink: as many bytes as the 12 all-reduces of a microbatch (67 MB each). */
  tensorAllReduceNs: 3.0 * MS,
  tensorAllReduces: 12,
  /** h200-train train_healthy, between the end of a step on the GPU and the start of the next. */
  hostGapNs: 0.288 * MS,
  /** h200-train train_healthy, step less its phases (171-177 us), for each of its four phases: launching it. */
  launchGapNs: 43 * US,
  /** traceopt-ai/traceml#252, input wait of the healthy ranks of a 362 ms step. */
  dataloadNs: 10.4 * MS,
  microbatchTokens: 4096,
} as const;

export const NOISE = {
  /**
   * Constant speed difference between GPUs of one job. Median of log(rank 1 / rank 0) of forward and backward: h200-train
   * 0.003 to 0.010 apart in eight scenarios; ndtimeline per stage 0.000 to 0.012. Mean distance 0.0055 = 1.13 sigma.
   */
  gpuSpread: 0.005,
  /**
   * Wander of one GPU's compute speed against its peers' (clock and power control), an Ornstein-Uhlenbeck process.
   * h200-train, log ratio of the two ranks' forward + backward: robust 0.016-0.035, median of six scenarios 0.021 =
   * sqrt(2) sigma; its variogram gives a time constant of 60-400 ms, median 100.
   * Averaged over 68 and 145 ms the same process gives ndtimeline's ratios of microbatches too (0.020, 0.018 against the
   * measured 0.018-0.024 forward and 0.015-0.021 backward).
   */
  wander: 0.015,
  wanderTimeNs: 100 * MS,
  /**
   * The same shared by all ranks of a job. h200-train, mean of the two ranks' log backward: robust 0.02-0.03, variogram
   * 150-200 ms; ndtimeline after its first 5 steps, step by step: 0.007 (the process below averaged over 0.85 s: 0.010).
   */
  commonWander: 0.02,
  commonWanderTimeNs: 150 * MS,
  /** White part of a phase. h200-train, ratio of the ranks at lag 1 less the wander: 0.004; ndtimeline: 0.006. */
  white: 0.005,
  /** A single slow phase: ndtimeline, 1 of 2,048 rank-microbatches is more than 10 % (19 %) off. */
  spikeRate: 5e-4,
  spikeMin: 0.1,
  spikeMax: 0.2,
  /** ndtimeline: compute of steps 23-36 is 5.8 % faster than that of steps 259-1048. */
  settling: 0.06,
  settlingSteps: 100,
  /** h200-train: optimizer, robust residual at lag 1 0.0023; ndtimeline 0.003-0.0047. */
  optimizer: 0.003,
  /** Transfer of collectives. h200-train all-reduce 0.0125, h200-tp2 a step's sum 0.0115-0.0149, send 0.007-0.012, ndtimeline 0.005-0.019. */
  transfer: 0.012,
  /** h200-train and h200-tp2: the ranks' ends of one collective differ by 0.4-0.46 us. */
  collectiveEndNs: 0.4 * US,
  /** h200-train train_healthy: gap between steps 288 +- 35 us. */
  host: 0.12,
  /** Clocks of hosts under NTP are off by about 10 ms (EROICA, NSDI 2026). */
  hostClockNs: 10 * MS,
} as const;

/** Healthy things that look like faults. */
export const EVENTS = {
  /** dlrover: first step 1,346.5 s, second 20.5 s, then 15.7 s. */
  warmupFactors: [85.9, 1.31],
  /** RBLN-SW/vllm-rbln: warm-up differs by hundreds of milliseconds between ranks, about 1 % of the first step. */
  warmupSpread: 0.01,
  /** dlrover: saves of 91.6 s and 91.0 s, 198 steps of 15.7 s apart. */
  checkpointSteps: 198,
  checkpointFactor: 5.8,
  checkpointSpread: 0.005,
  /** Collections of 80 ms (h200-train train_gc) to 714 ms (nanochat PR 477); how often is our choice: healthy means rarely. */
  gcRate: 1 / 200,
  gcMinNs: 80 * MS,
  gcMaxNs: 714 * MS,
} as const;

/** h200-train train_tokens_vary_*: tokens of a microbatch, and duration = fixed share + rest x tokens / 4096. */
export const TOKENS = {
  sigma: 0.6,
  min: 512,
  max: 16384,
  multiple: 64,
  /** Intercepts of the linear fits: forward 1.0-1.2 of 5.9 ms, backward 0.73-0.82 of 10.5 ms. */
  forwardFixed: 0.18,
  backwardFixed: 0.075,
  /** Robust residual of the fits from 2,048 tokens on: forward 0.04-0.08, backward 0.03-0.06; equal shapes explain 0.015. */
  white: 0.04,
} as const;

/** A decode step under CUDA graphs by batch bucket: h200-tp2 healthy and healthy_2, medians of a step's sums over 16 layers. */
export const SERVING = {
  layers: 16,
  buckets: [
    { graph: 1, attentionNs: 763 * US, mlpNs: 866 * US, allReduceNs: 317 * US },
    { graph: 8, attentionNs: 780 * US, mlpNs: 922 * US, allReduceNs: 337 * US },
    { graph: 32, attentionNs: 883 * US, mlpNs: 935 * US, allReduceNs: 373 * US },
    { graph: 64, attentionNs: 1100 * US, mlpNs: 916 * US, allReduceNs: 429 * US },
  ],
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
  contextTokens: 1024,
  hidden: 4096,
} as const;

/** Prefills in the same recordings: launched eagerly, so the host's pace shows wherever the GPU's work is shorter. */
export const PREFILL = {
  share: 0.058,
  tokens: [512, 1024, 2048],
  /** Smallest sums of a step: attention 1.5, 2.1, 3.7 ms; mlp 2.3, 4.0, 7.7; all-reduce transfer 2.2, 2.6, 2.8 at those tokens. */
  attentionNs: [1.5 * MS, 2.1 * MS, 3.7 * MS],
  mlpNs: [2.3 * MS, 4.0 * MS, 7.7 * MS],
  allReduceNs: [2.2 * MS, 2.6 * MS, 2.8 * MS],
  /** Whole steps: 10 % quantile 11.5 ms, median 16.2, 90 % quantile 21.5; how its excess falls on the phases differs freely by rank. */
  launchBoundNs: 15.5 * MS,
  launchBoundSpread: 0.2,
  /** 7 % of them take 60-88 ms on both ranks. */
  stallRate: 0.069,
  stallMinNs: 45 * MS,
  stallMaxNs: 72 * MS,
} as const;
