import { basename } from 'node:path';
import { type NativeSegment, SegmentError, type SegmentInfo } from '../native/ts/index.js';
import { PicketError } from '../protocol/errors.js';
import { type Identity, identityOf } from './identity.js';

/** A segment that is being read. */
export interface OpenedSegment {
  readonly path: string;
  /** Unique among all processes of the host for ever. */
  readonly id: string;
  readonly segment: NativeSegment;
  readonly info: SegmentInfo;
  readonly identity: Identity;
}

/** How a writer went: it ended in order, or it died. */
export type Ending = 'ended' | 'died';

export interface RegistryDeps {
  /** Paths of all segments. */
  list(): string[];
  open(path: string): NativeSegment;
  /** Deletes a segment that is read up; whatever fails is harmless. */
  remove(path: string): void;
  readonly defaultJob: string | undefined;
  /** Is told once of every segment that cannot be read. */
  readonly onRefused: (path: string, error: Error) => void;
}

/** Refusals that the next scan may find mended. */
const PASSING: ReadonlySet<string> = new Set(['in_use', 'system', 'not_found']);

/** Nothing can be read at all. */
const FATAL: ReadonlySet<string> = new Set(['addon_missing', 'addon_stale']);

/** The segments of the host: finds new ones, tells when a writer has gone, forgets what is read up. */
export class Registry {
  readonly #deps: RegistryDeps;
  readonly #open = new Map<string, OpenedSegment>();
  /** Paths that cannot be read, and whether that may pass. */
  readonly #refused = new Map<string, { passing: boolean }>();
  /** Paths that were read up and could not be deleted. */
  readonly #done = new Set<string>();

  constructor(deps: RegistryDeps) {
    this.#deps = deps;
  }

  get segments(): IterableIterator<OpenedSegment> {
    return this.#open.values();
  }

  /** Segments that cannot be read now. */
  get refused(): number {
    return this.#refused.size;
  }

  /** Opens what is new and returns it, the oldest first. */
  scan(): OpenedSegment[] {
    const paths = new Set(this.#deps.list());
    for (const known of [this.#refused, this.#done])
      for (const path of known.keys()) if (!paths.has(path)) known.delete(path);
    const found: OpenedSegment[] = [];
    for (const path of paths) {
      if (this.#open.has(path) || this.#done.has(path) || this.#refused.get(path)?.passing === false) continue;
      const opened = this.#tryOpen(path);
      if (opened) found.push(opened);
    }
    found.sort((a, b) => (a.info.createdRealtimeNs < b.info.createdRealtimeNs ? -1 : 1));
    for (const opened of found) this.#open.set(opened.path, opened);
    return found;
  }

  /** How the writer went; undefined while it lives. */
  endingOf({ segment }: OpenedSegment): Ending | undefined {
    const { writerAlive, closed } = segment.status();
    if (writerAlive) return undefined;
    return closed ? 'ended' : 'died';
  }

  /** The segment is read up and its writer has gone: deletes the file, so that shared memory does not fill up. */
  retire(opened: OpenedSegment): void {
    const { replaced } = opened.segment.status();
    opened.segment.close();
    this.#open.delete(opened.path);
    if (replaced) return;
    this.#deps.remove(opened.path);
    this.#done.add(opened.path);
  }

  /** Leaves all segments to the next reader. */
  close(): void {
    for (const { segment } of this.#open.values()) segment.close();
    this.#open.clear();
  }

  #tryOpen(path: string): OpenedSegment | undefined {
    let segment: NativeSegment | undefined;
    try {
      segment = this.#deps.open(path);
      const info = segment.info();
      const identity = identityOf(info, path, this.#deps.defaultJob);
      this.#refused.delete(path);
      return { path, id: `${basename(path)}@${info.createdRealtimeNs}`, segment, info, identity };
    } catch (error) {
      segment?.close();
      if (!(error instanceof SegmentError || error instanceof PicketError) || FATAL.has(error.code)) throw error;
      if (!this.#refused.has(path) && error.code !== 'not_found') this.#deps.onRefused(path, error);
      this.#refused.set(path, { passing: PASSING.has(error.code) });
      return undefined;
    }
  }
}
