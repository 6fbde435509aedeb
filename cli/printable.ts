/**
 * A line for a terminal: control and direction characters are shown as `\u001b`, so that no name out of the data moves the
 * cursor, forges a line or turns the text around.
 */
export const printable = (line: string): string =>
  line.replace(
    /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
