/*
 * Reading and writing: io_read, io_write, io_pread, io_pwrite.
 *
 * One routine tries without waiting, waits for readiness, and hands regular files that are not in memory to a native
 * thread or the ring. It tries with RWF_NOWAIT, so that O_NONBLOCK need not be set on descriptors that other processes
 * share (a terminal, an inherited pipe). Two thin adapters fit it to Ruby's two interfaces:
 *
 *   up to 4.0   (io, buffer, length, offset)   length = the minimum; waits for it
 *   4.1         (io, buffer, offset, length)   length = the maximum; one transfer, -EAGAIN goes to the caller
 *
 * Both are always compiled, and tested by name (io_read_v3, io_read_v4 …).
 */
#include "scheduler.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/io/buffer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#define INLINE_WRITE 16384    /* a file write up to this size is a copy into the page cache, cheaper than a hand-over */
#define LARGEST_JOB (1 << 20) /* the most that one hand-over to a thread copies */

typedef struct {
    nb_engine_t *engine;
    VALUE io, buffer;    /* an IO::Buffer, or a frozen String that is written */
    size_t offset, size; /* of the part of the buffer to transfer */
    off_t from;          /* in the file; -1: its own position */
    bool write;
    bool character;      /* it is known to be a terminal or another character device */
    int fd;
    uint64_t patience;   /* nanoseconds after which a terminal returns nothing */
} transfer_t;

/* The buffer's memory. It may be freed or moved during a wait, so it is looked up again after each. */
static char *memory(transfer_t *t, size_t *available) {
    void *base;
    size_t size;
    if (RB_TYPE_P(t->buffer, T_STRING)) base = RSTRING_PTR(t->buffer), size = (size_t)RSTRING_LEN(t->buffer);
    else if (t->write) rb_io_buffer_get_bytes_for_reading(t->buffer, (const void **)&base, &size);
    else rb_io_buffer_get_bytes_for_writing(t->buffer, &base, &size);
    size_t rest = size > t->offset ? size - t->offset : 0;
    *available = rest < t->size ? rest : t->size;
    return (char *)base + t->offset;
}

/* ---- trying ---- */
static ssize_t plainly(transfer_t *t, char *base, size_t size) {
    if (t->from >= 0) return t->write ? pwrite(t->fd, base, size, t->from) : pread(t->fd, base, size, t->from);
    return t->write ? write(t->fd, base, size) : read(t->fd, base, size);
}

enum { NEEDS_THREAD = -1000000 };

/* A terminal in raw mode with MIN 0 is never readable while it is empty, but read(2) returns nothing after TIME
 * tenths of a second (termios(3), "Canonical and noncanonical mode"). */
static void look_at_terminal(transfer_t *t) {
    struct termios settings;
    if (tcgetattr(t->fd, &settings) == 0 && !(settings.c_lflag & ICANON) && settings.c_cc[VMIN] == 0)
        t->patience = settings.c_cc[VTIME] * 100 * NB_MILLISECOND;
}

static bool is_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

/* Without RWF_NOWAIT, which this kernel or file system does not know. */
static ssize_t carefully(transfer_t *t, char *base, size_t size) {
    struct stat status;
    if (fstat(t->fd, &status) < 0) return -1;
    if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) {
        if (t->write && size <= INLINE_WRITE) return plainly(t, base, size);
        return NEEDS_THREAD;
    }
    t->character = S_ISCHR(status.st_mode);
    int flags = fcntl(t->fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK)) {
        struct pollfd entry = {.fd = t->fd, .events = t->write ? POLLOUT : POLLIN};
        if (poll(&entry, 1, 0) == 0) {
            if (!t->write && t->character) look_at_terminal(t);
            errno = EAGAIN;
            return -1;
        }
        if (t->write && t->character && isatty(t->fd)) return NEEDS_THREAD; /* it may take less, and wait */
        if (t->write && size > PIPE_BUF) size = PIPE_BUF; /* what a writable pipe takes without blocking */
    }
    return plainly(t, base, size);
}

