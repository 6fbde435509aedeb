import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { native } from './binding.js';
import { SegmentError, type SegmentErrorCode } from './errors.js';
import { LAYOUT } from './layout.generated.js';
import type { NativeSegment } from './native.js';

/** Where segments are: $PICKET_DIR of the engines, by default /dev/shm. */
export const DEFAULT_SEGMENT_DIRECTORY = '/dev/shm';

const NAME = new RegExp(`^${LAYOUT.segmentPrefix}\\d+-\\d+-\\d+$`);

/** Paths of the segments in a directory, of living and dead writers, sorted by name. */
export function listSegments(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => NAME.test(name))
    .sort()
    .map((name) => join(directory, name));
}

/**
 * Maps a segment. `consume` takes the reader's lock and allows draining; without it one can look at info, status and
 * phases while another reader consumes.
 * @throws SegmentError not_found, not_a_segment, version, damaged, in_use, system
 */
export function openSegment(path: string, consume: boolean): NativeSegment {
  const addon = native();
  try {
    return new addon.Segment(path, consume);
  } catch (cause) {
    if (!(cause instanceof Error) || !('code' in cause)) throw cause;
    throw new SegmentError(cause.code as SegmentErrorCode, cause.message, { cause });
  }
}
