import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Message, Sink } from '../../collector/message.js';
import { Outbox } from '../../collector/outbox.js';
import { Spool } from '../../collector/spool.js';
import { PicketError } from '../../protocol/errors.js';
import { folder } from './support.js';

const message = (number: number, bytes = 100): Message => {
  const value = new Uint8Array(bytes);
  new DataView(value.buffer).setUint32(0, number);
  return { topic: 't', key: 'job', value, rows: 10 };
};
const numberOf = ({ value }: Message): number => new DataView(value.buffer, value.byteOffset).getUint32(0);
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** A sink that can be away; `sent` is what it has taken, once each. */
class TestSink implements Sink {
  readonly name = 'test';
  readonly sent: number[] = [];
  away = false;
  tries = 0;
  closed = false;

  async send(messages: readonly Message[]): Promise<void> {
    this.tries++;
    if (this.away) throw new PicketError('bus_unavailable', 'nobody answers');
    this.sent.push(...messages.map(numberOf));
  }
  async close(): Promise<void> {
    this.closed = true;
  }
}

interface Setup {
  sink: TestSink;
  spool: Spool;
  outbox: Outbox;
  lost: number;
  counted: number;
  /** Ends the wait for the next try. */
  retry: () => void;
}

function setup(dir = folder(), options: { maxBytes?: number; fileBytes?: number } = {}): Setup {
  const state = { lost: 0, counted: 0, retry: () => {} };
  const sink = new TestSink();
  const spool = new Spool({
    dir,
    maxBytes: options.maxBytes ?? 1 << 20,
    ...(options.fileBytes && { fileBytes: options.fileBytes }),
    onDropped: (_, rows) => {
      state.lost += rows;
    },
  });
  const outbox = new Outbox({
    sink,
    spool,
    wait: (_, wake) =>
      Promise.race([
        wake,
        new Promise<void>((resolve) => {
          state.retry = resolve;
        }),
      ]),
    onSent: (_, rows) => {
      state.counted += rows;
    },
    onDropped: (_, rows) => {
      state.lost += rows;
    },
    log: () => {},
  });
  return Object.assign(state, { sink, spool, outbox });
}

