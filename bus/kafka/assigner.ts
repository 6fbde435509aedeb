import kafkajs, { type PartitionAssigner } from 'kafkajs';

const { AssignerProtocol } = kafkajs;
const VERSION = 0;

/**
 * Deals partitions by their number, so that those of one number, of whatever topic, go to one member: what has the same key
 * in two topics meets in one process. Topics come in the order in which they were subscribed to.
 */
export const byPartition: PartitionAssigner = ({ cluster }) => ({
  name: 'picket-by-partition',
  version: VERSION,
  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort();
    return ids.map((memberId, own) => {
      const dealt = topics.map((topic) => {
        const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId);
        return [topic, partitions.filter((partition) => partition % ids.length === own)] as const;
      });
      const assignment = Object.fromEntries(dealt.filter(([, partitions]) => partitions.length > 0));
      const memberAssignment = AssignerProtocol.MemberAssignment.encode({
        ...{ version: VERSION, assignment, userData: Buffer.alloc(0) },
      });
      return { memberId, memberAssignment };
    });
  },
  protocol: ({ topics }) => ({
    name: 'picket-by-partition',
    metadata: AssignerProtocol.MemberMetadata.encode({ version: VERSION, topics, userData: Buffer.alloc(0) }),
  }),
});
