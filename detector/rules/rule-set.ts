import { createHash } from 'node:crypto';
import { INCIDENT_KINDS, type IncidentKind } from '../../protocol/incident.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import { type Globs, globsMatch } from './globs.js';
import { type JobPolicy, JobRules } from './job-rules.js';
import { hasErrors, type RuleProblem } from './problem.js';
import type { Rule, SwitchedOff } from './rule.js';
import { parseRuleFile, type RuleFile, type RuleId, type RuleText } from './rule-file.js';

/** Rules in force together, and where they came from. */
export class RuleSet {
  readonly rules: readonly Rule[];
  readonly switchedOff: readonly SwitchedOff[];
  /** Git commit, or a hash of the contents where there is none. */
  readonly commit: string;
  readonly #byId: ReadonlyMap<string, Rule>;
  /** By job, engine and model: the attempts of a job share one. */
  readonly #policies = new Map<string, JobPolicy>();

  constructor(files: readonly RuleFile[], commit: string) {
    this.rules = files.flatMap((file) => file.rules).filter(({ status }) => status !== 'disabled');
    this.switchedOff = files.flatMap((file) => file.switchedOff);
    this.commit = commit;
    this.#byId = new Map(this.rules.map((rule) => [rule.id, rule]));
  }

  /** Names of the labels that rules add; an owner is one. */
  labelNames(): ReadonlySet<string> {
    return new Set(this.rules.flatMap(({ labels, owner }) => [...(owner ? ['owner'] : []), ...labels.keys()]));
  }

  rule(id: string): Rule | undefined {
    return this.#byId.get(id);
  }

  /** The rules that hold for a job, in order of precedence. */
  forJob(meta: Pick<JobMeta, 'job' | 'engine' | 'model'>): JobPolicy {
    const key = JSON.stringify([meta.job, meta.engine, meta.model]);
    let policy = this.#policies.get(key);
    if (!policy) {
      if (this.#policies.size >= MAX_POLICIES) this.#policies.clear();
      this.#policies.set(key, (policy = this.#policyFor(meta)));
    }
    return policy;
  }

  #policyFor({ job, engine, model }: Pick<JobMeta, 'job' | 'engine' | 'model'>): JobPolicy {
    const rules = this.rules.filter(
      ({ match }) => fits(match.job, job) && fits(match.engine, engine) && fits(match.model, model),
    );
    const switchedOff = this.switchedOff.filter(({ jobs }) => globsMatch(jobs, job));
    return new JobRules(this.commit, rules, switchedOff);
  }

  /** Kinds that no rule reports. */
  kindsWithoutRule(): IncidentKind[] {
    const known = new Set(this.rules.map(({ kind }) => kind));
    return INCIDENT_KINDS.filter((kind) => !known.has(kind));
  }
}

/** Jobs come and go for as long as rules are in force. */
const MAX_POLICIES = 10_000;

const fits = (globs: Globs | undefined, name: string | undefined): boolean => !globs || globsMatch(globs, name);

/** What became of the texts of a rule set. */
export interface LoadedRules {
  readonly files: readonly RuleFile[];
  /** Undefined where there are errors. */
  readonly set: RuleSet | undefined;
  readonly problems: readonly RuleProblem[];
  /** Files that had to be parsed; the others were known. */
  readonly parsed: number;
}

/**
 * Makes a rule set of texts, all or nothing. Files that `known` has with the same text are not parsed again.
 * @param commit null: a hash of the contents
 */
export function loadRules(
  texts: readonly RuleText[],
  commit: string | null,
  known: readonly RuleFile[] = [],
): LoadedRules {
  const before = new Map(known.map((file) => [file.path, file]));
  let parsed = 0;
  const files = texts
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
    .map((text): RuleFile => {
      const old = before.get(text.path);
      if (old && old.text === text.text) return old;
      parsed++;
      return parseRuleFile(text);
    });
  const problems = [...files.flatMap((file) => file.problems), ...duplicateIds(files)];
  const set = hasErrors(problems) ? undefined : new RuleSet(files, commit ?? contentHash(texts));
  return { files, set, problems, parsed };
}

/** Names a set of texts that has no commit. */
export function contentHash(texts: readonly RuleText[]): string {
  const hash = createHash('sha256');
  for (const { path, text } of texts.toSorted((a, b) => (a.path < b.path ? -1 : 1)))
    hash.update(`${path.length}:${path}${text.length}:${text}`);
  return `content-${hash.digest('hex').slice(0, 12)}`;
}

function duplicateIds(files: readonly RuleFile[]): RuleProblem[] {
  const first = new Map<string, RuleId>();
  return files.flatMap(({ ids }) =>
    ids.flatMap(({ id, ...place }): RuleProblem[] => {
      const other = first.get(id);
      if (!other) {
        first.set(id, { id, ...place });
        return [];
      }
      return [
        {
          ...{ ...place, rule: id, level: 'error', check: 'duplicate-id' },
          message: `the id is taken by the rule at ${other.file}:${other.line}`,
          remedy: 'give each rule an id of its own',
        },
      ];
    }),
  );
}
