import { servingWorkOf } from './serving-steps.js';

/** An event of the Trace Event Format, as far as it is used. */
export interface TraceEvent {
  readonly ph?: string;
  readonly cat?: string;
  readonly name?: string;
  readonly pid?: number | string;
  readonly tid?: number | string;
  readonly ts?: number | string;
  readonly dur?: number | string;
  readonly args?: Readonly<Record<string, unknown>>;
}

/**
 * What an event of a duration is. `profiler`: PyTorch's profiler wrote it, but it says nothing of steps or the GPU.
 * `iteration`: one of a serving engine, as it annotates it. `phase`: of a trace of unknown origin, whose events are phases by their names.
 */
export type Role = 'gpu' | 'launch' | 'step' | 'iteration' | 'profiler' | 'timeline' | 'phase';

/** Kineto's categories, also the spellings of PyTorch before 1.13. */
const ROLE_OF_CATEGORY = new Map<string, Role>([
  ...['kernel', 'gpu_memcpy', 'gpu_memset', 'memcpy', 'memset'].map((name) => [name, 'gpu'] as const),
  ...['cuda_runtime', 'cuda_driver', 'hip_runtime', 'hip_driver', 'runtime'].map((name) => [name, 'launch'] as const),
  ...[
    'cpu_op',
    'operator',
    'user_annotation',
    'gpu_user_annotation',
    'python_function',
    'cpu_instant_event',
    'overhead',
    'trace',
    'fwdbwd',
    'ac2g',
    'async',
  ].map((name) => [name, 'profiler'] as const),
]);

export function roleOf({ cat, name = '', args }: TraceEvent): Role {
  const role = ROLE_OF_CATEGORY.get(cat?.toLowerCase() ?? '');
  if (role === 'profiler' && cat !== 'gpu_user_annotation' && stepOfMark(name) !== undefined) return 'step';
  if (cat === 'user_annotation' && servingWorkOf(name)) return 'iteration';
  if (role) return role;
  return args && 'step' in args && 'seq_id' in args && 'mb_id' in args ? 'timeline' : 'phase';
}

/** The N of `ProfilerStep#N`. */
export function stepOfMark(name: string): number | undefined {
  const step = /^ProfilerStep#(\d{1,15})$/.exec(name)?.[1];
  return step === undefined ? undefined : Number(step);
}
