import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { parseExposition } from '../../../collector/sampler/prometheus-text.js';
import { readingsOf } from '../../../collector/sampler/scrape.js';

const all = (text: string) => [...parseExposition(text, () => true)];

describe('an exposition', () => {
  it('of prom-client reads as it was set', async () => {
    const registers = [new Registry()];
    const odd = 'a "quoted" {brace}, a \\ and\na line';
    new Counter({ name: 'c_total', help: 'h', labelNames: ['l'], registers }).inc({ l: odd }, 3);
    new Gauge({ name: 'g', help: 'h', registers }).set(-1.5e-7);
    new Histogram({ name: 'h', help: 'h', buckets: [1], registers }).observe(0.5);
    const read = all(await (registers[0] as Registry).metrics());
    assert.deepEqual(read.slice(0, 2), [
      { name: 'c_total', labels: { l: odd }, value: 3, counter: true },
      { name: 'g', labels: {}, value: -1.5e-7, counter: false },
    ]);
    assert.deepEqual(
      read.slice(2).map(({ name, value }) => [name, value]),
      [
        ['h_bucket', 1],
        ['h_bucket', 1],
        ['h_sum', 0.5],
        ['h_count', 1],
      ],
    );
  });

  it('in OpenMetrics declares counters without their suffix', () => {
    assert.deepEqual(all('# TYPE foo counter\nfoo_total 7 1700000000\n# EOF'), [
      { name: 'foo_total', labels: {}, value: 7, counter: true },
    ]);
  });

  it('gives only numbers, whatever the text', () => {
    assert.deepEqual(all('<html>\nx NaN\ny +Inf\n\n z\nw{a="1" 4\n'), []);
  });
});

it('readings are those that detectors ask for, one a GPU, whatever the labels', () => {
  const text = `# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.31
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.97
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="m"} 12.0
vllm:num_preemptions_total{engine="1",model_name="m"} 30.0
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{le="1.0"} 4
# TYPE DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL counter
DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n"} 5
DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{gpu="1",UUID="GPU-b",device="nvidia1",Hostname="n"} 0
`;
  const replays = { name: 'DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL', cumulative: true };
  assert.deepEqual(readingsOf(text), [
    { name: 'vllm:kv_cache_usage_perc', value: 0.97, cumulative: false },
    { name: 'vllm:num_preemptions_total', value: 42, cumulative: true },
    { ...replays, value: 5, gpu: 'GPU-a' },
    { ...replays, value: 0, gpu: 'GPU-b' },
  ]);
});
