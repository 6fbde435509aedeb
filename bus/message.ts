import { PicketError } from '../protocol/errors.js';
import { MAX_MESSAGE_BYTES } from '../protocol/limits.js';
import type { BusMessage } from './bus.js';

/** More than either log adds to a message around its key, value and headers. */
const FRAME_BYTES = 128;
const HEADER_BYTES = 16;

/** At least what a message takes up in a log, in bytes; both buses measure MAX_MESSAGE_BYTES by it. */
export function messageBytes(message: BusMessage): number {
  let bytes = FRAME_BYTES + Buffer.byteLength(message.key) + message.value.byteLength;
  for (const [name, value] of Object.entries(message.headers ?? {}))
    bytes += HEADER_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
  return bytes;
}

/** Throws `too_large` for the first message over the limit, before any is sent. */
export function checkSizes(topic: string, messages: readonly BusMessage[]): void {
  for (const message of messages) {
    const bytes = messageBytes(message);
    if (bytes > MAX_MESSAGE_BYTES) throw tooLarge(topic, message, `the limit is ${MAX_MESSAGE_BYTES}`);
  }
}

export const tooLarge = (topic: string, message: BusMessage, limit: string, options?: ErrorOptions): PicketError =>
  new PicketError(
    'too_large',
    `a message of ${messageBytes(message)} bytes for topic ${topic}, key "${message.key}": ${limit}`,
    { remedy: 'put fewer rows into a message' },
    options,
  );
