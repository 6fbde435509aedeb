import {
  type Cause,
  type Evidence,
  type IncidentKind,
  newSubject,
  type RunnerUp,
  type Subject,
} from '../../protocol/incident.js';
import type { JobTopology } from '../pipeline/topology.js';
import type { SpellEpisode } from '../reference/spell.js';
import type { Finding } from './finding.js';

export const ms = (ns: number): number => Math.round(ns / 1e3) / 1e3;
export const percent = (share: number): number => Math.round(100 * share);
export const rounded = (value: number, digits = 3): number => Number(value.toFixed(digits));

/** What an episode costs, for a summary. */
export const lossText = ({ msPerStep, share }: { msPerStep: number; share: number }): string =>
  share < 0.01
    ? `${msPerStep} ms of a step are lost, which the job hardly feels`
    : `${msPerStep} ms of a step are lost (${percent(share)} %)`;

/** A finding about a whole job, a group or an engine, from an episode's onset and cost. */
export function episodeFinding(
  kind: IncidentKind,
  topology: JobTopology,
  episode: SpellEpisode,
  facts: {
    key?: string;
    subject?: Partial<Subject>;
    cause: Cause;
    summary: (cost: { msPerStep: number; share: number }) => string;
    confidence: number;
    evidence: Evidence;
    runnerUp: RunnerUp | null;
  },
): Finding {
  const share = episode.time === 0 ? 0 : episode.lost / episode.time;
  const msPerStep = ms(episode.lost / Math.max(1, episode.steps));
  return {
    kind,
    key: facts.key ?? 'job',
    subject: newSubject(topology.meta.job, topology.meta.run, facts.subject ?? {}),
    cause: facts.cause,
    summary: facts.summary({ msPerStep, share }),
    onsetStep: episode.onsetStep,
    onsetNs: episode.onsetNs,
    cost: {
      ms_per_step: msPerStep,
      step_fraction: rounded(share, 4),
      gpu_seconds: rounded((episode.lost * topology.ranks.length) / 1e9),
    },
    confidence: facts.confidence,
    evidence: { ...facts.evidence, steps: episode.steps, steps_hit: episode.hits },
    runnerUp: facts.runnerUp,
  };
}
