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

// CUDA_KERNEL_NODE_PARAMS_v2; version 1 of it is the part up to `extra`.
struct CuKernelNode {
  CuFunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CuContext context;
};

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

  // The driver of this process, or null and a message. `installed`: there is one, perhaps too old. Does not initialise
  // it.
  static const CudaDriver* load(std::string* error, bool* installed);
  std::string describe(const char* call, CuResult result) const;
};

}  // namespace picket
