// Segment files: name, locks, life and death of the writer, and what a reader refuses.
#include "../../native/ring/segment.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <fstream>

#include "check.h"

using namespace picket;

namespace {

constexpr SegmentShape kShape = {16, 8, 8, 4};

std::unique_ptr<Segment> new_segment(const check::Directory& directory) {
  std::string error;
  auto segment = Segment::create(directory.path(), kShape, [](picket_control*) {}, &error);
  CHECK_EQ(error, "");
  return segment;
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
  for (const uint8_t* byte = c->reserved6; byte < reinterpret_cast<const uint8_t*>(c->attributes); byte++)
    CHECK_EQ(*byte, 0);
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
  CHECK(text.find("segment version 2.1, this reader understands 1.x") != std::string::npos);
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
    if (damage.bytes == 4)
      patch(segment->path(), damage.offset, uint32_t(damage.value));
    else
      patch(segment->path(), damage.offset, damage.value);
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
