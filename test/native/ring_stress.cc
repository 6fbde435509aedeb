// Many writers against one reader, threads and processes, at full speed: every record is received whole or counted.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "../../native/ring/ring_reader.h"
#include "../../native/ring/ring_writer.h"
#include "check.h"

using namespace picket;

namespace {

constexpr unsigned kWriters = 4;
constexpr uint32_t kPerWriter = 100000;
constexpr SegmentShape kShape = {1024, 64, 8, 4};

std::unique_ptr<Segment> new_segment(const check::Directory& directory) {
  std::string error;
  auto segment = Segment::create(directory.path(), kShape, [](picket_control*) {}, &error);
  CHECK_EQ(error, "");
  return segment;
}

// Both words of a record say who wrote it and its how manieth it is, so that a mixture would show.
uint64_t time_of(uint32_t writer, uint32_t index) {
  return uint64_t(writer) << 48 | uint64_t(index) << 16 | (index * 7919u & 0xffff);
}
uint32_t id_of(uint32_t writer, uint32_t index) { return writer << 30 | index; }

void write_fence(Segment& segment, uint32_t writer, uint32_t index) {
  uint32_t id = id_of(writer, index);
  write_fences(segment.control(), segment.fences(), kShape.fence_capacity, time_of(writer, index), &id, 1);
}
void write_host_record(Segment& segment, uint32_t writer, uint32_t index) {
  picket_host_record record = {};
  record.time_ns = time_of(writer, index);
  record.thread = id_of(writer, index);
  for (uint8_t& byte : record.payload.bytes) byte = uint8_t(index + writer);
  write_host(segment.control(), segment.hosts(), kShape.host_capacity, record);
}

struct Tally {
  uint64_t received = 0, lost = 0, batches = 0;
  uint32_t next[kWriters] = {};
  uint64_t total() const { return received + lost; }
};

void check_record(Tally& tally, uint64_t time, uint32_t id) {
  uint32_t writer = id >> 30, index = id & 0xfffffff;
  CHECK(writer < kWriters);
  CHECK_EQ(time, time_of(writer, index));
  CHECK(index >= tally.next[writer]);  // one writer's records keep their order
  tally.next[writer] = index + 1;
}

void drain_fences(RingReader& reader, Tally& tally, uint64_t now, bool final) {
  static uint64_t times[512];
  static uint32_t ids[512];
  Drained drained = reader.drain_fences(times, ids, 512, now, final);
  for (uint32_t i = 0; i < drained.count; i++) check_record(tally, times[i], ids[i]);
  tally.received += drained.count;
  tally.lost += drained.lost;
  tally.batches++;
}

void drain_hosts(RingReader& reader, Tally& tally, uint64_t now, bool final) {
  static picket_host_record records[32];
  Drained drained = reader.drain_hosts(records, 32, now, final);
  for (uint32_t i = 0; i < drained.count; i++) {
    check_record(tally, records[i].time_ns, records[i].thread);
    uint8_t expected = uint8_t((records[i].thread & 0xfffffff) + (records[i].thread >> 30));
    for (uint8_t byte : records[i].payload.bytes) CHECK_EQ(byte, expected);
  }
  tally.received += drained.count;
  tally.lost += drained.lost;
}

// Reads until nothing is left after `done`.
template <typename Drain, typename Done>
void drain_until(Drain drain, Done done, RingReader& reader, Tally& tally) {
  for (bool last = false;;) {
    bool ended = done();
    uint64_t before = tally.total();
    drain(reader, tally, monotonic_ns(), ended);
    if (ended && tally.total() == before) {
      if (last) return;
      last = true;
    } else {
      last = false;
    }
  }
}

template <typename Write>
std::vector<std::thread> start_threads(Segment& segment, std::atomic<unsigned>& running, Write write) {
  std::vector<std::thread> threads;
  for (uint32_t writer = 0; writer < kWriters; writer++)
    threads.emplace_back([&segment, &running, write, writer] {
      for (uint32_t i = 0; i < kPerWriter; i++) write(segment, writer, i);
      running--;
    });
  return threads;
}

template <typename Write, typename Drain>
void run_threads(const char* what, Write write, Drain drain, const uint64_t picket_control::*claimed, uint64_t stall) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  std::atomic<unsigned> running{kWriters};
  auto threads = start_threads(*segment, running, write);
  const picket_control* control = segment->control();
  CHECK(check::eventually([&] { return load_relaxed(&(control->*claimed)) >= stall; }));
  Tally tally;
  drain_until(drain, [&] { return running == 0; }, reader, tally);
  for (auto& thread : threads) thread.join();
  std::printf("  %s, reader stalled for the first %llu: written %u, received %llu, lost %llu\n", what,
              (unsigned long long)stall, kWriters * kPerWriter, (unsigned long long)tally.received,
              (unsigned long long)tally.lost);
  CHECK_EQ(tally.total(), uint64_t(kWriters) * kPerWriter);
  CHECK(tally.received > 0);
}

}  // namespace

TEST(fences_of_threads_are_exactly_accounted) {
  for (uint64_t stall : {uint64_t(0), uint64_t(100000), uint64_t(kWriters) * kPerWriter})
    run_threads("fences", write_fence, drain_fences, &picket_control::fence_claimed, stall);
}

TEST(host_records_of_threads_are_exactly_accounted) {
  for (uint64_t stall : {uint64_t(0), uint64_t(100000), uint64_t(kWriters) * kPerWriter})
    run_threads("host records", write_host_record, drain_hosts, &picket_control::host_claimed, stall);
}

// Processes share the mapping; one is killed wherever it happens to be.
TEST(fences_of_killed_processes_are_exactly_accounted) {
  for (int round = 0; round < 20; round++) {
    check::Directory directory;
    auto segment = new_segment(directory);
    RingReader reader(segment.get());
    pid_t children[kWriters];
    for (uint32_t writer = 0; writer < kWriters; writer++) {
      children[writer] = fork();
      if (children[writer] != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (uint32_t i = 0;; i = (i + 1) & 0xfffffff) write_fence(*segment, writer, i);
    }
    Tally tally;
    uint64_t until = uint64_t(round + 1) * 3000;
    CHECK(check::eventually([&] {
      drain_fences(reader, tally, monotonic_ns(), false);
      return tally.total() >= until;
    }));
    for (pid_t child : children) kill(child, SIGKILL);
    for (pid_t child : children) waitpid(child, nullptr, 0);
    drain_until(drain_fences, [] { return true; }, reader, tally);
    CHECK_EQ(tally.total(), segment->control()->fence_claimed);
  }
}

MAIN()
