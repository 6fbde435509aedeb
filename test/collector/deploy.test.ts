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
  const { state_dir } = parseCollectorConfig(readFileSync('deploy/collector.yaml', 'utf8'), 'collector.yaml');
  assert.match(unit, /^ExecStart=\S+node \S+bin\/picket\.js collector --config \S+$/m);
  assert.equal(state_dir, `/var/lib/${/^StateDirectory=(\S+)$/m.exec(unit)?.[1]}`);
});
