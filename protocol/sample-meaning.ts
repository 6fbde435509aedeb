import type { SampleRow } from './sample.js';

/** What a sample says, whoever measured it and whatever they call it. */
export type Role =
  | 'port_down'
  | 'port_up'
  | 'port_state'
  | 'link_downed'
  | 'tx_bytes'
  | 'rx_bytes'
  | 'tx_pause'
  | 'rx_pause'
  | 'tx_pause_ns'
  | 'nic_speed'
  | 'nvlink_errors'
  | 'nvlink_speed'
  | 'throttle_reasons'
  | 'throttle_ns'
  | 'memory_errors'
  | 'kv_usage'
  | 'preemptions'
  | 'error';

/** A role, and what a value must be multiplied by to come in its unit: bytes, nanoseconds, bytes a second, shares, counts. */
export interface Meaning {
  readonly role: Role;
  readonly scale: number;
}

/** Port data counters of InfiniBand count words of four octets; collectors that have multiplied say so by their unit. */
const WORD_BYTES = 4;

const NAMES: readonly [pattern: RegExp, role: Role, scale?: number][] = [
  [/^port_down$/, 'port_down'],
  [/^port_up$/, 'port_up'],
  // 1 up, 0 down: sysfs net/*/carrier and infiniband/*/ports/*/state.
  [/^(port_state|carrier)$/, 'port_state'],
  [/^(link_downed|carrier_down_count)$/, 'link_downed'],
  [/^port_xmit_data$/, 'tx_bytes', WORD_BYTES],
  [/^port_rcv_data$/, 'rx_bytes', WORD_BYTES],
  [/^tx_bytes$/, 'tx_bytes'],
  [/^rx_bytes$/, 'rx_bytes'],
  // ethtool of mlx5 and bnxt_en: global pause and priority flow control.
  [/^tx_((global_|prio\d_)?pause|(pause|pfc)_frames)$/, 'tx_pause'],
  [/^rx_((global_|prio\d_)?pause|(pause|pfc)_frames)$/, 'rx_pause'],
  [/^tx_(global|prio\d)_pause_duration$/, 'tx_pause_ns', 1e3],
  // Megabits a second in sysfs net/*/speed.
  [/^(link_)?speed$/, 'nic_speed', 1e6 / 8],
  [/^nvlink_(replay|recovery|crc_flit|crc_data)_errors?$/, 'nvlink_errors'],
  [/^DCGM_FI_DEV_NVLINK_(REPLAY|RECOVERY|CRC_FLIT|CRC_DATA)_ERROR_COUNT_(TOTAL|L\d+)$/, 'nvlink_errors'],
  // Of one link, which the sample names; Mb/s as NVML says it. 0: it is down.
  [/^nvlink_speed$/, 'nvlink_speed', 1e6 / 8],
  [/^(clocks_event_reasons|DCGM_FI_DEV_CLOCK(S_EVENT|_THROTTLE)_REASONS)$/, 'throttle_reasons'],
  [/^DCGM_FI_DEV_(POWER|THERMAL)_VIOLATION$/, 'throttle_ns'],
  [/^DCGM_FI_DEV_(UN)?CORRECTABLE_REMAPPED_ROWS$/, 'memory_errors'],
  [/^DCGM_FI_DEV_ECC_[SD]BE_VOL_TOTAL$/, 'memory_errors'],
  [/^(vllm:(gpu_cache_usage_perc|kv_cache_usage_perc)|sglang:(full_)?token_usage)$/, 'kv_usage'],
  [/^(vllm:num_preemptions_total|sglang:num_retracted_requests_total)$/, 'preemptions'],
  [/^(error|nccl_error|xid)$/, 'error'],
];

const meanings = new Map<string, Meaning | undefined>();
/** Names come from outside: what is remembered of them is bounded. */
const MAX_NAMES = 4096;

/** What a sample means to the detectors; undefined: nothing. */
export function meaningOf({ name, unit }: Pick<SampleRow, 'name' | 'unit'>): Meaning | undefined {
  const key = `${name}|${unit}`;
  if (!meanings.has(key)) {
    if (meanings.size >= MAX_NAMES) meanings.clear();
    const known = NAMES.find(([pattern]) => pattern.test(name));
    meanings.set(key, known && { role: known[1], scale: unitScale(unit) ?? known[2] ?? 1 });
  }
  return meanings.get(key);
}

const UNITS: Record<string, number> = {
  bytes: 1,
  'bytes/s': 1,
  ns: 1,
  us: 1e3,
  ms: 1e6,
  s: 1e9,
  'Gb/s': 1e9 / 8,
  'Mb/s': 1e6 / 8,
};

const unitScale = (unit: string): number | undefined => UNITS[unit];
