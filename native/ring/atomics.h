// Ordered access to the plain words of a segment; the orders are those written beside the fields in picket_ring.h.
#pragma once

#include <cstdint>

namespace picket {

template <typename T>
T load_acquire(const T* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
template <typename T>
T load_relaxed(const T* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
template <typename T>
void store_release(T* word, T value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
template <typename T>
void store_relaxed(T* word, T value) {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
template <typename T>
T add_relaxed(T* word, T value) {
  return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

// Copies whole 8-byte words, each read once: the source may be written meanwhile, and the caller checks afterwards.
inline void copy_words(void* to, const void* from, unsigned bytes) {
  auto* out = static_cast<uint64_t*>(to);
  auto* in = static_cast<const uint64_t*>(from);
  for (unsigned i = 0; i < bytes / 8; i++) out[i] = load_relaxed(in + i);
}
// The counterpart for a writer whose slot may be read meanwhile.
inline void publish_words(void* to, const void* from, unsigned bytes) {
  auto* out = static_cast<uint64_t*>(to);
  auto* in = static_cast<const uint64_t*>(from);
  for (unsigned i = 0; i < bytes / 8; i++) store_relaxed(out + i, in[i]);
}

}  // namespace picket
