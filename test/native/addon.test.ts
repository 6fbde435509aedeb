import { deepEqual, equal, ok, throws } from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import { checked, native } from '../../native/ts/binding.js';
import { LAYOUT, listSegments, type NativeSegment, openSegment, type SegmentErrorCode } from '../../native/ts/index.js';
import { make, skip } from './build.js';
import { Writer } from './writer.js';

const BATCH = 512;
const times = new BigUint64Array(BATCH);
const ids = new Uint32Array(BATCH);

interface Taken {
  ids: number[];
  times: bigint[];
  lost: number;
}

/** Everything that is there, of which the first record has number `from` unless some are lost. */
function drainAll(segment: NativeSegment, from = 0): Taken {
  const taken: Taken = { ids: [], times: [], lost: 0 };
  for (;;) {
    const { count, lost, first } = segment.drainFences(times, ids);
    taken.lost += lost;
    if (count > 0) equal(first, from + taken.ids.length + taken.lost);
    taken.ids.push(...ids.subarray(0, count));
    taken.times.push(...times.subarray(0, count));
    if (count === 0 && lost === 0) return taken;
  }
}

const typeOf = (id: number) => id >>> LAYOUT.fence.typeShift;
const phaseOf = (id: number) => id & (2 ** LAYOUT.fence.phaseBits - 1);
const failure = (code: SegmentErrorCode, message: RegExp) => ({ name: 'SegmentError', code, message });

