/**
 * Something that costs time in many of the last steps, though not in each: opens on enough hits that lost enough, ends
 * after a quiet time. Plain data; the detectors that watch a whole job share it.
 */
export interface Spell {
  /** The last steps, from the first hit among them on: a healthy job keeps none. */
  recent: SpellStep[];
  episode: SpellEpisode | null;
}

export interface SpellStep {
  step: number;
  startNs: bigint;
  /** Time lost in the step, and the step's time, nanoseconds. */
  lost: number;
  time: number;
  hit: boolean;
}

export interface SpellEpisode {
  onsetStep: number;
  onsetNs: bigint;
  lost: number;
  time: number;
  steps: number;
  hits: number;
}

export interface SpellRule {
  /** Steps looked back on. */
  window: number;
  /** Hits among them that it takes. */
  hits: number;
  /** Share of the time since the first of these hits that must be lost. */
  share: number;
  /** Steps without a hit after which it is over. */
  quiet: number;
}

/** The rule of a detector whose persistence and smallest effect operators may set. */
export const spellRule = (
  { window, quiet }: Pick<SpellRule, 'window' | 'quiet'>,
  { min_effect, persistence }: { readonly min_effect: number; readonly persistence: number },
): SpellRule => ({ window, hits: Math.ceil(persistence * window - 1e-9), share: min_effect, quiet });

export const newSpell = (): Spell => ({ recent: [], episode: null });

/** Takes in one step; the episode that holds after it, or null. */
export function observeSpell(spell: Spell, step: SpellStep, rule: SpellRule): SpellEpisode | null {
  const { recent, episode } = spell;
  if (recent.length === 0 && !step.hit && !episode) return null;
  recent.push(step);
  if (recent.length > Math.max(rule.window, rule.quiet)) forgetFirst(recent);
  if (episode) {
    add(episode, step);
    if (isQuiet(spell.recent, rule.quiet)) spell.episode = null;
  } else if (step.hit) spell.episode = opened(spell.recent.slice(-rule.window), rule);
  return spell.episode;
}

/** The first step, and those after it up to the next hit. */
function forgetFirst(recent: SpellStep[]): void {
  const next = recent.findIndex(({ hit }, i) => i > 0 && hit);
  recent.splice(0, next < 0 ? recent.length : next);
}

/** Whether something hit in the last steps. */
export const hasHits = (spell: Spell): boolean => spell.recent.length > 0;

function isQuiet(recent: readonly SpellStep[], steps: number): boolean {
  for (let i = recent.length - 1; i >= 0 && i >= recent.length - steps; i--)
    if ((recent[i] as SpellStep).hit) return false;
  return true;
}

function opened(recent: readonly SpellStep[], { hits, share }: SpellRule): SpellEpisode | null {
  const first = recent.findIndex(({ hit }) => hit);
  if (first < 0 || recent.filter(({ hit }) => hit).length < hits) return null;
  const [onset, ...later] = recent.slice(first) as [SpellStep, ...SpellStep[]];
  const episode = { onsetStep: onset.step, onsetNs: onset.startNs, lost: 0, time: 0, steps: 0, hits: 0 };
  for (const step of [onset, ...later]) add(episode, step);
  return episode.lost >= share * episode.time ? episode : null;
}

function add(episode: SpellEpisode, { lost, time, hit }: SpellStep): void {
  episode.lost += Math.max(0, lost);
  episode.time += time;
  episode.steps++;
  if (hit) episode.hits++;
}
