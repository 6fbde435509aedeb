import { Counter, Gauge, type Registry } from 'prom-client';
import type { RuleStatus } from './manager.js';

/** Metrics of the rules in force; an alert on a failed reload needs nothing else. */
export function createRuleMetrics(registry: Registry) {
  const registers = [registry];
  const loaded = new Gauge({ name: 'picket_rules_loaded', help: 'Rules in force.', registers });
  const successful = new Gauge({
    ...{
      name: 'picket_rules_last_reload_successful',
      help: '1: the newest rules are in force; 0: they cannot be used.',
    },
    registers,
  });
  const succeededAt = new Gauge({
    ...{
      name: 'picket_rules_last_reload_success_timestamp_seconds',
      help: 'Unix time of the last look at good rules.',
    },
    registers,
  });
  const info = new Gauge({
    ...{ name: 'picket_rules_info', help: 'Always 1; the commit of the rules in force.', labelNames: ['commit'] },
    registers,
  });
  const suppressed = new Counter({
    ...{ name: 'picket_findings_suppressed_total', help: 'Findings that rules dropped or muted.' },
    registers,
  });
  return {
    suppressed,
    set({ rules, commit, failure, attemptedAtMs }: RuleStatus): void {
      loaded.set(rules);
      successful.set(failure ? 0 : 1);
      if (!failure && attemptedAtMs !== null) succeededAt.set(attemptedAtMs / 1000);
      info.reset();
      if (commit !== null) info.set({ commit }, 1);
    },
  };
}

export type RuleMetrics = ReturnType<typeof createRuleMetrics>;
