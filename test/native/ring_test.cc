// Segment and ring protocols, one thread: what is visible, what is lost, what is refused.
#include "../../native/ring/ring_reader.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>

#include "../../native/ring/ring_writer.h"
#include "check.h"

using namespace picket;

namespace {

constexpr uint32_t kCapacity = 16;
constexpr SegmentShape kShape = {kCapacity, 8, 8, 4};

std::unique_ptr<Segment> new_segment(const check::Directory& directory) {
  std::string error;
  auto segment = Segment::create(directory.path(), kShape, [](picket_control*) {}, &error);
  CHECK_EQ(error, "");
  return segment;
}

// Lays record `number` into its slot by hand.
void lay(Segment& segment, uint64_t number, uint64_t time, uint32_t id) {
  picket_fence_record* slot = segment.fences() + number % kCapacity;
  slot->stamp = fence_stamp(time, number, 4);
  slot->identity = fence_identity(id, number);
}

struct Batch {
  Drained drained;
  uint64_t times[64];
  uint32_t ids[64];
};
Batch take(RingReader& reader, uint64_t now = 1, bool final = false, uint32_t max = 64) {
  Batch batch;
  batch.drained = reader.drain_fences(batch.times, batch.ids, max, now, final);
  return batch;
}

std::string refusal(const std::string& path, std::string* code) {
  std::string error;
  CHECK(Segment::open(path, false, code, &error) == nullptr);
  return error;
}

// Changes bytes of the file as another writer, or damage, would have left them.
template <typename T>
void patch(const std::string& path, size_t offset, T value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(long(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

TEST(segment_has_its_name_and_only_then_its_contents) {
  check::Directory directory;
  auto segment = new_segment(directory);
  CHECK_EQ(directory.files().size(), size_t(1));
  CHECK_EQ(segment->path(), directory.files()[0]);
  CHECK(segment->path().find("/picket-" + std::to_string(getpid()) + "-") != std::string::npos);
  auto second = new_segment(directory);
  CHECK(second->path() != segment->path());
  const picket_control* c = segment->control();
  for (const uint8_t* byte = c->reserved6; byte < reinterpret_cast<const uint8_t*>(c->attributes); byte++) CHECK_EQ(*byte, 0);
}

TEST(writer_lock_tells_life_and_reader_lock_excludes) {
  check::Directory directory;
  auto writer = new_segment(directory);
  std::string path = writer->path(), code, error;
  auto peek = Segment::open(path, false, &code, &error);
  CHECK(peek->writer_alive());
  auto reader = Segment::open(path, true, &code, &error);
  CHECK(reader != nullptr);
  CHECK(Segment::open(path, true, &code, &error) == nullptr);
  CHECK_EQ(code, "in_use");
  writer.reset();
  CHECK(!peek->writer_alive());
  CHECK(!reader->replaced());
  unlink(path.c_str());
  CHECK(reader->replaced());
}

TEST(killed_writer_is_dead_for_its_readers) {
  check::Directory directory;
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto segment = new_segment(directory);
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    for (;;) pause();
  }
  char ready;
  CHECK_EQ(read(pipes[0], &ready, 1), 1);
  std::string code, error;
  auto reader = Segment::open(directory.files()[0], true, &code, &error);
  CHECK(reader->writer_alive());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(!reader->writer_alive());
}

TEST(foreign_files_are_refused_by_kind) {
  check::Directory directory;
  std::string code, path = directory.path() + "/picket-1-1-0";
  refusal(path, &code);
  CHECK_EQ(code, "not_found");
  std::ofstream(path) << "hello";
  CHECK_EQ(refusal(path, &code), path + ": not a picket segment");
  CHECK_EQ(code, "not_a_segment");
  auto segment = new_segment(directory);
  path = segment->path();
  patch(path, offsetof(picket_control, version_major), uint16_t(2));
  std::string text = refusal(path, &code);
  CHECK_EQ(code, "version");
  CHECK(text.find("segment version 2.0, this reader understands 1.x") != std::string::npos);
  patch(path, offsetof(picket_control, version_major), uint16_t(1));
  patch(path, offsetof(picket_control, version_minor), uint16_t(7));
  std::string error;
  CHECK(Segment::open(path, false, &code, &error) != nullptr);
}

TEST(impossible_layouts_are_refused) {
  struct Damage {
    size_t offset;
    uint64_t value;
    unsigned bytes;
  };
  for (Damage damage : {Damage{offsetof(picket_control, fence_capacity), 1u << 30, 4},
                        {offsetof(picket_control, fence_capacity), 12, 4},
                        {offsetof(picket_control, host_capacity), 0, 4},
                        {offsetof(picket_control, host_record_size), 64, 4},
                        {offsetof(picket_control, fence_offset), 8, 8},
                        {offsetof(picket_control, clock_offset), ~uint64_t(4095), 8},
                        {offsetof(picket_control, segment_size), uint64_t(1) << 40, 8}}) {
    check::Directory directory;
    auto segment = new_segment(directory);
    std::string code;
    if (damage.bytes == 4) patch(segment->path(), damage.offset, uint32_t(damage.value));
    else patch(segment->path(), damage.offset, damage.value);
    refusal(segment->path(), &code);
    CHECK_EQ(code, "damaged");
  }
}

TEST(no_room_is_an_error_not_a_bus_error) {
  std::string error;
  SegmentShape huge = {1u << 28, 1u << 15, 1u << 16, 256};
  check::Directory directory;
  CHECK(Segment::create(directory.path() + "/absent", kShape, [](picket_control*) {}, &error) == nullptr);
  CHECK(error.find("cannot create a segment in") == 0);
  // Only where the file system is smaller than 4 GiB.
  if (std::filesystem::space(directory.path()).available > (uint64_t(1) << 32)) return;
  CHECK(Segment::create(directory.path(), huge, [](picket_control*) {}, &error) == nullptr);
  CHECK(error.find("no room for") == 0);
  CHECK(directory.files().empty());
}

TEST(record_is_visible_only_when_both_words_are_its_own) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  CHECK_EQ(take(reader).drained.count, 0u);
  // First lap, identity before stamp: the slot's fresh zeros must not pass for a time.
  segment->fences()[0].identity = fence_identity(7, 0);
  CHECK_EQ(take(reader).drained.count, 0u);
  segment->fences()[0].stamp = fence_stamp(1000, 0, 4);
  Batch batch = take(reader);
  CHECK_EQ(batch.drained.count, 1u);
  CHECK_EQ(batch.times[0], 1000u);
  CHECK_EQ(batch.ids[0], 7u);
  // Next laps, either half first.
  for (uint64_t n = 1; n < 6 * kCapacity; n++) {
    picket_fence_record* slot = segment->fences() + n % kCapacity;
    if (n % 2) slot->identity = fence_identity(uint32_t(n), n);
    else slot->stamp = fence_stamp(n, n, 4);
    CHECK_EQ(take(reader).drained.count, 0u);
    lay(*segment, n, n, uint32_t(n));
    CHECK_EQ(take(reader).drained.count, 1u);
  }
  CHECK_EQ(reader.fences_lost(), 0u);
}

TEST(overwritten_records_are_counted) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  uint64_t received = 0, lost = 0, written = 0;
  for (uint64_t burst : {3u, 16u, 17u, 40u, 1u, 200u}) {
    for (uint64_t i = 0; i < burst; i++, written++) lay(*segment, written, written, uint32_t(written));
    for (;;) {
      Batch batch = take(reader, 1, false, 5);
      lost += batch.drained.lost;
      if (batch.drained.count == 0) break;
      CHECK_EQ(batch.drained.first, received + lost);
      CHECK_EQ(batch.times[0], batch.drained.first);
      received += batch.drained.count;
    }
    CHECK_EQ(received + lost, written);
  }
  CHECK_EQ(received, 3u + 16 + 16 + 16 + 1 + 16);
  CHECK_EQ(reader.fences_lost(), lost);
}

TEST(known_claims_resolve_what_sequences_cannot) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  // More than 2^31 behind: the sequence alone would read as "not yet".
  uint64_t newest = (uint64_t(3) << 31) + 5;
  segment->control()->fence_claimed = newest + 1;
  for (uint64_t n = newest + 1 - kCapacity; n <= newest; n++) lay(*segment, n, n, 0);
  Batch batch = take(reader);
  CHECK_EQ(batch.drained.count, kCapacity);
  CHECK_EQ(batch.drained.lost, newest + 1 - kCapacity);
}

