#!/usr/bin/env node
/** Runs an Apache Kafka broker in the foreground, its data in a temporary folder: `node scripts/kafka.mjs [port]`. */
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(resolve(dirname(fileURLToPath(import.meta.url)), '..'));
const broker = '../dist/test/support/kafka-broker.js';
if (!existsSync(new URL(broker, import.meta.url))) {
  console.error('not built yet; run `node scripts/setup.mjs test`');
  process.exit(1);
}
const { KafkaBroker } = await import(broker);
const port = Number(process.argv[2] ?? 9092);
if (process.argv.length > 3 || !Number.isInteger(port) || port < 1 || port > 65535) {
  console.error('usage: kafka.mjs [port], 9092 where none is given');
  process.exit(2);
}
const running = await KafkaBroker.start({ port });
console.log(`Kafka listens on ${running.brokers[0]}; Ctrl-C stops it and removes its data`);
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void running.dispose());
