/*
 * Request logs: logarithms' mean and deviation of prompt and output lengths, their limits, and how much of a prompt was
 * seen before. The lognormal distributions keep mean lengths within 20 % of the logs'; bursts of the logs are not kept.
 *   azure-conv, azure-code  Azure/AzurePublicDataset 2023: 19,366 requests at 5.5/s (variance of requests a second 1.4 x
 *                           the mean), 8,819 at 2.6/s (13 x)
 *   mooncake                kvcache-ai/Mooncake conversation: 12,031 at 3.4/s
 */
export interface RequestStatistics {
  readonly promptLog: number;
  readonly promptSpread: number;
  readonly promptMin: number;
  readonly promptMax: number;
  readonly outputLog: number;
  readonly outputSpread: number;
  readonly outputMin: number;
  readonly outputMax: number;
  /** Requests that an engine gets a nominal decode step, so that about 8 run at a time: our choice. */
  readonly perStep: number;
  /**
   * Share of requests that continue an earlier one, and the mean share of their prompt that it left. Mooncake: 39 % and
   * 71 %, longer prompts more often; half of them, drawn whatever the length, give the 37 % of all blocks.
   */
  readonly continues: number;
  readonly continuedShare: number;
}

const NO_PREFIXES = { continues: 0, continuedShare: 0 };

export const REQUESTS = {
  'azure-conv': {
    ...{ promptLog: 6.63, promptSpread: 0.985, promptMin: 2, promptMax: 14_050 },
    ...{ outputLog: 5.02, outputSpread: 0.86, outputMin: 7, outputMax: 1000 },
    ...{ ...NO_PREFIXES, perStep: 0.04 },
  },
  'azure-code': {
    ...{ promptLog: 7.0, promptSpread: 1.36, promptMin: 3, promptMax: 7437 },
    ...{ outputLog: 2.79, outputSpread: 0.85, outputMin: 6, outputMax: 1899 },
    ...{ ...NO_PREFIXES, perStep: 0.03 },
  },
  mooncake: {
    ...{ promptLog: 8.74, promptSpread: 1.2, promptMin: 891, promptMax: 126_195 },
    ...{ outputLog: 5.34, outputSpread: 1.36, outputMin: 1, outputMax: 2000 },
    ...{ continues: 0.5, continuedShare: 0.71, perStep: 0.01 },
  },
  /** Not from a log: prompts that fit into a graph, answers as in azure-conv. */
  'short-chat': {
    ...{ promptLog: 4.8, promptSpread: 0.5, promptMin: 16, promptMax: 400 },
    ...{ outputLog: 5.02, outputSpread: 0.86, outputMin: 7, outputMax: 1000 },
    ...{ ...NO_PREFIXES, perStep: 0.06 },
  },
  /** Not from a log: from the recorded prefill_blocking's prompts to Mooncake's mean; one token each. */
  'long-prompts': {
    ...{ promptLog: 8.9, promptSpread: 0.35, promptMin: 4096, promptMax: 12_288 },
    ...{ outputLog: 0, outputSpread: 0, outputMin: 1, outputMax: 1 },
    ...{ ...NO_PREFIXES, perStep: 0.02 },
  },
} as const satisfies Record<string, RequestStatistics>;
