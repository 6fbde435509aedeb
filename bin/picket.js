#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
if (!existsSync(program)) {
  console.error('picket: not built yet; run `npm run build` (or `npm run demo`, which builds too)');
  process.exit(1);
}
await import(program);
