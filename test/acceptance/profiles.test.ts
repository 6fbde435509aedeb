import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { analyze } from '../../cli/analyze.js';
import { importPaths } from '../../importers/index.js';
import { type PhaseRow, rowOf } from '../../protocol/phase-batch.js';
import { folderOf } from '../importers/import.js';
import { sharedData } from '../support/shared-data.js';
import { judge, trace } from '../support/trace.js';

/** Profiler traces of serving engines, one iteration each: was it a graph, or was it launched kernel by kernel? */

const kineto = sharedData('kineto');
const fileOf = (name: string): string => join(kineto.path, `tracelens-${name}.json.gz`);

async function iterationOf(name: string): Promise<{ whole: PhaseRow; compute: PhaseRow }> {
  const rows: PhaseRow[] = [];
  for await (const batch of importPaths([fileOf(name)]))
    for (let i = 0; i < batch.length; i++) rows.push(rowOf(batch, i));
  const find = (phase: string): PhaseRow => rows.find((row) => row.phase === phase) as PhaseRow;
  return { whole: find('step'), compute: find('compute') };
}

/** An engine that decodes 8 tokens in iterations like the recorded one, again and again. */
async function decodingLike(name: string) {
  const { whole, compute } = await iterationOf(name);
  const { busy_ns, launches, graph } = compute;
  const ms = Number(whole.dur_ns) / 1e6;
  const facts = { busy_ns, launches, graph, decode_tokens: 8, prefill_tokens: 0 } as Partial<PhaseRow>;
  const { incidents, quality } = judge(
    trace({ ranks: 1, steps: 30, period: ms + 0.1, phases: () => [{ phase: 'decode', ms, ...facts }] }),
  );
  return { verdict: incidents.map(({ kind, severity }) => [kind, severity]), quality };
}

describe('iterations as profilers recorded them', { skip: kineto.skip }, () => {
  for (const name of ['vllm_decode_full-graph_execution', 'vllm_prefilldecode_piecewise-graph_execution'])
    it(`${name} runs in graphs`, async () => {
      assert.equal((await iterationOf(name)).compute.graph, 1);
      assert.deepEqual(await decodingLike(name), { verdict: [], quality: [] });
    });

  it('b200-eager idles between its launches: decoding so is without CUDA graphs', async () => {
    const { verdict } = await decodingLike('b200-eager');
    assert.deepEqual(verdict, [['no_cuda_graph', 'critical']]);
  });

  /*
   * The recorded iteration itself is no such case, though the report gives it as one: by its own annotation
   * (`execute_context_1(888_788544)_generation_0(0)`) it is the prefill of one request, alone and once. An eager prefill is
   * normal, of 888 tokens the more as vLLM captures no graphs above 512.
   */
  it('b200-eager as it is says nothing of decoding, and kernels that overlap on its stream are no bad data', async () => {
    const { incidents, quality, rows } = await analyze([fileOf('b200-eager')], {});
    assert.deepEqual([incidents, quality], [[], []]);
    assert.ok(rows > 0);
  });
});

/** A profile of vLLM that decodes 32 requests; every third iteration from 60 on also prefills `prefill` tokens. */
function profileOf(launchedAs: 'graphs' | 'kernels', prefill: number): object {
  const [KERNELS, US] = [300, 1.5];
  const traceEvents: object[] = [];
  const launch = (ts: number, name: string, correlation: number) =>
    traceEvents.push({ ph: 'X', cat: 'cuda_runtime', name, pid: 1, tid: 1, ts, dur: 3, args: { correlation } });
  const kernel = (ts: number, dur: number, correlation: number) =>
    traceEvents.push({ ph: 'X', cat: 'kernel', name: 'k', pid: 0, tid: 7, ts, dur, args: { device: 0, correlation } });
  let [hostUs, gpuUs, launches] = [1000, 1000, 0];
  for (let i = 0; i < 120; i++) {
    const prefills = prefill > 0 && i >= 60 && i % 3 === 0 ? 1 : 0;
    const name = `execute_context_${prefills}(${prefills * prefill})_generation_32(32)`;
    traceEvents.push({ ph: 'X', cat: 'user_annotation', name, pid: 1, tid: 1, ts: hostUs, dur: 90 });
    for (let k = 0; k < KERNELS; k++) {
      const at = launchedAs === 'kernels' ? hostUs + 6 * k : hostUs;
      if (launchedAs === 'kernels') launch(at, 'cudaLaunchKernel', ++launches);
      else if (k === 0) launch(at, 'cudaGraphLaunch', ++launches);
      const dur = US * (1 + 0.1 * Math.sin(1 + i * KERNELS + k)) * (prefills ? 8 : 1);
      gpuUs = Math.max(gpuUs, at + 4);
      kernel(gpuUs, dur, launches);
      gpuUs += dur;
    }
    // The host is ahead of the GPU where graphs let it.
    hostUs = launchedAs === 'kernels' ? hostUs + 6 * KERNELS + 200 : Math.max(hostUs + 100, gpuUs - 300);
  }
  return {
    schemaVersion: 1,
    distributedInfo: { rank: 0 },
    baseTimeNanoseconds: 1_767_189_312_000_000_000,
    traceEvents,
  };
}

describe('profiles of vLLM', () => {
  const cases: [string, object, string[]][] = [
    ['decoding in graphs is healthy', profileOf('graphs', 0), []],
    ['decoding kernel by kernel', profileOf('kernels', 0), ['no_cuda_graph']],
    ['prefills among decodes', profileOf('graphs', 2000), ['prefill_blocking']],
  ];
  for (const [name, profile, kinds] of cases)
    it(name, async (t) => {
      const { incidents, quality } = await analyze([folderOf(t, { 'a.json': JSON.stringify(profile) })], {});
      assert.deepEqual([incidents.map(({ kind }) => kind), quality], [kinds, []]);
    });
});
