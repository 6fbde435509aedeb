#include "cuda_driver.h"

#include <dlfcn.h>

#include <mutex>

namespace picket {
namespace {

// Resolves the first name that the library has.
template <typename Function>
bool find(void* library, Function* function, std::string* missing, const char* name, const char* older = nullptr) {
  void* symbol = dlsym(library, name);
  if (!symbol && older) symbol = dlsym(library, older);
  *function = reinterpret_cast<Function>(symbol);
  if (!symbol) *missing = name;
  return symbol != nullptr;
}

bool resolve(void* lib, CudaDriver* d, std::string* missing) {
  std::string optional;
  find(lib, &d->capture_info3, &optional, "cuStreamGetCaptureInfo_v3");
  bool edges = find(lib, &d->add_edges, &optional, "cuGraphAddDependencies_v2") &&
               find(lib, &d->remove_edges, &optional, "cuGraphRemoveDependencies_v2") &&
               find(lib, &d->dependents, &optional, "cuGraphNodeGetDependentNodes_v2") &&
               find(lib, &d->launch_with, &optional, "cuLaunchKernelEx") &&
               find(lib, &d->set_node_attribute, &optional, "cuGraphKernelNodeSetAttribute");
  if (!edges) d->add_edges = nullptr;
  return find(lib, &d->init, missing, "cuInit") && find(lib, &d->driver_version, missing, "cuDriverGetVersion") &&
         find(lib, &d->error_name, missing, "cuGetErrorName") && find(lib, &d->device_get, missing, "cuDeviceGet") &&
         find(lib, &d->device_name, missing, "cuDeviceGetName") &&
         find(lib, &d->device_uuid, missing, "cuDeviceGetUuid_v2", "cuDeviceGetUuid") &&
         find(lib, &d->primary_retain, missing, "cuDevicePrimaryCtxRetain") &&
         find(lib, &d->context_current, missing, "cuCtxGetCurrent") &&
         find(lib, &d->context_device, missing, "cuCtxGetDevice") &&
         find(lib, &d->context_push, missing, "cuCtxPushCurrent_v2") &&
         find(lib, &d->context_pop, missing, "cuCtxPopCurrent_v2") &&
         find(lib, &d->module_load, missing, "cuModuleLoadData") &&
         find(lib, &d->module_function, missing, "cuModuleGetFunction") &&
         find(lib, &d->memory_alloc, missing, "cuMemAlloc_v2") && find(lib, &d->memory_set, missing, "cuMemsetD8_v2") &&
         find(lib, &d->host_alloc, missing, "cuMemHostAlloc") &&
         find(lib, &d->host_register, missing, "cuMemHostRegister_v2") &&
         find(lib, &d->host_pointer, missing, "cuMemHostGetDevicePointer_v2") &&
         find(lib, &d->stream_create, missing, "cuStreamCreate") &&
         find(lib, &d->stream_query, missing, "cuStreamQuery") &&
         find(lib, &d->stream_synchronize, missing, "cuStreamSynchronize") &&
         find(lib, &d->launch, missing, "cuLaunchKernel") &&
         find(lib, &d->exchange_capture_mode, missing, "cuThreadExchangeStreamCaptureMode") &&
         find(lib, &d->capture_info2, missing, "cuStreamGetCaptureInfo_v2") &&
         find(lib, &d->add_kernel_node, missing, "cuGraphAddKernelNode_v2", "cuGraphAddKernelNode") &&
         find(lib, &d->set_kernel_node, missing, "cuGraphKernelNodeSetParams_v2", "cuGraphKernelNodeSetParams") &&
         find(lib, &d->device_attribute, missing, "cuDeviceGetAttribute") &&
         find(lib, &d->graph_nodes, missing, "cuGraphGetNodes") &&
         find(lib, &d->node_type, missing, "cuGraphNodeGetType") &&
         find(lib, &d->node_attribute, missing, "cuGraphKernelNodeGetAttribute") &&
         find(lib, &d->begin_capture, missing, "cuStreamBeginCapture_v2") &&
         find(lib, &d->end_capture, missing, "cuStreamEndCapture") &&
         find(lib, &d->instantiate, missing, "cuGraphInstantiateWithFlags") &&
         find(lib, &d->graph_launch, missing, "cuGraphLaunch") &&
         find(lib, &d->graph_destroy, missing, "cuGraphDestroy") &&
         find(lib, &d->exec_destroy, missing, "cuGraphExecDestroy") &&
         find(lib, &d->event_create, missing, "cuEventCreate") &&
         find(lib, &d->event_record, missing, "cuEventRecord") &&
         find(lib, &d->event_elapsed, missing, "cuEventElapsedTime") &&
         find(lib, &d->event_destroy, missing, "cuEventDestroy_v2", "cuEventDestroy");
}

}  // namespace

const CudaDriver* CudaDriver::load(std::string* error, bool* installed) {
  static std::mutex mutex;
  static const CudaDriver* loaded = nullptr;
  std::lock_guard<std::mutex> guard(mutex);
  *installed = true;
  if (loaded) return loaded;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  *installed = library != nullptr;
  if (!library) return *error = std::string("no CUDA driver: ") + dlerror(), nullptr;
  auto* driver = new CudaDriver();  // lives as long as the process, like the library
  std::string missing;
  if (resolve(library, driver, &missing)) return loaded = driver;
  delete driver;
  *error = "the CUDA driver has no " + missing + "; picket needs that of CUDA 11.8 or later";
  return nullptr;
}

std::string CudaDriver::describe(const char* call, CuResult result) const {
  const char* name = nullptr;
  error_name(result, &name);
  return std::string(call) + ": " + (name ? name : "error " + std::to_string(result));
}

}  // namespace picket
