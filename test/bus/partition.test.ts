import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Partitioners } from 'kafkajs';
import { partitionOf } from '../../bus/partition.js';

test("a key goes to the partition that Kafka's default partitioner gives it", () => {
  const theirs = Partitioners.DefaultPartitioner();
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), fc.integer({ min: 1, max: 100 }), (key, partitions) => {
      const partitionMetadata = Array.from({ length: partitions }, (_, partitionId) => ({
        partitionErrorCode: 0,
        partitionId,
        leader: 1,
        replicas: [1],
        isr: [1],
      }));
      const message = { key, value: null };
      assert.equal(partitionOf(key, partitions), theirs({ topic: 't', partitionMetadata, message }));
    }),
    { numRuns: 1000 },
  );
});

test("the hash is Apache Kafka's own, by the values of its tests", () => {
  const expected = { '21': -973932308, foobar: -790332482, 'a-little-bit-long-string': -985981536, abc: 479470107 };
  const partitions = 2 ** 31 - 1;
  for (const [key, hash] of Object.entries(expected))
    assert.equal(partitionOf(key, partitions), (hash & 0x7fffffff) % partitions, key);
});
