import type { FaultSpec, Scenario } from '../scenario.js';

const network = (kind: FaultSpec['kind'], target: FaultSpec['target'], strength: number): FaultSpec => ({
  kind,
  cause: 'network',
  effect: 'transfer',
  target,
  strength,
});

/** The recorded path through host memory: all-reduces of 256 KB take 3.4 times as long. */
const nvlinkOff: FaultSpec = { ...network('nvlink_stall', 'link', 2.4), sizes: 'host_memory', always: true };

/** haohervchb/sglang-V100 PR 2: 15 us more for a small message that takes 10. */
const slowPath: FaultSpec = {
  ...network('tp_slow_path', 'link', 1.5),
  cause: 'configuration',
  sizes: 'small',
  always: true,
};

/** The rank's process stands still, for whatever reason. */
const hang: FaultSpec = { kind: 'comm_hang', cause: 'unknown', effect: 'hang', target: 'rank', strength: 1 };

const decodes = { workload: 'serving', load: 'recorded' } as const;

/** Slow and stuck communication, in training and in serving. */
export const COMMUNICATION: Readonly<Record<string, Scenario>> = {
  'nvlink-stall': {
    summary: "training; one GPU's NVLink is slow",
    workload: 'training',
    fault: network('nvlink_stall', 'link', 1),
  },
  'nvlink-from-start': {
    summary: "training; one GPU's transfers take the way through host memory from the first step on",
    workload: 'training',
    fault: nvlinkOff,
  },
  'rnic-flap': {
    summary: 'training over several hosts; the port of one NIC goes down and up again and again',
    workload: 'training',
    fault: { ...network('rnic_flap', 'nic', 5), bursts: 'flaps' },
  },
  'comm-slow': {
    summary: 'training over several hosts; large messages over one NIC are slow',
    workload: 'training',
    fault: { ...network('comm_slow', 'nic', 1), sizes: 'large' },
  },
  'comm-slow-host': {
    summary: 'training over several hosts; large messages of one host are slow',
    workload: 'training',
    fault: { ...network('comm_slow', 'host', 1), sizes: 'large' },
  },
  'comm-slow-group': {
    summary: 'training over several hosts; large messages of one communicator are slow',
    workload: 'training',
    fault: { ...network('comm_slow', 'group', 1), sizes: 'large' },
  },
  'comm-hang': {
    summary: 'training; one rank does not come to a collective',
    workload: 'training',
    fault: hang,
    opens: true,
  },
  'serving-nvlink-stall': {
    ...decodes,
    summary: "tensor parallel decoding; one GPU's NVLink is slow",
    fault: network('nvlink_stall', 'link', 1),
  },
  'serving-nvlink-from-start': {
    ...decodes,
    summary: 'tensor parallel decoding; transfers take the way through host memory from the first step on',
    fault: nvlinkOff,
  },
  'tp-slow-path': {
    ...decodes,
    summary: 'tensor parallel decoding; small all-reduces take a slow path from the first step on',
    fault: slowPath,
  },
  'tp-slow-path-restart': {
    ...decodes,
    summary: 'tensor parallel decoding; small all-reduces take a slow path since a restart',
    fault: {
      kind: slowPath.kind,
      cause: 'configuration',
      effect: 'transfer',
      target: 'link',
      strength: 1.5,
      sizes: 'small',
      restarts: true,
    },
  },
  'serving-comm-hang': {
    ...decodes,
    summary: 'tensor parallel decoding; one rank does not launch a step',
    fault: hang,
    opens: true,
  },
};
