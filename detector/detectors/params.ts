/** What rules may set of a detector; the defaults are what research/detection.md and the measured noise call for. */
export interface DetectorParams {
  readonly straggler: {
    /** Smallest share of the step whose loss counts. */
    readonly min_effect: number;
  };
  readonly stage_imbalance: {
    /** A stage is too heavy from so many times the others' compute on. */
    readonly ratio: number;
    /** Share of the last steps in which it must be. */
    readonly persistence: number;
  };
}

export const DEFAULT_PARAMS: DetectorParams = {
  straggler: { min_effect: 0.02 },
  stage_imbalance: { ratio: 1.1, persistence: 0.9 },
};
