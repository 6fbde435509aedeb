/** What an engine says of itself at a step. */
export interface EngineState {
  readonly kv_usage: number;
  readonly running: number;
  readonly waiting: number;
  readonly preempted: number;
  readonly cached_tokens: number;
  readonly recomputed_tokens: number;
}

/** Nominal GPU time of a step's phases, summed over the layers, ns. */
export interface StepCost {
  readonly attentionNs: number;
  readonly mlpNs: number;
  readonly allReduceNs: number;
}

/** What one replica does in a step. */
export interface Load extends StepCost {
  readonly prefillTokens: number;
  readonly decodeTokens: number;
  readonly contextTokens: number;
  /** Sequences. */
  readonly batch: number;
  /** Size of the CUDA graph that runs it; 0: launched kernel by kernel. */
  readonly graph: number;
  /** How long a host takes to launch it kernel by kernel, ns; 0 under a graph. */
  readonly paceNs: number;
  /** A pause inside the step that all ranks share, ns. */
  readonly stallNs: number;
  readonly request: string;
  readonly state?: EngineState;
}

/** Where a job's load comes from. */
export interface LoadSource {
  /** The step of each replica that begins at `nowNs`; undefined for those that have nothing to do. */
  next(nowNs: number, step: number): (Load | undefined)[];
  /** When there will be something to do, where no replica has: ns. */
  idleUntilNs(): number;
}
