import * as z from 'zod';
import { BusConfig } from '../bus/config.js';
import { parseYamlConfig } from '../protocol/yaml-config.js';
import { STORM_LIMITS } from './incidents/storms.js';
import { ReceiverConfigs } from './notify/config.js';
import { RouteConfig } from './notify/route.js';
import { RulesConfig } from './rules/config.js';

/** A detector as an operator writes it in YAML. */
export const DetectorConfig = z
  .strictObject({
    http: z
      .strictObject({
        host: z.string().default('0.0.0.0'),
        /** 0: any free one. */
        port: z.int().min(0).max(65_535).default(9478),
        /** Where people reach it; links in notifications begin with it. */
        external_url: z.url({ protocol: /^https?$/ }).optional(),
        /** Holds the token that writes need; several with white space between while one replaces another. Absent: none. */
        api_token_file: z.string().min(1).optional(),
      })
      .prefault({}),
    bus: BusConfig,
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
    /** A job that sent nothing for so long is forgotten: what is open of it ends, and if it comes back it is learnt anew. */
    forget_seconds: z.number().positive().default(86_400),
    log_level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
    /** File of `picket baseline train`, read at the start: sees jobs that are slow from their first step. */
    baseline: z.string().min(1).optional(),
    /** Absent: the rules that come with Picket. */
    rules: RulesConfig.optional(),
    /** So many incidents that open within the window are told as one: of what has something in common, and of all. */
    storms: z
      .strictObject({
        incidents: z.int().min(2).default(STORM_LIMITS.incidents),
        unrelated: z.int().min(2).default(STORM_LIMITS.unrelated),
        window_seconds: z
          .number()
          .positive()
          .default(STORM_LIMITS.windowMs / 1000),
      })
      .prefault({}),
    receivers: ReceiverConfigs.default([]),
    /** The first that fits an incident decides who hears of it; without any, every receiver hears of everything. */
    routes: z.array(RouteConfig).default([]),
  })
  .superRefine(({ receivers, routes }, context) => {
    const names = new Set(receivers.map(({ name }) => name));
    for (const [i, { receiver }] of routes.entries())
      if (!names.has(receiver))
        context.addIssue({
          code: 'custom',
          path: ['routes', i, 'receiver'],
          message: `there is no receiver "${receiver}"`,
        });
  });
export type DetectorConfig = z.infer<typeof DetectorConfig>;

/** Parses a detector's configuration. Throws one `bad_config` naming file, line and field of every mistake. */
export const parseDetectorConfig = (text: string, file: string): DetectorConfig =>
  parseYamlConfig(DetectorConfig, text, file, 'see deploy/detector.yaml for a complete example');
