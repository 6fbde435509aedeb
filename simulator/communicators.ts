import type { Cluster } from './cluster.js';

export const WORLD = 'world';
export const tensorGroup = (stage: number, dp: number): string => `tp-s${stage}-d${dp}`;
export const dataGroup = (stage: number, tp: number): string => `dp-s${stage}-t${tp}`;
/** `block`: which of the runs of `ep` replicas that share their experts. */
export const expertGroup = (stage: number, block: number, tp: number): string => `ep-s${stage}-b${block}-t${tp}`;
export const embeddingGroup = (dp: number, tp: number): string => `embedding-d${dp}-t${tp}`;
/** Between `stage` and the next one. */
export const pairGroup = (stage: number, dp: number, tp: number): string => `pp-s${stage}-s${stage + 1}-d${dp}-t${tp}`;

/** All communicators of a job, as Megatron makes them: name -> ranks. */
export function communicatorsOf(cluster: Cluster): Map<string, number[]> {
  const { dp, tp, pp, ep } = cluster.layout;
  const groups = new Map<string, number[]>();
  for (let stage = 0; stage < pp; stage++) {
    if (tp > 1)
      for (let d = 0; d < dp; d++)
        groups.set(
          tensorGroup(stage, d),
          range(tp).map((t) => cluster.rank(stage, d, t)),
        );
    for (let t = 0; t < tp; t++) {
      const replicas = range(dp).map((d) => cluster.rank(stage, d, t));
      if (dp > 1) groups.set(dataGroup(stage, t), replicas);
      if (ep > 1)
        for (let block = 0; block < dp / ep; block++)
          groups.set(expertGroup(stage, block, t), replicas.slice(block * ep, (block + 1) * ep));
    }
  }
  if (pp > 1) addPipelineGroups(cluster, groups);
  return groups;
}

function addPipelineGroups(cluster: Cluster, groups: Map<string, number[]>): void {
  const { dp, tp, pp } = cluster.layout;
  groups.set(WORLD, range(cluster.size));
  for (let d = 0; d < dp; d++)
    for (let t = 0; t < tp; t++) {
      groups.set(embeddingGroup(d, t), [cluster.rank(0, d, t), cluster.rank(pp - 1, d, t)]);
      for (let stage = 0; stage + 1 < pp; stage++)
        groups.set(pairGroup(stage, d, t), [cluster.rank(stage, d, t), cluster.rank(stage + 1, d, t)]);
    }
}

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
