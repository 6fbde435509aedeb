import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cluster } from '../../simulator/cluster.js';

test('experts are shared by runs of replicas, within a stage and a tensor parallel rank', () => {
  const cluster = new Cluster('j', { dp: 4, tp: 2, pp: 2, ep: 2 });
  assert.deepEqual(cluster.group('ep-s0-b0-t1'), [1, 3]);
  assert.deepEqual(cluster.group('ep-s1-b1-t0'), [12, 14]);
  assert.deepEqual(cluster.group('dp-s1-t0'), [8, 10, 12, 14]);
  assert.deepEqual(cluster.metaOf('node-0001', '3').run, '3');
  assert.deepEqual(
    cluster.metaOf('node-0001', '1').ranks.map(({ ep }) => ep),
    [0, 0, 1, 1, 0, 0, 1, 1],
  );
});

test('hosts, GPUs and NICs: one NIC a GPU, as many GPUs a host as asked for', () => {
  const cluster = new Cluster('j', { dp: 6, tp: 1, pp: 1, ep: 1 }, { gpusPerHost: 4, firstGpu: 2 });
  assert.deepEqual(cluster.hosts, ['node-0000', 'node-0001']);
  assert.deepEqual(
    [cluster.gpuOf(1), cluster.nicOf(1), cluster.gpuOf(2), cluster.nicOf(5)],
    ['GPU-0-3', 'mlx5_3', 'GPU-1-0', 'mlx5_3'],
  );
  assert.deepEqual(cluster.ranksOfHost('node-0001'), [2, 3, 4, 5]);
  assert.ok(cluster.spansHosts('dp-s0-t0'));
  assert.ok(!new Cluster('j', { dp: 8, tp: 1, pp: 1, ep: 1 }).spansHosts('dp-s0-t0'));
});
