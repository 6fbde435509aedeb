import { decodePhases, encodePhases } from '../protocol/arrow.js';
import { PicketError } from '../protocol/errors.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { takeRows } from '../protocol/take-rows.js';

/** What leaves the collector. */
export interface Message {
  readonly topic: string;
  readonly key: string;
  readonly value: Uint8Array;
  /** Phase rows in it. */
  readonly rows: number;
}

/** Where messages go. */
export interface Sink {
  /** For metrics and people: kafka, embedded, files. */
  readonly name: string;
  /** Resolves when they are there durably, in their order. Throws `too_large`, which no repeating mends, or what may pass. */
  send(messages: readonly Message[]): Promise<void>;
  close(): Promise<void>;
}

/** Encodes rows; what is too large for one message goes into several. `refused` counts rows that fit none. */
export function messagesOf(batch: PhaseBatch, topic: string): { messages: Message[]; refused: number } {
  try {
    const value = encodePhases(batch);
    return { messages: [{ topic, key: batch.meta.job, value, rows: batch.length }], refused: 0 };
  } catch (error) {
    if (!(error instanceof PicketError && error.code === 'too_large')) throw error;
    return halves(batch, topic);
  }
}

/** The rows of a message that its topic refuses as too large, in smaller messages. */
export const splitMessage = ({ topic, value }: Message): { messages: Message[]; refused: number } =>
  halves(decodePhases(value), topic);

function halves(batch: PhaseBatch, topic: string): { messages: Message[]; refused: number } {
  if (batch.length <= 1) return { messages: [], refused: batch.length };
  const rows = Uint32Array.from({ length: batch.length }, (_, i) => i);
  const middle = batch.length >> 1;
  const parts = [rows.subarray(0, middle), rows.subarray(middle)].map((part) =>
    messagesOf(takeRows(batch, part), topic),
  );
  return {
    messages: parts.flatMap(({ messages }) => messages),
    refused: parts.reduce((n, { refused }) => n + refused, 0),
  };
}
