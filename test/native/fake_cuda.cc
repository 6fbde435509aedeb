// A stand-in for libcuda.so.1, so that the library's GPU path is tested where no GPU is: streams run at once, captures
// become a list of nodes, and the fence kernel does in C++ what its PTX says, on a clock that only work moves on. The
// clock kernel never answers.
#include "fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "../../native/fence/cuda_driver.h"
#include "../../native/ring/atomics.h"
#include "../../native/ring/clock.h"
#include "../../native/ring/ring_writer.h"

using namespace picket;

namespace {

constexpr int kError = 719;
enum Kernel : uintptr_t { kFence = 1, kClock, kGate, kLoad };
std::mutex mutex;  // the library's clock thread calls too
std::map<void*, fake::Stream> streams;

int call(const char* name) { return fake_driver()->failing == name ? kError : 0; }

void run_fence(const FenceArgs& args) {
  auto* cursor = reinterpret_cast<uint64_t*>(args.cursor);
  auto* ring = reinterpret_cast<picket_fence_record*>(args.ring);
  uint64_t first = add_relaxed(cursor, uint64_t(args.count)), now = fake_driver()->clock, lead = args.lead_ns;
  for (uint32_t i = 0; i < args.count; i++) {
    if (args.ids[i] >> PICKET_FENCE_TYPE_SHIFT == PICKET_FENCE_BEGIN) now += std::exchange(lead, 0);
    picket_fence_record* slot = ring + ((first + i) & args.mask);
    store_relaxed(&slot->stamp, fence_stamp(now, first + i, args.log2));
    store_release(&slot->identity, fence_identity(args.ids[i], first + i));
  }
}

void run(const std::vector<fake::Node>& graph) {
  for (auto& node : graph) {
    if (!node.fence) fake_driver()->clock += fake_driver()->slower_after == 0 ? fake::kSlowKernel : fake::kKernel;
    if (!node.fence) continue;
    run_fence(node.args);
    fake_driver()->clock += node.side ? fake_driver()->side_fence_ns : fake::kInLineFence;
  }
}

std::vector<fake::Wait> waits_of(const fake::Stream& stream) {
  std::vector<fake::Wait> waits;
  for (int index : stream.tail) waits.push_back({index, false});
  return waits;
}
CuNode handle_of(size_t index) { return reinterpret_cast<CuNode>(index + 1); }
int index_of(CuNode node) { return int(reinterpret_cast<uintptr_t>(node)) - 1; }
fake::Wait* edge(CuNode from, CuNode to) {
  for (fake::Wait& wait : fake_driver()->graph[size_t(index_of(to))].waits)
    if (wait.node == index_of(from)) return &wait;
  return nullptr;
}

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
// Captured, or run at once.
void fake_kernel(void* stream) {
  if (streams[stream].capture == 0) {
    fake_driver()->clock += fake::kKernel;
    return;
  }
  fake_driver()->graph.push_back({false, waits_of(streams[stream]), {}});
  streams[stream].tail = {int(fake_driver()->graph.size()) - 1};
}
void fake_replay() { run(fake_driver()->graph); }

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
  uintptr_t number = 0;
  for (const char* known : {"picket_fence", "picket_clock", "picket_gate", "picket_load"})
    if (++number, strcmp(name, known) == 0) *function = reinterpret_cast<CuFunction>(number);
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
  static std::vector<CuNode> handles;  // one thread captures at a time
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
  uintptr_t kernel = reinterpret_cast<uintptr_t>(function);
  if (kernel == kGate) fake_driver()->gates++;
  if (kernel == kLoad) fake_kernel(stream);
  if (kernel != kFence) return 0;
  auto& args = *static_cast<FenceArgs*>(parameters[0]);
  fake::Stream& state = streams[stream];
  if (state.capture == 1) {
    fake_driver()->graph.push_back({true, waits_of(state), args});
    state.tail = {int(fake_driver()->graph.size()) - 1};
  } else {
    fake_driver()->launches++;
    run_fence(args);
    fake_driver()->clock += fake::kLaunchedFence;
  }
  return 0;
}

int cuLaunchKernelEx(const CuLaunchConfig* config, CuFunction function, void** parameters, void**) {
  if (int refused = call("cuLaunchKernelEx")) return refused;
  fake_driver()->early += config->count == 1 && config->attributes[0].id == kCuAttributeProgrammaticStreamSerialization;
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, config->stream, parameters, nullptr);
}

