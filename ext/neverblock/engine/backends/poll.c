/*
 * The portable back end: poll(2) over all descriptors, gathered again for each wait. For macOS and the BSDs, for
 * containers that forbid the others, and as a reference for the tests of the others.
 */
#include "../internal.h"
#include <errno.h>
#include <poll.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct {
    struct pollfd *entries;
    size_t count, capacity;
    int ready;
} state_t;

static short to_poll(int events) {
    return (events & RUBY_IO_READABLE ? POLLIN : 0) | (events & RUBY_IO_WRITABLE ? POLLOUT : 0) |
           (events & RUBY_IO_PRIORITY ? POLLPRI : 0);
}

static int from_poll(short events) {
    int ready = 0;
    if (events & (POLLIN | POLLHUP | POLLERR)) ready |= RUBY_IO_READABLE;
    if (events & (POLLOUT | POLLHUP | POLLERR)) ready |= RUBY_IO_WRITABLE;
    if (events & POLLPRI) ready |= RUBY_IO_PRIORITY;
    return ready;
}

static int poll_open(nb_engine_t *engine) {
    engine->state = calloc(1, sizeof(state_t));
    return engine->state ? 0 : ENOMEM;
}

static void poll_close(nb_engine_t *engine) {
    state_t *state = engine->state;
    free(state->entries);
    free(state);
    engine->state = NULL;
}

/* EPERM for a regular file, as epoll: it is always ready, even if it is not in memory, so its readers would never
 * wait. */
static int poll_arm(nb_engine_t *engine, int fd, int events, uint32_t generation) {
    struct pollfd entry = {.fd = fd, .events = to_poll(events)};
    struct stat status;
    if (poll(&entry, 1, 0) <= 0) return 0;
    if (entry.revents & POLLNVAL) return EBADF;
    return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) ? EPERM : 0;
}

static void poll_disarm(nb_engine_t *engine, int fd) {}

static void add(state_t *state, int fd, short events) {
    if (state->count == state->capacity) {
        size_t capacity = state->capacity ? state->capacity * 2 : 64;
        struct pollfd *grown = realloc(state->entries, capacity * sizeof *grown);
        if (!grown) rb_memerror();
        state->entries = grown;
        state->capacity = capacity;
    }
    state->entries[state->count++] = (struct pollfd){.fd = fd, .events = events};
}

static void poll_prepare(nb_engine_t *engine) {
    state_t *state = engine->state;
    state->count = 0;
    state->ready = 0;
    add(state, engine->mailbox->reader, POLLIN);
    for (int fd = 0; fd < engine->descriptor_count; fd++) {
        short wanted = nb_descriptor_wanted(engine, fd);
        if (wanted) add(state, fd, to_poll(wanted));
    }
}

static void poll_wait(nb_engine_t *engine, uint64_t nanoseconds) {
    state_t *state = engine->state;
    uint64_t milliseconds = (nanoseconds + NB_MILLISECOND - 1) / NB_MILLISECOND;
    if (nanoseconds != NB_NEVER && milliseconds > INT32_MAX) milliseconds = INT32_MAX;
    state->ready = poll(state->entries, state->count, nanoseconds == NB_NEVER ? -1 : (int)milliseconds);
}

static void poll_dispatch(nb_engine_t *engine) {
    state_t *state = engine->state;
    if (state->ready <= 0) return;
    for (size_t i = 0; i < state->count; i++) {
        struct pollfd *entry = &state->entries[i];
        if (!entry->revents) continue;
        int fd = entry->fd;
        if (fd == engine->mailbox->reader) nb_mailbox_clear(engine->mailbox);
        else if (entry->revents & POLLNVAL) nb_descriptor_closing(engine, fd);
        else nb_descriptor_event(engine, fd, engine->descriptors[fd].generation, from_poll(entry->revents));
    }
    state->ready = 0;
}

const nb_backend_t nb_backend_poll = {
    .name = "poll", .open = poll_open, .close = poll_close, .arm = poll_arm, .disarm = poll_disarm,
    .prepare = poll_prepare, .wait = poll_wait, .dispatch = poll_dispatch,
};
