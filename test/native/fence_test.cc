// The library's calls on the host clock: what they write, what they refuse, and that they never break their caller.
#include "../../native/include/picket_fence.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "../../native/ring/atomics.h"
#include "../../native/ring/ring_reader.h"
#include "check.h"

using namespace picket;

namespace {

picket_options options_for(const check::Directory& directory) {
  picket_options options = {};
  options.size = sizeof(options);
  options.device = PICKET_DEVICE_NONE;
  options.directory = directory.path().c_str();
  return options;
}

picket_t* open_for(const picket_options& options) {
  picket_t* handle = nullptr;
  CHECK_EQ(picket_open(&options, &handle), PICKET_OK);
  return handle;
}

uint32_t register_phase(picket_t* handle, const char* name, int layer = -1) {
  picket_phase phase = {name, PICKET_KIND_COMPUTE, layer, nullptr, nullptr, -1};
  uint32_t id = 0;
  CHECK_EQ(picket_phase_register(handle, &phase, &id), PICKET_OK);
  return id;
}

std::unique_ptr<Segment> reader_of(picket_t* handle) {
  std::string code, error;
  auto segment = Segment::open(picket_path(handle), true, &code, &error);
  CHECK_EQ(error, "");
  return segment;
}

struct Fences {
  std::vector<uint64_t> times;
  std::vector<uint32_t> ids;
};
Fences drain_all(Segment& segment) {
  RingReader reader(&segment);
  Fences all;
  uint64_t times[256];
  uint32_t ids[256];
  while (uint32_t count = reader.drain_fences(times, ids, 256, 1, false).count) {
    all.times.insert(all.times.end(), times, times + count);
    all.ids.insert(all.ids.end(), ids, ids + count);
  }
  return all;
}

uint32_t type_of(uint32_t id) { return id >> PICKET_FENCE_TYPE_SHIFT; }
uint32_t lane_of(uint32_t id) { return id >> PICKET_FENCE_LANE_SHIFT & (PICKET_MAX_LANES - 1); }
uint32_t phase_of(uint32_t id) { return id & 0xffff; }

// Runs `body` in a forked child; true when it ended well.
template <typename Body>
bool in_child(Body body) {
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

TEST(open_describes_the_writer) {
  check::Directory directory;
  picket_options options = options_for(directory);
  options.attributes = "{\"job\":\"j\",\"rank\":3}";
  uint64_t before = monotonic_ns();
  picket_t* handle = open_for(options);
  const picket_control* control = picket_control_of(handle);
  CHECK_EQ(control->clock_source, uint32_t(PICKET_CLOCK_MONOTONIC));
  CHECK_EQ(control->device, -1);
  CHECK_EQ(control->pid, uint32_t(getpid()));
  CHECK_EQ(std::string(control->attributes), options.attributes);
  CHECK(control->pid_start_ticks > 0);
  auto segment = reader_of(handle);
  picket_clock_sample sample;
  RingReader reader(segment.get());
  CHECK_EQ(reader.drain_clocks(&sample, 1), 1u);
  CHECK(sample.monotonic_ns >= before && sample.monotonic_ns <= monotonic_ns());
  int64_t offset = int64_t(realtime_ns() - monotonic_ns()), sampled = int64_t(sample.realtime_ns - sample.monotonic_ns);
  CHECK(std::abs(offset - sampled) < 1000000);
  CHECK_EQ(picket_close(handle), PICKET_OK);
}

TEST(clock_thread_keeps_sampling) {
  check::Directory directory;
  picket_options options = options_for(directory);
  options.clock_period_ms = 1;
  picket_t* handle = open_for(options);
  const picket_control* control = picket_control_of(handle);
  uint64_t first = load_relaxed(&control->heartbeat_ns);
  uint64_t written = load_acquire(&control->clock_written);
  CHECK(check::eventually([&] { return load_acquire(&control->clock_written) >= written + 5; }));
  CHECK(load_relaxed(&control->heartbeat_ns) > first);
  picket_close(handle);
}

TEST(phases_are_found_by_their_description) {
  check::Directory directory;
  picket_options options = options_for(directory);
  options.phase_capacity = 4;
  picket_t* handle = open_for(options);
  CHECK_EQ(register_phase(handle, "attention", 0), 0u);
  CHECK_EQ(register_phase(handle, "attention", 1), 1u);
  CHECK_EQ(register_phase(handle, "attention", 0), 0u);
  picket_phase reduce = {"all_reduce", PICKET_KIND_COMM, -1, "all_reduce", "tp", 8192};
  uint32_t id;
  CHECK_EQ(picket_phase_register(handle, &reduce, &id), PICKET_OK);
  auto segment = reader_of(handle);
  const picket_phase_entry& entry = segment->phases()[id];
  CHECK_EQ(std::string(entry.name), "all_reduce");
  CHECK_EQ(std::string(entry.group), "tp");
  CHECK_EQ(entry.bytes, 8192);
  CHECK_EQ(segment->control()->phase_count, 3u);
  register_phase(handle, "mlp");
  picket_phase extra = {"norm", PICKET_KIND_COMPUTE, -1, nullptr, nullptr, -1};
  CHECK_EQ(picket_phase_register(handle, &extra, &id), PICKET_ERR_FULL);
  CHECK(strstr(picket_error(), "raise phase_capacity") != nullptr);
  std::string name(40, 'x');
  extra.name = name.c_str();
  CHECK_EQ(picket_phase_register(handle, &extra, &id), PICKET_ERR_ARGUMENT);
  extra = {"norm", 9, -1, nullptr, nullptr, -1};
  CHECK_EQ(picket_phase_register(handle, &extra, &id), PICKET_ERR_ARGUMENT);
  picket_close(handle);
}

TEST(borders_keep_order_lane_and_time) {
  check::Directory directory;
  picket_t* handle = open_for(options_for(directory));
  uint32_t step = register_phase(handle, "step"), mlp = register_phase(handle, "mlp");
  uint64_t before = monotonic_ns();
  picket_begin(handle, step, nullptr);
  picket_begin(handle, mlp, nullptr);
  picket_end(handle, mlp, nullptr);
  picket_end(handle, step, nullptr);
  std::thread([&] { picket_begin(handle, mlp, nullptr); }).join();
  picket_begin(handle, mlp, reinterpret_cast<void*>(uintptr_t(0x7f0000001000)));
  auto segment = reader_of(handle);
  Fences fences = drain_all(*segment);
  CHECK_EQ(fences.ids.size(), size_t(6));
  uint32_t types[] = {PICKET_FENCE_BEGIN, PICKET_FENCE_BEGIN, PICKET_FENCE_END, PICKET_FENCE_END};
  uint32_t phases[] = {step, mlp, mlp, step};
  for (int i = 0; i < 4; i++) {
    CHECK_EQ(type_of(fences.ids[i]), types[i]);
    CHECK_EQ(phase_of(fences.ids[i]), phases[i]);
    CHECK_EQ(lane_of(fences.ids[i]), 0u);
  }
  CHECK_EQ(lane_of(fences.ids[4]), 1u);
  CHECK_EQ(lane_of(fences.ids[5]), 2u);
  for (size_t i = 0; i < 6; i++) CHECK(fences.times[i] >= (i ? fences.times[i - 1] : before));
  picket_close(handle);
}

TEST(step_carries_its_context_and_requests) {
  check::Directory directory;
  picket_t* handle = open_for(options_for(directory));
  picket_step_payload step = picket_step_unknown();
  CHECK_EQ(step.batch, -1);
  CHECK_EQ(step.requests, 0);
  step.step = int64_t(1) << 40;
  step.batch = 2;
  step.requests = 2;
  std::string longer(100, 'r');
  const char* requests[] = {"cmpl-1", longer.c_str()};
  CHECK_EQ(picket_step(handle, &step, requests, nullptr), PICKET_OK);
  CHECK_EQ(picket_step(handle, &step, nullptr, nullptr), PICKET_ERR_ARGUMENT);
  auto segment = reader_of(handle);
  Fences fences = drain_all(*segment);
  CHECK_EQ(fences.ids.size(), size_t(1));
  CHECK_EQ(type_of(fences.ids[0]), uint32_t(PICKET_FENCE_LINK));
  CHECK_EQ(phase_of(fences.ids[0]), 0u);
  picket_host_record records[8];
  RingReader reader(segment.get());
  CHECK_EQ(reader.drain_hosts(records, 8, 1, false).count, 3u);
  CHECK_EQ(records[0].payload.step.step, int64_t(1) << 40);
  CHECK_EQ(std::string(records[1].payload.request.text), "cmpl-1");
  CHECK_EQ(records[2].payload.request.length, 100);
  CHECK_EQ(records[2].payload.request.text[87], 'r');
  picket_close(handle);
}

TEST(calls_and_marks_carry_their_facts) {
  check::Directory directory;
  picket_t* handle = open_for(options_for(directory));
  uint32_t load = register_phase(handle, "dataload"), reduce = register_phase(handle, "all_reduce");
  picket_call_payload call = {4096, 17, 2, 0};
  CHECK_EQ(picket_mark(handle, load, PICKET_HOST_BEGIN, nullptr), PICKET_OK);
  CHECK_EQ(picket_begin_call(handle, reduce, nullptr, &call), PICKET_OK);
  CHECK_EQ(picket_mark(handle, load, 99, nullptr), PICKET_ERR_ARGUMENT);
  auto segment = reader_of(handle);
  Fences fences = drain_all(*segment);
  CHECK_EQ(fences.ids.size(), size_t(2));
  CHECK_EQ(type_of(fences.ids[0]), uint32_t(PICKET_FENCE_LINK));
  CHECK_EQ(phase_of(fences.ids[0]), 1u);  // the host record's number
  CHECK_EQ(phase_of(fences.ids[1]), reduce);
  CHECK_EQ(fences.times[0], fences.times[1]);
  picket_host_record records[8];
  RingReader reader(segment.get());
  CHECK_EQ(reader.drain_hosts(records, 8, 1, false).count, 2u);
  CHECK_EQ(records[0].type, PICKET_HOST_BEGIN);
  CHECK_EQ(records[0].payload.call.bytes, -1);
  CHECK_EQ(records[1].payload.call.sequence, 17);
  CHECK_EQ(records[1].phase, reduce);
  picket_close(handle);
}

TEST(threads_times_records_are_exactly_accounted) {
  constexpr uint64_t kThreads = 4, kPairs = 100000;
  for (bool stalled : {false, true}) {
    check::Directory directory;
    picket_options options = options_for(directory);
    options.fence_capacity = 4096;
    picket_t* handle = open_for(options);
    uint32_t phase = register_phase(handle, "mlp");
    auto segment = reader_of(handle);
    std::atomic<unsigned> running{kThreads};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; t++)
      threads.emplace_back([&] {
        for (uint64_t i = 0; i < kPairs; i++) {
          picket_begin(handle, phase, nullptr);
          picket_end(handle, phase, nullptr);
        }
        running--;
      });
    if (stalled)
      for (auto& thread : threads) thread.join();
    RingReader reader(segment.get());
    uint64_t received = 0, times[512];
    uint32_t ids[512];
    for (bool ended = false;;) {
      Drained drained = reader.drain_fences(times, ids, 512, monotonic_ns(), ended);
      received += drained.count;
      if (drained.count == 0 && drained.lost == 0 && ended) break;
      ended = running == 0;
    }
    if (!stalled)
      for (auto& thread : threads) thread.join();
    std::printf("  stalled %d: written %llu, received %llu, lost %llu\n", stalled, (unsigned long long)(kThreads * kPairs * 2),
                (unsigned long long)received, (unsigned long long)reader.fences_lost());
    CHECK_EQ(received + reader.fences_lost(), kThreads * kPairs * 2);
    if (stalled) CHECK_EQ(received, 4096u);
    picket_close(handle);
  }
}

TEST(mistakes_are_errors_with_a_message) {
  check::Directory directory;
  picket_options options = options_for(directory);
  picket_t* handle = nullptr;
  options.size = 4;
  CHECK_EQ(picket_open(&options, &handle), PICKET_ERR_ARGUMENT);
  options = options_for(directory);
  options.fence_capacity = 1000;
  CHECK_EQ(picket_open(&options, &handle), PICKET_ERR_ARGUMENT);
  CHECK(strstr(picket_error(), "power of two") != nullptr);
  options = options_for(directory);
  std::string attributes(2048, 'a');
  options.attributes = attributes.c_str();
  CHECK_EQ(picket_open(&options, &handle), PICKET_ERR_ARGUMENT);
  options = options_for(directory);
  options.directory = "/nonexistent";
  CHECK_EQ(picket_open(&options, &handle), PICKET_ERR_SYSTEM);
  CHECK(handle == nullptr);
  CHECK(directory.files().empty());
  handle = open_for(options_for(directory));
  CHECK_EQ(picket_begin(handle, 5, nullptr), PICKET_ERR_ARGUMENT);
  CHECK_EQ(picket_form(handle, 7), PICKET_ERR_ARGUMENT);
  const picket_control* control = picket_control_of(handle);
  CHECK_EQ(control->errors, 2u);
  CHECK_EQ(std::string(control->first_error), "phase 5 was never registered");
  picket_close(handle);
}

TEST(more_streams_than_lanes_is_an_error) {
  check::Directory directory;
  picket_t* handle = open_for(options_for(directory));
  uint32_t phase = register_phase(handle, "mlp");
  for (uintptr_t stream = 1; stream <= PICKET_MAX_LANES; stream++)
    CHECK_EQ(picket_begin(handle, phase, reinterpret_cast<void*>(stream << 32)), PICKET_OK);
  CHECK_EQ(picket_begin(handle, phase, reinterpret_cast<void*>(uintptr_t(1) << 60)), PICKET_ERR_FULL);
  CHECK_EQ(picket_begin(handle, phase, reinterpret_cast<void*>(uintptr_t(1) << 32)), PICKET_OK);
  picket_close(handle);
}

TEST(disabled_and_null_handles_do_nothing) {
  check::Directory directory;
  picket_options options = options_for(directory);
  setenv("PICKET_DISABLE", "1", 1);
  picket_t* handle = reinterpret_cast<picket_t*>(8);
  CHECK_EQ(picket_open(&options, &handle), PICKET_OFF);
  unsetenv("PICKET_DISABLE");
  CHECK(handle == nullptr);
  CHECK(directory.files().empty());
  uint32_t id;
  picket_phase phase = {"mlp", 0, -1, nullptr, nullptr, -1};
  picket_step_payload step = picket_step_unknown();
  CHECK_EQ(picket_phase_register(handle, &phase, &id), PICKET_OFF);
  CHECK_EQ(picket_begin(handle, 0, nullptr), PICKET_OFF);
  CHECK_EQ(picket_end(handle, 0, nullptr), PICKET_OFF);
  CHECK_EQ(picket_step(handle, &step, nullptr, nullptr), PICKET_OFF);
  CHECK_EQ(picket_mark(handle, 0, PICKET_HOST_BEGIN, nullptr), PICKET_OFF);
  CHECK_EQ(picket_close(handle), PICKET_OFF);
  CHECK(picket_control_of(handle) == nullptr);
}

TEST(close_is_seen_and_final) {
  check::Directory directory;
  picket_t* handle = open_for(options_for(directory));
  uint32_t phase = register_phase(handle, "mlp");
  picket_begin(handle, phase, nullptr);
  auto segment = reader_of(handle);
  CHECK(segment->writer_alive());
  CHECK_EQ(picket_close(handle), PICKET_OK);
  CHECK(!segment->writer_alive());
  CHECK_EQ(segment->control()->state, uint32_t(PICKET_STATE_CLOSED));
  CHECK_EQ(picket_begin(handle, phase, nullptr), PICKET_OFF);
  CHECK_EQ(picket_close(handle), PICKET_OFF);
  CHECK_EQ(drain_all(*segment).ids.size(), size_t(1));
}

TEST(forked_child_is_off_and_does_not_hold_the_lock) {
  check::Directory directory;
  picket_t* handle = open_for(options_for(directory));
  uint32_t phase = register_phase(handle, "mlp");
  picket_begin(handle, phase, nullptr);
  int to_child[2], to_parent[2];
  CHECK_EQ(pipe(to_child), 0);
  CHECK_EQ(pipe(to_parent), 0);
  pid_t child = fork();
  char byte = 'x';
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(to_child[1]);
    bool off = picket_begin(handle, phase, nullptr) == PICKET_OFF && picket_close(handle) == PICKET_OFF;
    picket_t* own = open_for(options_for(directory));
    bool on = picket_begin(own, register_phase(own, "mlp"), nullptr) == PICKET_OK;
    byte = off && on ? 'y' : 'n';
    CHECK_EQ(write(to_parent[1], &byte, 1), 1);
    CHECK_EQ(read(to_child[0], &byte, 1), 1);
    exit(0);
  }
  close(to_parent[1]);
  CHECK_EQ(read(to_parent[0], &byte, 1), 1);
  CHECK_EQ(byte, 'y');
  auto segment = reader_of(handle);
  picket_close(handle);
  CHECK(!segment->writer_alive());
  CHECK_EQ(drain_all(*segment).ids.size(), size_t(1));
  CHECK_EQ(write(to_child[1], &byte, 1), 1);
  waitpid(child, nullptr, 0);
}

