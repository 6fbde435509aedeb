import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Message, messagesOf, type Sink } from '../../collector/message.js';
import { Outbox } from '../../collector/outbox.js';
import { Spool } from '../../collector/spool.js';
import { decodePhases } from '../../protocol/arrow.js';
import { PicketError } from '../../protocol/errors.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { MAX_MESSAGE_BYTES } from '../../protocol/limits.js';
import { PhaseBatchBuilder, rowOf } from '../../protocol/phase-batch.js';
import { folder } from './support.js';

/** Rows whose names are so long that few fit a message. */
function largeBatch(rows: number, nameBytes: number) {
  const builder = new PhaseBatchBuilder(newJobMeta('job', { run: 'r' }));
  for (let i = 0; i < rows; i++)
    builder.push({ rank: 0, step: i, phase: `${i}${'x'.repeat(nameBytes)}`, start_ns: 1n, dur_ns: 1 });
  return builder.take();
}

const stepsOf = (messages: readonly Message[]): number[] =>
  messages.flatMap(({ value }) => {
    const batch = decodePhases(value);
    return Array.from({ length: batch.length }, (_, i) => Number(rowOf(batch, i).step));
  });

describe('rows beyond the limit of a message', () => {
  it('go into several, in order, with the facts of the job', () => {
    const { messages, refused } = messagesOf(largeBatch(30, 1 << 20), 't');
    assert.equal(refused, 0);
    assert.ok(messages.length >= 4);
    assert.ok(messages.every(({ value }) => value.length <= MAX_MESSAGE_BYTES));
    assert.deepEqual(
      stepsOf(messages),
      Array.from({ length: 30 }, (_, i) => i),
    );
    assert.equal(decodePhases(messages.at(-1)?.value as Uint8Array).meta.run, 'r');
  });

  it('are refused where one row alone is too large', () => {
    const { messages, refused } = messagesOf(largeBatch(3, 9 << 20), 't');
    assert.deepEqual([messages, refused], [[], 3]);
  });

  it('of the topic are sent in smaller messages; a row that still does not fit is dropped and counted, not tried for ever', async () => {
    const sent: Message[] = [];
    let tries = 0;
    const sink: Sink = {
      name: 'strict',
      send: async (messages) => {
        tries++;
        const bytes = messages.reduce((sum, { value }) => sum + value.length, 0);
        if (bytes > 50_000) throw new PicketError('too_large', `${bytes} bytes`);
        sent.push(...messages);
      },
      close: async () => {},
    };
    let lost = 0;
    const outbox = new Outbox({
      sink,
      spool: new Spool({ dir: folder(), maxBytes: 1 << 20, onDropped: () => {} }),
      wait: (_, wake) => wake,
      onSent: () => {},
      onDropped: (reason, rows) => {
        assert.equal(reason, 'too_large');
        lost += rows;
      },
      log: () => {},
    });
    outbox.push(
      [largeBatch(8, 10_000), largeBatch(1, 60_000), largeBatch(1, 10)].flatMap(
        (batch) => messagesOf(batch, 't').messages,
      ),
    );
    await outbox.close(10_000);
    assert.deepEqual(stepsOf(sent), [0, 1, 2, 3, 4, 5, 6, 7, 0]);
    assert.equal(lost, 1);
    assert.ok(tries < 20);
    assert.equal(outbox.failure, undefined);
  });
});
