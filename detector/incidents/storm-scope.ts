import { type Incident, newSubject, type Subject } from '../../protocol/incident.js';

/**
 * What incidents may have in common, the most specific first. A scope is one of them as text, such as
 * `nic=["HOST","NIC"]`, `stage=["JOB",2]`, `job=["JOB"]`, and '' for nothing; JSON keeps names with any characters apart.
 */
const LEVELS = ['nic', 'link', 'host', 'group', 'stage', 'job', ''] as const;
type Level = (typeof LEVELS)[number];

/** An incident that names more hosts than these is about none of them. */
const MAX_HOSTS = 64;
/** Where more than these are shared alike, none of them stands out. */
const MAX_ALIKE = 4;
const NEARLY_ALL = 0.8;

const scope = (level: Level, ...values: (string | number)[]): string => `${level}=${JSON.stringify(values)}`;

/** All that an incident may share with others. */
export function scopesOf({ subject }: Pick<Incident, 'subject'>): string[] {
  const { job, hosts, nic, link, group, stage } = subject;
  const at = hosts.slice(0, MAX_HOSTS);
  return [
    ...(nic === null ? [] : at.map((host) => scope('nic', host, nic))),
    ...(link === null ? [] : at.map((host) => scope('link', host, link))),
    ...at.map((host) => scope('host', host)),
    ...(group === null ? [] : [scope('group', job, group)]),
    ...(stage === null ? [] : [scope('stage', job, stage)]),
    scope('job', job),
    '',
  ];
}

/**
 * The most specific scopes, alike, that take in nearly as many as the widest one does; empty: none takes in enough.
 * @param scopes of each incident
 * @param enough how many a scope must take in
 */
export function sharedScopes(scopes: readonly (readonly string[])[], enough: (scope: string) => number): string[] {
  const counts = new Map<string, number>();
  for (const own of scopes) for (const each of own) counts.set(each, (counts.get(each) ?? 0) + 1);
  const large = [...counts].filter(([each, count]) => count >= enough(each));
  const most = Math.max(...large.map(([, count]) => count));
  for (const level of LEVELS) {
    const ofLevel = large.filter(([each, count]) => levelOf(each) === level && count >= NEARLY_ALL * most);
    const best = Math.max(...ofLevel.map(([, count]) => count));
    const alike = ofLevel.filter(([, count]) => count === best).map(([each]) => each);
    if (alike.length > 0 && alike.length <= MAX_ALIKE) return alike;
  }
  return [];
}

/** Whom incidents are about that share these scopes. */
export function subjectOf(shared: readonly string[], members: readonly Subject[]): Subject {
  const only = (field: 'job' | 'run'): string => {
    const found = new Set(members.map((member) => member[field]));
    return found.size === 1 ? ([...found][0] as string) : '';
  };
  const [level, values] = partsOf(shared);
  const hosts = ['nic', 'link', 'host'].includes(level) ? values.map(([host]) => host as string) : [];
  const [, name] = (values.length === 1 && values[0]) || [];
  return newSubject(only('job'), only('run'), { hosts, ...(name !== undefined && { [level]: name }) });
}

/** As people read it: `host node-3`, `stage 2 of job pretrain`. */
export function textOf(shared: readonly string[]): string {
  const [level, values] = partsOf(shared);
  if (level === '') return 'nothing but the time';
  return values
    .map(([first, second]) => {
      if (level === 'nic' || level === 'link') return `${level === 'nic' ? 'NIC' : level} ${second} of host ${first}`;
      return second === undefined ? `${level} ${first}` : `${level} ${second} of job ${first}`;
    })
    .join(', ');
}

export const levelOf = (each: string): Level => each.slice(0, Math.max(0, each.indexOf('='))) as Level;

function partsOf(shared: readonly string[]): [Level, (string | number)[][]] {
  const level = levelOf(shared[0] ?? '');
  return [level, level === '' ? [] : shared.map((each) => JSON.parse(each.slice(level.length + 1)))];
}
