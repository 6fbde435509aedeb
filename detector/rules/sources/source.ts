import type { RuleText } from '../rule-file.js';

/** Where rules come from. */
export interface RuleSource {
  /** For people; holds no secrets. */
  readonly description: string;
  /** May take longer than a caller can wait: it goes over the network. */
  readonly isRemote: boolean;
  /** Reads one consistent state of all rule files. Throws PicketError where that is impossible. */
  read(signal: AbortSignal): Promise<RuleTexts>;
}

export interface RuleTexts {
  /** Git commit; null where there is none. */
  readonly commit: string | null;
  readonly texts: readonly RuleText[];
}
