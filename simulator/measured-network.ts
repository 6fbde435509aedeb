import type { Points } from './interpolate.js';

/*
 * What slow links do. Sources:
 *   h200-tp2   two H200 GPUs serving tensor parallel over NVLink: 32 all-reduces a step, message sizes 8 KB to 16 MB
 *   sglang     haohervchb/sglang-V100 PR 2: all-reduce of four GPUs, fallback against direct kernel, by message size
 *   nccl       NVIDIA/nccl#1453: bus bandwidth by message size
 *   daqiri     NVIDIA/daqiri#250: pause frames
 */
const KB = 1024;
const MB = 1024 * KB;

/** nccl: 32 MiB moves at 29.5 GB/s, 64 MiB and more at 5. */
export const LARGE_MESSAGE_BYTES = 64 * MB;

/** Share of a slow path's strength by message size. */
export const SLOW_PATHS: { readonly small: Points; readonly host_memory: Points } = {
  /** sglang: the fallback costs 15.4, 15.3, 15.1, 12.4 and 7.3 us more at 4 to 128 KB, nothing at 384 KB. */
  small: [
    [8 * KB, 1],
    [16 * KB, 0.99],
    [32 * KB, 0.81],
    [128 * KB, 0.48],
    [384 * KB, 0],
    [512 * KB, 0],
  ],
  /** h200-tp2 nvlink_slow_path over healthy: +36, 74, 242 and 313 % from 8 to 512 KB; 640 % at 16 MB; 242 % counts as 1. */
  host_memory: [
    [8 * KB, 0.15],
    [64 * KB, 0.31],
    [256 * KB, 1],
    [512 * KB, 1.29],
    [16 * MB, 2.64],
    [17 * MB, 2.64],
  ],
};

export const FLAPS = {
  /** Our choice: down for 0.6 to 3 s, 5 to 17 s apart, where a step takes about a third of a second; in steps. */
  minSteps: 2,
  maxSteps: 8,
  minApart: 15,
  maxApart: 50,
} as const;

export const COUNTERS = {
  /** daqiri: 132 M pause frames since boot, none of them in this run. */
  lifetimePauses: 132e6,
  /** Our choice: what the side that cannot keep up sends. */
  pausesPerSecond: 2e5,
  /** Our choice: replays that a link with errors shows, a second. */
  replaysPerSecond: 40,
  /** A healthy link has some too. */
  healthyReplaysPerHour: 2,
} as const;
