import type { Bus } from './bus.js';
import { EmbeddedBus, type EmbeddedOptions } from './embedded/embedded-bus.js';
import { KafkaBus, type KafkaOptions } from './kafka/kafka-bus.js';

export type BusOptions =
  | ({ readonly kind: 'embedded' } & EmbeddedOptions)
  | ({ readonly kind: 'kafka' } & KafkaOptions);

/** Opens a bus. Nothing is connected yet: the first use of Kafka throws `bus_unavailable` where no broker answers. */
export async function openBus(options: BusOptions): Promise<Bus> {
  return options.kind === 'embedded' ? EmbeddedBus.open(options) : KafkaBus.open(options);
}
