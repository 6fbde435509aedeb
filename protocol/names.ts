import { MAX_NAME_CHARS } from './limits.js';

/**
 * A name as the wire may carry it: at most MAX_NAME_CHARS, and text that UTF-8 can hold (a half of a surrogate pair
 * becomes U+FFFD). Control and direction characters stay: escaping them is for whoever shows the name.
 */
export function cleanName(name: string): string {
  const cut = name.length > MAX_NAME_CHARS ? name.slice(0, MAX_NAME_CHARS).replace(/[\ud800-\udbff]$/, '') : name;
  return LONE_SURROGATE.test(cut) ? cut.replace(new RegExp(LONE_SURROGATE, 'gu'), '\ufffd') : cut;
}

const LONE_SURROGATE = /\p{Surrogate}/u;
