import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Puts the jars of Apache Kafka, as scripts/kafka/pom.xml names it, into .cache/kafka/libs, unless they are there.
 * Returns why that cannot be done, or undefined.
 */
export function installKafkaJars(root, say) {
  const pom = join(root, 'scripts/kafka/pom.xml');
  const version = /<artifactId>kafka_2\.13<\/artifactId>\s*<version>([^<]+)</.exec(readFileSync(pom, 'utf8'))[1];
  const libs = join(root, '.cache/kafka/libs');
  if (spawnSync('java', ['-version'], { stdio: 'ignore' }).status !== 0) return 'there is no `java` (17 or newer)';
  if (existsSync(join(libs, `kafka_2.13-${version}.jar`))) return undefined;
  say(`fetching Apache Kafka ${version} (43 MB) by Maven into .cache/kafka: a real broker for the tests`);
  const fresh = `${libs}.new`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  const goal = [
    '-B',
    '-q',
    '-Dstyle.color=never',
    '-f',
    pom,
    'dependency:copy-dependencies',
    `-DoutputDirectory=${fresh}`,
  ];
  const maven = spawnSync('mvn', goal, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  if (maven.error) return 'there is no `mvn` (Apache Maven)';
  if (maven.status !== 0) return 'Maven could not fetch it';
  rmSync(libs, { recursive: true, force: true });
  renameSync(fresh, libs);
  return undefined;
}
