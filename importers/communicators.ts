import { Int64Column, int64Of } from '../protocol/int64.js';
import type { JobMeta } from '../protocol/job-meta.js';
import type { NameColumn, PhaseColumns } from '../protocol/phase-batch.js';
import { OPS } from '../protocol/vocabulary.js';

type Rows = Pick<PhaseColumns, 'rank' | 'step' | 'phase' | 'microbatch' | 'start_ns'>;

export interface Communicators {
  readonly op: NameColumn;
  readonly group: NameColumn;
  readonly seq: Int64Column;
  readonly groups: JobMeta['groups'];
}

/**
 * Names the communicator of each collective of a recording that names none, and numbers the collectives within it:
 * seq = step x (most collectives a step) + order by start within the step, the same on all its ranks.
 * Collectives join the ranks of one stage under `name`; send and recv join two ranks of neighbouring stages in one direction.
 */
export function nameCommunicators(rows: Rows, stageOf: ReadonlyMap<number, number>, name: string): Communicators {
  const layout = new Layout(stageOf, name);
  const order = collectivesInOrder(rows);
  const op = new Names();
  const group = new Names();
  const numbers = new StepNumbers();
  const length = rows.rank.length;
  const opIds = new Int32Array(length);
  const groupIds = new Int32Array(length);
  const numberInStep = new Int32Array(length);
  for (const row of order) {
    const phase = phaseOf(rows, row);
    const rank = rows.rank[row] as number;
    numbers.enter(rank, rows.step.number(row));
    const repeat = numbers.next(`${phase} ${rows.microbatch[row]}`);
    opIds[row] = op.id(phase);
    const groupName = layout.groupOf(rank, phase, repeat);
    groupIds[row] = group.id(groupName);
    numberInStep[row] = numbers.next(groupName);
  }
  const most = new Int32Array(group.values.length).fill(1);
  for (const row of order) {
    const id = groupIds[row] as number;
    most[id] = Math.max(most[id] as number, (numberInStep[row] as number) + 1);
  }
  const seq = Int64Column.ofLength(length);
  seq.words.fill(-1);
  for (const row of order)
    seq.set(row, rows.step.number(row) * (most[groupIds[row] as number] as number) + (numberInStep[row] as number));
  return {
    op: { indices: opIds, values: op.values },
    group: { indices: groupIds, values: group.values },
    seq,
    groups: layout.groups,
  };
}

const OP_NAMES: ReadonlySet<string> = new Set(OPS);

const phaseOf = ({ phase }: Rows, row: number): string => phase.values[phase.indices[row] as number] as string;

/** Rows of collectives, rank by rank and step by step, by start. */
function collectivesInOrder(rows: Rows): Uint32Array {
  const isOp = rows.phase.values.map((phase) => OP_NAMES.has(phase));
  const all = Uint32Array.from(rows.rank, (_, i) => i).filter(
    (row) => isOp[rows.phase.indices[row] as number] && (rows.rank[row] as number) >= 0,
  );
  if (all.length === 0) return all;
  const base = int64Of(rows.start_ns.bigint(all[0] as number));
  return all.sort(
    (a, b) =>
      (rows.rank[a] as number) - (rows.rank[b] as number) ||
      rows.step.number(a) - rows.step.number(b) ||
      rows.start_ns.since(a, base) - rows.start_ns.since(b, base) ||
      a - b,
  );
}

/** Which ranks meet in which communicator. */
class Layout {
  readonly groups: JobMeta['groups'] = {};
  readonly #stageOf: ReadonlyMap<number, number>;
  readonly #name: string;
  /** Ranks of each stage, in order: the k-th ones of two stages are peers. */
  readonly #stages: readonly number[][];

  constructor(stageOf: ReadonlyMap<number, number>, name: string) {
    this.#stageOf = stageOf;
    this.#name = name;
    const stages: number[][] = [];
    for (const [rank, stage] of [...stageOf].sort(([a], [b]) => a - b))
      if (rank >= 0) (stages[stage] ??= []).push(rank);
    this.#stages = stages;
  }

  /** `repeat`: how often this rank has done the same operation for the same microbatch in this step. */
  groupOf(rank: number, phase: string, repeat: number): string {
    const stage = this.#stageOf.get(rank) as number;
    const own = this.#stages[stage] as number[];
    if (phase !== 'send' && phase !== 'recv')
      return this.#join(this.#stages.length > 1 ? `${this.#name} stage ${stage}` : this.#name, own);
    // Each microbatch passes a stage forwards first, then backwards; the ends of the pipeline know one neighbour.
    const forwards = repeat === 0 && (phase === 'send' ? stage < this.#stages.length - 1 : stage > 0);
    const neighbour = stage + (forwards === (phase === 'send') ? 1 : -1);
    const peer = this.#stages[neighbour]?.[own.indexOf(rank)];
    if (peer === undefined) return '';
    const [from, to] = phase === 'send' ? [rank, peer] : [peer, rank];
    return this.#join(`pp ${from}->${to}`, [from, to]);
  }

  #join(name: string, ranks: readonly number[]): string {
    this.groups[name] ??= [...ranks].sort((a, b) => a - b);
    return name;
  }
}

/** Counts what happens within one step of one rank. */
class StepNumbers {
  #rank = -1;
  #step = -1;
  readonly #counts = new Map<string, number>();

  enter(rank: number, step: number): void {
    if (rank !== this.#rank || step !== this.#step) this.#counts.clear();
    this.#rank = rank;
    this.#step = step;
  }

  next(name: string): number {
    const count = this.#counts.get(name) ?? 0;
    this.#counts.set(name, count + 1);
    return count;
  }
}

/** A dictionary under construction; '' is 0, for the rows that have none. */
class Names {
  readonly values: string[] = [''];
  readonly #ids = new Map([['', 0]]);

  id(name: string): number {
    let id = this.#ids.get(name);
    if (id === undefined) this.#ids.set(name, (id = this.values.push(name) - 1));
    return id;
  }
}
