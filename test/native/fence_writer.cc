// A writer for the tests and benchmarks of the reader: fence_writer DIRECTORY FENCE_CAPACITY ATTRIBUTES
// Prints its segment's path, then obeys lines from standard input and answers each with "ok":
//   fill N        N borders of phase mlp, begins and ends in turn
//   step S B ID   a step of batch B with one request
//   mark          a host phase dataload, begin and end
//   close         ends in order
#include <cstdio>
#include <cstring>

#include "../../native/include/picket_fence.h"
#include "check.h"

namespace {

uint32_t register_phase(picket_t* handle, const picket_phase& phase) {
  uint32_t id = 0;
  CHECK_EQ(picket_phase_register(handle, &phase, &id), PICKET_OK);
  return id;
}

void obey(picket_t* handle, uint32_t mlp, uint32_t dataload, const char* line) {
  unsigned long long count;
  long long number;
  int batch;
  char request[64];
  if (sscanf(line, "fill %llu", &count) == 1) {
    for (unsigned long long i = 0; i < count; i++)
      CHECK_EQ(i % 2 ? picket_end(handle, mlp, nullptr) : picket_begin(handle, mlp, nullptr), PICKET_OK);
  } else if (sscanf(line, "step %lld %d %63s", &number, &batch, request) == 3) {
    picket_step_payload step = picket_step_unknown();
    step.step = number;
    step.batch = batch;
    step.requests = 1;
    const char* requests[] = {request};
    CHECK_EQ(picket_step(handle, &step, requests, nullptr), PICKET_OK);
  } else if (strncmp(line, "mark", 4) == 0) {
    picket_call_payload call = {4096, 7, -1, 0};
    CHECK_EQ(picket_mark(handle, dataload, PICKET_HOST_BEGIN, &call), PICKET_OK);
    CHECK_EQ(picket_mark(handle, dataload, PICKET_HOST_END, nullptr), PICKET_OK);
  } else {
    CHECK(strncmp(line, "close", 5) == 0);
    CHECK_EQ(picket_close(handle), PICKET_OK);
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK_EQ(count, 4);
  picket_options options = {};
  options.size = sizeof(options);
  options.device = PICKET_DEVICE_NONE;
  options.directory = arguments[1];
  options.fence_capacity = uint32_t(atoi(arguments[2]));
  options.attributes = arguments[3];
  picket_t* handle = nullptr;
  CHECK_EQ(picket_open(&options, &handle), PICKET_OK);
  uint32_t mlp = register_phase(handle, {"mlp", PICKET_KIND_COMPUTE, 3, nullptr, nullptr, -1});
  uint32_t dataload = register_phase(handle, {"dataload", PICKET_KIND_HOST, -1, nullptr, nullptr, -1});
  std::printf("%s\n", picket_path(handle));
  std::fflush(stdout);
  char line[256];
  while (std::fgets(line, sizeof(line), stdin)) {
    obey(handle, mlp, dataload, line);
    std::printf("ok\n");
    std::fflush(stdout);
  }
}