/** Lets all that can go on go on. */
async function settle(done: () => boolean): Promise<void> {
  for (let i = 0; i < 10_000; i++) {
    if (done()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('waited in vain');
}

describe('the spool', () => {
  it('cuts off what a full disk took of a message, so that those after it are read', () => {
    let space = Number.POSITIVE_INFINITY;
    const spool = new Spool({
      dir: folder(),
      maxBytes: 1 << 20,
      onDropped: () => assert.fail('nothing is dropped'),
      append: (path, bytes) => {
        appendFileSync(path, bytes.subarray(0, space));
        if (bytes.length > space) throw new Error('ENOSPC');
      },
    });
    const fails = (work: () => void): void => {
      space = 50;
      assert.throws(work, /ENOSPC/);
      space = Number.POSITIVE_INFINITY;
    };
    fails(() => spool.append([message(9)]));
    spool.append([message(1)]);
    fails(() => spool.append([message(9)]));
    fails(() => spool.prepend([message(9)]));
    spool.append([message(2)]);
    spool.prepend([message(0)]);
    const all: number[] = [];
    for (; !spool.empty; spool.removeFirst()) all.push(...spool.first().map(numberOf));
    assert.deepEqual(all, [0, 1, 2]);
  });

  it('counts the rows of a file that was damaged', () => {
    const dir = folder();
    const dropped: [number, number][] = [];
    const spool = new Spool({ dir, maxBytes: 1 << 20, onDropped: (...lost) => dropped.push(lost) });
    spool.append([message(0), message(1), message(2)]);
    const file = join(dir, readdirSync(dir)[0] as string);
    truncateSync(file, spool.bytes - 1);
    assert.deepEqual(spool.first().map(numberOf), [0, 1]);
    assert.deepEqual(dropped, [[1, 10]]);
  });
});

describe('the outbox', () => {
  it('sends in order while the sink is there, without the disk', async () => {
    const one = setup();
    for (const n of range(0, 50)) one.outbox.push([message(n)]);
    await settle(() => one.outbox.empty);
    assert.deepEqual(one.sink.sent, range(0, 50));
    assert.deepEqual([one.counted, one.lost, one.spool.empty], [500, 0, true]);
    await one.outbox.close(1000);
  });

  it('loses nothing and keeps the order while the sink is away for a while', async () => {
    const one = setup(folder(), { fileBytes: 1000 });
    one.outbox.push([message(0)]);
    await settle(() => one.outbox.empty);
    one.sink.away = true;
    for (const n of range(1, 40)) {
      one.outbox.push([message(n)]);
      if (n % 10 === 0) {
        one.retry();
        await settle(() => one.outbox.failure !== undefined);
      }
    }
    await settle(() => one.sink.tries > 1);
    assert.ok(one.spool.bytes > 0);
    one.sink.away = false;
    one.retry();
    await settle(() => one.outbox.empty);
    one.outbox.push([message(40)]);
    await settle(() => one.outbox.empty);
    assert.deepEqual(one.sink.sent, range(0, 41));
    assert.deepEqual([one.lost, one.spool.bytes, one.outbox.failure], [0, 0, undefined]);
    await one.outbox.close(1000);
  });

  it('keeps the order whatever the sink does', async () => {
    const events = fc.array(fc.constantFrom('push', 'away', 'back', 'retry', 'turn'), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(events, async (list) => {
        const one = setup(folder(), { fileBytes: 500 });
        let next = 0;
        for (const event of list) {
          if (event === 'push') one.outbox.push([message(next++), message(next++)]);
          else if (event === 'away') one.sink.away = true;
          else if (event === 'back') one.sink.away = false;
          else if (event === 'retry') one.retry();
          else await new Promise((resolve) => setImmediate(resolve));
        }
        one.sink.away = false;
        await settle(() => {
          one.retry();
          return one.outbox.empty;
        });
        assert.deepEqual(one.sink.sent, range(0, next));
        await one.outbox.close(1000);
      }),
      { numRuns: 60 },
    );
  });

  it('leaves on disk what it cannot send before it ends, and the next one sends it first', async () => {
    const dir = folder();
    const one = setup(dir);
    one.sink.away = true;
    for (const n of range(0, 5)) one.outbox.push([message(n)]);
    await one.outbox.close(1000);
    const next = setup(dir);
    next.outbox.push([message(5)]);
    await settle(() => next.outbox.empty);
    assert.deepEqual(next.sink.sent, range(0, 6));
    assert.deepEqual(readdirSync(dir), []);
    await next.outbox.close(1000);
  });
});

describe('the spool', () => {
  const spoolOf = (dir: string, maxBytes: number, fileBytes: number) => {
    const dropped = { messages: 0, rows: 0 };
    const onDropped = (messages: number, rows: number) => {
      dropped.messages += messages;
      dropped.rows += rows;
    };
    return { spool: new Spool({ dir, maxBytes, fileBytes, onDropped }), dropped };
  };
  const readAll = (spool: Spool): number[] => {
    const numbers: number[] = [];
    while (!spool.empty) {
      numbers.push(...spool.first().map(numberOf));
      spool.removeFirst();
    }
    return numbers;
  };

  it('drops the oldest beyond its bound and counts them', () => {
    const { spool, dropped } = spoolOf(folder(), 8000, 1000);
    for (const n of range(0, 100)) spool.append([message(n)]);
    assert.ok(spool.bytes <= 8000);
    const left = readAll(spool);
    assert.deepEqual(left, range(100 - left.length, 100));
    assert.ok(left.length > 30);
    assert.deepEqual(dropped, { messages: 100 - left.length, rows: 10 * (100 - left.length) });
  });

  it('counts also what an earlier process left, and does not drop what is being sent', () => {
    const dir = folder();
    const before = spoolOf(dir, 8000, 1000).spool;
    for (const n of range(0, 40)) before.append([message(n)]);
    const { spool, dropped } = spoolOf(dir, 8000, 1000);
    const first = spool.first().map(numberOf);
    for (const n of range(40, 100)) spool.append([message(n)]);
    spool.removeFirst();
    const left = readAll(spool);
    assert.deepEqual(left, range(100 - left.length, 100));
    assert.equal(first.length + dropped.messages + left.length, 100);
  });

  it('reads up to a frame that a crash has cut, and counts what follows', () => {
    const dir = folder();
    const { spool, dropped } = spoolOf(dir, 1 << 20, 1000);
    for (const n of range(0, 5)) spool.append([message(n)]);
    const [file] = readdirSync(dir) as [string];
    truncateSync(join(dir, file), spool.bytes - 50);
    assert.deepEqual(readAll(spool), range(0, 4));
    assert.equal(dropped.messages, 1);
    const other = spoolOf(dir, 1 << 20, 1000);
    other.spool.append([message(7)]);
    appendFileSync(join(dir, readdirSync(dir)[0] as string), 'garbage');
    assert.deepEqual(readAll(other.spool), [7]);
  });
});