TEST(exit_closes_and_death_does_not) {
  check::Directory directory;
  for (bool in_order : {true, false}) {
    std::set<std::string> before;
    for (auto& file : directory.files()) before.insert(file);
    in_child([&] {
      open_for(options_for(directory));
      if (in_order) exit(0);
      raise(SIGKILL);
    });
    for (auto& file : directory.files()) {
      if (before.count(file)) continue;
      std::string code, error;
      auto segment = Segment::open(file, false, &code, &error);
      CHECK(!segment->writer_alive());
      CHECK_EQ(segment->control()->state, uint32_t(in_order ? PICKET_STATE_CLOSED : PICKET_STATE_OPEN));
    }
    CHECK_EQ(directory.files().size(), before.size() + 1);
  }
}

TEST(without_a_driver_a_device_is_an_error_and_current_is_the_host) {
  check::Directory directory;
  picket_options options = options_for(directory);
  options.device = PICKET_DEVICE_CURRENT;
  picket_t* handle = open_for(options);
  CHECK_EQ(picket_control_of(handle)->clock_source, uint32_t(PICKET_CLOCK_MONOTONIC));
  picket_close(handle);
  if (dlopen("libcuda.so.1", RTLD_NOW)) return;
  options.device = 0;
  CHECK_EQ(picket_open(&options, &handle), PICKET_ERR_CUDA);
  CHECK(strstr(picket_error(), "no CUDA driver") != nullptr);
  CHECK_EQ(directory.files().size(), size_t(1));
}

MAIN()
