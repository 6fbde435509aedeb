import type { Cluster } from '../cluster.js';
import type { Fault } from '../faults.js';
import { TRAINING } from '../measured.js';
import type { Traffic } from '../network/traffic.js';
import type { Noise } from '../noise.js';
import type { Random } from '../random.js';
import type { HostBatches } from '../rows/host-batches.js';
import type { TrainingSpec } from '../scenario.js';
import type { TransferPace } from '../transfer-pace.js';
import type { Durations } from './durations.js';
import type { Events } from './events.js';
import type { Sequences } from './sequences.js';

/** What the parts of a training step share. */
export interface TrainingContext {
  readonly spec: TrainingSpec;
  readonly cluster: Cluster;
  readonly faults: readonly Fault[];
  readonly noise: Noise;
  readonly transferPace: TransferPace;
  readonly events: Events;
  readonly sequences: Sequences;
  readonly rows: HostBatches;
  /** Where bytes on the wires are counted, if anybody asks. */
  readonly traffic: Traffic | undefined;
  /** For what the network between hosts does. */
  readonly network: Random;
  readonly durations: Durations;
  readonly microbatches: number;
  /** When each rank can begin its next phase, ns from the run's base; infinite: never. */
  readonly free: Float64Array;
  /** Number of the running step. */
  step: number;
  /** Steps that the attempt has done before it. */
  sinceStart: number;
}

/** When a rank's next GPU phase begins: launching it takes a moment. */
export const launched = ({ free }: TrainingContext, rank: number): number =>
  (free[rank] as number) + TRAINING.launchGapNs;
