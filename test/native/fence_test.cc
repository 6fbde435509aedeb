// The library's calls on the host clock: what they write, what they count, and what they refuse.
#include <atomic>
#include <cstring>
#include <thread>

#include "library.h"

using namespace check;
using picket::Drained;
using picket::monotonic_ns;

namespace {

uint32_t type_of(uint32_t id) { return id >> PICKET_FENCE_TYPE_SHIFT; }
uint32_t lane_of(uint32_t id) { return id >> PICKET_FENCE_LANE_SHIFT & (PICKET_MAX_LANES - 1); }
uint32_t phase_of(uint32_t id) { return id & 0xffff; }

}  // namespace

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
  constexpr uint64_t kThreads = 4, kPairs = 50000;
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
    std::printf("  stalled %d: written %llu, received %llu, lost %llu\n", stalled,
                (unsigned long long)(kThreads * kPairs * 2), (unsigned long long)received,
                (unsigned long long)reader.fences_lost());
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

MAIN()
