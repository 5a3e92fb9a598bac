/*
 * The epoll back end. Registrations are level-triggered and stay until the first unwanted event.
 *
 * A registration belongs to the open file, not to its number. If the file lives on elsewhere (a dup, a forked child)
 * after its descriptor was closed, the registration is stale: its events go on coming, and no epoll_ctl can name it
 * (epoll(7), "Questions and answers" 6). Each registration carries a generation. An event with an old one, or a
 * registration that can't be deleted, makes us start over with a new epoll descriptor.
 */
#include "epoll.h"
#include <errno.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t to_epoll(int events) {
    return (events & RUBY_IO_READABLE ? EPOLLIN | EPOLLRDHUP : 0) | (events & RUBY_IO_WRITABLE ? EPOLLOUT : 0) |
           (events & RUBY_IO_PRIORITY ? EPOLLPRI : 0);
}

static int from_epoll(uint32_t events) {
    int ready = 0;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= RUBY_IO_READABLE;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) ready |= RUBY_IO_WRITABLE;
    if (events & EPOLLPRI) ready |= RUBY_IO_PRIORITY;
    return ready;
}

static int open_descriptor(nb_engine_t *engine) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = NB_EPOLL_MAILBOX};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, engine->mailbox->reader, &event) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int nb_epoll_open_state(nb_engine_t *engine, nb_epoll_t *state) {
    state->fd = open_descriptor(engine);
    return state->fd < 0 ? errno : 0;
}

static int epoll_open(nb_engine_t *engine) {
    nb_epoll_t *state = calloc(1, sizeof *state);
    if (!state) return ENOMEM;
    int error = nb_epoll_open_state(engine, state);
    if (error) free(state); else engine->state = state;
    return error;
}

static void epoll_close(nb_engine_t *engine) {
    nb_epoll_t *state = engine->state;
    close(state->fd);
    free(state);
    engine->state = NULL;
}

int nb_epoll_arm(nb_engine_t *engine, int fd, int events, uint32_t generation) {
    nb_epoll_t *state = engine->state;
    struct epoll_event event = {.events = to_epoll(events), .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
    bool known = engine->descriptors[fd].armed; /* perhaps not to the kernel: the number may have been reused */
    if (epoll_ctl(state->fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return 0;
    if (errno == ENOENT && epoll_ctl(state->fd, EPOLL_CTL_ADD, fd, &event) == 0) return 0;
    if (errno == EEXIST && epoll_ctl(state->fd, EPOLL_CTL_MOD, fd, &event) == 0) return 0;
    return errno;
}

void nb_epoll_disarm(nb_engine_t *engine, int fd) {
    nb_epoll_t *state = engine->state;
    if (fd < 0 || epoll_ctl(state->fd, EPOLL_CTL_DEL, fd, NULL) < 0) state->has_stale_registrations = true;
}

static void start_over(nb_engine_t *engine, nb_epoll_t *state) {
    int fresh = open_descriptor(engine);
    if (fresh < 0) return; /* out of descriptors: the stale events cost CPU until there is one */
    close(state->fd);
    state->fd = fresh;
    state->has_stale_registrations = false;
    state->renewals++;
    for (int fd = 0; fd < engine->descriptor_count; fd++) {
        nb_descriptor_t *descriptor = &engine->descriptors[fd];
        if (!descriptor->armed) continue;
        short wanted = nb_descriptor_wanted(engine, fd);
        bool failed = wanted && nb_epoll_arm(engine, fd, wanted, descriptor->generation);
        descriptor->armed = failed ? 0 : wanted;
        if (failed) nb_descriptor_closing(engine, fd); /* it was closed without our knowledge */
    }
}

void nb_epoll_wait(nb_engine_t *engine, uint64_t nanoseconds) {
    nb_epoll_t *state = engine->state;
#ifdef SYS_epoll_pwait2
    static atomic_bool missing;
    if (nanoseconds != 0 && nanoseconds != NB_NEVER && !atomic_load(&missing)) {
        struct timespec timeout = {.tv_sec = nanoseconds / NB_SECOND, .tv_nsec = nanoseconds % NB_SECOND};
        state->count = syscall(SYS_epoll_pwait2, state->fd, state->events, NB_EPOLL_EVENTS, &timeout, NULL, 0);
        if (state->count >= 0 || (errno != ENOSYS && errno != EPERM)) return;
        atomic_store(&missing, true);
    }
#endif
    uint64_t milliseconds = (nanoseconds + NB_MILLISECOND - 1) / NB_MILLISECOND;
    if (nanoseconds != NB_NEVER && milliseconds > INT32_MAX) milliseconds = INT32_MAX;
    int limit = nanoseconds == NB_NEVER ? -1 : (int)milliseconds;
    state->count = epoll_wait(state->fd, state->events, NB_EPOLL_EVENTS, limit);
}

void nb_epoll_dispatch(nb_engine_t *engine) {
    nb_epoll_t *state = engine->state;
    for (int i = 0; i < state->count; i++) {
        uint64_t data = state->events[i].data.u64;
        int events = from_epoll(state->events[i].events);
        if (data == NB_EPOLL_MAILBOX) nb_mailbox_clear(engine->mailbox);
        else nb_descriptor_event(engine, (int)(uint32_t)data, (uint32_t)(data >> 32), events);
    }
    state->count = 0;
    if (state->has_stale_registrations) start_over(engine, state);
}

static void epoll_wait_only(nb_engine_t *engine, uint64_t nanoseconds) {
    nb_epoll_t *state = engine->state;
    state->count = 0;
    nb_epoll_wait(engine, nanoseconds);
}

const nb_backend_t nb_backend_epoll = {
    .name = "epoll", .open = epoll_open, .close = epoll_close, .arm = nb_epoll_arm, .disarm = nb_epoll_disarm,
    .wait = epoll_wait_only, .dispatch = nb_epoll_dispatch,
};