int cuGraphAddKernelNode(CuNode* node, CuGraph, const CuNode* waits, size_t count, const CuKernelNode* kernel) {
  if (int refused = call("cuGraphAddKernelNode")) return refused;
  fake::Node added = {true, {}, *static_cast<FenceArgs*>(kernel->parameters[0]), true};
  for (size_t i = 0; i < count; i++) added.waits.push_back({index_of(waits[i]), false});
  fake_driver()->graph.push_back(added);
  *node = handle_of(fake_driver()->graph.size() - 1);
  return 0;
}

int cuGraphKernelNodeSetParams(CuNode node, const CuKernelNode* kernel) {
  if (int refused = call("cuGraphKernelNodeSetParams")) return refused;
  fake_driver()->graph[size_t(index_of(node))].args = *static_cast<FenceArgs*>(kernel->parameters[0]);
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == kCuDeviceComputeCapabilityMajor ? fake_driver()->capability : 4, 0;
}
int cuGraphGetNodes(CuGraph, CuNode* nodes, size_t* count) {
  *count = fake_driver()->graph.size();
  for (size_t i = 0; nodes && i < *count; i++) nodes[i] = handle_of(i);
  return call("cuGraphGetNodes");
}
int cuGraphNodeGetType(CuNode node, int* type) {
  return *type = fake_driver()->graph[size_t(index_of(node))].type, 0;
}
int cuGraphKernelNodeGetAttribute(CuNode node, int, void* value) {
  return *static_cast<int*>(value) = fake_driver()->graph[size_t(index_of(node))].domain, 0;
}
int cuGraphKernelNodeSetAttribute(CuNode node, int, const void* value) {
  fake_driver()->graph[size_t(index_of(node))].domain = *static_cast<const int*>(value);
  return call("cuGraphKernelNodeSetAttribute");
}
int cuGraphRemoveDependencies_v2(CuGraph, const CuNode* from, const CuNode* to, const CuEdge*, size_t) {
  fake::Wait* wait = edge(*from, *to);
  if (!wait || wait->early) return kError;
  auto& waits = fake_driver()->graph[size_t(index_of(*to))].waits;
  waits.erase(waits.begin() + (wait - waits.data()));
  return 0;
}
int cuGraphAddDependencies_v2(CuGraph, const CuNode* from, const CuNode* to, const CuEdge* data, size_t) {
  if (data->type == kCuProgrammatic.type && call("cuGraphAddDependencies")) return kError;
  fake_driver()->graph[size_t(index_of(*to))].waits.push_back({index_of(*from), data->type == kCuProgrammatic.type});
  return 0;
}
int cuGraphNodeGetDependentNodes_v2(CuNode node, CuNode* nodes, CuEdge* edges, size_t* count) {
  size_t found = 0;
  for (size_t i = 0; i < fake_driver()->graph.size(); i++)
    if (fake::Wait* wait = edge(node, handle_of(i))) {
      if (nodes) nodes[found] = handle_of(i);
      if (edges) edges[found] = wait->early ? kCuProgrammatic : CuEdge{};
      found++;
    }
  return *count = found, 0;
}

int cuStreamBeginCapture_v2(void* stream, int) {
  fake_begin_capture(stream);
  return call("cuStreamBeginCapture");
}
int cuStreamEndCapture(void*, CuGraph* graph) {
  *graph = reinterpret_cast<CuGraph>(new std::vector<fake::Node>(std::move(fake_driver()->graph)));
  fake_driver()->graph.clear();
  streams.clear();
  return 0;
}
int cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long) {
  auto* nodes = new std::vector<fake::Node>(*reinterpret_cast<std::vector<fake::Node>*>(graph));
  return *exec = reinterpret_cast<CuGraphExec>(nodes), 0;
}
int cuGraphLaunch(CuGraphExec exec, void*) {
  if (fake_driver()->slower_after > 0) fake_driver()->slower_after--;
  return run(*reinterpret_cast<std::vector<fake::Node>*>(exec)), 0;
}
int cuGraphDestroy(CuGraph graph) { return delete reinterpret_cast<std::vector<fake::Node>*>(graph), 0; }
int cuGraphExecDestroy(CuGraphExec exec) { return delete reinterpret_cast<std::vector<fake::Node>*>(exec), 0; }
int cuEventCreate(CuEvent* event, unsigned) { return *event = reinterpret_cast<CuEvent>(new uint64_t(0)), 0; }
int cuEventRecord(CuEvent event, void*) { return *reinterpret_cast<uint64_t*>(event) = fake_driver()->clock, 0; }
int cuEventElapsedTime(float* ms, CuEvent begin, CuEvent end) {
  return *ms = float(double(*reinterpret_cast<uint64_t*>(end) - *reinterpret_cast<uint64_t*>(begin)) / 1e6), 0;
}
int cuEventDestroy_v2(CuEvent event) { return delete reinterpret_cast<uint64_t*>(event), 0; }

}  // extern "C"
