import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Registry } from '../../collector/registry.js';
import { LAYOUT, listSegments, openSegment } from '../../native/ts/index.js';
import { SegmentFile } from './segment-file.js';
import { folder, needsAddon } from './support.js';

interface Watched {
  registry: Registry;
  refused: string[];
}

function registryOf(dir: string, defaultJob?: string, remove: (path: string) => void = rmSync): Watched {
  const refused: string[] = [];
  const registry = new Registry({
    list: () => listSegments(dir),
    open: (path) => openSegment(path, true),
    remove,
    onRefused: (_, error) => refused.push(error.message),
    defaultJob,
  });
  return { registry, refused };
}

const attributes = { job: 'j', rank: 0 };

describe('the registry', needsAddon, () => {
  it('opens what is new, the oldest first, and nothing twice', () => {
    const dir = folder();
    const { registry, refused } = registryOf(dir);
    for (const [pid, created] of [
      [1, 30n],
      [2, 10n],
      [3, 20n],
    ] as const)
      new SegmentFile(dir, { attributes, pid, createdRealtimeNs: created });
    writeFileSync(join(dir, 'other'), '');
    assert.deepEqual(
      registry.scan().map(({ info }) => info.pid),
      [2, 3, 1],
    );
    assert.deepEqual([registry.scan(), refused], [[], []]);
    registry.close();
  });

  it('says once why a segment cannot be read, and what to do', () => {
    const dir = folder();
    const { registry, refused } = registryOf(dir);
    const newer = new SegmentFile(dir, { attributes, pid: 1 });
    const file = openSync(newer.path, 'r+');
    writeSync(file, Buffer.from([9, 0]), 0, 2, LAYOUT.control.versionMajor);
    closeSync(file);
    new SegmentFile(dir, { attributes: { job: 'j' }, pid: 2 });
    new SegmentFile(dir, { attributes: { rank: 0 }, pid: 3 });
    writeFileSync(join(dir, 'picket-4-4-0'), 'nothing');
    for (let i = 0; i < 2; i++) assert.deepEqual(registry.scan(), []);
    assert.equal(refused.length, 4);
    for (const [i, part] of [
      /version 9.*same picket release/,
      /"rank".*attributes/,
      /"job".*name it/,
      /not a picket segment/,
    ].entries())
      assert.match(refused[i] as string, part);
    assert.equal(registry.refused, 4);
    rmSync(newer.path);
    registry.scan();
    assert.equal(registry.refused, 3);
  });

  it('takes the configured job for engines that name none', () => {
    const dir = folder();
    const { registry } = registryOf(dir, 'default');
    new SegmentFile(dir, { attributes: { rank: 5, run: 7, dp: 2, unknown: 'field' } });
    const [{ identity }] = registry.scan() as [ReturnType<Registry['scan']>[0]];
    assert.deepEqual([identity.job, identity.run, identity.rank], ['default', '7', { rank: 5, dp: 2 }]);
    registry.close();
  });

  it('waits for a segment that another collector reads', () => {
    const dir = folder();
    new SegmentFile(dir, { attributes });
    const [first, second] = [registryOf(dir), registryOf(dir)];
    assert.equal(first.registry.scan().length, 1);
    assert.deepEqual([second.registry.scan().length, second.registry.scan().length], [0, 0]);
    assert.match(second.refused.join(), /another reader/);
    assert.equal(second.refused.length, 1);
    first.registry.close();
    assert.equal(second.registry.scan().length, 1);
    assert.equal(second.registry.refused, 0);
    second.registry.close();
  });

  it('deletes what is read up, and leaves alone for ever what it may not delete', () => {
    const dir = folder();
    const { registry } = registryOf(dir);
    const segment = new SegmentFile(dir, { attributes });
    const [opened] = registry.scan() as [ReturnType<Registry['scan']>[0]];
    assert.equal(registry.endingOf(opened), 'ended');
    registry.retire(opened);
    assert.ok(!existsSync(segment.path));
    const powerless = registryOf(dir, undefined, () => {}).registry;
    const other = new SegmentFile(dir, { attributes, died: true });
    const [again] = powerless.scan() as [ReturnType<Registry['scan']>[0]];
    assert.equal(powerless.endingOf(again), 'died');
    powerless.retire(again);
    assert.deepEqual(powerless.scan(), []);
    rmSync(other.path);
    powerless.scan();
    new SegmentFile(dir, { attributes });
    assert.equal(powerless.scan().length, 1);
    powerless.close();
  });
});
