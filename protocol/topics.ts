/** Kafka topics. Keys are job ids, so that all ranks of a job meet in one partition. */
export const TOPICS = {
  phases: 'picket.phases.v1',
  samples: 'picket.samples.v1',
  collectors: 'picket.collectors.v1',
  incidents: 'picket.incidents.v1',
} as const;

/** Messages that cannot be read go to `<topic>.dlq`, bytes untouched, with these headers saying where they came from. */
export const deadLetterTopic = (topic: string): string => `${topic}.dlq`;
export const DEAD_LETTER_HEADERS = {
  topic: '__connect.errors.topic',
  partition: '__connect.errors.partition',
  offset: '__connect.errors.offset',
  reason: '__connect.errors.exception.message',
} as const;
