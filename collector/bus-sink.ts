import type { Bus, Producer, TopicSpec } from '../bus/bus.js';
import type { Message, Sink } from './message.js';

/** Sends through a bus, which may come up later than the collector: it is opened, and its topics made, when it is needed. */
export class BusSink implements Sink {
  readonly name: string;
  readonly #open: () => Promise<Bus>;
  readonly #topics: readonly TopicSpec[];
  #bus: Bus | undefined;
  #producer: Promise<Producer> | undefined;

  constructor(name: string, open: () => Promise<Bus>, topics: readonly TopicSpec[]) {
    this.name = name;
    this.#open = open;
    this.#topics = topics;
  }

  async send(messages: readonly Message[]): Promise<void> {
    this.#producer ??= this.#connect();
    let producer: Producer;
    try {
      producer = await this.#producer;
    } catch (error) {
      this.#producer = undefined;
      throw error;
    }
    for (const [topic, ofTopic] of runsByTopic(messages))
      await producer.send(
        topic,
        ofTopic.map(({ key, value }) => ({ key, value })),
      );
  }

  async close(): Promise<void> {
    await this.#bus?.close();
  }

  async #connect(): Promise<Producer> {
    this.#bus ??= await this.#open();
    await this.#bus.createTopics(this.#topics);
    return this.#bus.producer();
  }
}

/** Messages that follow each other on one topic, in order. */
function runsByTopic(messages: readonly Message[]): [string, Message[]][] {
  const runs: [string, Message[]][] = [];
  for (const message of messages) {
    const last = runs.at(-1);
    if (last?.[0] === message.topic) last[1].push(message);
    else runs.push([message.topic, [message]]);
  }
  return runs;
}