TEST(sequence_wraps_at_32_bits) {
  check::Directory directory;
  auto segment = new_segment(directory);
  uint64_t start = (uint64_t(1) << 32) - 5;
  segment->control()->fence_read = start;
  RingReader reader(segment.get());
  for (uint64_t n = start; n < start + 10; n++) lay(*segment, n, n, 1);
  Batch batch = take(reader);
  CHECK_EQ(batch.drained.count, 10u);
  CHECK_EQ(batch.drained.lost, 0u);
  CHECK_EQ(batch.times[9], start + 9);
}

TEST(hole_ends_a_batch_and_is_lost_after_a_second) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  segment->control()->fence_claimed = 6;
  for (uint64_t n : {0, 1, 3, 4, 5}) lay(*segment, n, n, 0);
  CHECK_EQ(take(reader, 100).drained.count, 2u);
  CHECK_EQ(take(reader, 100).drained.count, 0u);
  CHECK_EQ(take(reader, 99 + kHoleTimeoutNs).drained.count, 0u);
  Batch batch = take(reader, 100 + kHoleTimeoutNs);
  CHECK_EQ(batch.drained.count, 3u);
  CHECK_EQ(batch.drained.lost, 1u);
  CHECK_EQ(batch.drained.first, 3u);
}

TEST(dead_writers_holes_are_not_waited_for) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  segment->control()->fence_claimed = 9;
  for (uint64_t n : {0, 3, 4}) lay(*segment, n, n, 0);
  CHECK_EQ(take(reader, 1, true).drained.count, 1u);
  Batch batch = take(reader, 1, true);
  CHECK_EQ(batch.drained.count, 2u);
  CHECK_EQ(batch.drained.lost, 2u);
  batch = take(reader, 1, true);
  CHECK_EQ(batch.drained.count, 0u);
  CHECK_EQ(batch.drained.lost, 4u);
  CHECK_EQ(take(reader, 1, true).drained.lost, 0u);
}

