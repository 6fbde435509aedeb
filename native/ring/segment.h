// A segment file: creating, mapping, locking and checking it. Knows the layout, not the ring protocols.
#pragma once

#include <memory>
#include <string>

#include "../include/picket_ring.h"

namespace picket {

struct SegmentShape {
  uint32_t fence_capacity, host_capacity, phase_capacity, clock_capacity;
};

class Segment {
 public:
  // Creates a segment in `directory`, filled in by `describe` before it gets its name, and locks it for this writer.
  // Returns null and a message when the directory is full, missing or not writable.
  template <typename Describe>
  static std::unique_ptr<Segment> create(const std::string& directory, const SegmentShape& shape, Describe describe,
                                         std::string* error) {
    auto segment = allocate(directory, shape, error);
    if (!segment) return nullptr;
    describe(segment->control());
    return segment->publish(directory, error) ? std::move(segment) : nullptr;
  }

  // Maps an existing segment. With `consume` the mapping is writable and this reader takes the reader's lock.
  // `code` tells the kind of failure: not_found, not_a_segment, version, damaged, in_use, system.
  static std::unique_ptr<Segment> open(const std::string& path, bool consume, std::string* code, std::string* error);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  picket_control* control() const { return reinterpret_cast<picket_control*>(base_); }
  // The constant part as it was checked: a writer gone wild cannot move the regions under a reader.
  const picket_control& constant() const { return constant_; }
  picket_fence_record* fences() const { return at<picket_fence_record>(constant_.fence_offset); }
  picket_host_record* hosts() const { return at<picket_host_record>(constant_.host_offset); }
  picket_phase_entry* phases() const { return at<picket_phase_entry>(constant_.phase_offset); }
  picket_clock_sample* clocks() const { return at<picket_clock_sample>(constant_.clock_offset); }
  const std::string& path() const { return path_; }
  uint8_t* base() const { return base_; }
  size_t size() const { return size_; }

  // The writer's lock is held: it lives, whatever PID namespace it is in.
  bool writer_alive() const;
  // The path no longer leads to this file.
  bool replaced() const;
  // Takes the name away again.
  void unpublish();
  // Closes the file and ends the lock (in a forked child: its share of it), but keeps the mapping.
  void drop_descriptor();

 private:
  Segment() = default;
  static std::unique_ptr<Segment> allocate(const std::string& directory, const SegmentShape& shape, std::string* error);
  bool publish(const std::string& directory, std::string* error);
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  int fd_ = -1;
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  picket_control constant_ = {};
  std::string path_;
};

// $PICKET_DIR or /dev/shm.
std::string default_directory();

// Removes segments in `directory` whose writer is dead and whose last heartbeat is older than `age_ns`, so that shared
// memory does not fill up on a host without a collector.
void sweep_dead_segments(const std::string& directory, uint64_t age_ns);

}  // namespace picket
