// Writes fixtures/h200-tp2-excerpt/phases.jsonl.gz: steps 150 to 330 of two scenarios of the recording h200-tp2, both
// ranks, with the host gaps, as Picket's own JSONL. The fault of host_straggler begins at step 250.
//
//   npm run build && node scripts/make-excerpt.mjs [folder of the recording, default ../shared/data/h200-tp2]
import { mkdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { importPaths } from '../dist/importers/index.js';
import { formatPhaseLine } from '../dist/protocol/jsonl.js';

const FIRST_STEP = 150;
const LAST_STEP = 330;
const source = process.argv[2] ?? '../shared/data/h200-tp2';
const folder = 'fixtures/h200-tp2-excerpt';

const lines = [];
for (const scenario of ['host_straggler', 'healthy'])
  for await (const batch of importPaths([source], { scenario }))
    for (let i = 0; i < batch.length; i++) {
      const step = batch.columns.step.number(i);
      if (step >= FIRST_STEP && step <= LAST_STEP) lines.push(formatPhaseLine(batch, i));
    }
mkdirSync(folder, { recursive: true });
const bytes = gzipSync(`${lines.join('\n')}\n`, { level: 9 });
writeFileSync(`${folder}/phases.jsonl.gz`, bytes);
console.log(`${lines.length} rows, ${bytes.length} bytes`);