TEST(next_reader_goes_on_where_the_last_committed) {
  check::Directory directory;
  auto segment = new_segment(directory);
  for (uint64_t n = 0; n < 20; n++) lay(*segment, n, n, 0);
  RingReader first(segment.get());
  CHECK_EQ(take(first, 1, false, 3).drained.lost, 4u);
  first.commit();
  CHECK_EQ(take(first, 1, false, 3).drained.count, 3u);
  RingReader second(segment.get());
  CHECK_EQ(second.fences_lost(), 4u);
  CHECK_EQ(take(second).drained.first, 7u);
}

TEST(host_records_arrive_whole_or_are_counted) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  picket_control* control = segment->control();
  picket_host_record records[32], record = {};
  auto put = [&](uint64_t time) {
    record.time_ns = time;
    memset(record.payload.bytes, int(time), sizeof(record.payload.bytes));
    return write_host(control, segment->hosts(), kShape.host_capacity, record);
  };
  for (uint64_t i = 0; i < 5; i++) CHECK_EQ(put(i), i);
  Drained drained = reader.drain_hosts(records, 32, 1, false);
  CHECK_EQ(drained.count, 5u);
  CHECK_EQ(records[4].payload.bytes[103], 4);
  for (uint64_t i = 5; i < 30; i++) put(i);
  drained = reader.drain_hosts(records, 32, 1, false);
  CHECK_EQ(drained.count, 8u);
  CHECK_EQ(drained.lost, 17u);
  CHECK_EQ(records[0].time_ns, 22u);
  // A writer stuck in slot 30 % 8 makes the next lap's record there a counted loss, not a torn one.
  picket_host_record* slot = segment->hosts() + 30 % 8;
  add_relaxed(&control->host_claimed, uint64_t(1));
  store_relaxed(&slot->commit, uint64_t(31 << 1 | 1));
  for (uint64_t i = 31; i < 41; i++) put(i);
  CHECK_EQ(slot->commit, uint64_t(31 << 1 | 1));
  drained = reader.drain_hosts(records, 32, 5, false);
  CHECK_EQ(drained.lost, 3u);  // numbers 30 to 32, by the count of claims
  uint64_t received = drained.count;
  for (int i = 0; i < 4; i++) received += reader.drain_hosts(records, 32, 5 + i * 2 * kHoleTimeoutNs, false).count;
  CHECK_EQ(received, 7u);
  CHECK_EQ(reader.hosts_lost(), 17u + 4);
}

TEST(clock_samples_come_in_order_and_skip_overwritten) {
  check::Directory directory;
  auto segment = new_segment(directory);
  RingReader reader(segment.get());
  picket_clock_sample samples[8];
  for (uint64_t i = 0; i < 6; i++) {
    segment->clocks()[i % 4] = {i + 1, i * 10, i, i, 1, 0, {}};
    segment->control()->clock_written = i + 1;
    if (i == 0) CHECK_EQ(reader.drain_clocks(samples, 8), 1u);
  }
  CHECK_EQ(reader.drain_clocks(samples, 2), 2u);
  CHECK_EQ(samples[0].gpu_ns, 20u);
  CHECK_EQ(reader.drain_clocks(samples, 8), 2u);
  CHECK_EQ(samples[1].gpu_ns, 50u);
}

TEST(sweep_removes_only_the_long_dead) {
  check::Directory directory;
  auto alive = new_segment(directory);
  auto dead = new_segment(directory);
  auto fresh = new_segment(directory);
  alive->control()->heartbeat_ns = 1;
  dead->control()->heartbeat_ns = 1;
  std::string alive_path = alive->path(), fresh_path = fresh->path();
  dead.reset();
  fresh.reset();
  sweep_dead_segments(directory.path(), 60000000000u);
  auto files = directory.files();
  CHECK_EQ(files.size(), size_t(2));
  CHECK(std::filesystem::exists(alive_path));
  CHECK(std::filesystem::exists(fresh_path));
}

MAIN()
