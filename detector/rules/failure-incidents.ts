import { deserialize, serialize } from 'node:v8';
import { newSubject } from '../../protocol/incident.js';
import type { Finding } from '../detectors/finding.js';
import { follow, type IncidentBook } from '../incidents/incident-book.js';
import { notificationsFor } from '../notify/notifications.js';
import type { Route } from '../notify/route.js';
import type { Store } from '../store/store.js';
import type { RuleStatus } from './manager.js';

/** Where the book of these incidents is kept: no topic of this name is ever read. */
const PLACE = { topic: 'picket.rules', partition: 0 };

/** Rules that cannot be used, as incidents of kind data_quality: one a commit, over once better rules are in force. */
export class RuleFailureIncidents {
  readonly #store: Pick<Store, 'acquire' | 'commit'>;
  readonly #routes: readonly Route[];
  /** What was stored last; undefined: not known yet. */
  #stored: string | undefined;

  constructor(store: Pick<Store, 'acquire' | 'commit'>, routes: readonly Route[]) {
    this.#store = store;
    this.#routes = routes;
  }

  /** Takes in what an attempt came to; true where that was news. */
  follow({ failure, commit }: RuleStatus, nowMs: number): boolean {
    const state = failure ? `${failure.commit}: ${failure.message}` : '';
    if (state === this.#stored) return false;
    const { epoch, checkpoint } = this.#store.acquire(PLACE);
    const book = checkpoint ? bookIn(checkpoint.snapshot) : new Map();
    const now = BigInt(nowMs) * 1_000_000n;
    const findings = failure ? [findingOf(failure.commit, failure.message, commit, now)] : [];
    const transitions = follow(book, findings, 0, now);
    this.#store.commit({
      partition: PLACE,
      epoch,
      checkpoint: { nextOffset: 0n, restartOffset: 0n, snapshot: serialize(book) },
      incidents: [...transitions.map(({ after }) => after), ...book.values()],
      notifications: transitions.flatMap(({ before, after }) => notificationsFor(before, after, this.#routes)),
      jobs: [],
      changes: transitions.map(({ after }) => after),
    });
    this.#stored = state;
    return transitions.length > 0;
  }
}

/** A book that is damaged begins anew: it is of one commit's rules only. */
function bookIn(snapshot: Uint8Array): IncidentBook {
  try {
    return deserialize(snapshot);
  } catch {
    return new Map();
  }
}

function findingOf(commit: string | null, message: string, inForce: string | null, now: bigint): Finding {
  const which = commit === null ? 'the rules' : `the rules of commit ${commit}`;
  const instead = inForce === null ? 'no rules are in force' : `those of ${inForce} stay in force`;
  return {
    kind: 'data_quality',
    key: `source=rules,commit=${commit ?? 'unreadable'}`,
    subject: newSubject('', '', { source: 'rules' }),
    cause: 'configuration',
    summary: `${which} cannot be used, ${instead}: ${message}`,
    onsetStep: 0,
    onsetNs: now,
    cost: { ms_per_step: 0, step_fraction: 0, gpu_seconds: 0 },
    confidence: 1,
    evidence: { commit: commit ?? '', in_force: inForce ?? '' },
    runnerUp: null,
  };
}
