/*
 * Magnitudes and noise of healthy jobs. Everything here was measured, on:
 *   h200-train  two H200 GPUs training data parallel (20 ms a step, eager) and pipeline parallel, 240 steps a scenario
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

/** How steadily GPUs compute: two kinds, since two were recorded. */
export const GPUS = {
  /** h200-train: two GPUs at their power limit, equal inputs. */
  power_limited: {
    /**
     * Wander of one GPU's compute speed against its peers' (clock and power control), an Ornstein-Uhlenbeck process.
     * Log ratio of the two ranks' forward + backward: robust 0.016-0.035, median of six scenarios 0.021 = sqrt(2) sigma;
     * its variogram gives a time constant of 60-400 ms, median 100.
     */
    wander: 0.015,
    /** The same shared by all ranks: mean of the two ranks' log backward, robust 0.02-0.03, variogram 150-200 ms. */
    commonWander: 0.02,
    /** White part of a phase: ratio of the ranks at lag 1 less the wander. */
    forwardWhite: 0.005,
    backwardWhite: 0.005,
    contents: 0,
  },
  /** ndtimeline: a production job. What looks like noise of its GPUs is mostly the data. */
  steady: {
    wander: 0,
    /** Step by step after the first 5 the job wanders by 0.007; less what the contents give (0.004) over 0.85 s. */
    commonWander: 0.011,
    /** Log ratio of a phase of two data parallel peers less the part common to all stages: 0.0115 and 0.006 = sqrt(2) white. */
    forwardWhite: 0.008,
    backwardWhite: 0.0042,
    /**
     * What a microbatch holds, beyond its number of tokens: forward and backward of one microbatch are as much longer
     * on all stages (rank correlation 0.75-0.84), its neighbours are not. Ratio of peers 0.0163 = sqrt(2) times this.
     */
    contents: 0.0115,
  },
} as const;
export type GpuKind = keyof typeof GPUS;

export const NOISE = {
  /** Memory of the wanders below GPUS; see there. */
  wanderTimeNs: 100 * MS,
  commonWanderTimeNs: 150 * MS,
  /**
   * Constant speed difference between GPUs of one job. Median of log(rank 1 / rank 0) of forward and backward: h200-train
   * 0.003 to 0.010 apart in eight scenarios; ndtimeline per stage 0.000 to 0.012. Mean distance 0.0055 = 1.13 sigma.
   */
  gpuSpread: 0.005,
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
  /**
   * What a run adds to the transfers of one communicator and message size, all along. Medians of ten runs of h200-tp2 differ
   * by 0.008 (8 KB), 0.012 (64 KB), 0.021 (256 KB) and 0.012 (512 KB); of eight of h200-train by 0.006.
   */
  transferRun: 0.014,
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
  /** h200-train train_gc: 80 ms of the 362 ms step of traceml#252, every 23 steps of each rank in turn. */
  rotatingGcFactor: 0.22,
  rotatingGcSteps: 23,
  /** Evaluation taken for a hang (intelligent-machine-learning/dlrover PR 1727); 600 s every 500 steps of 15.7 s is our choice. */
  evaluationSteps: 500,
  evaluationFactor: 38,
  /** Loader stalls of all ranks, 2 to 13 nominal steps long (m2lines/Samudra#634: 20-47 s against 0.7-3); their rate is our choice. */
  loaderStallRate: 1 / 1000,
  loaderStallMin: 2,
  loaderStallMax: 13,
  /** marin#8934: 20 minutes from a failure to the next step; a run that restarts does so every 500 steps: our choice. */
  restartNs: 1200e9,
  restartSteps: 500,
  /** Steps done again where no checkpoint says how many. */
  restartRepeats: 10,
  /** How much more often a look-alike evaluates and saves, so that a short run holds some. */
  frequent: 6,
  /** Stages of healthy jobs in ByteDance-Seed/StragglerAnalysis: the slowest takes up to 1.045 times the median. */
  stageSpread: 0.045,
} as const;

/** Mixture-of-experts layers. No recording: shares are our choice, in the order of DeepSeek-V3's published profile. */
export const EXPERTS = {
  /** Of forward and of backward. */
  share: 0.4,
  /** Dispatch or combine of a microbatch over its nominal forward or backward. */
  exchangeShare: 0.06,
  /** Tokens of balanced ranks: +-2 %, our choice. */
  spread: 0.02,
  /** Hot experts on 2 of 8 GPUs, after deepseek-ai/DeepEP#343: even over the nodes, uneven within them. */
  hotShare: 0.25,
  topK: 8,
} as const;

/**
 * Host preparation of eight ranks whose threads share cores, over the longest: after NVIDIA/srt-slurm PR 332, where it
 * takes 35 to 56 ms and two ranks stay fast.
 */
export const CONTENTION = [0.93, 0.86, 0.01, 1, 0.63, 0.01, 0.79, 0.89] as const;

/** Share of a compute phase that memory bandwidth binds (norms, activations, elementwise); our choice. */
export const MEMORY_BOUND_SHARE = 0.3;

/** Transfers between hosts of a busy network, for the look-alike of slow ones: our choice. */
export const JITTER = { spread: 0.1, slowRate: 0.01, slowFactor: 1.6 } as const;

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
