import { randomUUID } from 'node:crypto';
import type { Bus, BusMessage, Consumer, ConsumerHandler } from '../../bus/bus.js';
import type { Recorder } from './recorder.js';

export interface BusUnderTest {
  /** Another client of the same log. */
  connect(): Promise<Bus>;
  /** Makes the partition lose its records before an offset, as retention does. */
  trim(topic: string, partition: number, before: bigint): Promise<void>;
  dispose(): Promise<void>;
}

export type Handlers = Partial<ConsumerHandler>;

export interface Context {
  bus(): Bus;
  log(): BusUnderTest;
  topicOf(partitions?: number): Promise<string>;
  /** A consumer of the topic that has started, and what it has received. */
  read(topic: string, handler?: Handlers, group?: string): Promise<{ consumer: Consumer; recorder: Recorder }>;
}

export const message = (text: string, key = 'job'): BusMessage => ({ key, value: Buffer.from(text) });
export const numbered = (from: number, to: number, key = 'job'): BusMessage[] =>
  Array.from({ length: to - from }, (_, i) => message(String(from + i), key));
export const texts = (from: number, to: number): string[] => numbered(from, to).map((each) => String(each.value));
export const newName = (): string => `t-${randomUUID()}`;