static bool is_socket(VALUE io) {
    static ID id_basic_socket;
    static VALUE basic_socket; /* the same class in every Ractor; 0: not loaded yet */
    if (!basic_socket) {
        if (!id_basic_socket) id_basic_socket = rb_intern("BasicSocket");
        if (!rb_const_defined(rb_cObject, id_basic_socket)) return false;
        basic_socket = rb_const_get(rb_cObject, id_basic_socket);
        rb_gc_register_mark_object(basic_socket);
    }
    return RTEST(rb_obj_is_kind_of(io, basic_socket));
}

static ssize_t attempt(transfer_t *t, char *base, size_t size) {
    if (t->from < 0 && is_socket(t->io)) { /* a shorter path through the kernel than those below */
        ssize_t done = t->write ? send(t->fd, base, size, MSG_DONTWAIT) : recv(t->fd, base, size, MSG_DONTWAIT);
        if (done >= 0 || errno != ENOTSOCK) return done; /* else reopened as a file */
    }
#if defined(RWF_NOWAIT) && !defined(NB_PORTABLE)
    struct iovec part = {.iov_base = base, .iov_len = size};
    ssize_t done = t->write ? pwritev2(t->fd, &part, 1, t->from, RWF_NOWAIT)
                            : preadv2(t->fd, &part, 1, t->from, RWF_NOWAIT);
    if (done >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != ESPIPE)) return done;
#endif
    return carefully(t, base, size);
}

/* ---- regular files that would block ---- */
static void release(nb_job_t *job) {
    nb_transfer_t *transfer = (nb_transfer_t *)job;
    close(transfer->fd);
    free(transfer->base);
    free(transfer);
}

/* Works on a duplicate of the descriptor: before the job is done another fiber may close the descriptor, and another
 * file may get its number. A transfer that has begun is waited for, because it moves the file's position for other
 * users. */
static ssize_t hand_over(transfer_t *t) {
    size_t size;
    char *base = memory(t, &size);
    if (size > LARGEST_JOB) size = LARGEST_JOB;
    int fd = fcntl(t->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 && errno == EMFILE && is_file(t->fd)) { /* the limit is reached: it blocks the loop */
        ssize_t done = plainly(t, base, size);
        return done < 0 ? -errno : done;
    }
    if (fd < 0) return -errno;
    nb_transfer_t *job = calloc(1, sizeof *job);
    if (!job || !(job->base = malloc(size ? size : 1))) { close(fd); free(job); rb_memerror(); }
    job->job.release = release;
    job->write = t->write;
    job->endless = isatty(fd);
    job->fd = fd;
    job->size = size;
    job->from = t->from;
    if (t->write) memcpy(job->base, base, size);
    nb_transfer_await(t->engine, job, t->io);
    ssize_t result = job->result;
    if (!t->write && result > 0) {
        base = memory(t, &size);
        if ((size_t)result > size) result = (ssize_t)size;
        memcpy(base, job->base, result);
    }
    release(&job->job);
    if (result == -EINTR) nb_checkpoint(t->engine);
    return result;
}

/* Core may close the IO during the wait without telling a scheduler, and another one may get its number. */
static int await(transfer_t *t, uint64_t deadline) {
    int ready = nb_wait_ready(t->engine, t->io, t->fd, t->write ? RUBY_IO_WRITABLE : RUBY_IO_READABLE, deadline);
    if (rb_io_descriptor(t->io) != t->fd) rb_exc_raise(nb_scheduler_hooks.closed_error());
    return ready;
}

