import type { Producer as KafkaJsProducer } from 'kafkajs';
import { MAX_MESSAGE_BYTES } from '../../protocol/limits.js';
import type { BusMessage, Producer } from '../bus.js';
import { checkSizes, messageBytes, tooLarge } from '../message.js';
import { busError, protocolError } from './errors.js';

/**
 * Sends with acknowledgement of all replicas, one request after another: only so does the order of a key survive a retry.
 * A retry can write a message twice; the client's idempotent mode is not used, as it retries without end.
 */
export class KafkaProducer implements Producer {
  readonly #producer: KafkaJsProducer;
  readonly #brokers: readonly string[];
  #last: Promise<unknown> = Promise.resolve();

  constructor(producer: KafkaJsProducer, brokers: readonly string[]) {
    this.#producer = producer;
    this.#brokers = brokers;
  }

  async send(topic: string, messages: readonly BusMessage[]): Promise<void> {
    checkSizes(topic, messages);
    const sent = this.#last.then(async () => {
      for (const request of requestsOf(messages)) await this.#request(topic, request);
    });
    this.#last = sent.catch(() => {});
    await sent;
  }

  async close(): Promise<void> {
    await this.#last;
    await this.#producer.disconnect();
  }

  async #request(topic: string, messages: readonly BusMessage[]): Promise<void> {
    try {
      await this.#producer.send({ topic, acks: -1, messages: messages.map(toKafka) });
    } catch (error) {
      if (!TOO_LARGE.has(protocolError(error) ?? '')) throw busError(error, this.#brokers, [topic]);
      const [only] = messages;
      // The topic allows less than our limit: it refuses what comes together, perhaps not each alone.
      if (only && messages.length === 1)
        throw tooLarge(topic, only, `over the topic's own max.message.bytes on ${this.#brokers.join(', ')}`, {
          cause: error,
        });
      const half = messages.length >> 1;
      await this.#request(topic, messages.slice(0, half));
      await this.#request(topic, messages.slice(half));
    }
  }
}

const TOO_LARGE = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']);

/** Cuts the messages into requests under the limit: what a request has for a partition travels as one record batch. */
function requestsOf(messages: readonly BusMessage[]): BusMessage[][] {
  const requests: BusMessage[][] = [];
  let bytes = MAX_MESSAGE_BYTES;
  for (const message of messages) {
    const size = messageBytes(message);
    if (bytes + size > MAX_MESSAGE_BYTES) {
      requests.push([]);
      bytes = 0;
    }
    bytes += size;
    requests.at(-1)?.push(message);
  }
  return requests;
}

const toKafka = ({ key, value, headers }: BusMessage) => ({
  key,
  value: Buffer.from(value.buffer, value.byteOffset, value.byteLength),
  headers: { ...headers },
});