describe('native addon', { skip }, () => {
  let directory: string;
  const writers: Writer[] = [];
  const segments: NativeSegment[] = [];

  async function write(capacity?: number, attributes?: string): Promise<Writer> {
    const writer = await Writer.start(directory, capacity, attributes);
    writers.push(writer);
    return writer;
  }
  function open(path: string, consume = true): NativeSegment {
    const segment = openSegment(path, consume);
    segments.push(segment);
    return segment;
  }

  before(() => make('addon', 'tests'));
  beforeEach(() => {
    directory = mkdtempSync('/dev/shm/picket-test-');
  });
  afterEach(async () => {
    for (const segment of segments.splice(0)) segment.close();
    await Promise.all(writers.splice(0).map((writer) => writer.kill()));
    rmSync(directory, { recursive: true });
  });

  it('was compiled from the generated layout and refuses another', () => {
    const addon = native();
    deepEqual(addon.layout(), LAYOUT);
    const other = { ...LAYOUT, fence: { ...LAYOUT.fence, size: 32 } } as unknown as typeof LAYOUT;
    throws(() => checked({ ...addon, layout: () => other }), failure('addon_stale', /run: make -C native addon/));
  });

  it('describes the writer', async () => {
    const writer = await write(4096, '{"job":"llama","rank":3}');
    const segment = open(writer.path);
    const info = segment.info();
    equal(info.pid, writer.pid);
    equal(info.fenceCapacity, 4096);
    equal(info.clockSource, LAYOUT.clock.monotonic);
    deepEqual(JSON.parse(info.attributes), { job: 'llama', rank: 3 });
    deepEqual(segment.phases(0), [
      { id: 0, name: 'mlp', kind: 0, layer: 3, weight: 1, op: '', group: '', bytes: -1 },
      { id: 1, name: 'dataload', kind: 3, layer: -1, weight: 1, op: '', group: '', bytes: -1 },
    ]);
    deepEqual(segment.phases(1).length, 1);
    deepEqual(segment.phases(9), []);
  });

  it('drains what the library wrote, in order and bounded', async () => {
    const writer = await write();
    const segment = open(writer.path);
    await writer.send('fill 1001');
    equal(segment.drainFences(times, ids.subarray(0, 10)).count, 10);
    const first = ids.slice(0, 10);
    const taken = drainAll(segment, 10);
    const all = [...first, ...taken.ids];
    equal(all.length, 1001);
    equal(taken.lost, 0);
    all.forEach((id, i) => {
      equal(typeOf(id), i % 2 ? LAYOUT.fence.end : LAYOUT.fence.begin);
      equal(phaseOf(id), 0);
    });
    ok(taken.times.every((time, i) => i === 0 || time >= (taken.times[i - 1] ?? 0n)));
    equal(segment.status().fencesClaimed, 1001);
  });

  it('counts what was overwritten', async () => {
    const writer = await write(1024);
    const segment = open(writer.path);
    await writer.send('fill 5000');
    const taken = drainAll(segment);
    equal(taken.ids.length, 1024);
    equal(taken.lost, 5000 - 1024);
    await writer.send('fill 7');
    equal(segment.drainFences(times, ids).count, 7);
  });

  it('reads steps, requests, marks and clock samples by the layout', async () => {
    const writer = await write();
    const segment = open(writer.path);
    await writer.send('step 1234567890123 8 cmpl-1');
    await writer.send('mark');
    const records = new BigUint64Array((LAYOUT.host.size / 8) * 16);
    equal(segment.drainHosts(records).count, 4);
    const view = new DataView(records.buffer);
    const at = (record: number, offset: number) => record * LAYOUT.host.size + offset;
    const payload = (record: number, offset: number) => at(record, LAYOUT.host.payload + offset);
    const types = [0, 1, 2, 3].map((i) => view.getUint16(at(i, LAYOUT.host.type), true));
    deepEqual(types, [LAYOUT.host.step, LAYOUT.host.request, LAYOUT.host.begin, LAYOUT.host.end]);
    equal(view.getBigInt64(payload(0, LAYOUT.step.step), true), 1234567890123n);
    equal(view.getInt32(payload(0, LAYOUT.step.batch), true), 8);
    equal(view.getInt32(payload(0, LAYOUT.step.graph), true), -1);
    const length = view.getUint16(payload(1, LAYOUT.request.length), true);
    const text = new Uint8Array(records.buffer, payload(1, LAYOUT.request.text), length);
    equal(new TextDecoder().decode(text), 'cmpl-1');
    equal(view.getBigInt64(payload(2, LAYOUT.call.bytes), true), 4096n);
    const link = drainAll(segment).ids[0] ?? 0;
    equal(typeOf(link), LAYOUT.fence.link);
    equal(phaseOf(link), 0);
    const samples = new BigUint64Array(LAYOUT.clock.size / 8);
    equal(segment.drainClocks(samples), 1);
    const real = samples[LAYOUT.clock.realtimeNs / 8] ?? 0n;
    ok(Math.abs(Number(real - BigInt(Date.now()) * 1_000_000n)) < 60e9);
    equal(segment.drainClocks(samples), 0);
  });

  it('knows a living, a closed and a dead writer, and reads on', async () => {
    for (const how of ['close', 'kill']) {
      const writer = await write();
      const segment = open(writer.path);
      await writer.send('fill 10');
      deepEqual([segment.status().writerAlive, segment.status().closed], [true, false]);
      await (how === 'close' ? writer.send('close') : writer.kill());
      deepEqual([segment.status().writerAlive, segment.status().closed], [false, how === 'close']);
      equal(drainAll(segment).ids.length, 10);
    }
  });

  it('notices a replaced file and keeps reading its own', async () => {
    const writer = await write();
    const segment = open(writer.path);
    await writer.send('fill 3');
    equal(segment.status().replaced, false);
    copyFileSync(writer.path, `${writer.path}.new`);
    renameSync(`${writer.path}.new`, writer.path);
    equal(segment.status().replaced, true);
    await writer.send('fill 4');
    equal(drainAll(segment).ids.length, 7);
    // The copy has no writer: it is dead, with what had been written by then.
    const copy = open(writer.path);
    equal(copy.status().writerAlive, false);
    equal(drainAll(copy).ids.length, 3);
  });

  it('finds the segments of a restarted engine beside the old one', async () => {
    const first = await write();
    await first.kill();
    const second = await write();
    writeFileSync(join(directory, 'other'), '');
    deepEqual(listSegments(directory), [first.path, second.path].sort());
    const alive = listSegments(directory).map((path) => open(path, false).status().writerAlive);
    deepEqual(alive.sort(), [false, true]);
  });

  it('refuses by name what it cannot read', async () => {
    const writer = await write();
    const foreign = join(directory, 'picket-1-2-3');
    throws(() => openSegment(foreign, false), failure('not_found', /picket-1-2-3: No such file/));
    writeFileSync(foreign, 'hello');
    throws(() => openSegment(foreign, false), failure('not_a_segment', /picket-1-2-3: not a picket segment/));
    const bytes = readFileSync(writer.path);
    bytes.writeUInt16LE(2, LAYOUT.control.versionMajor);
    writeFileSync(foreign, bytes);
    throws(
      () => openSegment(foreign, false),
      failure('version', /picket-1-2-3: segment version 2\.\d+, this reader understands 1\.x; install the same picket/),
    );
    bytes.writeUInt16LE(1, LAYOUT.control.versionMajor);
    writeFileSync(foreign, bytes.subarray(0, bytes.length / 2));
    throws(() => openSegment(foreign, false), failure('damaged', /shorter than its segment_size/));
    open(writer.path);
    throws(() => openSegment(writer.path, true), failure('in_use', /another reader consumes/));
  });

  it('goes on where the last reader committed', async () => {
    const writer = await write();
    const first = open(writer.path);
    await writer.send('fill 20');
    equal(first.drainFences(times, ids.subarray(0, 5)).count, 5);
    first.commit();
    equal(first.drainFences(times, ids.subarray(0, 5)).count, 5);
    first.close();
    throws(() => first.info(), { code: 'closed' });
    const second = open(writer.path);
    deepEqual(second.drainFences(times, ids), { count: 15, lost: 0, first: 5 });
  });

  it('refuses wrong arguments', async () => {
    const writer = await write();
    const looker = open(writer.path, false);
    throws(() => looker.drainFences(times, ids), { code: 'not_consuming' });
    const segment = open(writer.path);
    throws(() => segment.drainFences(ids as never, times as never), TypeError);
    throws(() => segment.drainHosts(new Uint8Array(128) as never), TypeError);
    throws(() => segment.phases('x' as never), TypeError);
    throws(() => new (native().Segment)(1 as never, true), TypeError);
  });
});
