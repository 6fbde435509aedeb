import type { SegmentPhase } from '../native/ts/index.js';
import { cleanName } from '../protocol/names.js';
import { BLOCKING_OPS, canonicalPhase, KIND, OPS } from '../protocol/vocabulary.js';

/** What is summed into one row of a step: all phases of one name, kind and collective. */
export interface PhaseKey {
  readonly name: string;
  readonly kind: number;
  /** Empty where not a collective; so is `group`. */
  readonly op: string;
  readonly group: string;
  /** The same for equal keys of all segments. */
  readonly text: string;
  /** The single phases are kept beside their sum: collectives, and with layer detail all. */
  readonly itemised: boolean;
  /** No rank leaves before the last has come: the minimum over the ranks is the transfer. */
  readonly blocking: boolean;
}

const OP_NAMES: ReadonlySet<string> = new Set(OPS);
const KINDS = Object.keys(KIND).length;

/** The phases of a segment by id, and the keys that they are summed under. */
export class PhaseTable {
  readonly keys: PhaseKey[] = [];
  /** By phase id. */
  keyOf = new Int32Array(0);
  kindOf = new Uint8Array(0);
  layerOf = new Int32Array(0);
  /** Occurrences that one record stands for. */
  weightOf = new Float64Array(0);
  /** -1 where every call has its own. */
  bytesOf = new Float64Array(0);
  readonly #layerDetail: boolean;
  readonly #byText = new Map<string, number>();
  readonly #load: (from: number) => SegmentPhase[];

  /** @param load phases with an id of `from` or more, in the order of their ids */
  constructor(load: (from: number) => SegmentPhase[], layerDetail: boolean) {
    this.#load = load;
    this.#layerDetail = layerDetail;
  }

  /** Is the phase registered? Asks the segment for news where it is not known yet. */
  knows(id: number): boolean {
    if (id < this.keyOf.length) return true;
    const phases = this.#load(this.keyOf.length);
    if (phases.length > 0) this.#append(phases);
    return id < this.keyOf.length;
  }

  /** The key of a text of another segment's key. */
  keyOfText(text: string): number | undefined {
    return this.#byText.get(text);
  }

  #append(phases: readonly SegmentPhase[]): void {
    const known = this.keyOf.length;
    const grow = <A extends Int32Array | Uint8Array | Float64Array>(array: A, larger: A): A => {
      larger.set(array);
      return larger;
    };
    const length = known + phases.length;
    this.keyOf = grow(this.keyOf, new Int32Array(length));
    this.kindOf = grow(this.kindOf, new Uint8Array(length));
    this.layerOf = grow(this.layerOf, new Int32Array(length));
    this.weightOf = grow(this.weightOf, new Float64Array(length));
    this.bytesOf = grow(this.bytesOf, new Float64Array(length));
    phases.forEach((phase, i) => {
      const key = this.#keyFor(phase);
      this.keyOf[known + i] = key;
      this.kindOf[known + i] = (this.keys[key] as PhaseKey).kind;
      this.layerOf[known + i] = phase.layer;
      this.weightOf[known + i] = phase.weight;
      this.bytesOf[known + i] = phase.bytes;
    });
  }

  #keyFor(phase: SegmentPhase): number {
    const name = canonicalPhase(cleanName(phase.name));
    const kind = phase.kind < KINDS ? phase.kind : KIND.compute;
    const comm = kind === KIND.comm;
    const op = comm ? canonicalPhase(phase.op) || (OP_NAMES.has(name) ? name : '') : '';
    const group = comm ? cleanName(phase.group) : '';
    const text = [name, kind, op, group].join('\0');
    let key = this.#byText.get(text);
    if (key === undefined) {
      const itemised = comm || this.#layerDetail;
      key = this.keys.push({ name, kind, op, group, text, itemised, blocking: comm && BLOCKING_OPS.has(op) }) - 1;
      this.#byText.set(text, key);
    }
    return key;
  }
}
