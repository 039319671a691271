// A library to preload before the program: it makes one call to the system fail, or writes down the
// calls that reach the disk.
//
//   BATCHLESS_FAULT=KIND:N[+][:ERRNO]   the N-th call of the kind since main() began fails, N from 1;
//                                       with + all later ones do, too; EIO where no number is given
//   BATCHLESS_FAULT_UNDER=FOLDER        only calls for files below it count; open, read, write, fsync and
//                                       rename alone
//   BATCHLESS_FAULT_LOG=FILE            a line for each call to a file, "write PATH", and at the end
//                                       how many calls of each kind there were, "count KIND N"
//
// Kinds: open, read, write, short (a write of half of it), fsync, rename, close, lock, map, malloc, thread.
// Standard streams are left alone, and so is what the C library does within itself, and what libcrypto
// allocates: its start does not look whether it got a lock (OpenSSL 3.0, CRYPTO_THREAD_read_lock).
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The allocator by its own names: asking for them by dlsym would allocate.
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* __libc_calloc(std::size_t count, std::size_t size);
extern "C" void* __libc_realloc(void* pointer, std::size_t size);
extern "C" void* __libc_memalign(std::size_t alignment, std::size_t size);

namespace {

enum Kind : unsigned char {
  kOpen,
  kRead,
  kWrite,
  kShort,
  kFsync,
  kRename,
  kClose,
  kLock,
  kMap,
  kMalloc,
  kThread,
  kKinds
};
constexpr std::array<const char*, kKinds> kNames = {"open",  "read",   "write", "short",
                                                    "fsync", "rename", "close", "lock",
                                                    "map",   "malloc", "thread"};

bool armed = false;  // main() has begun
std::uintptr_t libcrypto_begin = 0;
std::uintptr_t libcrypto_end = 0;
std::array<std::atomic<long>, kKinds> counts;
int fault_kind = -1;
long fault_number = 0;
bool fault_stays = false;
int fault_error = EIO;
int log_file = -1;
const char* under = nullptr;

template <class Function>
Function* Next(Function* /*type*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define CALLER __builtin_return_address(0)
// The function that this library's own one takes the place of.
#define NEXT(name) static const auto next = Next(&::name, #name)

// Counts a call and says whether it fails; without a path, one that is for no file.
bool Fails(Kind kind, const char* path = nullptr) {
  if (!armed) return false;
  if (under != nullptr && (path == nullptr || std::strncmp(path, under, std::strlen(under)) != 0)) {
    return false;
  }
  const long number = ++counts[kind];
  if (kind != fault_kind) return false;
  if (number != fault_number && !(fault_stays && number > fault_number)) return false;
  errno = fault_error;
  return true;
}

void Log(const char* what, const char* path) {
  if (!armed || log_file < 0) return;
  static const auto write_next = Next(&::write, "write");
  std::array<char, 4200> line;
  const int size = std::snprintf(line.data(), line.size(), "%s %s\n", what, path);
  const int saved = errno;
  [[maybe_unused]] const ssize_t written =
      write_next(log_file, line.data(), static_cast<std::size_t>(size));
  errno = saved;
}

// The file behind a descriptor, where anybody wants to know.
struct PathOf {
  explicit PathOf(int descriptor) {
    if (!armed || (log_file < 0 && under == nullptr)) return;
    std::array<char, 64> link;
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
    const int saved = errno;
    if (readlink(link.data(), text.data(), text.size() - 1) < 0) text[0] = '\0';
    errno = saved;
  }
  std::array<char, 4096> text = {};
};

// A call for a file: written down, and whether it fails.
bool FileFails(Kind kind, const char* path) {
  Log(kNames[kind], path);
  return Fails(kind, path);
}
bool FileFails(Kind kind, int descriptor) {
  return FileFails(kind, PathOf(descriptor).text.data());
}

int FindLibcrypto(dl_phdr_info* library, std::size_t /*size*/, void* /*data*/) {
  if (std::strstr(library->dlpi_name, "libcrypto") == nullptr) return 0;
  libcrypto_begin = library->dlpi_addr;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library->dlpi_phdr[i];
    libcrypto_end =
        std::max<std::uintptr_t>(libcrypto_end, libcrypto_begin + part.p_vaddr + part.p_memsz);
  }
  return 1;
}

bool AllocationFails(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return !(address >= libcrypto_begin && address < libcrypto_end) && Fails(kMalloc);
}

