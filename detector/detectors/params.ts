/** Costs less than this share of the step: nobody acts. */
interface Effect {
  /** Smallest share of the step whose loss counts. */
  readonly min_effect: number;
}

/** Must be so in this share of the last steps that the detector looks at. */
interface Lasting extends Effect {
  readonly persistence: number;
}

/** From so many times what is usual on. */
interface Ratio {
  readonly ratio: number;
}

/** What rules may set of a detector; where each default comes from stands in its detector's doc comment. */
export interface DetectorParams {
  readonly straggler: Effect;
  readonly nvlink_stall: Ratio & Lasting;
  readonly comm_slow: Ratio & Lasting;
  readonly rnic_flap: Ratio & Effect & { readonly bursts: number };
  readonly comm_hang: { readonly steps: number; readonly min_seconds: number; readonly first_seconds: number };
  readonly tp_slow_path: Ratio & Lasting;
  readonly prefill_blocking: Ratio & Effect;
  readonly kv_recompute: Effect;
  readonly no_cuda_graph: Lasting;
  readonly sched_imbalance: Lasting & { readonly min_waiting: number; readonly min_seconds: number };
  readonly load_imbalance: Ratio & Lasting;
  readonly stage_imbalance: Ratio & { readonly persistence: number };
  readonly step_drift: Ratio;
  readonly transient_stall: Ratio & { readonly min_seconds: number };
}

export const DEFAULT_PARAMS: DetectorParams = {
  straggler: { min_effect: 0.02 },
  nvlink_stall: { ratio: 1.11, min_effect: 0, persistence: 0.8 },
  comm_slow: { ratio: 1.11, min_effect: 0.01, persistence: 0.8 },
  rnic_flap: { ratio: 3, min_effect: 0.005, bursts: 3 },
  comm_hang: { steps: 3, min_seconds: 1, first_seconds: 1800 },
  tp_slow_path: { ratio: 1.11, min_effect: 0, persistence: 0.8 },
  prefill_blocking: { ratio: 4, min_effect: 0.2 },
  kv_recompute: { min_effect: 0.05 },
  no_cuda_graph: { min_effect: 0.1, persistence: 0.8 },
  sched_imbalance: { min_effect: 0.1, persistence: 0.8, min_waiting: 4, min_seconds: 2 },
  load_imbalance: { ratio: 1.05, min_effect: 0.05, persistence: 0.6 },
  stage_imbalance: { ratio: 1.1, persistence: 0.9 },
  step_drift: { ratio: 1.1 },
  transient_stall: { ratio: 5, min_seconds: 1 },
};
