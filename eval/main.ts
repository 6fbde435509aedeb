import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { type CaseOptions, casesOf, DEVELOPMENT_SEEDS, REPORT_RUNS, REPORT_SEEDS, reportCases } from './cases.js';
import { failuresOf } from './failures.js';
import { runParallel } from './pool.js';
import { failuresText, RULES_TEXT, type Scores, tablesText } from './scoreboard.js';

const FILE = 'docs/scoreboard.md';
const RANKS = [8, 64];
const FULL_RANKS = [8, 64, 256, 1024];

const USAGE = `npm run eval -- [--report] [--full] [--ranks N]... [--scenario PREFIX]
  --report    the report: ${REPORT_RUNS.map(({ ranks, brief }) => `${ranks} ranks${brief ? ' in brief' : ''}`).join(', ')}; its seeds (${REPORT_SEEDS.join(', ')}) are not those for development (${DEVELOPMENT_SEEDS.join(', ')})
  --full      everything at ${FULL_RANKS.join(', ')} ranks instead of ${RANKS.join(', ')}, with --report for each of its seeds: many hours
  --ranks     these only
  --minutes   begin no further case after so many; what was run is scored
  --threads   default: one a core
  --scenario  only scenarios whose names begin so; prints and writes nothing`;

const { values } = parseArgs({
  options: {
    report: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    ranks: { type: 'string', multiple: true },
    threads: { type: 'string', default: String(availableParallelism()) },
    minutes: { type: 'string', default: 'Infinity' },
    scenario: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

async function main(): Promise<void> {
  const seeds = values.report ? REPORT_SEEDS : DEVELOPMENT_SEEDS;
  const ranks = values.ranks?.map(Number) ?? (values.full ? FULL_RANKS : RANKS);
  const all = values.report && !values.full && !values.ranks ? reportCases() : casesOf(seeds, ranks);
  const cases = all.filter(({ scenario }) => scenario.startsWith(values.scenario ?? ''));
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
  const scores = await runParallel(cases, Number(values.threads), show, 60_000 * Number(values.minutes));
  const ran = scores.outcomes.map(({ played }) => played.options);
  const seconds = Math.round((performance.now() - started) / 1000);
  const flags = process.argv.slice(2).join(' ');
  const text = [
    '# Scoreboard\n',
    `Made by \`npm run eval${flags && ` -- ${flags}`}\` on ${new Date().toISOString().slice(0, 10)}: ${ran.length === cases.length ? '' : `${ran.length} of `}${cases.length} runs of the simulator's`,
    `scenarios in ${seconds} s on ${availableParallelism()} cores. Seeds (${values.report ? 'report' : 'development'}): ${seedsText(ran)}. Every figure below is of that run.\n`,
    tablesText(scores),
    RULES_TEXT,
    failuresText(scores.outcomes),
  ].join('\n');
  console.log(text);
  if (values.scenario === undefined) writeFileSync(FILE, text);
}

/** Which seeds each cluster size was run with. */
function seedsText(cases: readonly CaseOptions[]): string {
  const sizes = [...new Set(cases.map(({ ranks }) => ranks))].sort((a, b) => a - b);
  const seedsOf = (size: number): number[] => [
    ...new Set(cases.flatMap(({ ranks, seed }) => (ranks === size ? [seed] : []))),
  ];
  return sizes.map((size) => `${seedsOf(size).join(' and ')} at ${size} ranks`).join(', ');
}

if (values.help) console.log(USAGE);
else await main();
