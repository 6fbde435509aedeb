import { Kafka, logLevel } from 'kafkajs';
import { openBus } from '../../bus/open.js';
import { KafkaBroker, needsKafka } from '../support/kafka-broker.js';
import { busContract } from './contract.js';

busContract('Kafka', needsKafka.skip, async () => {
  const broker = await KafkaBroker.start();
  const admin = new Kafka({ brokers: broker.brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  return {
    connect: () => openBus({ kind: 'kafka', brokers: broker.brokers, retries: 5, heartbeatIntervalMs: 300 }),
    trim: async (topic, partition, before) => {
      // The client deletes only in topics that it knows already.
      await admin.fetchTopicOffsets(topic);
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
    },
    dispose: async () => {
      await admin.disconnect();
      await broker.dispose();
    },
  };
});
