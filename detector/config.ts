import { LineCounter, parseDocument } from 'yaml';
import * as z from 'zod';
import { PicketError } from '../protocol/errors.js';
import { ReceiverConfigs } from './notify/config.js';

const EmbeddedBus = z.strictObject({
  kind: z.literal('embedded'),
  dir: z.string().min(1),
  fsync: z.enum(['always', 'never']).optional(),
  /** A partition over this size loses its oldest segments, read or not. */
  retention_bytes: z.int().positive().optional(),
});

const KafkaBus = z.strictObject({
  kind: z.literal('kafka'),
  brokers: z.array(z.string().min(1)).min(1),
  ssl: z
    .union([
      z.boolean(),
      z.strictObject({
        ca_file: z.string().optional(),
        cert_file: z.string().optional(),
        key_file: z.string().optional(),
      }),
    ])
    .optional(),
  sasl: z
    .strictObject({
      mechanism: z.enum(['plain', 'scram-sha-256', 'scram-sha-512']),
      username: z.string(),
      password_file: z.string(),
    })
    .optional(),
  replication_factor: z.int().positive().optional(),
});

/** A detector as an operator writes it in YAML. */
export const DetectorConfig = z.strictObject({
  http: z
    .strictObject({
      host: z.string().default('0.0.0.0'),
      /** 0: any free one. */
      port: z.int().min(0).max(65_535).default(9478),
      /** Where people reach it; links in notifications begin with it. */
      external_url: z.url({ protocol: /^https?$/ }).optional(),
    })
    .prefault({}),
  bus: z.discriminatedUnion('kind', [EmbeddedBus, KafkaBus]),
  /** Consumer group; detectors of one group share the partitions. */
  group: z.string().min(1).default('picket-detector'),
  /** Partitions of topics that do not exist yet. */
  partitions: z.int().min(1).max(1024).default(12),
  store: z.strictObject({
    path: z.string().min(1),
    synchronous: z.enum(['full', 'normal']).default('full'),
    /** Resolved incidents and delivered notifications are kept for so long. */
    retention_days: z.number().positive().default(90),
  }),
  /** State and offset are written at least this often while rows come: what is read again after a crash. */
  checkpoint_seconds: z.number().positive().default(1),
  /** A job that sends nothing for so long has its open steps judged as they are. */
  idle_seconds: z.number().positive().default(60),
  /** A job that sent nothing for so long is shown as stale. */
  stale_seconds: z.number().positive().default(300),
  log_level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  receivers: ReceiverConfigs.default([]),
});
export type DetectorConfig = z.infer<typeof DetectorConfig>;

/** Parses a detector's configuration. Throws one `bad_config` naming file, line and field of every mistake. */
export function parseDetectorConfig(text: string, file: string): DetectorConfig {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  const [syntax] = document.errors;
  if (syntax)
    throw new PicketError('bad_config', syntax.message.split('\n')[0] as string, {
      file,
      line: syntax.linePos?.[0].line,
    });
  const parsed = DetectorConfig.safeParse(document.toJS() ?? {});
  if (parsed.success) return parsed.data;
  const lineOf = (path: readonly PropertyKey[]): number | undefined => {
    for (let depth = path.length; depth > 0; depth--) {
      const node = document.getIn(path.slice(0, depth), true) as { range?: [number, number, number] } | undefined;
      if (node?.range) return lines.linePos(node.range[0]).line;
    }
    return undefined;
  };
  const [first, ...others] = parsed.error.issues.map((issue) => {
    const path = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] as string] : issue.path;
    const problem = issue.code === 'unrecognized_keys' ? 'is not known' : issue.message;
    return { problem, line: lineOf(path), field: path.join('.') };
  });
  const more = others.map(({ line, field, problem }) => `line ${line ?? '?'} "${field}": ${problem}`).join('; ');
  throw new PicketError('bad_config', `${first?.problem}${more ? ` (also ${more})` : ''}`, {
    file,
    line: first?.line,
    field: first?.field,
    remedy: 'see deploy/detector.yaml for a complete example',
  });
}
