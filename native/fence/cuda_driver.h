// The few entry points of libcuda.so.1 that fences need, found by dlopen; no CUDA header or toolkit is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace picket {

using CuResult = int;  // 0: success
using CuDevice = int;
using CuContext = struct CuContextTag*;
using CuStream = void*;
using CuFunction = struct CuFunctionTag*;
using CuModule = struct CuModuleTag*;
using CuGraph = struct CuGraphTag*;
using CuNode = struct CuNodeTag*;
using CuGraphExec = struct CuGraphExecTag*;
using CuEvent = struct CuEventTag*;

// CUDA_KERNEL_NODE_PARAMS_v2; version 1 of it is the part up to `extra`.
struct CuKernelNode {
  CuFunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CuContext context;
};

// CUgraphEdgeData. Programmatic: the later kernel may be launched before the earlier one is through, and itself waits.
struct CuEdge {
  unsigned char from_port, to_port, type, reserved[5];
};
constexpr CuEdge kCuProgrammatic = {1, 0, 1, {}};

// CUlaunchAttribute and CUlaunchConfig.
struct CuLaunchAttribute {
  int id;
  int pad;
  union {
    int integer;
    char bytes[64];
  } value;
};
struct CuLaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned count;
};
constexpr int kCuAttributeProgrammaticStreamSerialization = 6, kCuAttributeMemSyncDomain = 10;
constexpr int kCuMemSyncDomainRemote = 1;

constexpr int kCuNodeKernel = 0, kCuNodeWaitEvent = 6, kCuNodeEventRecord = 7;
constexpr int kCuDeviceMultiprocessors = 16, kCuDeviceComputeCapabilityMajor = 75;

constexpr unsigned kCuHostRegisterPortableMapped = 1 | 2;  // of cuMemHostRegister and cuMemHostAlloc alike
constexpr unsigned kCuStreamNonBlocking = 1;
constexpr int kCuCaptureNone = 0, kCuCaptureActive = 1;
constexpr int kCuCaptureModeRelaxed = 2;

struct CudaDriver {
  CuResult (*init)(unsigned);
  CuResult (*driver_version)(int*);
  CuResult (*error_name)(CuResult, const char**);
  CuResult (*device_get)(CuDevice*, int);
  CuResult (*device_name)(char*, int, CuDevice);
  CuResult (*device_uuid)(unsigned char*, CuDevice);
  CuResult (*primary_retain)(CuContext*, CuDevice);
  CuResult (*context_current)(CuContext*);
  CuResult (*context_device)(CuDevice*);
  CuResult (*context_push)(CuContext);
  CuResult (*context_pop)(CuContext*);
  CuResult (*module_load)(CuModule*, const void*);
  CuResult (*module_function)(CuFunction*, CuModule, const char*);
  CuResult (*memory_alloc)(uint64_t*, size_t);
  CuResult (*memory_set)(uint64_t, unsigned char, size_t);
  CuResult (*host_alloc)(void**, size_t, unsigned);
  CuResult (*host_register)(void*, size_t, unsigned);
  CuResult (*host_pointer)(uint64_t*, void*, unsigned);
  CuResult (*stream_create)(CuStream*, unsigned);
  CuResult (*stream_query)(CuStream);
  CuResult (*stream_synchronize)(CuStream);
  CuResult (*launch)(CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuStream, void**,
                     void**);
  CuResult (*exchange_capture_mode)(int*);
  CuResult (*capture_info2)(CuStream, int*, uint64_t*, CuGraph*, const CuNode**, size_t*);
  CuResult (*capture_info3)(CuStream, int*, uint64_t*, CuGraph*, const CuNode**, const void**, size_t*);  // may be null
  CuResult (*add_kernel_node)(CuNode*, CuGraph, const CuNode*, size_t, const CuKernelNode*);
  CuResult (*set_kernel_node)(CuNode, const CuKernelNode*);
  CuResult (*device_attribute)(int*, int, CuDevice);
  CuResult (*graph_nodes)(CuGraph, CuNode*, size_t*);
  CuResult (*node_type)(CuNode, int*);
  CuResult (*node_attribute)(CuNode, int, void*);
  // Of CUDA 12.3: add_edges is null where one is missing.
  CuResult (*set_node_attribute)(CuNode, int, const void*);
  CuResult (*add_edges)(CuGraph, const CuNode*, const CuNode*, const CuEdge*, size_t);
  CuResult (*remove_edges)(CuGraph, const CuNode*, const CuNode*, const CuEdge*, size_t);
  CuResult (*dependents)(CuNode, CuNode*, CuEdge*, size_t*);
  CuResult (*launch_with)(const CuLaunchConfig*, CuFunction, void**, void**);

  CuResult (*begin_capture)(CuStream, int);
  CuResult (*end_capture)(CuStream, CuGraph*);
  CuResult (*instantiate)(CuGraphExec*, CuGraph, unsigned long long);
  CuResult (*graph_launch)(CuGraphExec, CuStream);
  CuResult (*graph_destroy)(CuGraph);
  CuResult (*exec_destroy)(CuGraphExec);
  CuResult (*event_create)(CuEvent*, unsigned);
  CuResult (*event_record)(CuEvent, CuStream);
  CuResult (*event_elapsed)(float*, CuEvent, CuEvent);
  CuResult (*event_destroy)(CuEvent);

  // The driver of this process, or null and a message. `installed`: there is one, perhaps too old. Does not initialise
  // it.
  static const CudaDriver* load(std::string* error, bool* installed);
  std::string describe(const char* call, CuResult result) const;
};

}  // namespace picket
