import { createHmac, timingSafeEqual } from 'node:crypto';
import { PicketError } from '../../protocol/errors.js';
import type { IncidentFilter } from './store.js';

/** The last row of a page, in the order of the list. */
export interface Position {
  readonly startedNs: bigint;
  readonly id: string;
}

/** Opaque text for a position in the list of one filter, sealed with the store's key. */
export function encodeCursor(key: Uint8Array, filter: IncidentFilter, position: Position): string {
  const place = `${position.startedNs}/${position.id}`;
  return `${Buffer.from(place).toString('base64url')}.${seal(key, filter, place).toString('base64url')}`;
}

/** Throws `bad_input` for what `encodeCursor` did not make with this key and filter. */
export function decodeCursor(key: Uint8Array, filter: IncidentFilter, cursor: string): Position {
  const [place = '', given = ''] = cursor.split('.').map((part) => Buffer.from(part, 'base64url'));
  const expected = seal(key, filter, place.toString());
  if (given.length !== expected.length || !timingSafeEqual(Buffer.from(given), expected))
    throw new PicketError('bad_input', 'not a cursor of this list', {
      field: 'cursor',
      remedy: 'give next_cursor unchanged, with the filters of the page that it came with',
    });
  const [, startedNs, id] = /^(-?\d+)\/(.*)$/s.exec(place.toString()) as unknown as [string, string, string];
  return { startedNs: BigInt(startedNs), id };
}

/** The filter is sealed in: on another list the same position would skip or repeat rows without a word. */
function seal(key: Uint8Array, filter: IncidentFilter, place: string): Buffer {
  const fields = Object.entries(filter)
    .map(([name, given]) => [name, Array.isArray(given) ? [...new Set<string | number>(given)].sort() : given])
    .filter(([, given]) => given !== undefined && given.length > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const text = JSON.stringify([place, fields]);
  return createHmac('sha256', key).update(text).digest().subarray(0, 16);
}