/* ---- one transfer: the bytes, or -errno; -EAGAIN only if it must not wait ---- */
static ssize_t transfer_once(transfer_t *t, bool may_wait, uint64_t *deadline) {
    if (may_wait && !t->write && nb_descriptor_drained(t->engine, t->fd, t->io) && NIL_P(rb_io_timeout(t->io))) {
        int ready = await(t, NB_NEVER);
        if (ready < 0 && ready != -EPERM) return ready;
    }
    for (;;) {
        size_t size;
        char *base = memory(t, &size);
        if (size == 0) return 0;
        ssize_t done = attempt(t, base, size);
        if (done == NEEDS_THREAD) return hand_over(t);
        if (done >= 0) {
            if (!t->write) /* a terminal is read again: it may return nothing while it is empty */
                nb_descriptor_was_read(t->engine, t->fd, t->io, (size_t)done < size && !t->character);
            return done;
        }
        if (errno == EINTR) {
            rb_thread_check_ints();
            continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) return -errno;
        if (t->from >= 0) return hand_over(t); /* only files have a position */
        if (!may_wait) return is_file(t->fd) ? hand_over(t) : -EAGAIN; /* a file that is not in memory gets no event */
        if (t->patience != NB_NEVER) {
            if (t->patience == 0 || await(t, nb_now() + t->patience) <= 0) return 0;
            t->patience = NB_NEVER;
            continue;
        }
        if (*deadline == 0) *deadline = nb_io_deadline(t->io);
        int ready = await(t, *deadline);
        if (ready == -EPERM) return hand_over(t);
        if (ready < 0) return ready;
        if (ready == 0) nb_raise_io_timeout();
    }
}

static VALUE outcome(ssize_t result) { return result >= 0 ? SIZET2NUM(result) : INT2NUM((int)result); }

static ssize_t transfer_blocking(transfer_t *t) { /* a forked child, or another thread */
    size_t size;
    char *base = memory(t, &size);
    ssize_t done = plainly(t, base, size);
    return done < 0 ? -errno : done;
}

/* At least `least` bytes (0: one transfer), fewer at the end of the file or after an error. */
static VALUE transfer(nb_scheduler_t *scheduler, transfer_t *t, size_t least, bool may_wait) {
    size_t total = 0;
    uint64_t deadline = 0;
    t->engine = &scheduler->engine;
    t->fd = rb_io_descriptor(t->io);
    t->patience = NB_NEVER;
    if (!nb_scheduler_may_park(scheduler)) return outcome(transfer_blocking(t));
    for (;;) {
        ssize_t done = transfer_once(t, may_wait, &deadline);
        if (done < 0) return outcome(total ? (ssize_t)total : done);
        total += done;
        t->offset += done;
        t->size -= done;
        if (t->from >= 0) t->from += done;
        if (done == 0 || total >= least) return outcome(total);
    }
}

/* The same at a position. A negative one, which would mean the descriptor's own, is refused. */
static VALUE transfer_at(nb_scheduler_t *scheduler, transfer_t *t, size_t least, bool may_wait) {
    return t->from < 0 ? INT2NUM(-EINVAL) : transfer(scheduler, t, least, may_wait);
}

/* Ruby up to 4.0 calls io_read for read_nonblock as well, which must not wait. Only the caller's name says so. */
static bool asked_by_read_nonblock(void) { return nb_caller_named("nonblock", 8); }

/* ---- up to Ruby 4.0 ---- */
static VALUE io_read_v3(VALUE self, VALUE io, VALUE buffer, VALUE length, VALUE offset) {
    transfer_t t = {.io = io, .buffer = buffer, .offset = NUM2SIZET(offset), .size = SIZE_MAX, .from = -1};
    return transfer(nb_scheduler(self), &t, NUM2SIZET(length), !asked_by_read_nonblock());
}

/* Without the patch of close_read it isn't known which IO has the descriptor now. The result undefined makes core write
 * by itself. Ruby code must never see undefined, and gets the IOError; only core's own buffers are locked. */
static bool is_wrong_half(VALUE io, VALUE buffer) {
    return RB_TYPE_P(io, T_FILE) && RTEST(rb_io_closed_p(io)) && RTEST(rb_funcall(buffer, rb_intern("locked?"), 0));
}

static VALUE io_write_v3(VALUE self, VALUE io, VALUE buffer, VALUE length, VALUE offset) {
    io = nb_io_open_half(io);
    if (is_wrong_half(io, buffer)) return Qundef;
    transfer_t t = {
        .io = io, .buffer = buffer, .offset = NUM2SIZET(offset),
        .size = SIZE_MAX, .from = -1, .write = true,
    };
    return transfer(nb_scheduler(self), &t, NUM2SIZET(length), true);
}

static VALUE io_pread_v3(VALUE self, VALUE io, VALUE buffer, VALUE from, VALUE length, VALUE offset) {
    transfer_t t = {.io = io, .buffer = buffer, .offset = NUM2SIZET(offset), .size = SIZE_MAX, .from = NUM2OFFT(from)};
    return transfer_at(nb_scheduler(self), &t, NUM2SIZET(length), true);
}

