import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Route } from '../notify/route.js';
import type { Store } from '../store/store.js';
import type { RulesConfig } from './config.js';
import { RuleFailureIncidents } from './failure-incidents.js';
import { LastGoodFile } from './last-good.js';
import { RuleManager } from './manager.js';
import { createRuleMetrics } from './metrics.js';
import { ruleRoutes } from './routes.js';
import { folderSource } from './sources/folder.js';
import { gitSyncSource } from './sources/git-sync.js';
import { repositorySource } from './sources/repository.js';
import type { RuleSource } from './sources/source.js';

export interface RulesDeps {
  /** Absent: the rules that come with Picket. */
  readonly config: RulesConfig | undefined;
  /** Files of the rules are kept beside it. */
  readonly storePath: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly store: Store;
  readonly routes: readonly Route[];
  readonly registry: Registry;
  readonly now: () => number;
  readonly log: Logger;
  /** Called after other rules have come into force. */
  readonly onChange: () => void;
  readonly onNotifications: () => void;
}

/** Wires the rules of a detector; nothing is loaded before `manager.start()`. */
export function openRules(deps: RulesDeps) {
  const { store, routes, registry, now, log, onChange, onNotifications, storePath } = deps;
  const config: RulesConfig = deps.config ?? { source: 'folder', path: shippedRules(), poll_seconds: 30 };
  const metrics = createRuleMetrics(registry);
  const incidents = new RuleFailureIncidents(store, routes);
  const manager: RuleManager = new RuleManager({
    source: sourceOf(config, storePath, deps.env),
    lastGood: new LastGoodFile(config.last_good_file ?? `${storePath}.rules.json`),
    pollMs: config.poll_seconds * 1000,
    now,
    log: log.child({ part: 'rules' }),
    onChange,
    onAttempt: (status) => {
      metrics.set(status);
      try {
        if (incidents.follow(status, now())) onNotifications();
      } catch (error) {
        log.error({ err: error }, 'the state of the rules could not be stored');
      }
    },
  });
  const probe = {
    name: 'rules',
    check: () => {
      const { rules, failure } = manager.status();
      return rules > 0 ? undefined : `no rules are loaded${failure ? `: ${failure.message}` : ''}`;
    },
  };
  return { manager, metrics, probe, routes: (app: FastifyInstance) => ruleRoutes(app, manager) };
}

function sourceOf(config: RulesConfig, storePath: string, env: RulesDeps['env']): RuleSource {
  if (config.source === 'folder') return folderSource(config.path);
  if (config.source === 'git_sync') return gitSyncSource(config.link, config.path);
  return repositorySource(config, config.cache_dir ?? `${storePath}.rules.git`, env);
}

/** Folder of the rules that come with Picket: beside package.json, above whatever folder this program was built into. */
export function shippedRules(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder);
  return join(folder, 'rules');
}
