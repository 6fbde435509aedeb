import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { casesOf, DEVELOPMENT_SEEDS, REPORT_SEEDS } from './cases.js';
import { failuresOf } from './failures.js';
import { runParallel } from './pool.js';
import { failuresText, RULES_TEXT, type Scores, tablesText } from './scoreboard.js';

const FILE = 'docs/scoreboard.md';
const RANKS = [8, 64];
const FULL_RANKS = [8, 64, 256, 1024];

const USAGE = `npm run eval -- [--report] [--full] [--ranks N]... [--scenario PREFIX]
  --report    the report's seeds (${REPORT_SEEDS.join(', ')}) instead of those for development (${DEVELOPMENT_SEEDS.join(', ')})
  --full      ${FULL_RANKS.join(', ')} ranks instead of ${RANKS.join(', ')}
  --ranks     these only
  --scenario  only scenarios whose names begin so; prints and writes nothing`;

const { values } = parseArgs({
  options: {
    report: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    ranks: { type: 'string', multiple: true },
    scenario: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

async function main(): Promise<void> {
  const seeds = values.report ? REPORT_SEEDS : DEVELOPMENT_SEEDS;
  const ranks = values.ranks?.map(Number) ?? (values.full ? FULL_RANKS : RANKS);
  const cases = casesOf(seeds, ranks).filter(({ scenario }) => scenario.startsWith(values.scenario ?? ''));
  const started = performance.now();
  let done = 0;
  const show = ({ outcomes }: Scores): void => {
    for (const outcome of outcomes) {
      const failures = failuresOf(outcome);
      const { scenario, ranks, seed } = outcome.played.options;
      const verdict = failures.length === 0 ? 'right' : 'not right';
      console.error(`${++done}/${cases.length} ${scenario}, ${ranks} ranks, seed ${seed}: ${verdict}`);
      for (const failure of failures) console.error(`  ${failure}`);
    }
  };
  const scores = await runParallel(cases, availableParallelism(), show);
  const seconds = Math.round((performance.now() - started) / 1000);
  const flags = process.argv.slice(2).join(' ');
  const text = [
    '# Scoreboard\n',
    `Made by \`npm run eval${flags && ` -- ${flags}`}\` on ${new Date().toISOString().slice(0, 10)}: ${cases.length} runs of the simulator's`,
    `scenarios, seeds ${seeds.join(', ')} (${values.report ? 'report' : 'development'}), ${ranks.join(', ')} ranks, ${seconds} s. Every figure below is of that run.\n`,
    tablesText(scores),
    RULES_TEXT,
    failuresText(scores.outcomes),
  ].join('\n');
  console.log(text);
  if (values.scenario === undefined) writeFileSync(FILE, text);
}

if (values.help) console.log(USAGE);
else await main();
