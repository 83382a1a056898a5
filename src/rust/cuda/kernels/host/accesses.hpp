// What the compiler calls before each access, by -fsanitize=thread. Part of memory.cpp.

#pragma once

#define ACCESSES(size)                                                                             \
  void __tsan_read##size(void *at) { read(at, size); }                                             \
  void __tsan_write##size(void *at) { write(at, size); }                                           \
  void __tsan_unaligned_read##size(void *at) { read(at, size); }                                   \
  void __tsan_unaligned_write##size(void *at) { write(at, size); }                                 \
  void __tsan_volatile_read##size(void *at) { read(at, size); }                                    \
  void __tsan_volatile_write##size(void *at) { write(at, size); }                                  \
  void __tsan_unaligned_volatile_read##size(void *at) { read(at, size); }                          \
  void __tsan_unaligned_volatile_write##size(void *at) { write(at, size); }

extern "C" {
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void *at, long bytes) { read(at, bytes); }
void __tsan_write_range(void *at, long bytes) { write(at, bytes); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  read(from, bytes);
  write(to, bytes);
  return std::memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
  write(to, bytes);
  return std::memset(to, value, bytes);
}
}
