/** What a source of samples has read; the sampler adds job, host and time. */
export interface Reading {
  readonly name: string;
  readonly value: number;
  readonly unit?: string;
  readonly cumulative: boolean;
  readonly nic?: string;
  readonly gpu?: string;
}
