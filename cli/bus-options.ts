import { InvalidArgumentError } from 'commander';
import type { BusOptions } from '../bus/open.js';
import { PicketError } from '../protocol/errors.js';

/** Partitions of topics that a publishing command has to make. */
export const DEFAULT_PARTITIONS = 12;

/** The bus a publishing command writes to: Kafka brokers, or the folder of an embedded log. */
export function busOf({ brokers, log }: { brokers?: string; log?: string }): BusOptions {
  if (brokers !== undefined && log !== undefined)
    throw new PicketError('bad_input', 'both --brokers and --log', { remedy: 'give one of them' });
  if (brokers !== undefined) return { kind: 'kafka', brokers: brokers.split(',').map((broker) => broker.trim()) };
  if (log !== undefined) return { kind: 'embedded', dir: log };
  throw new PicketError('bad_input', 'nowhere to publish to', { remedy: 'give --brokers HOST:PORT or --log DIR' });
}

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('must be a number above 0.');
  return value;
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('must be a whole number.');
  return Number(text);
}
