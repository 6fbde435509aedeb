import { PicketError } from '../protocol/errors.js';

/** The places between two durable writes at which a test may kill the detector. */
export const FAIL_POINTS = [
  'store.before_commit',
  'store.after_commit',
  'bus.after_commit',
  'notify.before_send',
  'notify.after_send',
  'notify.after_ack',
] as const;
export type FailPoint = (typeof FAIL_POINTS)[number];

/** Told of every pass through a fail point; absent in normal service. */
export interface FailPoints {
  hit(point: FailPoint): void;
}

/**
 * Reads `NAME:COUNT` (the value of PICKET_FAILPOINT) and calls `kill` at the COUNT-th hit of NAME.
 * Throws `bad_config` for an unknown name or a count that is not a positive integer.
 */
export function parseFailPoint(spec: string, kill: () => void): FailPoints {
  const [, name, count] = /^([a-z_.]+):([1-9]\d*)$/.exec(spec) ?? [];
  if (!FAIL_POINTS.some((point) => point === name))
    throw new PicketError('bad_config', `"${spec}" is not NAME:COUNT`, {
      field: 'PICKET_FAILPOINT',
      remedy: `NAME is one of ${FAIL_POINTS.join(', ')}`,
    });
  let left = Number(count);
  return {
    hit(point) {
      if (point === name && --left === 0) kill();
    },
  };
}