static VALUE io_pwrite_v3(VALUE self, VALUE io, VALUE buffer, VALUE from, VALUE length, VALUE offset) {
    transfer_t t = {
        .io = io, .buffer = buffer, .offset = NUM2SIZET(offset),
        .size = SIZE_MAX, .from = NUM2OFFT(from), .write = true,
    };
    return transfer_at(nb_scheduler(self), &t, NUM2SIZET(length), true);
}

/* call-seq: pwrite(io, string, from) -> bytes, or -errno -- for the patch of that name */
static VALUE pwrite_m(VALUE self, VALUE io, VALUE string, VALUE from) {
    rb_io_t *opened;
    io = rb_io_get_write_io(io);
    RB_IO_POINTER(io, opened);
    rb_io_check_writable(opened);
    string = rb_str_new_frozen(rb_obj_as_string(string));
    transfer_t t = {.io = io, .buffer = string, .size = SIZE_MAX, .from = NUM2OFFT(from), .write = true};
    VALUE result = transfer_at(nb_scheduler(self), &t, 0, true);
    RB_GC_GUARD(string);
    return result;
}

/* ---- Ruby 4.1 ---- */
static VALUE io_read_v4(VALUE self, VALUE io, VALUE buffer, VALUE offset, VALUE length) {
    transfer_t t = {.io = io, .buffer = buffer, .offset = NUM2SIZET(offset), .size = NUM2SIZET(length), .from = -1};
    return transfer(nb_scheduler(self), &t, 0, false);
}

static VALUE io_write_v4(VALUE self, VALUE io, VALUE buffer, VALUE offset, VALUE length) {
    io = nb_io_open_half(io);
    if (is_wrong_half(io, buffer)) return Qundef;
    transfer_t t = {
        .io = io, .buffer = buffer, .offset = NUM2SIZET(offset),
        .size = NUM2SIZET(length), .from = -1, .write = true,
    };
    return transfer(nb_scheduler(self), &t, 0, false);
}

static VALUE io_pread_v4(VALUE self, VALUE io, VALUE buffer, VALUE from, VALUE offset, VALUE length) {
    transfer_t t = {
        .io = io, .buffer = buffer, .offset = NUM2SIZET(offset),
        .size = NUM2SIZET(length), .from = NUM2OFFT(from),
    };
    return transfer_at(nb_scheduler(self), &t, 0, false);
}

static VALUE io_pwrite_v4(VALUE self, VALUE io, VALUE buffer, VALUE from, VALUE offset, VALUE length) {
    transfer_t t = {
        .io = io, .buffer = buffer, .offset = NUM2SIZET(offset),
        .size = NUM2SIZET(length), .from = NUM2OFFT(from), .write = true,
    };
    return transfer_at(nb_scheduler(self), &t, 0, false);
}

void nb_init_io_transfer(void) {
    rb_define_method(nb_cScheduler, "pwrite", pwrite_m, 3);
    rb_define_method(nb_cScheduler, "io_read_v3", io_read_v3, 4);
    rb_define_method(nb_cScheduler, "io_write_v3", io_write_v3, 4);
    rb_define_method(nb_cScheduler, "io_pread_v3", io_pread_v3, 5);
    rb_define_method(nb_cScheduler, "io_pwrite_v3", io_pwrite_v3, 5);
    rb_define_method(nb_cScheduler, "io_read_v4", io_read_v4, 4);
    rb_define_method(nb_cScheduler, "io_write_v4", io_write_v4, 4);
    rb_define_method(nb_cScheduler, "io_pread_v4", io_pread_v4, 5);
    rb_define_method(nb_cScheduler, "io_pwrite_v4", io_pwrite_v4, 5);
#if RUBY_FIBER_SCHEDULER_VERSION >= 4
    const char *version = "v4";
#else
    const char *version = "v3";
#endif
    static const char *const hooks[] = {"io_read", "io_write", "io_pread", "io_pwrite"};
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s_%s", hooks[i], version);
        rb_define_alias(nb_cScheduler, hooks[i], name);
    }
}
