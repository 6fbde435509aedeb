import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { parseCollectorConfig } from '../../collector/config.js';

interface Manifest {
  kind: string;
  data: Record<string, string>;
  spec: { template: { spec: { containers: Container[] } } };
}
interface Container {
  args: string[];
  volumeMounts: { name: string; mountPath: string }[];
  ports: { containerPort: number }[];
}

it('the DaemonSet’s configuration is valid and fits its mounts and ports', () => {
  const [config, daemonSet] = parseAllDocuments(readFileSync('deploy/collector-daemonset.yaml', 'utf8')).map(
    (document) => document.toJS(),
  ) as [Manifest, Manifest];
  const { segments_dir, state_dir, http } = parseCollectorConfig(config.data['collector.yaml'] as string, 'ConfigMap');
  const [container] = daemonSet.spec.template.spec.containers as [Container];
  const mounts = container.volumeMounts.map(({ mountPath }) => mountPath);
  assert.ok(mounts.includes(segments_dir) && mounts.includes(state_dir));
  assert.equal(container.ports[0]?.containerPort, http.port);
  assert.ok(mounts.some((mount) => container.args.at(-1)?.startsWith(`${mount}/`)));
});

it('the systemd unit starts the collector with a state folder that its configuration uses', () => {
  const unit = readFileSync('deploy/picket-collector.service', 'utf8');
  const config = readFileSync('deploy/collector.yaml', 'utf8');
  const { state_dir } = parseCollectorConfig(config, 'collector.yaml');
  assert.match(unit, /^ExecStart=\S+node \S+bin\/picket\.js collector --config \S+$/m);
  // Everything else is read-only to it: all folders that the configuration or its comments name must be here.
  const writable = [...unit.matchAll(/^(State|Runtime)Directory=(.+)$/gm)].flatMap(([, kind, names]) =>
    (names as string).split(' ').map((name) => `${kind === 'State' ? '/var/lib' : '/run'}/${name}`),
  );
  assert.deepEqual(writable, [state_dir, '/var/lib/picket', '/run/picket']);
  const named = [...config.matchAll(/dir: (\/(?:var|run)[^,}\s]*)/g)].map(([, dir]) => dir as string);
  assert.equal(named.length, 3);
  for (const dir of named)
    assert.ok(
      writable.some((folder) => `${dir}/`.startsWith(`${folder}/`)),
      dir,
    );
});
