/**
 * The partition of a key, by murmur2 as Apache Kafka's own clients compute it: both buses put a job into the same one.
 */
export function partitionOf(key: string, partitions: number): number {
  return (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions;
}

const SEED = 0x9747b28c;
const M = 0x5bd1e995;
const R = 24;

function murmur2(bytes: Buffer): number {
  let h = SEED ^ bytes.length;
  const whole = bytes.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    let k = Math.imul(bytes.readInt32LE(i), M);
    k = Math.imul(k ^ (k >>> R), M);
    h = Math.imul(h, M) ^ k;
  }
  if (bytes.length > whole) h = Math.imul(h ^ bytes.readUIntLE(whole, bytes.length - whole), M);
  h = Math.imul(h ^ (h >>> 13), M);
  return h ^ (h >>> 15);
}
