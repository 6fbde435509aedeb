import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collectiveOf, opOf } from '../../importers/collective-kernels.js';

test('the operation is read from every spelling', () => {
  const spellings = {
    'ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)': 'all_reduce',
    'ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)': 'all_gather',
    _allgather_base: 'all_gather',
    ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL: 'reduce_scatter',
    _reduce_scatter_base: 'reduce_scatter',
    all_to_allv: 'all_to_all',
    ncclKernel_Broadcast_RING_LL_Sum_int8_t: 'broadcast',
    ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t: 'send_recv',
    'void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>': 'all_reduce',
    'multimem_all_reduce_kernel<c10::BFloat16, 16>': 'all_reduce',
    send: 'send',
  };
  for (const [name, op] of Object.entries(spellings)) assert.equal(opOf(name), op, name);
});

test('group, ranks and bytes come from the arguments', () => {
  const args = {
    'Collective name': '_allgather_base',
    'In msg nelems': 25136,
    'Out msg nelems': 201088,
    dtype: 'BFloat16',
    'Process Group Name': '3',
    'Process Group Ranks': '[0, 1, 2, 3]',
  };
  const expected = { phase: 'all_gather', group: '3', ranks: [0, 1, 2, 3], bytes: 402176 };
  assert.deepEqual(collectiveOf('ncclDevKernel_Generic', args), expected);
});

test('a shortened list of ranks is none, and without arguments little is known', () => {
  assert.equal(collectiveOf('nccl', { 'Process Group Ranks': '[0, 1, ...]' })?.ranks, undefined);
  const bare = { phase: 'send_recv', group: '', ranks: undefined, bytes: 0 };
  assert.deepEqual(collectiveOf('ncclKernel_SendRecv_RING', {}), bare);
});

test('kernels that compute are none', () => {
  for (const name of ['reduce_segments', 'void at::native::reduce_kernel<512, 1>', 'gemm', 'broadcast_add'])
    assert.equal(collectiveOf(name, {}), undefined, name);
});
