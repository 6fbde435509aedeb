import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseAllDocuments } from 'yaml';

/** What keeps a text from being read, and what to do about it. */
export interface YamlProblem extends Position {
  readonly file: string;
  readonly message: string;
  readonly remedy: string;
}

/** 1-based. */
export interface Position {
  readonly line: number;
  readonly col: number;
}

/** Beyond this a file was written by no person. */
export const MAX_FILE_CHARS = 1024 * 1024;
const MAX_ALIASES = 100;

/** A YAML 1.2 text of one document, with the position of every value and key. */
export class YamlSource {
  readonly file: string;
  readonly value: unknown;
  readonly #text: string;
  readonly #document: Document.Parsed;
  readonly #lines: LineCounter;

  private constructor(file: string, text: string, document: Document.Parsed, lines: LineCounter) {
    this.file = file;
    this.#text = text;
    this.#document = document;
    this.#lines = lines;
    this.value = document.toJS({ maxAliasCount: MAX_ALIASES });
  }

  /**
   * Parses a text; without a source the problems say why.
   * @param remedy where it is empty
   */
  static parse(text: string, file: string, remedy: string): { source?: YamlSource; problems: YamlProblem[] } {
    const lines = new LineCounter();
    const problem = (at: number, message: string, remedy: string): YamlProblem => {
      const { line, col } = lines.linePos(at);
      // Before anything is parsed no line is known.
      return { file, line: Math.max(1, line), col: Math.max(1, col), message, remedy };
    };
    if (text.length > MAX_FILE_CHARS)
      return { problems: [problem(0, `is larger than ${MAX_FILE_CHARS} characters`, 'split the file')] };
    const undecoded = text.indexOf('\ufffd');
    if (undecoded >= 0) {
      const before = text.slice(0, undecoded).split('\n');
      const place = { line: before.length, col: (before.at(-1) as string).length + 1 };
      return { problems: [{ ...problem(0, 'is no UTF-8 text', 'save the file as UTF-8'), ...place }] };
    }
    const documents = documentsOf(text, lines);
    if (!documents) return { problems: [problem(0, 'is nested too deeply', 'write it flat')] };
    const [first, second] = 'empty' in documents ? [] : documents;
    if (!first?.contents) return { problems: [problem(0, 'is empty', remedy)] };
    const problems = documents.flatMap(({ errors, warnings }) =>
      [...errors, ...warnings].map(({ pos, code, message }) =>
        problem(pos[0], message, YAML_REMEDIES[code] ?? 'correct the YAML'),
      ),
    );
    if (second)
      problems.push(
        problem(
          second.range[0],
          'a second YAML document begins here and would be ignored',
          'move it to a file of its own',
        ),
      );
    if (problems.length > 0) return { problems };
    try {
      return { source: new YamlSource(file, text, first, lines), problems };
    } catch (error) {
      return { problems: [problem(0, (error as Error).message, 'write out what the aliases repeat')] };
    }
  }

  /** Where the value at a path stands; of what is not there, where the nearest thing around it does. */
  at(path: readonly PropertyKey[]): Position {
    return this.position(this.#walk(path).node?.range?.[0] ?? 0);
  }

  /** Where the key of a path stands. */
  keyAt(path: readonly PropertyKey[]): Position {
    const { key, node } = this.#walk(path);
    return this.position((key ?? node)?.range?.[0] ?? 0);
  }

  /**
   * Position of character `at` of the text value of a path: exact for plain and quoted texts of one line without escapes
   * and for block texts, else that of the value.
   */
  within(path: readonly PropertyKey[], at: number): Position {
    const { node } = this.#walk(path);
    if (!isScalar(node) || typeof node.value !== 'string' || !node.range) return this.at(path);
    const [start, end] = node.range;
    const source = this.#text.slice(start, end);
    const flat = source.indexOf(node.value);
    if (flat >= 0) return this.position(start + flat + at);
    const line = node.value.slice(0, at).split('\n').length - 1;
    const [row, text] = [source.split('\n').slice(1)[line], node.value.split('\n')[line] as string];
    if (node.type !== 'BLOCK_LITERAL' || row === undefined) return this.at(path);
    const column = at - (node.value.lastIndexOf('\n', at - 1) + 1);
    return { line: this.position(start).line + 1 + line, col: row.length - text.length + column + 1 };
  }

  position(offset: number): Position {
    const { line, col } = this.#lines.linePos(offset);
    return { line, col };
  }

  #walk(path: readonly PropertyKey[]): { node: Node | null | undefined; key: Node | undefined } {
    let node: Node | null | undefined = this.#document.contents;
    let key: Node | undefined;
    for (const name of path) {
      if (isAlias(node)) node = node.resolve(this.#document);
      let next: unknown;
      if (isMap(node)) {
        const pair = node.items.find((each) => isScalar(each.key) && String(each.key.value) === String(name));
        if (!pair) break;
        key = pair.key as Node;
        next = pair.value ?? key;
      } else if (isSeq(node)) next = node.items[name as number];
      if (!next) break;
      node = next as Node;
    }
    return { node, key };
  }
}

/** Levels of brackets, or of signs and columns at the beginning of a line. */
const MAX_NESTING = 400;

/**
 * Would the parser's stack overflow? The process does not always survive that, as V8 may compile a regular expression just
 * then. Brackets within texts count too: nobody leaves hundreds of them open.
 */
function isTooDeep(text: string): boolean {
  let [open, begun] = [0, 0];
  for (const char of text) {
    if (char === '[' || char === '{') open++;
    else if (open > 0 && (char === ']' || char === '}')) open--;
    if (char === '\n') begun = 0;
    else if (begun >= 0) begun = char === ' ' || char === '-' || char === '?' ? begun + 1 : -1;
    if (open > MAX_NESTING || begun > MAX_NESTING) return true;
  }
  return false;
}

/** Undefined where they are nested so deeply that the parser's stack overflows; it tells of that in either way. */
function documentsOf(text: string, lineCounter: LineCounter) {
  if (isTooDeep(text)) return undefined;
  try {
    const documents = parseAllDocuments(text, {
      ...{ lineCounter, prettyErrors: false, uniqueKeys: true },
      // All warnings are told as problems; it would print some on its own as well.
      logLevel: 'error',
    });
    const overflowed = documents.some(({ errors }) => errors.some(({ message }) => message.includes('call stack')));
    return overflowed ? undefined : documents;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const YAML_REMEDIES: Record<string, string> = {
  BLOCK_AS_IMPLICIT_KEY: 'put the value in quotes, or its second key on a line of its own',
  MISSING_CHAR: 'close what is open',
  DUPLICATE_KEY: 'keep one of them',
  TAB_AS_INDENT: 'indent with spaces',
  BAD_INDENT: 'close what is open, or indent it like its neighbours',
  UNEXPECTED_TOKEN: 'look at the line before it, too',
  TAG_RESOLVE_FAILED: 'remove the tag',
};
