/*
 * The io_uring back end: epoll for readiness, a ring for the operations that have none (regular files). While
 * operations are in flight the loop waits in the ring, with the epoll descriptor polled there; else it waits in
 * epoll and the ring costs nothing.
 *
 * The kernel reads and writes a transfer's memory until its completion arrives, whatever became of the fiber that
 * asked: so the transfer owns that memory, and an abandoned one stays allocated until then.
 */
#include "epoll.h"
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define ENTRIES 64

typedef struct {
    nb_epoll_t epoll; /* first: the epoll functions find their state here */
    struct io_uring ring;
    size_t in_flight;
    bool polling;          /* the epoll descriptor is polled in the ring */
    unsigned polled;       /* which one: epoll.renewals at that time */
} state_t;

static int setup_ring(state_t *state) {
    struct io_uring_params parameters = {.flags = IORING_SETUP_CLAMP};
    int error = -io_uring_queue_init_params(ENTRIES, &state->ring, &parameters);
    if (error) return error;
    if (parameters.features & IORING_FEAT_EXT_ARG && parameters.features & IORING_FEAT_RW_CUR_POS) return 0;
    io_uring_queue_exit(&state->ring);
    return ENOSYS; /* before Linux 5.11: no timed wait without a timeout operation */
}

static int uring_open(nb_engine_t *engine) {
    state_t *state = calloc(1, sizeof *state);
    if (!state) return ENOMEM;
    int error = setup_ring(state);
    if (!error && (error = nb_epoll_open_state(engine, &state->epoll))) io_uring_queue_exit(&state->ring);
    if (error) free(state); else engine->state = state;
    return error;
}

static void reap(nb_engine_t *engine, state_t *state) {
    struct io_uring_cqe *completion;
    while (io_uring_peek_cqe(&state->ring, &completion) == 0) {
        nb_transfer_t *transfer = io_uring_cqe_get_data(completion);
        int result = completion->res;
        io_uring_cqe_seen(&state->ring, completion);
        if (transfer == (void *)state) state->polling = false;
        if (transfer == (void *)state || !transfer) continue;
        transfer->result = result;
        state->in_flight--;
        nb_job_finish(engine, &transfer->job);
    }
}

static void uring_close(nb_engine_t *engine) {
    state_t *state = engine->state;
    if (engine->fork_generation == nb_fork_generation) { /* in a child the ring is our parent's */
        while (state->in_flight) {
            int submitted = io_uring_submit_and_wait(&state->ring, 1); /* -errno; errno itself is not set */
            if (submitted < 0 && submitted != -EINTR) break;
            reap(engine, state);
        }
        io_uring_queue_exit(&state->ring);
    } else {
        close(state->ring.ring_fd);
    }
    close(state->epoll.fd);
    free(state);
    engine->state = NULL;
}

static bool uring_submit(nb_engine_t *engine, nb_transfer_t *transfer) {
    state_t *state = engine->state;
    struct io_uring_sqe *entry = io_uring_get_sqe(&state->ring);
    if (!entry) {
        io_uring_submit(&state->ring);
        if (!(entry = io_uring_get_sqe(&state->ring))) return false;
    }
    if (transfer->write) io_uring_prep_write(entry, transfer->fd, transfer->base, transfer->size, transfer->from);
    else io_uring_prep_read(entry, transfer->fd, transfer->base, transfer->size, transfer->from);
    io_uring_sqe_set_data(entry, transfer);
    state->in_flight++;
    return true;
}

static bool uring_busy(nb_engine_t *engine) { return ((state_t *)engine->state)->in_flight > 0; }

static void poll_epoll(state_t *state) {
    if (state->polling && state->polled == state->epoll.renewals) return;
    struct io_uring_sqe *entry = io_uring_get_sqe(&state->ring);
    if (!entry) { /* full: submit, and there is room */
        io_uring_submit(&state->ring);
        if (!(entry = io_uring_get_sqe(&state->ring))) return;
    }
    io_uring_prep_poll_add(entry, state->epoll.fd, POLLIN);
    io_uring_sqe_set_data(entry, state);
    state->polling = true;
    state->polled = state->epoll.renewals;
}

static void uring_wait(nb_engine_t *engine, uint64_t nanoseconds) {
    state_t *state = engine->state;
    state->epoll.count = 0;
    if (state->in_flight && nanoseconds) {
        poll_epoll(state);
        struct __kernel_timespec timeout = {.tv_sec = nanoseconds / NB_SECOND, .tv_nsec = nanoseconds % NB_SECOND};
        struct io_uring_cqe *completion;
        io_uring_submit_and_wait_timeout(&state->ring, &completion, 1, nanoseconds == NB_NEVER ? NULL : &timeout, NULL);
        nanoseconds = 0;
    } else if (state->in_flight) {
        io_uring_submit(&state->ring);
    }
    nb_epoll_wait(engine, nanoseconds);
}

static void uring_dispatch(nb_engine_t *engine) {
    reap(engine, engine->state);
    nb_epoll_dispatch(engine);
}

const nb_backend_t nb_backend_uring = {
    .name = "uring", .open = uring_open, .close = uring_close, .arm = nb_epoll_arm, .disarm = nb_epoll_disarm,
    .wait = uring_wait, .dispatch = uring_dispatch, .busy = uring_busy, .submit = uring_submit,
};
