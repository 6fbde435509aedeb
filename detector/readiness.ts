import type { Logger } from 'pino';
import { PicketError } from '../protocol/errors.js';

/** Something that must be well for the detector to do its work. */
export interface ReadinessProbe {
  readonly name: string;
  /** Why it is not; undefined when it is. A throw counts as a reason. */
  check(): string | undefined;
}

/** What keeps a detector from its work, by the probes that say so. */
export function whyNotReady(probes: readonly ReadinessProbe[]): { probe: string; reason: string }[] {
  return probes.flatMap((probe) => {
    const reason = reasonOf(probe);
    return reason === undefined ? [] : [{ probe: probe.name, reason }];
  });
}

function reasonOf(probe: ReadinessProbe): string | undefined {
  try {
    return probe.check();
  } catch (error) {
    return error instanceof PicketError ? error.problem : 'check failed';
  }
}

/** Logs that a detector is ready once it is, by what /readyz says; before, once, why it is not. */
export function readinessLog(probes: readonly ReadinessProbe[], log: Logger, url: string): () => void {
  let told: 'nothing' | 'not ready' | 'ready' = 'nothing';
  return () => {
    if (told === 'ready') return;
    const reasons = whyNotReady(probes);
    if (reasons.length === 0) log.info({ url }, 'detector ready');
    else if (told === 'nothing') log.warn({ url, reasons }, 'detector started, but not ready');
    told = reasons.length === 0 ? 'ready' : 'not ready';
  };
}
