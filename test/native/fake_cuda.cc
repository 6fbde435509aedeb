// A stand-in for libcuda.so.1, so that the library's GPU path is tested where no GPU is: streams run at once, captures
// become a list of nodes, and the fence kernel does in C++ what its PTX says. The clock kernel never answers.
#include "fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "../../native/fence/cuda_driver.h"
#include "../../native/ring/atomics.h"
#include "../../native/ring/clock.h"
#include "../../native/ring/ring_writer.h"

using namespace picket;

namespace {

constexpr int kError = 719;
std::mutex mutex;  // the library's clock thread calls too
std::map<void*, fake::Stream> streams;

int call(const char* name) { return fake_driver()->failing == name ? kError : 0; }

void run_fence(const FenceArgs& args) {
  auto* cursor = reinterpret_cast<uint64_t*>(args.cursor);
  auto* ring = reinterpret_cast<picket_fence_record*>(args.ring);
  uint64_t first = add_relaxed(cursor, uint64_t(args.count)), now = monotonic_ns();
  for (uint32_t i = 0; i < args.count; i++) {
    picket_fence_record* slot = ring + ((first + i) & args.mask);
    store_relaxed(&slot->stamp, fence_stamp(now, first + i, args.log2));
    store_release(&slot->identity, fence_identity(args.ids[i], first + i));
  }
}

CuNode handle_of(size_t index) { return reinterpret_cast<CuNode>(index + 1); }
int index_of(CuNode node) { return int(reinterpret_cast<uintptr_t>(node)) - 1; }

}  // namespace

extern "C" {

fake::Driver* fake_driver() {
  static fake::Driver driver;
  return &driver;
}
void fake_begin_capture(void* stream) {
  fake_driver()->graph.clear();
  fake_driver()->capture_id++;
  streams[stream] = {1, {}};
}
void fake_join_capture(void* from, void* to) { streams[to] = streams[from]; }
void fake_end_capture() { streams.clear(); }
void fake_break_capture(void* stream) { streams[stream].capture = 2; }
void fake_kernel(void* stream) {
  fake_driver()->graph.push_back({false, streams[stream].tail, {}});
  streams[stream].tail = {int(fake_driver()->graph.size()) - 1};
}
void fake_replay() {
  for (auto& node : fake_driver()->graph)
    if (node.fence) run_fence(node.args);
}

int cuInit(unsigned) { return call("cuInit"); }
int cuDriverGetVersion(int* version) { return *version = 11080, 0; }
int cuGetErrorName(int, const char** name) { return *name = "FAKE_ERROR", 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 0 ? call("cuDeviceGet") : 101; }
int cuDeviceGetName(char* name, int size, int) { return strncpy(name, "Fake GPU", size_t(size)), 0; }
int cuDeviceGetUuid(unsigned char* id, int) { return memset(id, 0xab, 16), 0; }
int cuDevicePrimaryCtxRetain(CuContext* context, int) { return *context = reinterpret_cast<CuContext>(16), 0; }
int cuCtxGetCurrent(CuContext* context) { return *context = nullptr, 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuCtxPushCurrent_v2(CuContext) { return 0; }
int cuCtxPopCurrent_v2(CuContext*) { return 0; }
int cuModuleLoadData(CuModule* module, const void*) {
  return *module = reinterpret_cast<CuModule>(16), call("cuModuleLoadData");
}
int cuModuleGetFunction(CuFunction* function, CuModule, const char* name) {
  *function = reinterpret_cast<CuFunction>(uintptr_t(strcmp(name, "picket_fence") == 0 ? 1 : 2));
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t size) { return *address = uint64_t(malloc(size)), 0; }
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size) {
  return memset(reinterpret_cast<void*>(address), value, size), 0;
}
int cuMemHostAlloc(void** address, size_t size, unsigned) { return *address = malloc(size), 0; }
int cuMemHostRegister_v2(void*, size_t, unsigned) { return call("cuMemHostRegister"); }
int cuMemHostGetDevicePointer_v2(uint64_t* device, void* host, unsigned) { return *device = uint64_t(host), 0; }
int cuStreamCreate(void** stream, unsigned) { return *stream = malloc(1), 0; }
int cuStreamQuery(void*) { return 600; }  // busy: no clock handshake
int cuStreamSynchronize(void*) { return 0; }
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }

int cuStreamGetCaptureInfo_v2(void* stream, int* status, uint64_t* id, CuGraph*, const CuNode** waits, size_t* count) {
  static thread_local std::vector<CuNode> handles;
  std::lock_guard<std::mutex> guard(mutex);
  const fake::Stream& state = streams[stream];
  handles.clear();
  for (int index : state.tail) handles.push_back(handle_of(size_t(index)));
  *status = state.capture;
  *id = fake_driver()->capture_id;
  *waits = handles.data();
  *count = handles.size();
  return call("cuStreamGetCaptureInfo");
}

int cuLaunchKernel(CuFunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void* stream, void** parameters, void**) {
  if (int refused = call("cuLaunchKernel")) return refused;
  std::lock_guard<std::mutex> guard(mutex);
  if (function != reinterpret_cast<CuFunction>(uintptr_t(1))) return 0;
  auto& args = *static_cast<FenceArgs*>(parameters[0]);
  fake::Stream& state = streams[stream];
  if (state.capture == 1) {
    fake_driver()->graph.push_back({true, state.tail, args});
    state.tail = {int(fake_driver()->graph.size()) - 1};
  } else {
    fake_driver()->launches++;
    run_fence(args);
  }
  return 0;
}

int cuGraphAddKernelNode(CuNode* node, CuGraph, const CuNode* waits, size_t count, const CuKernelNode* kernel) {
  if (int refused = call("cuGraphAddKernelNode")) return refused;
  fake::Node added = {true, {}, *static_cast<FenceArgs*>(kernel->parameters[0])};
  for (size_t i = 0; i < count; i++) added.waits.push_back(index_of(waits[i]));
  fake_driver()->graph.push_back(added);
  *node = handle_of(fake_driver()->graph.size() - 1);
  return 0;
}

int cuGraphKernelNodeSetParams(CuNode node, const CuKernelNode* kernel) {
  if (int refused = call("cuGraphKernelNodeSetParams")) return refused;
  fake_driver()->graph[size_t(index_of(node))].args = *static_cast<FenceArgs*>(kernel->parameters[0]);
  return 0;
}

}  // extern "C"
