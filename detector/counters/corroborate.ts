import type { Finding, JobWindow } from '../detectors/finding.js';

/** Kinds of slow transfers between hosts, found by their durations alone. */
const BETWEEN_HOSTS: ReadonlySet<string> = new Set(['rnic_flap', 'comm_slow']);

const isOfPort = ({ key }: Finding): boolean => key.startsWith('port=');

/**
 * Says what counters and events add to findings: whose port it is, which link has errors. Without counters all stay as they are.
 */
export function corroborate(findings: readonly Finding[], { counters }: JobWindow): Finding[] {
  if (!counters || counters.sources.size === 0) return [...findings];
  const ofPorts = new Set(findings.filter(isOfPort).flatMap(({ subject }) => subject.hosts));
  // The port's own finding says more than that of each communicator over it.
  return findings.filter(
    (finding) =>
      isOfPort(finding) || !BETWEEN_HOSTS.has(finding.kind) || !finding.subject.hosts.some((host) => ofPorts.has(host)),
  );
}
