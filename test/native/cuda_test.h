// Just enough of the CUDA driver for the GPU checks, found by dlsym like the library's own part: streams, capture,
// graphs, events, and a kernel that keeps one thread busy for a given time.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "../../native/fence/cuda_driver.h"
#include "check.h"

namespace check {

constexpr char kSpinPtx[] = R"PTX(
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 duration_ns)
{
  .reg .pred %more;
  .reg .b64 %start, %now, %duration;
  ld.param.u64 %duration, [duration_ns];
  mov.u64 %start, %globaltimer;
AGAIN:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %more, %now, %duration;
  @%more bra AGAIN;
  ret;
}
)PTX";

struct Cuda {
  const picket::CudaDriver* base = nullptr;
  picket::CuFunction spin_kernel = nullptr;
  picket::CuContext context = nullptr;
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*graph_launch)(void*, void*);
  int (*event_create)(void**, unsigned);
  int (*event_record)(void*, void*);
  int (*event_synchronize)(void*);
  int (*event_elapsed)(float*, void*, void*);
  int (*stream_wait)(void*, void*, unsigned);

  // Null without a GPU; otherwise its context is current.
  static Cuda* open() {
    std::string error;
    bool installed;
    const picket::CudaDriver* base = picket::CudaDriver::load(&error, &installed);
    picket::CuDevice device;
    if (!base || base->init(0) != 0 || base->device_get(&device, 0) != 0) return nullptr;
    auto* cuda = new Cuda;
    cuda->base = base;
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      CHECK(function != nullptr);
    };
    find(cuda->begin_capture, "cuStreamBeginCapture_v2");
    find(cuda->end_capture, "cuStreamEndCapture");
    find(cuda->instantiate, "cuGraphInstantiateWithFlags");
    find(cuda->graph_launch, "cuGraphLaunch");
    find(cuda->event_create, "cuEventCreate");
    find(cuda->event_record, "cuEventRecord");
    find(cuda->event_synchronize, "cuEventSynchronize");
    find(cuda->event_elapsed, "cuEventElapsedTime");
    find(cuda->stream_wait, "cuStreamWaitEvent");
    picket::CuModule module;
    CHECK_EQ(base->primary_retain(&cuda->context, device), 0);
    cuda->make_current();
    CHECK_EQ(base->module_load(&module, kSpinPtx), 0);
    CHECK_EQ(base->module_function(&cuda->spin_kernel, module, "spin"), 0);
    void* warm = cuda->stream();
    cuda->spin(warm, 1);
    cuda->wait(warm);
    return cuda;
  }

  void make_current() const { CHECK_EQ(base->context_push(context), 0); }
  void* stream() const {
    void* stream = nullptr;
    CHECK_EQ(base->stream_create(&stream, picket::kCuStreamNonBlocking), 0);
    return stream;
  }
  void* event(bool timing = false) const {
    void* event = nullptr;
    CHECK_EQ(event_create(&event, timing ? 0 : 2), 0);
    return event;
  }
  void spin(void* stream, uint64_t duration_ns) const {
    void* parameters[] = {&duration_ns};
    CHECK_EQ(base->launch(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), 0);
  }
  void wait(void* stream) const { CHECK_EQ(base->stream_synchronize(stream), 0); }
  void fork(void* from, void* to) const {
    void* gate = event();
    CHECK_EQ(event_record(gate, from), 0);
    CHECK_EQ(stream_wait(to, gate, 0), 0);
  }
  template <typename Body>
  void* capture(void* stream, Body body) const {
    void *graph = nullptr, *executable = nullptr;
    CHECK_EQ(begin_capture(stream, 0), 0);
    body();
    CHECK_EQ(end_capture(stream, &graph), 0);
    CHECK_EQ(instantiate(&executable, graph, 0), 0);
    return executable;
  }
};

}  // namespace check
