import { resolve } from 'node:path';
import { PartitionPipeline } from '../detector/pipeline/partition-pipeline.js';
import type { RuleText } from '../detector/rules/rule-file.js';
import { loadRules, type RuleSet } from '../detector/rules/rule-set.js';
import { BUILT_IN_RULES, type RulesInForce } from '../detector/rules/rules-in-force.js';
import { importPaths } from '../importers/index.js';
import { INCIDENT_KINDS } from '../protocol/incident.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { best, print } from './measure.js';

/*
 * A thousand rules in fifty files: how long they take to load, what a reload after one edit parses, and how much slower
 * detection is with them than with none, by turns in one process run. All of them fit the jobs of the trace: most
 * are on kinds, with globs, exceptions, mute windows and templates; one in twenty is an expression, half of these on each
 * rank. Which rules hold for a job is decided once, in the first round, and not counted.
 */

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');
const FILES = 50;
const RULES_PER_FILE = 20;

export async function benchRules(): Promise<void> {
  const texts = Array.from({ length: FILES }, (_, file) => ({ path: `team-${file}.yml`, text: fileOf(file) }));
  const edited = texts.map((each, i) =>
    i === 7 ? { ...each, text: each.text.replace('for: 30s', 'for: 31s') } : each,
  );
  const loaded = loadRules(texts, 'bench');
  const reloaded = loadRules(edited, 'bench', loaded.files);
  const loading = best({
    load: () => loadRules(texts, 'bench'),
    reload: () => loadRules(edited, 'bench', loaded.files),
  });
  const size = {
    rules: loaded.set?.rules.length,
    files: FILES,
    bytes: texts.reduce((sum, { text }) => sum + text.length, 0),
  };
  print({ figure: 'rules_load', ...size, seconds: rounded(loading.load), files_parsed: loaded.parsed });
  print({
    figure: 'rules_reload_after_one_edit',
    ...size,
    seconds: rounded(loading.reload),
    files_parsed: reloaded.parsed,
  });

  const batches: PhaseBatch[] = [];
  for await (const batch of importPaths([EXCERPT])) batches.push(batch);
  const seconds = leastCpu({
    none: () => detect(batches, BUILT_IN_RULES),
    thousand: () => detect(batches, { current: loaded.set as RuleSet }),
  });
  const slower = seconds.thousand / seconds.none - 1;
  print({
    figure: 'detection_with_rules',
    ...{ rules: size.rules, expressions: FILES },
    ...{
      seconds_without: rounded(seconds.none),
      seconds_with: rounded(seconds.thousand),
      slower_percent: rounded(100 * slower),
    },
  });
}

const ROUNDS = 60;

/** Least processor time of each side in seconds, by turns: waiting for a busy machine does not count. */
function leastCpu<Name extends string>(sides: Record<Name, () => void>): Record<Name, number> {
  const least = Object.fromEntries(Object.keys(sides).map((name) => [name, Number.POSITIVE_INFINITY]));
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, run] of Object.entries<() => void>(sides)) {
      const before = process.cpuUsage();
      run();
      const { user, system } = process.cpuUsage(before);
      least[name] = Math.min(least[name] as number, (user + system) / 1e6);
    }
  return least as Record<Name, number>;
}

function detect(batches: readonly PhaseBatch[], rules: RulesInForce): void {
  const pipeline = new PartitionPipeline(rules);
  for (const [offset, batch] of batches.entries())
    pipeline.add(batch, { place: '', offset: BigInt(offset), again: false });
  pipeline.flush();
}

function fileOf(file: number): RuleText['text'] {
  const rules = Array.from({ length: RULES_PER_FILE }, (_, i) =>
    i === RULES_PER_FILE - 1 ? expressionRule(file, i) : kindRule(file, i),
  );
  return `apiVersion: picket/v1\ngroups:\n  - name: team-${file}\n    owner: team-${file}\n    runbook: https://runbooks.example/${file}\n    rules:\n${rules.join('')}`;
}

const kindRule = (file: number, i: number): string => `      - id: rule-${file}-${i}
        kind: ${INCIDENT_KINDS[(file * RULES_PER_FILE + i) % (INCIDENT_KINDS.length - 2)]}
        match: {job: ["*", "!bench-*-${i}"], host: "node-${file}-*"}
        for: 30s
        keep_firing_for: 5m
        severity: {warning: 0.1, critical: 0.2}
        exceptions: [{name: known, reason: measured before, match: {host: "node-${file}-${i}"}}]
        mute: [{name: nightly, days: [mon, fri], from: "02:00", to: "03:00", time_zone: Europe/Berlin}]
        labels: {team: team-${file}}
        annotations: {what: "{{ job }} loses {{ $value }} % since step {{ onset_step }}"}
`;

const expressionRule = (file: number, i: number): string => `      - id: rule-${file}-${i}
        kind: load_imbalance
        expr: now.phase("mlp").median_ms > ${file + 2}.5 * before.phase("mlp").median_ms && now.step.p90_ms / now.step.median_ms > 50.0
        per: ${file % 2 === 0 ? 'job' : 'rank'}
        severity: warning
`;

const rounded = (value: number): number => Math.round(value * 1e4) / 1e4;
