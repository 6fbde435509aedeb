import { PicketError } from '../../protocol/errors.js';
import type { LastGood } from './last-good.js';
import type { RuleProblem } from './problem.js';
import type { RuleFile, RuleText } from './rule-file.js';
import { contentHash, type LoadedRules, loadRules, RuleSet } from './rule-set.js';
import type { RulesInForce } from './rules-in-force.js';
import type { RuleSource, RuleTexts } from './sources/source.js';

/** Why the newest rules are not in force. */
export interface RuleFailure {
  /** Of the rules that cannot be used; null where they could not even be read. */
  readonly commit: string | null;
  readonly message: string;
  readonly problems: readonly RuleProblem[];
}

export type ReloadOutcome =
  | { readonly state: 'loaded' | 'unchanged'; readonly commit: string; readonly rules: number }
  | { readonly state: 'failed'; readonly failure: RuleFailure };

export interface RuleStatus {
  readonly source: string;
  /** In force; null where there are none. */
  readonly commit: string | null;
  readonly rules: number;
  readonly files: readonly string[];
  /** Epoch milliseconds; null: never in this process. */
  readonly loadedAtMs: number | null;
  readonly attemptedAtMs: number | null;
  readonly failure: RuleFailure | null;
  readonly kindsWithoutRule: readonly string[];
}

export interface RuleManagerDeps {
  readonly source: RuleSource;
  readonly lastGood: { read(): Promise<LastGood | undefined>; write(rules: LastGood): Promise<void> };
  readonly pollMs: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly log: { info(facts: object, message: string): void; warn(facts: object, message: string): void };
  /** Called after other rules have come into force. */
  readonly onChange: () => void;
  /** Called after every attempt. */
  readonly onAttempt: (status: RuleStatus) => void;
}

/** With last good rules at hand, a start does not wait longer for a remote source. */
const START_WAIT_MS = 5000;

/**
 * Keeps the rules in force: polls their source, takes over a new set as a whole or not at all, and keeps the last one
 * without errors, over a restart too. Only files whose text has changed are parsed.
 */
export class RuleManager implements RulesInForce {
  #set = new RuleSet([], 'none');
  /** Of the rules in force, and of the newest ones whether they can be used or not. */
  #files: readonly RuleFile[] = [];
  #newest: readonly RuleFile[] = [];
  #loadedAtMs: number | null = null;
  #attemptedAtMs: number | null = null;
  #failure: RuleFailure | null = null;
  #loading: Promise<ReloadOutcome> | undefined;
  #next: Promise<ReloadOutcome> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #stop = new AbortController();
  readonly #deps: RuleManagerDeps;

  constructor(deps: RuleManagerDeps) {
    this.#deps = deps;
  }

  get current(): RuleSet {
    return this.#set;
  }

  /** Loads the rules, from where the last good ones are kept too, and begins to poll. Never throws: see `status`. */
  async start(): Promise<void> {
    const kept = await this.#deps.lastGood.read();
    const before = kept && loadRules(kept.files, kept.commit);
    if (before?.set) {
      this.#newest = before.files;
      this.#takeOver(before, before.set);
    }
    const loading = this.reload();
    if (before?.set && this.#deps.source.isRemote) await Promise.race([loading, delay(START_WAIT_MS)]);
    else await loading;
    this.#poll();
  }

  /**
   * Looks at the source now. During a look, which may have read what is out of date by now, all calls share the one look
   * that follows it.
   */
  reload(): Promise<ReloadOutcome> {
    if (!this.#loading) return this.#look();
    this.#next ??= this.#loading.then(() => {
      this.#next = undefined;
      return this.#loading ?? this.#look();
    });
    return this.#next;
  }

  #look(): Promise<ReloadOutcome> {
    this.#loading = this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  status(): RuleStatus {
    return {
      source: this.#deps.source.description,
      commit: this.#set.rules.length > 0 ? this.#set.commit : null,
      rules: this.#set.rules.length,
      files: this.#files.map(({ path }) => path),
      loadedAtMs: this.#loadedAtMs,
      attemptedAtMs: this.#attemptedAtMs,
      failure: this.#failure,
      kindsWithoutRule: this.#set.kindsWithoutRule(),
    };
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stop.abort();
    await (this.#next ?? this.#loading);
  }

  #poll(): void {
    if (this.#stop.signal.aborted) return;
    this.#timer = setTimeout(() => void this.reload().finally(() => this.#poll()), this.#deps.pollMs);
    this.#timer.unref();
  }

  async #load(): Promise<ReloadOutcome> {
    const { source, now, onAttempt, log } = this.#deps;
    const outcome = await this.#attempt(source);
    if (this.#stop.signal.aborted) return outcome;
    const failure = outcome.state === 'failed' ? outcome.failure : null;
    if (failure && failure.message !== this.#failure?.message)
      log.warn({ commit: failure.commit, in_force: this.#set.commit }, failure.message);
    this.#attemptedAtMs = now();
    this.#failure = failure;
    onAttempt(this.status());
    return outcome;
  }

  async #attempt(source: RuleSource): Promise<ReloadOutcome> {
    let [read, loaded]: [RuleTexts?, LoadedRules?] = [];
    try {
      read = await source.read(this.#stop.signal);
      loaded = loadRules(read.texts, read.commit, this.#newest);
    } catch (error) {
      const message =
        error instanceof PicketError ? error.message : `the rules cannot be read: ${(error as Error).message}`;
      return { state: 'failed', failure: { commit: read?.commit ?? null, message, problems: [] } };
    }
    this.#newest = loaded.files;
    if (!loaded.set || loaded.set.rules.length === 0) return { state: 'failed', failure: failureOf(loaded, read) };
    const sameFiles = loaded.files.length === this.#files.length;
    const unchanged = sameFiles && loaded.files.every((file, i) => file === this.#files[i]);
    if (unchanged && loaded.set.commit === this.#set.commit) return this.#done('unchanged');
    this.#takeOver(loaded, loaded.set);
    await this.#keep(read.texts);
    return this.#done('loaded');
  }

  #done(state: 'loaded' | 'unchanged'): ReloadOutcome {
    return { state, commit: this.#set.commit, rules: this.#set.rules.length };
  }

  #takeOver({ files, parsed }: LoadedRules, set: RuleSet): void {
    this.#set = set;
    this.#files = files;
    this.#loadedAtMs = this.#deps.now();
    this.#deps.log.info({ commit: set.commit, rules: set.rules.length, files: files.length, parsed }, 'rules loaded');
    this.#deps.onChange();
  }

  /** Rules that are in force stay so where they cannot be kept for a restart. */
  async #keep(texts: readonly RuleText[]): Promise<void> {
    try {
      await this.#deps.lastGood.write({ commit: this.#set.commit, files: [...texts] });
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'the rules could not be kept for a restart');
    }
  }
}

function failureOf({ problems, files, set }: LoadedRules, { texts, commit }: RuleTexts): RuleFailure {
  const errors = problems.filter(({ level }) => level === 'error');
  const first = errors[0];
  const message = first
    ? `${errors.length} error${errors.length === 1 ? '' : 's'} in the rules, first at ${first.file}:${first.line}:${first.col}: ${first.message}; ${first.remedy}`
    : `no rules in ${files.length} files; check the path of the rules`;
  return { commit: commit ?? set?.commit ?? contentHash(texts), message, problems: errors };
}

const delay = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
