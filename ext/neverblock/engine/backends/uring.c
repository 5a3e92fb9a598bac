/*
 * The io_uring back end: epoll for readiness, and a ring for reads and writes of regular files and for the operations
 * on sockets (uring_operations.c). While any is in flight the loop waits in the ring, which polls the epoll descriptor.
 * Else it waits in epoll and the ring costs nothing.
 *
 * If a loop keeps its native thread (always, except in Ractors and with RUBY_MN_THREADS), the kernel does its part of
 * the work only when we ask for completions (DEFER_TASKRUN, Linux 6.1). That batches the work and interrupts no thread.
 * Operations need it. TASKRUN_FLAG is left out: with it every submission would ask too. Input that comes faster than it
 * is served would leave the cache, and run out of buffers.
 *
 * The kernel reads and writes a transfer's memory until its completion arrives, even if the fiber has left. So the
 * transfer owns that memory, and an abandoned transfer stays allocated until then.
 */
#include "uring.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <ruby/ractor.h>
#include <stdlib.h>
#include <unistd.h>

#define ENTRIES 256
#define COMPLETIONS 4096
#define DISPATCHED 256 /* completions dispatched at a time; more would keep the fibers waiting */

/* ---- the ring ---- */
static bool native_thread_stays(void) {
    const char *many_to_many = getenv("RUBY_MN_THREADS");
    if (many_to_many && atoi(many_to_many) > 0) return false;
    return rb_funcall(rb_cRactor, rb_intern("current"), 0) == rb_funcall(rb_cRactor, rb_intern("main"), 0);
}

static int setup_ring(nb_uring_t *state) {
    struct io_uring_params deferred = {
        .flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
                 IORING_SETUP_DEFER_TASKRUN,
        .cq_entries = COMPLETIONS,
    };
    struct io_uring_params plain = {.flags = IORING_SETUP_CLAMP};
    if (native_thread_stays() && io_uring_queue_init_params(ENTRIES, &state->ring, &deferred) == 0) {
        state->deferred = true;
        return 0;
    }
    int error = -io_uring_queue_init_params(ENTRIES, &state->ring, &plain);
    if (error) return error;
    if (plain.features & IORING_FEAT_EXT_ARG && plain.features & IORING_FEAT_RW_CUR_POS) return 0;
    io_uring_queue_exit(&state->ring);
    return ENOSYS; /* before Linux 5.11: no timed wait without a timeout operation */
}

static int uring_open(nb_engine_t *engine) {
    nb_uring_t *state = calloc(1, sizeof *state);
    if (!state) return ENOMEM;
    int error = setup_ring(state);
    if (!error && (error = nb_epoll_open_state(engine, &state->epoll))) io_uring_queue_exit(&state->ring);
    nb_list_init(&state->out_of_buffers);
    if (error) free(state); else engine->state = state;
    return error;
}

struct io_uring_sqe *nb_uring_entry(nb_uring_t *state) {
    struct io_uring_sqe *entry = io_uring_get_sqe(&state->ring);
    if (entry) return entry;
    io_uring_submit(&state->ring); /* it was full: now there is room */
    return io_uring_get_sqe(&state->ring);
}

bool nb_uring_next(nb_uring_t *state, nb_completion_t *completion) {
    struct io_uring_cqe *entry;
    unsigned head;
    io_uring_for_each_cqe(&state->ring, head, entry) {
        *completion = (nb_completion_t){entry->user_data, entry->res, entry->flags};
        io_uring_cq_advance(&state->ring, 1);
        return true;
    }
    return false;
}

/* ---- completions ---- */
static void complete(nb_engine_t *engine, nb_uring_t *state, const nb_completion_t *completion) {
    switch (completion->data & NB_URING_KINDS) {
    case NB_URING_OPERATION: nb_uring_completed(engine, completion); return;
    case NB_URING_EPOLL:
        if (completion->data >> 2 != state->polled) return; /* of a descriptor that has been replaced */
        state->polling = false;
        state->epoll_ready = true;
        return;
    default: break;
    }
    nb_transfer_t *transfer = (nb_transfer_t *)(uintptr_t)completion->data;
    if (!transfer) return;
    transfer->result = completion->result;
    state->transfers--;
    nb_job_finish(engine, &transfer->job);
}

static void reap(nb_engine_t *engine, nb_uring_t *state, unsigned most) {
    nb_completion_t completion;
    for (size_t i = 0; i < state->early_count; i++) {
        completion = state->early[i];
        complete(engine, state, &completion);
    }
    state->early_count = 0;
    for (unsigned i = 0; i < most && nb_uring_next(state, &completion); i++) complete(engine, state, &completion);
}

