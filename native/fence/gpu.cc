#include "gpu.h"

#include <stdio.h>
#include <string.h>

#include "../ring/atomics.h"

namespace picket {
namespace {

CuKernelNode kernel_node(CuFunction function, void** parameters) {
  return {function, 1, 1, 1, 1, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
}

}  // namespace

ContextScope::ContextScope(const CudaDriver& driver, CuContext context) : driver_(driver) {
  CuContext current = nullptr;
  if (driver.context_current(&current) == 0 && current == context) return;
  pushed_ = driver.context_push(context) == 0;
}

ContextScope::~ContextScope() {
  CuContext popped;
  if (pushed_) driver_.context_pop(&popped);
}

Gpu::Place Gpu::place(int device, std::string* error) {
  Place place;
  std::string absent;
  bool installed;
  place.driver = CudaDriver::load(&absent, &installed);
  if (!place.driver) {
    if (installed || device != PICKET_DEVICE_CURRENT) *error = absent;
    return place;
  }
  if (device == PICKET_DEVICE_CURRENT) {
    bool found = place.driver->context_current(&place.context) == 0 && place.context;
    if (!found || place.driver->context_device(&place.device) != 0) place.context = nullptr;
    return place;
  }
  CuResult result = place.driver->init(0);
  if (result == 0) result = place.driver->device_get(&place.device, device);
  if (result == 0) result = place.driver->primary_retain(&place.context, place.device);
  if (result != 0) {
    place.context = nullptr;
    *error = place.driver->describe(("cannot use CUDA device " + std::to_string(device)).c_str(), result);
  }
  return place;
}

void Gpu::describe(const Place& place, picket_control* control) {
  control->clock_source = PICKET_CLOCK_GPU;
  control->device = place.device;
  unsigned char id[16];
  place.driver->device_name(control->gpu_name, sizeof(control->gpu_name) - 1, place.device);
  if (place.driver->device_uuid(id, place.device) != 0) return;
  char* out = control->gpu_uuid + snprintf(control->gpu_uuid, sizeof(control->gpu_uuid), "GPU-");
  for (int i = 0; i < 16; i++) out += sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
}

bool Gpu::open(bool measured, std::string* error) {
  ContextScope scope(driver(), place_.context);
  // Allocation and synchronisation here must not break a capture that another thread has under way.
  int mode = kCuCaptureModeRelaxed;
  driver().exchange_capture_mode(&mode);
  bool loaded = load(error);
  if (loaded && measured) costs_ = measure();
  driver().exchange_capture_mode(&mode);
  return loaded;
}

bool Gpu::load(std::string* error) {
  const CudaDriver& d = driver();
  CuModule module;
  void* handshake = nullptr;
  uint64_t base = 0;
  auto ok = [&](const char* call, CuResult result) {
    if (result != 0) *error = d.describe(call, result);
    return result == 0;
  };
  int capability = 0;
  if (d.device_attribute(&capability, kCuDeviceComputeCapabilityMajor, place_.device) != 0) capability = 0;
  overlaps_ = d.add_edges && capability >= 9;
  overlaps_eager_ = overlaps_;
  std::string ptx = fence_ptx(overlaps_ ? capability : 0);
  bool ready = ok("loading the fence kernels", d.module_load(&module, ptx.c_str())) &&
               ok("cuModuleGetFunction", d.module_function(&fence_, module, "picket_fence")) &&
               ok("cuModuleGetFunction", d.module_function(&clock_, module, "picket_clock")) &&
               ok("cuModuleGetFunction", d.module_function(&gate_, module, "picket_gate")) &&
               ok("cuModuleGetFunction", d.module_function(&load_, module, "picket_load")) &&
               ok("cuMemAlloc", d.memory_alloc(&cursor_, 4096)) && ok("cuMemsetD8", d.memory_set(cursor_, 0, 4096)) &&
               ok("mapping the segment to the GPU (it must lie in memory, such as /dev/shm)",
                  d.host_register(segment_->base(), segment_->size(), kCuHostRegisterPortableMapped)) &&
               ok("cuMemHostGetDevicePointer", d.host_pointer(&base, segment_->base(), 0)) &&
               ok("cuMemHostAlloc", d.host_alloc(&handshake, 4096, kCuHostRegisterPortableMapped)) &&
               ok("cuMemHostGetDevicePointer", d.host_pointer(&handshake_, handshake, 0)) &&
               ok("cuStreamCreate", d.stream_create(&stream_, kCuStreamNonBlocking));
  if (!ready) return false;
  uint32_t capacity = segment_->constant().fence_capacity;
  target_ = {cursor_, base + segment_->constant().fence_offset, capacity - 1, uint32_t(__builtin_ctz(capacity))};
  int processors = 0;
  if (d.device_attribute(&processors, kCuDeviceMultiprocessors, place_.device) == 0 && processors > 0)
    processors_ = unsigned(processors);
  handshake_host_ = static_cast<uint64_t*>(handshake);
  memset(handshake, 0, 4096);
  // A first launch loads the code; later ones may happen under capture, where loading is forbidden.
  return ok("launching a fence", launch(stream_, nullptr, 0)) && ok("running a fence", d.stream_synchronize(stream_));
}

FenceArgs Gpu::arguments(const uint32_t* ids, unsigned count, bool in_line) const {
  uint32_t lead_ns = in_line ? uint32_t(costs_.in_line_ns) : 0;
  FenceArgs args = {target_.cursor, target_.ring, target_.mask, target_.log2, count, {}, lead_ns};
  for (unsigned i = 0; i < count; i++) args.ids[i] = ids[i];
  return args;
}

CuResult Gpu::capture_of(CuStream stream, Capture* capture) const {
  const CudaDriver& d = driver();
  ContextScope scope(d, place_.context);
  if (!d.capture_info3)
    return d.capture_info2(stream, &capture->status, &capture->id, &capture->graph, &capture->dependencies,
                           &capture->count);
  const void* edges = nullptr;  // a fence waits for the whole kernel, whatever kind of edge the stream's next one has
  return d.capture_info3(stream, &capture->status, &capture->id, &capture->graph, &capture->dependencies, &edges,
                         &capture->count);
}

CuResult Gpu::launch(CuStream stream, const uint32_t* ids, unsigned count, bool captured) const {
  const CudaDriver& d = driver();
  ContextScope scope(d, place_.context);
  FenceArgs args = arguments(ids, count, captured);
  void* parameters[] = {&args};
  if (overlaps_eager_ && !captured) {
    CuLaunchAttribute early = {kCuAttributeProgrammaticStreamSerialization, 0, {1}};
    CuLaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &early, 1};
    if (d.launch_with(&config, fence_, parameters, nullptr) == 0) return 0;
    overlaps_eager_ = false;
  }
  return d.launch(fence_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

CuResult Gpu::hold(CuStream stream) {
  constexpr uint64_t kPatienceNs = 50000000;
  ContextScope scope(driver(), place_.context);
  uint64_t word = handshake_ + kGate, value = ++gates_, patience = kPatienceNs;
  void* parameters[] = {&word, &value, &patience};
  return driver().launch(gate_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

void Gpu::let_go() { store_release(handshake_host_ + kGate / sizeof(uint64_t), gates_); }

CuResult Gpu::merge(Chain* chain, uint32_t id) {
  FenceArgs args = chain->args;
  args.ids[args.count++] = id;
  void* parameters[] = {&args};
  CuKernelNode node = kernel_node(fence_, parameters);
  CuResult result = driver().set_kernel_node(chain->node, &node);
  if (result == 0) chain->args = args;
  return result;
}

bool Gpu::is_kernel(CuNode node) const {
  int type = -1;
  return driver().node_type(node, &type) == 0 && type == kCuNodeKernel;
}

// Lets kernel `to` be launched before `from` is through: one of them is a fence, which keeps the order itself.
CuResult Gpu::overlap(CuGraph graph, CuNode from, CuNode to) const {
  const CudaDriver& d = driver();
  const CuEdge whole = {};
  CuResult result = d.remove_edges(graph, &from, &to, &whole, 1);
  if (result != 0) return 0;  // it has another kind of edge, which stays
  if (d.add_edges(graph, &from, &to, &kCuProgrammatic, 1) == 0) return 0;
  return d.add_edges(graph, &from, &to, &whole, 1);
}

// What was captured behind an in-line fence need not wait for its record to reach the host.
void Gpu::release_successors(CuGraph graph, Chain* chain) const {
  if (!overlaps_ || !chain->in_line || !chain->node) return;
  size_t count = 0;
  if (driver().dependents(chain->node, nullptr, nullptr, &count) != 0 || count == 0) return;
  std::vector<CuNode> nodes(count);
  std::vector<CuEdge> edges(count);
  if (driver().dependents(chain->node, nodes.data(), edges.data(), &count) != 0) return;
  for (size_t i = 0; i < count; i++)
    if (edges[i].type == 0 && is_kernel(nodes[i])) overlap(graph, chain->node, nodes[i]);
}

CuResult Gpu::add_side(const Capture& capture, const Chain& chain, FenceArgs args, CuNode* node) {
  std::vector<CuNode> waits(capture.dependencies, capture.dependencies + capture.count);
  // An in-line fence is among what the stream waits for already.
  if (chain.node && !chain.in_line) waits.push_back(chain.node);
  void* parameters[] = {&args};
  CuKernelNode description = kernel_node(fence_, parameters);
  CuResult result = driver().add_kernel_node(node, capture.graph, waits.data(), waits.size(), &description);
  for (size_t i = 0; overlaps_ && result == 0 && i < waits.size(); i++)
    if (is_kernel(waits[i])) result = overlap(capture.graph, waits[i], *node);
  if (overlaps_ && result == 0) keep_apart(*node);
  return result;
}

// Kernels that order their writes to other GPUs, as those of an all-reduce over peer memory, would wait for the fence's
// write to the host, unless it is in another memory domain. Where the driver refuses they do.
void Gpu::keep_apart(CuNode node) const {
  union {
    int integer;
    char bytes[64];
  } domain = {kCuMemSyncDomainRemote};
  driver().set_node_attribute(node, kCuAttributeMemSyncDomain, &domain);
}

CuResult Gpu::add_in_line(CuStream stream, const Capture& before, uint32_t id, CuNode* node) {
  std::vector<CuNode> waits(before.dependencies, before.dependencies + before.count);
  Capture after;
  CuResult result = launch(stream, &id, 1, true);
  if (result == 0) result = capture_of(stream, &after);
  if (result != 0 || after.count != 1) return result;
  *node = after.dependencies[0];
  for (size_t i = 0; overlaps_ && result == 0 && i < waits.size(); i++)
    if (is_kernel(waits[i])) result = overlap(before.graph, waits[i], *node);
  return result;
}

// NCCL records events in graphs, and on Hopper has its kernels in a memory domain of their own.
bool Gpu::is_of_nccl(CuNode node) const {
  const CudaDriver& d = driver();
  int type = -1;
  if (d.node_type(node, &type) != 0) return false;
  if (type == kCuNodeWaitEvent || type == kCuNodeEventRecord) return true;
  union {
    int integer;
    char bytes[64];
  } domain = {0};
  return type == kCuNodeKernel && d.node_attribute(node, kCuAttributeMemSyncDomain, &domain) == 0 &&
         domain.integer == kCuMemSyncDomainRemote;
}

// Beside NCCL's nodes any second branch of a graph costs microseconds a collective, however small it is
// (docs/overhead.md); so fences of a graph that may get them start in line.
int Gpu::best_form(const Capture& capture, bool captured) {
  ContextScope scope(driver(), place_.context);
  std::lock_guard<std::mutex> guard(mutex_);
  nccl_ = nccl_ || has_nccl(capture);
  no_nccl_ = no_nccl_ || captured;
  return nccl_ || (collectives_ && !no_nccl_) ? PICKET_FORM_IN_LINE : PICKET_FORM_SIDE;
}

bool Gpu::has_nccl(const Capture& capture) {
  if (inspected_.capture != capture.id) inspected_ = Inspected{capture.id, 0, false, {}};
  size_t count = 0;
  if (inspected_.nccl || driver().graph_nodes(capture.graph, nullptr, &count) != 0) return inspected_.nccl;
  std::vector<CuNode> nodes(count);
  if (count > inspected_.nodes && driver().graph_nodes(capture.graph, nodes.data(), &count) != 0) return false;
  for (; inspected_.nodes < count && !inspected_.nccl; inspected_.nodes++)
    inspected_.nccl = !inspected_.fences.count(nodes[inspected_.nodes]) && is_of_nccl(nodes[inspected_.nodes]);
  return inspected_.nccl;
}

CuResult Gpu::add_to_graph(CuStream stream, const Capture& capture, uint32_t id, int form, CuNode* node) {
  ContextScope scope(driver(), place_.context);
  std::lock_guard<std::mutex> guard(mutex_);
  Chain& chain = chains_[stream];
  if (chain.capture != capture.id) chain = Chain{capture.id, nullptr, false, {}, {}};
  bool in_line = form == PICKET_FORM_IN_LINE;
  std::vector<CuNode> waits(capture.dependencies, capture.dependencies + capture.count);
  picket_control* control = segment_->control();
  CuResult result;
  // Nothing was captured since the last fence: it can write this border too.
  bool same = chain.node && chain.in_line == in_line && chain.args.count < kMaxMerged &&
              (in_line ? waits.size() == 1 && waits[0] == chain.node : waits == chain.dependencies);
  if (same) {
    result = merge(&chain, id);
    *node = chain.node;
  } else {
    FenceArgs args = arguments(&id, 1, in_line);
    release_successors(capture.graph, &chain);
    result = in_line ? add_in_line(stream, capture, id, node) : add_side(capture, chain, args, node);
    if (result == 0) {
      if (!in_line && inspected_.capture == capture.id) inspected_.fences.insert(*node);
      chain = Chain{capture.id, *node, in_line, waits, args};
      add_relaxed(&control->graph_nodes, uint64_t(1));
    }
  }
  if (result == 0) add_relaxed(&control->graph_records, uint64_t(1));
  return result;
}

}  // namespace picket
