import * as z from 'zod';
import { EmbeddedBusConfig, KafkaBusConfig } from '../bus/config.js';
import { MAX_MESSAGE_ROWS } from '../protocol/limits.js';
import { parseYamlConfig } from '../protocol/yaml-config.js';

const FilesConfig = z.strictObject({
  kind: z.literal('files'),
  dir: z.string().min(1),
  /** The oldest files are deleted beyond it. */
  max_bytes: z
    .int()
    .positive()
    .default(10 * 1024 ** 3),
});

/** A collector as an operator writes it in YAML. */
export const CollectorConfig = z.strictObject({
  /** Where the engines of this host make their segments: their PICKET_DIR. */
  segments_dir: z.string().min(1).default('/dev/shm'),
  /** Holds the spool and what is remembered of runs. */
  state_dir: z.string().min(1).default('/var/lib/picket-collector'),
  /** Name of this host in rows; by default what the system says. */
  host: z.string().min(1).optional(),
  /** Job of engines that name none; without it those are refused. */
  job: z.string().min(1).optional(),
  sink: z.discriminatedUnion('kind', [KafkaBusConfig, EmbeddedBusConfig, FilesConfig]),
  /** Partitions of topics that do not exist yet. */
  partitions: z.int().min(1).max(1024).default(12),
  /** A message is sent once it has so many rows or its first row is so old. */
  batch_rows: z.int().min(1).max(MAX_MESSAGE_ROWS).default(5000),
  batch_ms: z.int().min(10).default(1000),
  /** While the sink is away: the oldest messages are dropped beyond it. */
  spool_bytes: z
    .int()
    .min(1024 ** 2)
    .default(1024 ** 3),
  poll_ms: z.int().min(1).max(1000).default(50),
  /** A phase that lasts longer is sent as open, again and again while it lasts. */
  open_after_ms: z.int().min(1).default(500),
  /** A row a layer, instead of one a step. */
  layer_detail: z.boolean().default(false),
  /** Rows whose clock may be further off the host's are marked. */
  clock_limit_us: z.number().positive().default(100),
  heartbeat_seconds: z.number().positive().default(10),
  /** Newest phases kept in memory for /trace; 32 bytes each. */
  trace_events: z
    .int()
    .min(1)
    .max(2 ** 26)
    .default(2 ** 18),
  /** Counters of NICs, GPUs and engines, which corroborate what rows show. Not sent into files. */
  samples: z
    .strictObject({
      interval_seconds: z.number().min(1).max(300).default(10),
      /** Where the kernel shows its devices; of the host, where this runs in a container. */
      sysfs: z.string().min(1).default('/sys'),
      /** The program, for pause frames; without it there are none. */
      ethtool: z.string().min(1).optional(),
      /** Metrics of engines and exporters on this host. */
      scrape: z.array(z.url({ protocol: /^https?$/ })).default([]),
    })
    .prefault({}),
  http: z
    .strictObject({
      host: z.string().default('0.0.0.0'),
      /** 0: any free one. */
      port: z.int().min(0).max(65_535).default(9479),
    })
    .prefault({}),
  log_level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
});
export type CollectorConfig = z.infer<typeof CollectorConfig>;

/** Parses a collector's configuration. Throws one `bad_config` naming file, line and field of every mistake. */
export const parseCollectorConfig = (text: string, file: string): CollectorConfig =>
  parseYamlConfig(CollectorConfig, text, file, 'see deploy/collector.yaml for a complete example');
