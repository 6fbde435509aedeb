// Opening, closing, forking, exiting and dying: what the library leaves for its reader, and that it never breaks its
// caller.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstring>
#include <set>

#include "../../native/ring/atomics.h"
#include "library.h"

using namespace check;
using picket::load_acquire;
using picket::load_relaxed;
using picket::monotonic_ns;
using picket::realtime_ns;

namespace {

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
