#include "segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include "atomics.h"
#include "clock.h"

namespace picket {
namespace {

constexpr uint64_t kPage = 4096;

std::string reason(const std::string& what) { return what + ": " + strerror(errno); }

// Takes (F_OFD_SETLK) or asks for (F_OFD_GETLK) the lock on one byte. Returns false when another holds it.
bool lock_byte(int fd, int command, off_t byte, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (fcntl(fd, command, &lock) != 0) return false;
  return command == F_OFD_SETLK || lock.l_type == F_UNLCK;
}

uint64_t round_to_page(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Field 22 of /proc/self/stat: when this process started, so that a reused pid is another name.
uint64_t own_start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto close = text.rfind(')');
  if (close == std::string::npos) return 0;
  std::istringstream rest(text.substr(close + 2));
  std::string field;
  for (int i = 3; i <= 22; i++) rest >> field;
  return strtoull(field.c_str(), nullptr, 10);
}

void lay_out(picket_control* control, const SegmentShape& shape) {
  control->magic = PICKET_RING_MAGIC;
  control->version_major = PICKET_RING_VERSION_MAJOR;
  control->version_minor = PICKET_RING_VERSION_MINOR;
  control->control_size = sizeof(picket_control);
  control->fence_record_size = sizeof(picket_fence_record);
  control->host_record_size = sizeof(picket_host_record);
  control->phase_entry_size = sizeof(picket_phase_entry);
  control->clock_sample_size = sizeof(picket_clock_sample);
  control->fence_capacity = shape.fence_capacity;
  control->host_capacity = shape.host_capacity;
  control->phase_capacity = shape.phase_capacity;
  control->clock_capacity = shape.clock_capacity;
  control->fence_offset = sizeof(picket_control);
  control->host_offset = round_to_page(control->fence_offset + sizeof(picket_fence_record) * shape.fence_capacity);
  control->phase_offset = round_to_page(control->host_offset + sizeof(picket_host_record) * shape.host_capacity);
  control->clock_offset = round_to_page(control->phase_offset + sizeof(picket_phase_entry) * shape.phase_capacity);
  control->segment_size = round_to_page(control->clock_offset + sizeof(picket_clock_sample) * shape.clock_capacity);
  control->device = -1;
  control->pid = uint32_t(getpid());
  control->pid_start_ticks = own_start_ticks();
  struct stat ns;
  if (stat("/proc/self/ns/pid", &ns) == 0) control->pid_namespace = ns.st_ino;
  control->created_realtime_ns = realtime_ns();
  control->created_monotonic_ns = monotonic_ns();
  control->heartbeat_ns = control->created_monotonic_ns;
  control->state = PICKET_STATE_OPEN;
}

bool region_fits(uint64_t offset, uint32_t capacity, uint64_t record, uint64_t from, uint64_t to) {
  bool power_of_two = capacity != 0 && (capacity & (capacity - 1)) == 0;
  return power_of_two && offset % kPage == 0 && offset >= from && offset <= to &&
         uint64_t(capacity) * record <= to - offset;
}

// What is wrong with the control block of a file of `file_size` bytes; empty when nothing is.
std::string damage_of(const picket_control* c, uint64_t file_size) {
  if (c->control_size != sizeof(picket_control) || c->fence_record_size != sizeof(picket_fence_record) ||
      c->host_record_size != sizeof(picket_host_record) || c->phase_entry_size != sizeof(picket_phase_entry) ||
      c->clock_sample_size != sizeof(picket_clock_sample))
    return "record sizes differ from this version's";
  if (c->segment_size > file_size) return "the file is shorter than its segment_size";
  if (!region_fits(c->fence_offset, c->fence_capacity, sizeof(picket_fence_record), kPage, c->host_offset) ||
      !region_fits(c->host_offset, c->host_capacity, sizeof(picket_host_record), c->fence_offset, c->phase_offset) ||
      !region_fits(c->phase_offset, c->phase_capacity, sizeof(picket_phase_entry), c->host_offset, c->clock_offset) ||
      !region_fits(c->clock_offset, c->clock_capacity, sizeof(picket_clock_sample), c->phase_offset, c->segment_size))
    return "a capacity or offset is impossible";
  if (c->host_capacity > PICKET_MAX_HOST_CAPACITY || c->phase_capacity > PICKET_MAX_PHASES)
    return "a capacity is beyond its limit";
  return "";
}

}  // namespace

std::string default_directory() {
  const char* directory = getenv("PICKET_DIR");
  return directory && *directory ? directory : "/dev/shm";
}

std::unique_ptr<Segment> Segment::allocate(const std::string& directory, const SegmentShape& shape,
                                           std::string* error) {
  static std::atomic<unsigned> counter{0};
  picket_control layout = {};
  lay_out(&layout, shape);
  std::unique_ptr<Segment> segment(new Segment);
  std::ostringstream name;
  name << directory << "/." << PICKET_SEGMENT_PREFIX << getpid() << "-" << layout.created_monotonic_ns << "-"
       << counter++;
  segment->path_ = name.str();
  segment->size_ = layout.segment_size;
  segment->fd_ = ::open(name.str().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (segment->fd_ < 0) return *error = reason("cannot create a segment in " + directory), nullptr;
  // Reserved now: a tmpfs that fills up later would otherwise kill the engine with SIGBUS.
  int full = posix_fallocate(segment->fd_, 0, off_t(segment->size_));
  if (full != 0) {
    errno = full;
    *error = reason("no room for " + std::to_string(segment->size_) + " bytes in " + directory);
    unlink(segment->path_.c_str());
    return nullptr;
  }
  void* base = mmap(nullptr, segment->size_, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd_, 0);
  // The lock needs an open file of its own: a forked child keeps the mapped one alive, and with it a lock on it.
  close(segment->fd_);
  segment->fd_ = ::open(segment->path_.c_str(), O_RDWR | O_CLOEXEC);
  if (base == MAP_FAILED || !lock_byte(segment->fd_, F_OFD_SETLK, PICKET_LOCK_WRITER, F_WRLCK)) {
    *error = reason(base == MAP_FAILED ? "cannot map a segment" : "cannot lock a segment in " + directory);
    unlink(segment->path_.c_str());
    return nullptr;
  }
  segment->base_ = static_cast<uint8_t*>(base);
  *segment->control() = layout;
  return segment;
}

bool Segment::publish(const std::string& directory, std::string* error) {
  constant_ = *control();
  std::string temporary = path_;
  for (unsigned n = 0;; n++) {
    std::ostringstream name;
    name << directory << "/" << PICKET_SEGMENT_PREFIX << control()->pid << "-" << control()->pid_start_ticks << "-"
         << n;
    path_ = name.str();
    if (link(temporary.c_str(), path_.c_str()) == 0) break;
    if (errno == EEXIST) continue;
    *error = reason("cannot name the segment " + path_);
    unlink(temporary.c_str());
    return false;
  }
  unlink(temporary.c_str());
  return true;
}

std::unique_ptr<Segment> Segment::open(const std::string& path, bool consume, std::string* code, std::string* error) {
  auto fail = [&](const char* kind, const std::string& text) {
    *code = kind;
    *error = path + ": " + text;
    return nullptr;
  };
  std::unique_ptr<Segment> segment(new Segment);
  segment->path_ = path;
  segment->fd_ = ::open(path.c_str(), (consume ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (segment->fd_ < 0) return fail(errno == ENOENT ? "not_found" : "system", strerror(errno));
  struct stat file;
  picket_control head;
  if (fstat(segment->fd_, &file) != 0) return fail("system", strerror(errno));
  if (pread(segment->fd_, &head, sizeof(head), 0) != ssize_t(sizeof(head)) || head.magic != PICKET_RING_MAGIC)
    return fail("not_a_segment", "not a picket segment");
  if (head.version_major != PICKET_RING_VERSION_MAJOR) {
    std::ostringstream text;
    text << "segment version " << head.version_major << "." << head.version_minor << ", this reader understands "
         << PICKET_RING_VERSION_MAJOR << ".x; install the same picket release for engine and collector";
    return fail("version", text.str());
  }
  std::string damage = damage_of(&head, uint64_t(file.st_size));
  if (!damage.empty()) return fail("damaged", "damaged segment: " + damage);
  if (consume && !lock_byte(segment->fd_, F_OFD_SETLK, PICKET_LOCK_READER, F_WRLCK))
    return fail("in_use", "another reader consumes this segment");
  segment->size_ = head.segment_size;
  int protection = consume ? PROT_READ | PROT_WRITE : PROT_READ;
  void* base = mmap(nullptr, segment->size_, protection, MAP_SHARED, segment->fd_, 0);
  if (base == MAP_FAILED) return fail("system", std::string("cannot map: ") + strerror(errno));
  segment->base_ = static_cast<uint8_t*>(base);
  segment->constant_ = head;
  return segment;
}

Segment::~Segment() {
  if (base_) munmap(base_, size_);
  if (fd_ >= 0) close(fd_);
}

void Segment::unpublish() { unlink(path_.c_str()); }

void Segment::drop_descriptor() {
  close(fd_);
  fd_ = -1;
}

bool Segment::writer_alive() const { return !lock_byte(fd_, F_OFD_GETLK, PICKET_LOCK_WRITER, F_WRLCK); }

bool Segment::replaced() const {
  struct stat mine, named;
  return stat(path_.c_str(), &named) != 0 || fstat(fd_, &mine) != 0 || mine.st_ino != named.st_ino ||
         mine.st_dev != named.st_dev;
}

void sweep_dead_segments(const std::string& directory, uint64_t age_ns) {
  DIR* listing = opendir(directory.c_str());
  if (!listing) return;
  uint64_t now = monotonic_ns();
  while (dirent* entry = readdir(listing)) {
    if (strncmp(entry->d_name, PICKET_SEGMENT_PREFIX, strlen(PICKET_SEGMENT_PREFIX)) != 0) continue;
    std::string code, error;
    auto segment = Segment::open(directory + "/" + entry->d_name, false, &code, &error);
    if (!segment || segment->writer_alive()) continue;
    if (load_relaxed(&segment->control()->heartbeat_ns) + age_ns < now) unlink(segment->path().c_str());
  }
  closedir(listing);
}

}  // namespace picket
