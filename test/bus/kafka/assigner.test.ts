import assert from 'node:assert/strict';
import { it } from 'node:test';
import kafkajs, { type Cluster } from 'kafkajs';
import { byPartition } from '../../../bus/kafka/assigner.js';

it('partitions of one number go to one member, whatever the topic, and each to exactly one', async () => {
  const partitions: Record<string, number> = { phases: 5, samples: 5 };
  const findTopicPartitionMetadata = (topic: string) =>
    Array.from({ length: partitions[topic] as number }, (_, partitionId) => ({ partitionId }));
  const cluster = { findTopicPartitionMetadata } as unknown as Cluster;
  const assigner = byPartition({ cluster, groupId: 'g', logger: {} as never });
  const members = ['b', 'a'].map((memberId) => ({ memberId, memberMetadata: Buffer.alloc(0) }));
  const dealt = await assigner.assign({ members, topics: ['phases', 'samples'] });
  const assignments = dealt.map(({ memberId, memberAssignment }) => [
    memberId,
    kafkajs.AssignerProtocol.MemberAssignment.decode(memberAssignment)?.assignment,
  ]);
  assert.deepEqual(JSON.parse(JSON.stringify(assignments)), [
    ['a', { phases: [0, 2, 4], samples: [0, 2, 4] }],
    ['b', { phases: [1, 3], samples: [1, 3] }],
  ]);
});
