import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { CollectorProcess } from '../collector/collector-process.js';
import { folder, needsAddon } from '../collector/support.js';
import { DetectorProcess } from '../support/detector-process.js';

const DOCKERFILE = readFileSync('Dockerfile', 'utf8');
/** What the second stage takes from the first: [path in the repository, path in the image]. */
const COPIES = [...DOCKERFILE.matchAll(/^COPY --from=build \/picket\/(\S+) (\S+)$/gm)].map(([, from, to]) => [
  from,
  to,
]);

/** The image's folder without Docker: what is copied, with the packages that are left after pruning. */
function image(): string {
  const root = folder();
  for (const [from, to] of COPIES as [string, string][]) {
    if (from === 'node_modules') linkPackages(join(root, to));
    else {
      const target =
        to === './' || to.endsWith('/') ? join(root, to, from.split('/').at(-1) as string) : join(root, to);
      mkdirSync(dirname(target), { recursive: true });
      cpSync(from, target, { recursive: true, filter: (path) => path !== 'dist/test' });
    }
  }
  return root;
}

function linkPackages(target: string): void {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { dev?: true }>;
  };
  for (const [path, { dev }] of Object.entries(packages)) {
    const name = /^node_modules\/((@[^/]+\/)?[^/]+)$/.exec(path)?.[1];
    if (!name || dev) continue;
    mkdirSync(dirname(join(target, name)), { recursive: true });
    symlinkSync(resolve(path), join(target, name));
  }
}

describe('what the Dockerfile copies', needsAddon, () => {
  const root = image();
  const program = join(root, 'bin/picket.js');

  it('is all that a collector needs', async () => {
    const dir = folder();
    const config = { segments_dir: dir, sink: { kind: 'files', dir: join(dir, 'out') } };
    const collector = new CollectorProcess(dir, config, program);
    after(() => collector.stop('SIGKILL'));
    assert.ok(await collector.start(), collector.output.join('\n'));
    assert.equal((await fetch(`${collector.url}/readyz`)).status, 200);
  });

  it('is all that a detector needs, with its rules', async () => {
    const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], {}, program);
    after(() => detector.close());
    assert.ok(await detector.start(), detector.output);
    assert.deepEqual(await detector.incidents(), []);
    const checked = spawnSync(process.execPath, [program, 'rules', 'check', join(root, 'rules')], { encoding: 'utf8' });
    assert.equal(checked.status, 0, checked.stderr);
  });

  it('is made with the addon, and runs what the DaemonSet asks for', () => {
    assert.match(DOCKERFILE, /^RUN .*make -C native addon .*npm prune --omit=dev$/m);
    const documents = parseAllDocuments(readFileSync('deploy/collector-daemonset.yaml', 'utf8'));
    const [container] = (documents[1] as (typeof documents)[0]).toJS().spec.template.spec.containers;
    const entry = /^ENTRYPOINT \["node", "(\S+)"\]$/m.exec(DOCKERFILE)?.[1] as string;
    const help = spawnSync(process.execPath, [join(root, entry), container.args[0], '--help'], { encoding: 'utf8' });
    assert.match(help.stdout, new RegExp(container.args[1]));
    assert.equal(container.image, 'picket');
  });
});
