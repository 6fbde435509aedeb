import type { StepFacts } from './host-records.js';
import { type Part, Step } from './step.js';

/** A lane that was told no step for so many of the segment's goes with the others again. */
const OWN_STEPS = 4;
/** A phase that is open when its step is so many behind the newest has lost its end. */
const MAX_STEPS_BEHIND = 8;
/** Numbers that fall again so soon are two engines taking turns, not a restart. */
const LINKS_BETWEEN_REWINDS = 8;

/** What a lane itself was told last, and as which of the segment's steps. */
export interface LaneStep {
  part: Part | undefined;
  link: number;
}

/**
 * Which step the phases of a segment belong to: the one that their lane was told last, or the segment's where the lane
 * is told none. The lane of a captured graph never is.
 */
export class StepTracker {
  /** How often the step numbers fell back. */
  rewinds: number;
  /** Steps that have begun and not closed, oldest first. */
  #steps: Step[] = [];
  #part: Part | undefined;
  #links = 0;
  #rewoundAt = Number.NEGATIVE_INFINITY;
  /** Records were lost since a step last began. */
  #lost = false;

  constructor(rewinds: number) {
    this.rewinds = rewinds;
  }

  /** The step that the segment is in; undefined before the first and after a loss. */
  get current(): Step | undefined {
    return this.#part?.step;
  }

  /** Where a phase belongs that begins on the lane now. */
  partOf(lane: LaneStep): Part | undefined {
    return this.#isOwn(lane) ? lane.part : this.#part;
  }

  /** A step begins on the lane; undefined: one of which nothing is known. */
  begin(lane: LaneStep, facts: StepFacts | undefined): void {
    const last = lane.part?.step;
    this.#links++;
    if (facts && last && facts.number < last.number && last.rewinds === this.rewinds) this.#rewind();
    lane.link = this.#links;
    lane.part = facts && this.#stepOf(facts.number).partOf(facts);
    this.#part = lane.part;
  }

  /** Records are missing: nobody knows which steps they told. */
  lose(): void {
    for (const { flags } of this.#steps) flags.partial = flags.lost = true;
    this.#part = undefined;
    this.#lost = true;
  }

  /** Removes and returns the steps to which nothing can come any more, oldest first. */
  takeClosed(lanes: Iterable<LaneStep>): Step[] {
    const current = new Set([this.current]);
    for (const lane of lanes) if (this.#isOwn(lane)) current.add(lane.part?.step);
    const newest = this.#steps.length - 1;
    const closed: Step[] = [];
    this.#steps = this.#steps.filter((step, i) => {
      if (current.has(step) || (step.open > 0 && newest - i < MAX_STEPS_BEHIND)) return true;
      closed.push(step);
      return false;
    });
    return closed;
  }

  /** Removes and returns all. */
  takeAll(): Step[] {
    const steps = this.#steps;
    this.#steps = [];
    this.#part = undefined;
    return steps;
  }

  #isOwn({ part, link }: LaneStep): boolean {
    return part !== undefined && this.#links - link <= OWN_STEPS;
  }

  /** The engine went back to a checkpoint without a new process: the same numbers are other steps now. */
  #rewind(): void {
    if (this.#links - this.#rewoundAt > LINKS_BETWEEN_REWINDS) this.rewinds++;
    this.#rewoundAt = this.#links;
  }

  #stepOf(number: number): Step {
    // From the end: a step that goes on is the newest, and most often the number is a new one.
    const known = this.#steps.findLast((step) => step.number <= number && step.rewinds === this.rewinds);
    if (known?.number === number) return known;
    const step = new Step(number, this.rewinds);
    step.flags.lost = this.#lost;
    this.#lost = false;
    this.#steps.push(step);
    return step;
  }
}
