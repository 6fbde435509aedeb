import type { Incident } from '../../protocol/incident.js';
import type { Transition } from './incident-book.js';
import { type Storm, stormOpened, stormResolved, stormWith } from './storm-incident.js';
import { scopesOf, sharedScopes } from './storm-scope.js';

/**
 * Many incidents that open together are told once: as an incident of their own, which names what they share (a NIC, link,
 * host, communicator, stage, job; else nothing but the time) and its members. Members stay as they are, say which storm
 * they are `part_of`, and nobody is told of them one by one. Nothing but event time enters.
 */
export interface StormLimits {
  /** So many with something in common make a storm. */
  readonly incidents: number;
  /** So many do that have nothing in common: jobs of a large fleet fail independently all the time. */
  readonly unrelated: number;
  /** Within this time; so long after its last member a storm takes in another one. */
  readonly windowMs: number;
}

/** The window is Alertmanager's default group_interval, in which it tells what is new in a group at once. */
export const STORM_LIMITS: StormLimits = { incidents: 5, unrelated: 20, windowMs: 300_000 };

/** Plain data. */
export interface StormState {
  /** Incidents that opened within the window and belong to no storm, in that order. */
  recent: Opened[];
  /** Storms whose members are not all over, by id. */
  readonly storms: Map<string, Storm>;
  /** Member -> storm. */
  readonly partOf: Map<string, string>;
}

interface Opened {
  readonly incident: Incident;
  readonly atMs: number;
  readonly scopes: readonly string[];
}

export const newStormState = (): StormState => ({ recent: [], storms: new Map(), partOf: new Map() });

/** Kinds that never page need no relief. */
const INFORMING: ReadonlySet<string> = new Set(['transient_stall', 'data_quality']);

/** Takes in what changed, in order; gives it back with its storms named, followed by what changed of these. */
export function followStorms(
  state: StormState,
  transitions: readonly Transition[],
  limits: StormLimits = STORM_LIMITS,
): Transition[] {
  if (transitions.length === 0) return [];
  const before = new Map([...state.storms].map(([id, { incident }]) => [id, incident]));
  for (const { before: was, after } of transitions) {
    state.recent = state.recent.map((each) => (each.incident.id === after.id ? { ...each, incident: after } : each));
    if (opens(was, after)) joinOrWait(state, after, limits);
  }
  // Only now, so that what opens in one step is looked at together.
  while (begin(state, limits));
  const changed = new Map<string, Incident[]>();
  for (const { after } of transitions) {
    const id = state.partOf.get(after.id);
    if (id !== undefined) changed.set(id, [...(changed.get(id) ?? []), after]);
  }
  for (const [id, members] of changed) state.storms.set(id, stormWith(state.storms.get(id) as Storm, members));
  const own = transitions.map(({ before: was, after }) => ({ before: was, after: withStorm(state, after) }));
  return [...own, ...[...changed.keys()].flatMap((id) => changeOf(state, id, before.get(id)))];
}

/** An incident with the storm that it is part of. */
export function withStorm({ partOf }: StormState, incident: Incident): Incident {
  const storm = partOf.get(incident.id);
  return storm === undefined ? incident : { ...incident, part_of: storm };
}

const opens = (before: Incident | undefined, after: Incident): boolean =>
  after.status !== 'resolved' && (before === undefined || before.status === 'resolved') && !INFORMING.has(after.kind);

const timeOf = ({ timeline }: Incident): number => Date.parse((timeline.at(-1) as Incident['timeline'][number]).at);

/** Takes an incident into the storm that goes on where it belongs, if there is one. */
function joinOrWait(state: StormState, incident: Incident, limits: StormLimits): void {
  const [atMs, scopes] = [timeOf(incident), scopesOf(incident)];
  if (state.partOf.has(incident.id)) return;
  const storm = [...state.storms].find(
    ([, { scope, lastMs }]) => scopes.includes(scope) && Math.abs(atMs - lastMs) <= limits.windowMs,
  );
  if (storm) {
    state.partOf.set(incident.id, storm[0]);
    storm[1].lastMs = Math.max(storm[1].lastMs, atMs);
    return;
  }
  state.recent = [
    ...state.recent.filter((each) => Math.abs(atMs - each.atMs) <= limits.windowMs && each.incident.id !== incident.id),
    { incident, atMs, scopes },
  ];
}

/** Makes a storm of the incidents that wait, if enough of them have something in common. */
function begin(state: StormState, { incidents, unrelated }: StormLimits): boolean {
  if (state.recent.length < incidents) return false;
  const scopes = state.recent.map((each) => each.scopes);
  const [scope] = sharedScopes(scopes, (each) => (each === '' ? unrelated : incidents));
  if (scope === undefined) return false;
  const members = state.recent.filter(({ scopes }) => scopes.includes(scope));
  state.recent = state.recent.filter(({ scopes }) => !scopes.includes(scope));
  const storm = stormOpened(
    scope,
    members.map(({ incident }) => incident),
    Math.max(...members.map(({ atMs }) => atMs)),
  );
  state.storms.set(storm.incident.id, storm);
  for (const { incident } of members) state.partOf.set(incident.id, storm.incident.id);
  return true;
}

/** What people may want to hear of a storm: that it began, grew more severe, or is over. */
function changeOf(state: StormState, id: string, before: Incident | undefined): Transition[] {
  const storm = state.storms.get(id) as Storm;
  if ([...storm.members.values()].every(({ open: isOpen }) => !isOpen)) {
    state.storms.delete(id);
    for (const member of storm.members.keys()) state.partOf.delete(member);
    const resolved = stormResolved(storm);
    return before
      ? [{ before, after: resolved }]
      : [
          { before, after: storm.incident },
          { before: storm.incident, after: resolved },
        ];
  }
  return before?.severity === storm.incident.severity ? [] : [{ before, after: storm.incident }];
}
