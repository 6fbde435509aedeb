import type { REQUESTS } from '../measured-requests.js';

export interface Request {
  readonly id: string;
  /** From the run's base. */
  readonly arrivalNs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Hashes of the prompt's whole blocks of 512 tokens, each including what comes before it; empty where not known. */
  readonly prefix: readonly number[];
}

/** Requests without end, by rising arrival. */
export interface RequestStream {
  next(): Request;
}

export type RequestMix = keyof typeof REQUESTS;
