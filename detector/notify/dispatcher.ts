import type { Incident } from '../../protocol/incident.js';
import type { AlertGroups } from '../store/outbox.js';
import { planGroup } from './plan.js';
import { AT_ONCE, type Route } from './route.js';
import type { Silences } from './silences.js';

const MINUTE_MS = 60_000;
/** Groups that are looked at before something is sent again. */
const GROUPS_AT_A_TIME = 50;

export interface DispatcherDeps {
  readonly groups: AlertGroups;
  readonly routes: readonly Route[];
  readonly silences: Pick<Silences, 'until'>;
}

/** Makes messages of what changed, for one receiver: puts it together, and holds back what is silenced or under maintenance. */
export class Dispatcher {
  readonly #receiver: string;
  readonly #deps: DispatcherDeps;
  readonly #routes: ReadonlyMap<string, Route>;

  constructor(receiver: string, deps: DispatcherDeps) {
    this.#receiver = receiver;
    this.#deps = deps;
    const own = deps.routes.filter((route) => route.receiver.name === receiver);
    this.#routes = new Map(own.toReversed().map((route) => [route.match.text, route]));
  }

  /** Looks at the groups that are due; false: there were none. Throws `store_unavailable`. */
  dispatch(nowMs: number): boolean {
    const due = this.#deps.groups.due(this.#receiver, nowMs, GROUPS_AT_A_TIME);
    if (due.length === 0) return false;
    const plans = due.map((group) => {
      // A group of a route that is configured no more is told at once.
      const route = this.#routes.get(group.route);
      const mutedUntil = (incident: Incident) => this.#mutedUntil(incident, route, nowMs);
      return [group.key, planGroup(this.#receiver, group, route?.timing ?? AT_ONCE, mutedUntil, nowMs)] as const;
    });
    this.#deps.groups.flush(this.#receiver, new Map(plans));
    return true;
  }

  /** Epoch milliseconds. */
  nextDueMs(): number | undefined {
    return this.#deps.groups.nextDueMs(this.#receiver);
  }

  #mutedUntil(incident: Incident, route: Route | undefined, nowMs: number): number | undefined {
    const silencedMs = this.#deps.silences.until(incident, nowMs);
    if (silencedMs !== undefined) return silencedMs;
    const nowNs = BigInt(Math.floor(nowMs)) * 1_000_000n;
    // Windows begin and end with a minute.
    return route?.mute.some(({ holds }) => holds(nowNs)) ? (Math.floor(nowMs / MINUTE_MS) + 1) * MINUTE_MS : undefined;
  }
}
