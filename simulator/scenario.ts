import type { Cause, IncidentKind } from '../protocol/incident.js';
import type { Effect, MessageSizes } from './faults.js';
import type { RequestMix } from './requests/request.js';

/**
 * What a fault hits: a rank; all ranks of a host; a pipeline stage; the job; a GPU's NVLink; a host's NIC; all NICs of a
 * host; one communicator of several hosts; some data parallel replicas; the ranks that hold hot experts.
 */
export type Target = 'rank' | 'machine' | 'stage' | 'job' | 'link' | 'nic' | 'host' | 'group' | 'replicas' | 'experts';

export interface FaultSpec {
  readonly kind: IncidentKind;
  readonly cause: Cause;
  readonly effect: Effect;
  readonly target: Target;
  readonly strength: number;
  /** There from the first step, where the caller does not say. */
  readonly always?: true;
  /** Comes with a restart of the job: its second run has it from the first step on. */
  readonly restarts?: true;
  readonly sizes?: MessageSizes;
  /** Only steps of more tokens than this. */
  readonly aboveBatch?: number;
  /** Does not stay: strikes for a few steps again and again, in one step, or in every second step. */
  readonly bursts?: 'flaps' | 'once' | 'every_second';
}

interface WorkloadSpec {
  /** Collectors report what has begun and not ended: in long steps only, since rows then have to be put in order of time. */
  readonly opens?: true;
}

export interface TrainingSpec extends WorkloadSpec {
  readonly workload: 'training';
  /** Sequence lengths: equal (default), drawn by each replica, drawn once for all, or growing evenly to twice as long. */
  readonly lengths?: 'by_replica' | 'together' | 'growing';
  /** What is healthy and rare: evaluation and loader stalls beside the checkpoints and collections that all jobs have. */
  readonly events?: 'rare' | 'frequent';
  /** Each rank collects garbage now and then, one after the other. */
  readonly collections?: true;
  /** Rank 0 alone writes the checkpoints, all others wait for it. */
  readonly savesAlone?: true;
  /** Stages differ by up to a few per cent. */
  readonly unevenStages?: true;
  /** Transfers between hosts vary a lot around an unchanged median. */
  readonly jitters?: true;
  /** A NIC's port goes down and up once, without an effect on any transfer. */
  readonly blip?: true;
  /** Mixture of experts, spread over ranks. */
  readonly experts?: true;
  /** Tensor parallel, where the caller does not say. */
  readonly tensor?: true;
}

export interface ServingSpec extends WorkloadSpec {
  readonly workload: 'serving';
  /** Batches as recorded on H200, or those of a scheduler that serves requests. */
  readonly load: 'recorded' | 'recorded_large' | 'recorded_prefills' | 'scheduled';
  /** Data parallel replicas are ranks of one job and step together; otherwise each engine is a job. */
  readonly lockstep?: true;
  /** Such replicas are tensor parallel, where the caller does not say. */
  readonly tensor?: true;
  readonly mix?: RequestMix;
  /** Requests that each engine holds at any time; absent: they arrive at random. */
  readonly concurrency?: number;
  /** Whether prompts are cut into chunks that fit beside decodes; default true. */
  readonly chunked?: false;
  /** Admits a request only where its whole output fits too, so that nothing is ever preempted. */
  readonly reserves?: true;
  /** The KV cache is as small as the load just needs. */
  readonly tightKv?: true;
  /** Sequences that a replica runs at a time; default 64. */
  readonly maxRunning?: number;
  /** How requests find their replica: the least loaded one (default), 6 to 4, or the first ones all to replica 0. */
  readonly routing?: 'skewed' | 'burst';
  /** A process stops for a moment now and then. */
  readonly pauses?: true;
}

export type Scenario = (TrainingSpec | ServingSpec) & {
  readonly summary: string;
  readonly fault?: FaultSpec;
  /** Nothing is wrong, though it looks like this kind. */
  readonly lookalikeOf?: IncidentKind;
  /** Kinds that an honest detector may report of it beside the fault. */
  readonly tolerates?: readonly IncidentKind[];
  /** Restarts once in the middle, or again and again. */
  readonly restarts?: 'once' | 'often';
};
