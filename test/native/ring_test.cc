// Ring protocols, one thread: what is visible, what is lost, and in which order.
#include <cstring>

#include "../../native/ring/ring_reader.h"
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

}  // namespace

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
    if (n % 2)
      slot->identity = fence_identity(uint32_t(n), n);
    else
      slot->stamp = fence_stamp(n, n, 4);
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

TEST(reader_far_behind_catches_up_in_one_call) {
  check::Directory directory;
  std::string error;
  constexpr uint64_t kLarge = 1024, kWritten = 5300;
  auto segment = Segment::create(directory.path(), {kLarge, 8, 8, 4}, [](picket_control*) {}, &error);
  uint32_t id = 0;
  for (uint64_t i = 0; i < kWritten; i++) write_fences(segment->control(), segment->fences(), kLarge, i, &id, 1);
  segment->control()->fence_claimed = 2000;  // as a GPU's, which lags behind
  RingReader reader(segment.get());
  Batch batch = take(reader);
  CHECK_EQ(batch.drained.count, 64u);
  CHECK_EQ(batch.drained.lost, kWritten - kLarge);
  CHECK_EQ(batch.times[0], kWritten - kLarge);
}

MAIN()
