/*
 * Calls of the system that fail at the n-th time, preloaded into a program of a test.
 *
 * The file that NEVERBLOCK_TEST_FAULTS names has a counter for each kind, which all processes of the program share. The
 * call that takes it from 1 to 0 fails. At 0 and below no call does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DESCRIPTOR, CONNECT, THREAD, WRITE, STACK, KINDS };

static _Atomic int none[KINDS];
static _Atomic int *counters = none;

__attribute__((constructor)) static void prepare(void) {
    const char *path = getenv("NEVERBLOCK_TEST_FAULTS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *shared = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED) counters = shared;
}

static int strikes(int kind, int error) {
    if (atomic_load(&counters[kind]) <= 0 || atomic_fetch_sub(&counters[kind], 1) != 1) return 0;
    errno = error;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define DEFINE(kind, error, result, type, name, parameters, arguments) \
    type name parameters { \
        if (strikes(kind, error)) return result; \
        return REAL(name) arguments; \
    }

DEFINE(DESCRIPTOR, EMFILE, -1, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
DEFINE(DESCRIPTOR, EMFILE, -1, int, socketpair, (int domain, int type, int protocol, int fds[2]),
       (domain, type, protocol, fds))
DEFINE(DESCRIPTOR, EMFILE, -1, int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags),
       (fd, address, length, flags))
DEFINE(DESCRIPTOR, EMFILE, -1, int, pipe2, (int fds[2], int flags), (fds, flags))
DEFINE(DESCRIPTOR, EMFILE, -1, int, eventfd, (unsigned count, int flags), (count, flags))
DEFINE(DESCRIPTOR, EMFILE, -1, int, epoll_create1, (int flags), (flags))
DEFINE(CONNECT, ENETUNREACH, -1, int, connect, (int fd, const struct sockaddr *address, socklen_t length),
       (fd, address, length))
DEFINE(THREAD, 0, EAGAIN, int, pthread_create,
       (pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument),
       (thread, attributes, body, argument))

static int opens(const char *name, int directory, const char *path, int flags, mode_t mode) {
    int (*real)(int, const char *, int, ...) = dlsym(RTLD_NEXT, name);
    if (strikes(DESCRIPTOR, EMFILE)) return -1;
    return real(directory, path, flags, mode);
}

#define OPEN(name, real) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return opens(real, AT_FDCWD, path, flags, mode); \
    }

OPEN(open, "openat")
OPEN(open64, "openat64")

/* Of regular files only: a full disk. */
static int disk_is_full(int fd) {
    struct stat status;
    return !fstat(fd, &status) && S_ISREG(status.st_mode) && strikes(WRITE, ENOSPC);
}

#define FILE_CALL(name, parameters, arguments) \
    ssize_t name parameters { return disk_is_full(fd) ? -1 : REAL(name) arguments; }

FILE_CALL(write, (int fd, const void *bytes, size_t length), (fd, bytes, length))
FILE_CALL(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FILE_CALL(pwrite64, (int fd, const void *bytes, size_t length, off64_t from), (fd, bytes, length, from))

/* Ruby's stacks of fibers. It asks again for fewer at a time, so all further calls fail too, until the test ends it. */
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (flags & MAP_STACK && (atomic_load(&counters[STACK]) < 0 || strikes(STACK, ENOMEM))) {
        atomic_store(&counters[STACK], -1);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return REAL(mmap)(address, length, protection, flags, fd, offset);
}
