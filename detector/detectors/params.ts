/** What rules may set of a detector; where each default comes from stands in its detector's doc comment. */
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
