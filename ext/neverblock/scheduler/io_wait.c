/*
 * Readiness of one descriptor: io_wait, io_close, and what the other io hooks build on.
 */
#include "scheduler.h"
#include <errno.h>
#include <poll.h>
#include <ruby/io.h>
#include <ruby/version.h>
#include <ruby/thread.h>
#include <unistd.h>

uint64_t nb_io_deadline(VALUE io) {
    VALUE timeout = rb_io_timeout(io);
    return NIL_P(timeout) ? NB_NEVER : nb_deadline_from(timeout);
}

void nb_raise_io_timeout(void) {
    rb_raise(rb_const_get(rb_cIO, rb_intern("TimeoutError")), "Blocking operation timed out!");
}

/* The ready events, 0 on timeout, -errno; -EPERM: a regular file, which is always ready. */
int nb_wait_ready(nb_engine_t *engine, VALUE io, int fd, int events, uint64_t deadline) {
    nb_wait_t wait;
    nb_interest_t interest = {.wait = &wait, .fd = fd, .events = (short)events};
    int error = nb_interest_add(engine, &interest, io);
    if (error) return -error;
    nb_wait_init(&wait, NB_WAIT_IO, io);
    wait.interests = &interest;
    wait.interest_count = 1;
    nb_wait_deadline(&wait, deadline);
    nb_park(engine, &wait);
    return wait.outcome == NB_READY ? interest.revents : 0;
}

/* ---- without a loop: IO.copy_stream on Ruby 3.4 calls from the thread that does the copying ---- */
typedef struct { struct pollfd entry; int milliseconds, count; } plain_t;

static void *plain_poll(void *argument) {
    plain_t *plain = argument;
    plain->count = poll(&plain->entry, 1, plain->milliseconds);
    return NULL;
}

static int wait_plainly(int fd, int events, uint64_t deadline) {
    uint64_t began = nb_now(), end = deadline; /* of the real clock: a virtual one stands still here */
    if (deadline != NB_NEVER) end = nb_now_real() + (deadline > began ? deadline - began : 0);
    short wanted = (events & RUBY_IO_READABLE ? POLLIN : 0) | (events & RUBY_IO_WRITABLE ? POLLOUT : 0) |
                   (events & RUBY_IO_PRIORITY ? POLLPRI : 0);
    for (;;) {
        uint64_t now = nb_now_real(), left = end > now ? (end - now + NB_MILLISECOND - 1) / NB_MILLISECOND : 0;
        plain_t plain = {.entry = {.fd = fd, .events = wanted}, .milliseconds = -1};
        if (end != NB_NEVER) plain.milliseconds = left > INT32_MAX ? INT32_MAX : (int)left;
        if (plain.milliseconds == 0) plain_poll(&plain);
        else rb_thread_call_without_gvl(plain_poll, &plain, RUBY_UBF_IO, NULL);
        if (plain.count > 0) {
            short got = plain.entry.revents;
            if (got & POLLNVAL) return -EBADF;
            bool broken = got & (POLLHUP | POLLERR);
            return ((got & POLLIN || broken ? RUBY_IO_READABLE : 0) | (got & POLLOUT || broken ? RUBY_IO_WRITABLE : 0) |
                    (got & POLLPRI ? RUBY_IO_PRIORITY : 0)) & events;
        }
        rb_thread_check_ints();
        if (end != NB_NEVER && nb_now_real() >= end) return 0;
    }
}

/* call-seq: io_wait(io, events, timeout) -> the ready events, or false after the timeout */
static VALUE io_wait(VALUE self, VALUE io, VALUE events, VALUE timeout) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    io = nb_io_open_half(io);
    int fd = rb_io_descriptor(io), wanted = NUM2INT(events), ready;
    bool from_io = NIL_P(timeout) || timeout == rb_io_timeout(io);
    uint64_t deadline = NIL_P(timeout) ? nb_io_deadline(io) : nb_deadline_from(timeout);
    if (!nb_scheduler_may_park(scheduler) || deadline <= nb_now()) ready = wait_plainly(fd, wanted, deadline);
    else ready = nb_wait_ready(&scheduler->engine, io, fd, wanted, deadline);
    if (ready == -EPERM) return INT2NUM(wanted & (RUBY_IO_READABLE | RUBY_IO_WRITABLE));
    if (ready < 0) rb_syserr_fail(-ready, "can't wait for this descriptor");
    if (ready > 0) return INT2NUM(ready);
#if RUBY_API_VERSION_MAJOR == 3 && RUBY_API_VERSION_MINOR == 3
    if (from_io && !NIL_P(rb_io_timeout(io))) nb_raise_io_timeout(); /* 3.3 would make Errno::EAGAIN of false */
#else
    (void)from_io;
#endif
    return Qfalse;
}

/* call-seq: io_close(descriptor) -- Ruby 4.0 and later; without it every IO#close would be a blocking operation */
static VALUE io_close(VALUE self, VALUE io) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    int fd = RB_INTEGER_TYPE_P(io) ? NUM2INT(io) : rb_io_descriptor(io);
    if (engine->backend && engine->fork_generation == nb_fork_generation) nb_descriptor_closing(engine, fd);
    if (close(fd) < 0 && errno != EINTR) rb_sys_fail("close");
    return Qtrue;
}

/* call-seq: fiber_interrupt(fiber, exception) -- Ruby 4.0 and later: IO#close ends the fibers that use that IO */
static VALUE fiber_interrupt(VALUE self, VALUE fiber, VALUE exception) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    if (!engine->backend) return Qfalse;
    for (nb_link_t *l = engine->parked.next; l != &engine->parked; l = l->next) {
        nb_wait_t *wait = NB_ENTRY(l, nb_wait_t, parked);
        if (wait->fiber != fiber) continue;
        bool on_io = wait->kind == NB_WAIT_IO || wait->kind == NB_WAIT_SELECT || wait->kind == NB_WAIT_JOB;
        if (!on_io) break; /* it waits for something else by now: bug 21918 */
        return RBOOL(nb_interrupt(engine, wait, exception));
    }
    return Qfalse;
}

void nb_init_io_wait(void) {
    rb_define_method(nb_cScheduler, "io_wait", io_wait, 3);
    rb_define_method(nb_cScheduler, "io_close", io_close, 1);
    rb_define_method(nb_cScheduler, "fiber_interrupt", fiber_interrupt, 2);
}