static bool uring_complete(nb_engine_t *engine) {
    nb_uring_t *state = engine->state;
    int submitted = io_uring_submit_and_wait(&state->ring, 1); /* -errno; errno itself is not set */
    if (submitted < 0 && submitted != -EINTR) return false;
    reap(engine, state, UINT_MAX);
    return true;
}

static void uring_close(nb_engine_t *engine) {
    nb_uring_t *state = engine->state;
    if (engine->fork_generation == nb_fork_generation) { /* in a child the ring is the parent's */
        while (state->transfers && uring_complete(engine)) {}
        io_uring_queue_exit(&state->ring);
        nb_uring_free_buffers(state);
    } else {
        close(state->ring.ring_fd);
    }
    close(state->epoll.fd);
    free(state->early);
    free(state);
    engine->state = NULL;
}

/* ---- files ---- */
static bool uring_transfer(nb_engine_t *engine, nb_transfer_t *transfer) {
    nb_uring_t *state = engine->state;
    struct io_uring_sqe *entry = nb_uring_entry(state);
    if (!entry) return false;
    if (transfer->write) io_uring_prep_write(entry, transfer->fd, transfer->base, transfer->size, transfer->from);
    else io_uring_prep_read(entry, transfer->fd, transfer->base, transfer->size, transfer->from);
    io_uring_sqe_set_data(entry, transfer);
    state->transfers++;
    return true;
}

/* ---- waiting ---- */
static bool uring_busy(nb_engine_t *engine) {
    return ((nb_uring_t *)engine->state)->transfers > 0 || engine->operation_count > 0;
}

static void poll_epoll(nb_uring_t *state) {
    if (state->polling && state->polled == state->epoll.renewals) return;
    struct io_uring_sqe *entry;
    if (state->polling && (entry = nb_uring_entry(state))) { /* that poll would keep the old descriptor open */
        io_uring_prep_cancel64(entry, (uint64_t)state->polled << 2 | NB_URING_EPOLL, 0);
        io_uring_sqe_set_data64(entry, 0);
    }
    if (!(entry = nb_uring_entry(state))) return;
    state->polling = true;
    state->polled = state->epoll.renewals;
    io_uring_prep_poll_add(entry, state->epoll.fd, POLLIN);
    io_uring_sqe_set_data64(entry, (uint64_t)state->polled << 2 | NB_URING_EPOLL);
}

/* Whether there are entries for the kernel, or it has kept completions that found no place, or it may have work for
 * us. If no fiber is runnable, the loop is about to sleep in the ring, which looks as well. */
static bool worth_entering(nb_engine_t *engine, nb_uring_t *state) {
    bool quiet = nb_list_empty(&engine->urgent) && nb_list_empty(&engine->normal) &&
                 nb_list_empty(&engine->resume_first);
    bool overflowed = __atomic_load_n(state->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_CQ_OVERFLOW;
    return io_uring_sq_ready(&state->ring) || overflowed || (state->deferred && !quiet);
}

static void uring_wait(nb_engine_t *engine, uint64_t nanoseconds) {
    nb_uring_t *state = engine->state;
    state->epoll.count = 0;
    if (!uring_busy(engine)) {
        nb_epoll_wait(engine, nanoseconds);
        return;
    }
    if (state->cancels_due) nb_uring_cancel_due(engine);
    poll_epoll(state);
    bool work_left = state->early_count || io_uring_cq_ready(&state->ring) || !nb_list_empty(&state->out_of_buffers);
    if (nanoseconds == 0 || work_left) {
        if (worth_entering(engine, state)) io_uring_submit_and_get_events(&state->ring);
        return;
    }
    struct __kernel_timespec timeout = {.tv_sec = nanoseconds / NB_SECOND, .tv_nsec = nanoseconds % NB_SECOND};
    struct io_uring_cqe *completion;
    io_uring_submit_and_wait_timeout(&state->ring, &completion, 1, nanoseconds == NB_NEVER ? NULL : &timeout, NULL);
}

static void uring_dispatch(nb_engine_t *engine) {
    nb_uring_t *state = engine->state;
    reap(engine, state, DISPATCHED);
    nb_uring_refill(engine);
    if (state->epoll_ready) {
        state->epoll_ready = false;
        nb_epoll_wait(engine, 0);
    }
    nb_epoll_dispatch(engine);
}

static void uring_deliver(nb_engine_t *engine) { reap(engine, engine->state, UINT_MAX); }

const nb_backend_t nb_backend_uring = {
    .name = "uring", .open = uring_open, .close = uring_close, .arm = nb_epoll_arm, .disarm = nb_epoll_disarm,
    .wait = uring_wait, .dispatch = uring_dispatch, .busy = uring_busy,
    .transfer = uring_transfer, .complete = uring_complete,
    .begin = nb_uring_begin, .cancel = nb_uring_cancel, .settle = nb_uring_settle, .submit = nb_uring_submit,
    .deliver = uring_deliver,
};
