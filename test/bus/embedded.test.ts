import { mkdtempSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { segmentBases, segmentPath } from '../../bus/embedded/segments.js';
import { openBus } from '../../bus/open.js';
import { busContract } from './contract.js';

busContract('the embedded log', false, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'picket-log-'));
  return {
    // Each append begins a segment, so that retention can take any of them.
    connect: () => openBus({ kind: 'embedded', dir, segmentBytes: 1, retentionBytes: 1 << 30 }),
    trim: async (topic, partition, before) => {
      const folder = join(dir, 'topics', topic, String(partition));
      for (const base of await segmentBases(folder)) if (base < before) await rm(segmentPath(folder, base));
    },
    dispose: async () => rmSync(dir, { recursive: true }),
  };
});
