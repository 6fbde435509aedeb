import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { JobMeta } from '../../../protocol/job-meta.js';
import { judge, trace } from '../../support/trace.js';

const MIB = 1 << 20;

interface Job {
  device?: string;
  host?: string;
  bytes: number;
  /** Milliseconds of the all-reduce, by step. */
  ms: number | ((step: number) => number);
  graph?: number;
}

/** What is said of two ranks of a host that reduce in every step. */
function said({ device = 'NVIDIA H200', host = 'a', bytes, ms, graph = 8 }: Job) {
  const meta: Partial<JobMeta> = { device, host, groups: { tp: [0, 1] }, ranks: [{ rank: 0 }, { rank: 1 }] };
  const phases = (step: number) => [
    { phase: 'forward', ms: 20, graph },
    { phase: 'all_reduce', ms: typeof ms === 'number' ? ms : ms(step), bytes, group: 'tp', graph },
  ];
  return judge(trace({ ranks: 2, steps: 60, period: 25, meta, phases })).incidents;
}

// Recorded on two H200: 16 MiB take 0.082 ms over NVLink, and 0.6 ms through host memory with peer access off.
const UNUSED: Job = { bytes: 16 * MIB, ms: 0.6 };

it('reductions of an H200 at the pace of PCIe are told from the first step on, without a baseline', () => {
  const [incident, ...others] = said(UNUSED);
  assert.ok(incident);
  const { kind, cause, subject, onset_step, severity, evidence, cost } = incident;
  assert.deepEqual(others, []);
  assert.deepEqual(
    [kind, cause, subject.group, subject.link, subject.ranks, onset_step],
    ['nvlink_stall', 'configuration', 'tp', '0-1', [], 0],
  );
  assert.deepEqual([evidence.fastest_gb_s, evidence.nvlink_gb_s, evidence.pcie_gb_s], [28, 450, 63]);
  // 16 MiB at half of 450 GB/s are 0.075 ms: 0.525 of 20.6 ms are lost.
  assert.ok(Math.abs(cost.ms_per_step - 0.525) < 0.02, String(cost.ms_per_step));
  assert.equal(severity, 'info');
});

it('nothing is said where NVLink is in use, cannot be known, or is not there', () => {
  const quiet: Record<string, Job> = {
    'over NVLink': { ...UNUSED, ms: 0.082 },
    'over NVLink now and then': { ...UNUSED, ms: (step) => (step % 9 === 0 ? 0.082 : 0.6) },
    'a device that is not known': { ...UNUSED, device: 'NVIDIA L40S' },
    'a card with PCIe only': { ...UNUSED, device: 'NVIDIA H100 PCIe' },
    'a host that is not named': { ...UNUSED, host: '' },
    'messages that take longer to begin than to send': { ...UNUSED, bytes: 8 * MIB, ms: 0.3 },
    'messages that wait for launches': { ...UNUSED, graph: 0 },
  };
  for (const [what, job] of Object.entries(quiet)) assert.deepEqual(said(job), [], what);
});

it('an older device is held to its own links', () => {
  // 64 MiB in 4 ms are 17 GB/s: no more than PCIe of an A100 carries, more than that of a V100.
  const kinds = (device: string) => said({ device, bytes: 64 * MIB, ms: 4 }).map(({ kind }) => kind);
  assert.deepEqual(kinds('NVIDIA A100-SXM4-80GB'), ['nvlink_stall']);
  assert.deepEqual(kinds('Tesla V100-SXM2-32GB'), []);
});