void Arm() {
  dl_iterate_phdr(FindLibcrypto, nullptr);
  if (const char* fault = std::getenv("BATCHLESS_FAULT")) {
    for (int kind = 0; kind < kKinds; ++kind) {
      const std::size_t length = std::strlen(kNames[kind]);
      if (std::strncmp(fault, kNames[kind], length) != 0 || fault[length] != ':') continue;
      char* rest = nullptr;
      fault_kind = kind;
      fault_number = std::strtol(fault + length + 1, &rest, 10);
      fault_stays = *rest == '+';
      if (fault_stays) ++rest;
      if (*rest == ':') fault_error = std::atoi(rest + 1);
    }
  }
  under = std::getenv("BATCHLESS_FAULT_UNDER");
  if (const char* path = std::getenv("BATCHLESS_FAULT_LOG")) {
    static const auto open_next = Next(&::open, "open");
    log_file = open_next(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }
  armed = true;
}

// How many calls there were, at the end of the process.
struct Report {
  ~Report() {
    if (log_file < 0) return;
    for (int kind = 0; kind < kKinds; ++kind) {
      std::array<char, 64> text;
      std::snprintf(text.data(), text.size(), "%s %ld", kNames[kind], counts[kind].load());
      Log("count", text.data());
    }
    armed = false;
  }
} report;

bool IsStandard(int descriptor) { return descriptor <= STDERR_FILENO; }

}  // namespace

extern "C" {

using Main = int (*)(int, char**, char**);
int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  static Main real_main = main;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  const Main armed_main = [](int count, char** values, char** environment) {
    Arm();
    return real_main(count, values, environment);
  };
  return start(armed_main, argc, argv, init, fini, rtld_fini, stack_end);
}

int open(const char* path, int flags, ...) {
  NEXT(open);
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return FileFails(kOpen, path) ? -1 : next(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  return FileFails(kOpen, path) ? nullptr : next(path, mode);
}

ssize_t read(int descriptor, void* data, std::size_t size) {
  NEXT(read);
  if (!IsStandard(descriptor) && FileFails(kRead, descriptor)) return -1;
  return next(descriptor, data, size);
}
std::size_t fread(void* data, std::size_t size, std::size_t count, FILE* file) {
  NEXT(fread);
  return FileFails(kRead, fileno(file)) ? 0 : next(data, size, count, file);
}

ssize_t write(int descriptor, const void* data, std::size_t size) {
  NEXT(write);
  if (IsStandard(descriptor)) return next(descriptor, data, size);
  if (FileFails(kWrite, descriptor)) return -1;
  return next(descriptor, data,
              size > 1 && Fails(kShort, PathOf(descriptor).text.data()) ? size / 2 : size);
}
ssize_t writev(int descriptor, const iovec* pieces, int count) {
  NEXT(writev);
  if (IsStandard(descriptor)) return next(descriptor, pieces, count);
  if (FileFails(kWrite, descriptor)) return -1;
  return next(descriptor, pieces,
              count > 1 && Fails(kShort, PathOf(descriptor).text.data()) ? count - 1 : count);
}
std::size_t fwrite(const void* data, std::size_t size, std::size_t count, FILE* file) {
  NEXT(fwrite);
  if (IsStandard(fileno(file))) return next(data, size, count, file);
  return FileFails(kWrite, fileno(file)) ? 0 : next(data, size, count, file);
}

int fsync(int descriptor) {
  NEXT(fsync);
  return FileFails(kFsync, descriptor) ? -1 : next(descriptor);
}
int rename(const char* from, const char* to) {
  NEXT(rename);
  Log("from", from);
  return FileFails(kRename, to) ? -1 : next(from, to);
}
int flock(int descriptor, int operation) {
  NEXT(flock);
  return Fails(kLock) ? -1 : next(descriptor, operation);
}
int close(int descriptor) {
  NEXT(close);
  if (IsStandard(descriptor) || !Fails(kClose)) return next(descriptor);
  next(descriptor);  // Linux lets go of the descriptor whatever it reports
  errno = fault_error;
  return -1;
}
int fclose(FILE* file) {
  NEXT(fclose);
  if (IsStandard(fileno(file)) || !Fails(kClose)) return next(file);
  next(file);
  errno = fault_error;
  return EOF;
}

void* mmap(void* address, std::size_t size, int protection, int flags, int descriptor,
           off_t offset) {
  NEXT(mmap);
  return Fails(kMap) ? MAP_FAILED : next(address, size, protection, flags, descriptor, offset);
}

// The C library's own names for these where sizes of files have 64 bits, as they have here.
static_assert(sizeof(off_t) == sizeof(off64_t));
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));
void* mmap64(void* address, std::size_t size, int protection, int flags, int descriptor,
             off64_t offset) __attribute__((alias("mmap")));

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* data) {
  NEXT(pthread_create);
  return Fails(kThread) ? EAGAIN : next(thread, attributes, run, data);
}

void* malloc(std::size_t size) { return AllocationFails(CALLER) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) {
  return AllocationFails(CALLER) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* pointer, std::size_t size) {
  return AllocationFails(CALLER) ? nullptr : __libc_realloc(pointer, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return AllocationFails(CALLER) ? nullptr : __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  return AllocationFails(CALLER) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** pointer, std::size_t alignment, std::size_t size) {
  if (AllocationFails(CALLER)) return ENOMEM;
  *pointer = __libc_memalign(alignment, size);
  return *pointer == nullptr ? ENOMEM : 0;
}

}  // extern "C"
