import { ENGINE } from '../measured-serving.js';

const BLOCKS_PER_CHUNK = ENGINE.chunkOfPrefix / ENGINE.blockTokens;

/** The part of a cache that a sequence holds. */
export interface Holding {
  /** Chunks of its prompt that others may share, from the first on. */
  readonly shared: number[];
  /** Blocks of its own. */
  blocks: number;
}

/**
 * A paged KV cache with a prefix cache in it: chunks of finished prompts stay until their room is needed, the longest
 * unused going first. Sizes in tokens are rounded up to blocks.
 */
export class KvCache {
  readonly #blocks: number;
  /** Chunks by hash: number of sequences that hold them. */
  readonly #held = new Map<number, number>();
  /** Chunks that nobody holds, the longest unused first. */
  readonly #idle = new Set<number>();
  #own = 0;

  constructor(tokens: number) {
    this.#blocks = Math.floor(tokens / ENGINE.blockTokens);
  }

  get tokens(): number {
    return this.#blocks * ENGINE.blockTokens;
  }

  /** Share of the blocks that sequences hold. */
  get usage(): number {
    return (this.#own + this.#held.size * BLOCKS_PER_CHUNK) / this.#blocks;
  }

  /** Takes the chunks of a prompt that are cached, from its beginning; returns their tokens. */
  share(holding: Holding, prefix: readonly number[], limitTokens: number): number {
    for (const hash of prefix) {
      if ((holding.shared.length + 1) * ENGINE.chunkOfPrefix > limitTokens) break;
      if (!this.#held.has(hash) && !this.#idle.delete(hash)) break;
      this.#held.set(hash, (this.#held.get(hash) ?? 0) + 1);
      holding.shared.push(hash);
    }
    return holding.shared.length * ENGINE.chunkOfPrefix;
  }

  /** Makes a holding large enough for so many tokens; false, and nothing done, where there is no room. */
  grow(holding: Holding, tokens: number): boolean {
    const own = tokens - holding.shared.length * ENGINE.chunkOfPrefix;
    const more = Math.ceil(own / ENGINE.blockTokens) - holding.blocks;
    if (more <= 0) return true;
    const taken = this.#own + this.#held.size * BLOCKS_PER_CHUNK;
    if (more > this.#blocks - taken) return false;
    for (const hash of this.#idle) {
      if (taken + this.#idle.size * BLOCKS_PER_CHUNK + more <= this.#blocks) break;
      this.#idle.delete(hash);
    }
    holding.blocks += more;
    this.#own += more;
    return true;
  }

  /** Lets others share the chunks of a prompt of which `tokens` are computed. */
  publish(holding: Holding, prefix: readonly number[], tokens: number): void {
    const whole = Math.min(prefix.length, Math.floor(tokens / ENGINE.chunkOfPrefix));
    while (holding.shared.length < whole) {
      const hash = prefix[holding.shared.length] as number;
      // Two sequences computed it at once: each keeps its own.
      if (this.#held.has(hash)) return;
      this.#idle.delete(hash);
      this.#held.set(hash, 1);
      holding.shared.push(hash);
      holding.blocks -= BLOCKS_PER_CHUNK;
      this.#own -= BLOCKS_PER_CHUNK;
    }
  }

  /** Gives everything back; what can be shared stays cached. */
  release(holding: Holding): void {
    for (const hash of holding.shared) {
      const others = (this.#held.get(hash) as number) - 1;
      if (others > 0) this.#held.set(hash, others);
      else {
        this.#held.delete(hash);
        this.#idle.add(hash);
      }
    }
    this.#own -= holding.blocks;
    holding.shared.length = 0;
    holding.blocks = 0;
  }
}
