/** Every numeric bound of the wire in one place. Units are last in the names. */

/** A message has a fixed decoding cost, so few large ones; beyond this a row waits too long for its message. */
export const MAX_MESSAGE_ROWS = 10_000;
/** Topics are created with this max.message.bytes; larger messages are refused by the sender, not retried. */
export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
/** One JSON value (a trace event, a JSONL line): beyond V8's string limit nothing can be parsed at all. */
export const MAX_JSON_VALUE_BYTES = 64 * 1024 * 1024;
/** Names (phases, groups, links, requests) are cut here; real kernel names reach 2,000 characters. */
export const MAX_NAME_CHARS = 256;
/** No phase lasts a week: longer durations are driver garbage (real traces hold 236 years). */
export const MAX_DURATION_NS = 7 * 24 * 3600 * 1e9;
/** Year 2096: start times beyond are garbage, as is 0, which drivers write when they have no timing. */
export const MAX_START_NS = 4_000_000_000_000_000_000n;
/** Ranks are used as array indices. */
export const MAX_RANK = 1_048_575;
