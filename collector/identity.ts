import * as z from 'zod';
import type { SegmentInfo } from '../native/ts/index.js';
import { PicketError } from '../protocol/errors.js';
import type { JobMeta, RankInfo } from '../protocol/job-meta.js';
import { MAX_RANK } from '../protocol/limits.js';

const Small = z.int().min(0).max(MAX_RANK).optional();

/** What an engine says of itself in its segment: a JSON object, more fields than these are allowed. */
const Attributes = z.looseObject({
  job: z.string().min(1).optional(),
  run: z.union([z.string().min(1), z.int().transform(String)]).optional(),
  rank: z.int().min(0).max(MAX_RANK),
  engine: z.string().optional(),
  engine_version: z.string().optional(),
  model: z.string().optional(),
  config_hash: z.string().optional(),
  slots: z.int().optional(),
  /** Communicators: name -> global ranks. */
  groups: z.record(z.string(), z.array(z.int().min(0).max(MAX_RANK))).default({}),
  local_rank: Small,
  dp: Small,
  tp: Small,
  pp: Small,
  ep: Small,
  stage: Small,
});

/** Who writes a segment. */
export interface Identity {
  readonly job: string;
  /** Undefined: the engine counts no attempts. */
  readonly run: string | undefined;
  readonly facts: Omit<JobMeta, 'job' | 'run' | 'host' | 'groups' | 'ranks'>;
  readonly groups: JobMeta['groups'];
  readonly rank: RankInfo;
}

/**
 * Reads a segment's attributes.
 * @param defaultJob job of engines that name none
 * @throws PicketError bad_input naming file, field and remedy
 */
export function identityOf(info: SegmentInfo, file: string, defaultJob: string | undefined): Identity {
  const parsed = Attributes.safeParse(parseJson(info.attributes, file));
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const remedy = 'let the engine open it with attributes that hold at least {"job": NAME, "rank": N}';
    throw new PicketError('bad_input', issue?.message ?? 'invalid', { file, field: issue?.path.join('.'), remedy });
  }
  const { job = defaultJob, run, rank, groups, local_rank, dp, tp, pp, ep, stage } = parsed.data;
  if (job === undefined)
    throw new PicketError('bad_input', 'no job is named', {
      file,
      field: 'job',
      remedy: 'name it in the attributes of the engine, or set `job` in the configuration of the collector',
    });
  const { engine, engine_version, model, config_hash, slots } = parsed.data;
  const device = info.gpuName || undefined;
  return {
    job,
    run,
    facts: withoutUndefined({ engine, engine_version, model, config_hash, slots, device }),
    groups,
    rank: withoutUndefined({
      rank,
      gpu: info.gpuUuid || undefined,
      local_rank: local_rank ?? (info.device >= 0 ? info.device : undefined),
      dp,
      tp,
      pp,
      ep,
      stage,
    }) as RankInfo,
  };
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text || '{}');
  } catch (cause) {
    throw new PicketError(
      'bad_input',
      'the attributes are not JSON',
      { file, remedy: 'see docs/collector.md' },
      { cause },
    );
  }
}

const withoutUndefined = <T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
