#include "ring_reader.h"

#include "atomics.h"
#include "ring_writer.h"

namespace picket {
namespace {

constexpr uint64_t kTimeMask = (uint64_t(1) << PICKET_FENCE_LAP_SHIFT) - 1;

}  // namespace

RingReader::RingReader(Segment* segment)
    : segment_(segment),
      fence_capacity_(segment->constant().fence_capacity),
      host_capacity_(segment->constant().host_capacity),
      clock_capacity_(segment->constant().clock_capacity),
      fence_log2_(unsigned(__builtin_ctz(segment->constant().fence_capacity))),
      host_clock_(segment->constant().clock_source == PICKET_CLOCK_MONOTONIC) {
  const picket_control* control = segment->control();
  fence_ = {load_acquire(&control->fence_read), load_acquire(&control->fence_lost), 0};
  host_ = {load_acquire(&control->host_read), load_acquire(&control->host_lost), 0};
}

RingReader::Look RingReader::look_fence(uint64_t number, uint64_t* time, uint32_t* id) const {
  const picket_fence_record* slot = segment_->fences() + (number & (fence_capacity_ - 1));
  uint64_t identity = load_acquire(&slot->identity);
  int32_t ahead = fence_ahead(identity, number);
  if (ahead > 0) return {Slot::kOvertaken, uint64_t(ahead)};
  if (ahead < 0 || identity & PICKET_FENCE_BUSY) return {Slot::kMissing};
  uint64_t stamp = load_acquire(&slot->stamp);
  // Overwritten or half-written between the two loads: the next look tells.
  if (load_relaxed(&slot->identity) != identity) return {Slot::kMissing};
  if (stamp >> PICKET_FENCE_LAP_SHIFT != (((number >> fence_log2_) + 1) & 3)) return {Slot::kMissing};
  *time = stamp & kTimeMask;
  *id = uint32_t(identity);
  return {Slot::kReady};
}

RingReader::Look RingReader::look_host(uint64_t number, picket_host_record* record) const {
  const picket_host_record* slot = segment_->hosts() + (number & (host_capacity_ - 1));
  uint64_t done = (number + 1) << 1;
  uint64_t commit = load_acquire(&slot->commit);
  if (commit < done || commit == (done | 1)) return {Slot::kMissing};
  if (commit > done) return {Slot::kOvertaken, (commit >> 1) - (number + 1)};
  copy_words(record, slot, sizeof(*record));
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return {load_relaxed(&slot->commit) == done ? Slot::kReady : Slot::kMissing};
}

// take(number, index) copies a record to place `index` of the output; peek(number) only looks.
template <typename Take, typename Peek>
Drained RingReader::drain(Position* position, uint32_t max, uint32_t capacity, uint64_t claimed, uint64_t now_ns,
                          bool final, Take take, Peek peek) {
  Drained result;
  auto lose = [&](uint64_t records) {
    position->next += records;
    position->lost += records;
    position->blocked_since_ns = 0;
    result.lost += records;
  };
  if (claimed > position->next + capacity) lose(claimed - capacity - position->next);
  // A writer that laps the reader again and again must not hold it here.
  for (int jumps = 0; result.count < max && jumps < 64;) {
    Look look = take(position->next, result.count);
    if (look.slot == Slot::kReady) {
      if (result.count++ == 0) result.first = position->next;
      position->next++;
      position->blocked_since_ns = 0;
      continue;
    }
    if (result.count != 0) break;  // a gap goes before a batch, never inside
    jumps++;
    if (look.slot == Slot::kOvertaken) {
      // The slot's owner is now next + ahead, so all up to one capacity before it is gone, and perhaps some after.
      uint64_t low = look.ahead > capacity ? look.ahead - capacity + 1 : 1, high = low + capacity;
      while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (peek(position->next + middle).slot == Slot::kOvertaken)
          low = middle + 1;
        else
          high = middle;
      }
      lose(low);
      continue;
    }
    if (!final && claimed <= position->next) break;  // read up
    if (position->blocked_since_ns == 0) position->blocked_since_ns = now_ns;
    if (!final && now_ns - position->blocked_since_ns < kHoleTimeoutNs) break;
    position->blocked_since_ns = now_ns;
    uint64_t later = 1;
    while (later < capacity && peek(position->next + later).slot != Slot::kReady) later++;
    if (later < capacity) {
      lose(later);
      continue;
    }
    if (final && claimed > position->next) lose(claimed - position->next);
    break;
  }
  return result;
}

Drained RingReader::drain_fences(uint64_t* times, uint32_t* ids, uint32_t max, uint64_t now_ns, bool final) {
  uint64_t claimed = load_acquire(&segment_->control()->fence_claimed);
  auto take = [&](uint64_t number, uint32_t index) { return look_fence(number, times + index, ids + index); };
  auto peek = [&](uint64_t number) {
    uint64_t time;
    uint32_t id;
    return look_fence(number, &time, &id);
  };
  return drain(&fence_, max, fence_capacity_, claimed, now_ns, final, take, peek);
}

Drained RingReader::drain_hosts(picket_host_record* records, uint32_t max, uint64_t now_ns, bool final) {
  uint64_t claimed = load_acquire(&segment_->control()->host_claimed);
  auto take = [&](uint64_t number, uint32_t index) { return look_host(number, records + index); };
  auto peek = [&](uint64_t number) {
    picket_host_record record;
    return look_host(number, &record);
  };
  return drain(&host_, max, host_capacity_, claimed, now_ns, final, take, peek);
}

uint32_t RingReader::drain_clocks(picket_clock_sample* samples, uint32_t max) {
  uint64_t written = load_acquire(&segment_->control()->clock_written);
  if (written > clock_next_ + clock_capacity_) clock_next_ = written - clock_capacity_;
  uint32_t count = 0;
  for (; clock_next_ < written && count < max; clock_next_++) {
    const picket_clock_sample* slot = segment_->clocks() + (clock_next_ & (clock_capacity_ - 1));
    uint64_t commit = load_acquire(&slot->commit);
    copy_words(samples + count, slot, sizeof(*slot));
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (commit == clock_next_ + 1 && load_relaxed(&slot->commit) == commit) count++;
  }
  return count;
}

void RingReader::commit() {
  picket_control* control = segment_->control();
  store_release(&control->fence_read, fence_.next);
  store_release(&control->fence_lost, fence_.lost);
  store_release(&control->host_read, host_.next);
  store_release(&control->host_lost, host_.lost);
}

}  // namespace picket
