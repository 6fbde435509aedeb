// Fences built as in LMTracer (csrc/timer_kernel.cu): in line, two halves of device memory with a plain cursor, a
// one-byte doorbell in host memory, and a system fence last. nvcc -O3 -shared -Xcompiler -fPIC -o libinline_fence.so
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr uint64_t kRecords = 1024;
struct Half {
  uint64_t count;
  uint64_t records[2 * kRecords];
};
struct Buffer {
  Half halves[2];
  unsigned char current;
};
Buffer* buffer;
unsigned char* doorbell;

__global__ void stamp(Buffer* buffer, unsigned char* doorbell, uint64_t id) {
  Half& half = buffer->halves[buffer->current];
  uint64_t time;
  half.records[2 * half.count] = id;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  half.records[2 * half.count + 1] = time;
  if (++half.count >= kRecords) {
    *doorbell = buffer->current;
    buffer->current ^= 1;
    buffer->halves[buffer->current].count = 0;
  }
  __threadfence_system();
}

}  // namespace

extern "C" int inline_open() {
  cudaError_t result = cudaMalloc(&buffer, sizeof(Buffer));
  if (result == cudaSuccess) result = cudaMemset(buffer, 0, sizeof(Buffer));
  if (result == cudaSuccess) result = cudaHostAlloc(&doorbell, 1, cudaHostAllocMapped);
  return result;
}

extern "C" int inline_stamp(uint64_t id, void* stream) {
  stamp<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(buffer, doorbell, id);
  return cudaGetLastError();
}
