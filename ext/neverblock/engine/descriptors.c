/*
 * Descriptors: the waits and watches of each, and its registration with the kernel.
 *
 * A registration outlives the wait it was made for. It is level-triggered, so it costs nothing while the same fiber
 * waits for the same descriptor again and again. The first unwanted event ends it.
 *
 * A descriptor may be closed and its number reused without our knowledge. The kernel then drops the registration and
 * reports nothing. So an interest that relies on an old registration is unverified. Before the loop sleeps, and every
 * few turns of a busy loop, nb_descriptors_verify registers the unverified ones again, which shows whether they are
 * valid.
 */
#include "internal.h"
#include <errno.h>
#include <ruby/io.h>

static nb_descriptor_t *descriptor_at(nb_engine_t *engine, int fd) {
    if (fd >= engine->descriptor_count) {
        int count = engine->descriptor_count ? engine->descriptor_count : 64;
        while (count <= fd) count *= 2;
        /* The lists are circular, so their heads may not move: relink those in use after growing. */
        nb_descriptor_t *grown = ALLOC_N(nb_descriptor_t, count);
        for (int i = 0; i < count; i++) {
            nb_descriptor_t *old = i < engine->descriptor_count ? &engine->descriptors[i] : NULL;
            grown[i] = old ? *old : (nb_descriptor_t){0};
            nb_list_init(&grown[i].interests);
            if (!old || nb_list_empty(&old->interests)) continue;
            grown[i].interests = old->interests;
            grown[i].interests.next->prev = grown[i].interests.prev->next = &grown[i].interests;
        }
        xfree(engine->descriptors);
        engine->descriptors = grown;
        engine->descriptor_count = count;
    }
    return &engine->descriptors[fd];
}

void nb_descriptors_free(nb_engine_t *engine) {
    xfree(engine->descriptors);
    engine->descriptors = NULL;
    engine->descriptor_count = 0;
}

static short wanted(const nb_descriptor_t *descriptor) {
    short events = descriptor->watch ? descriptor->watch->events : 0;
    for (nb_link_t *l = descriptor->interests.next; l != &descriptor->interests; l = l->next)
        events |= NB_ENTRY(l, nb_interest_t, link)->events;
    return events;
}

short nb_descriptor_wanted(nb_engine_t *engine, int fd) {
    return fd < engine->descriptor_count ? wanted(&engine->descriptors[fd]) : 0;
}

/* After a read that took all there was, the next would most likely find nothing. If the descriptor is registered,
 * the next read waits first and saves that attempt. */
bool nb_descriptor_drained(nb_engine_t *engine, int fd, VALUE io) {
    if (fd >= engine->descriptor_count) return false;
    nb_descriptor_t *descriptor = &engine->descriptors[fd];
    return descriptor->drained && descriptor->armed && descriptor->io == io;
}

void nb_descriptor_was_read(nb_engine_t *engine, int fd, VALUE io, bool drained) {
    if (fd < engine->descriptor_count && engine->descriptors[fd].io == io) engine->descriptors[fd].drained = drained;
}

static void renew(nb_engine_t *engine, nb_descriptor_t *descriptor) {
    descriptor->generation = ++engine->generation;
    descriptor->renewed = engine->polls;
}

static int arm(nb_engine_t *engine, int fd, nb_descriptor_t *descriptor, short events) {
    engine->arms++;
    renew(engine, descriptor); /* always: the number may belong to another file now */
    int error = engine->backend->arm(engine, fd, events, descriptor->generation);
    descriptor->armed = error ? 0 : events;
    return error;
}

static void end_with_error(nb_engine_t *engine, nb_interest_t *interest) {
    nb_wait_t *wait = interest->wait;
    if (wait->outcome != NB_PENDING) return;
    wait->exception = engine->hooks->closed_error();
    nb_wake(engine, wait, NB_RAISE, true);
}

/* Whether the IO was closed, or its half that had this number: core closes some inside of C, and tells no scheduler. */
static bool has_left(VALUE io, int fd) {
    if (!RB_TYPE_P(io, T_FILE)) return false;
    if (RTEST(rb_io_closed_p(io))) return true;
    VALUE other = rb_io_get_write_io(io);
    return rb_io_descriptor(io) != fd && (other == io || RTEST(rb_io_closed_p(other)) || rb_io_descriptor(other) != fd);
}

/* The number belongs to another IO now: waits for a closed one would get its events. */
static void end_waits_of_closed(nb_engine_t *engine, nb_descriptor_t *descriptor, const nb_interest_t *added) {
    for (nb_link_t *l = descriptor->interests.next, *next; l != &descriptor->interests; l = next) {
        nb_interest_t *interest = NB_ENTRY(l, nb_interest_t, link);
        next = l->next;
        if (interest->io != added->io && has_left(interest->io, added->fd)) end_with_error(engine, interest);
    }
}

int nb_interest_add(nb_engine_t *engine, nb_interest_t *interest, VALUE io) {
    if (interest->fd < 0) return EBADF;
    nb_descriptor_t *descriptor = descriptor_at(engine, interest->fd);
    interest->revents = 0;
    interest->io = io;
    nb_list_init(&interest->unverified);
    bool trusted = descriptor->armed && descriptor->io == io && (interest->events & ~descriptor->armed) == 0;
    if (!trusted) {
        if (!nb_list_empty(&descriptor->interests)) end_waits_of_closed(engine, descriptor, interest);
        int error = arm(engine, interest->fd, descriptor, wanted(descriptor) | interest->events);
        if (error) return error;
        descriptor->io = io;
        descriptor->drained = false;
    }
    nb_list_append(&descriptor->interests, &interest->link);
    engine->interest_count++;
    if (trusted) nb_list_append(&engine->unverified, &interest->unverified);
    return 0;
}

void nb_interest_remove(nb_engine_t *engine, nb_interest_t *interest) {
    if (!interest->link.next || nb_list_empty(&interest->link)) return;
    nb_list_remove(&interest->link);
    nb_list_remove(&interest->unverified);
    engine->interest_count--;
}

void nb_descriptors_verify(nb_engine_t *engine) {
    while (!nb_list_empty(&engine->unverified)) {
        nb_interest_t *interest = NB_ENTRY(engine->unverified.next, nb_interest_t, unverified);
        nb_list_remove(&interest->unverified);
        if (interest->wait->outcome != NB_PENDING) continue;
        nb_descriptor_t *descriptor = &engine->descriptors[interest->fd];
        int error = arm(engine, interest->fd, descriptor, wanted(descriptor));
        if (error == EPERM) { /* reused for a file, which is always ready */
            interest->revents = interest->events;
            nb_wake(engine, interest->wait, NB_READY, true);
        } else if (error) end_with_error(engine, interest);
    }
}

void nb_descriptor_event(nb_engine_t *engine, int fd, uint32_t generation, int revents) {
    if (fd >= engine->descriptor_count) return;
    nb_descriptor_t *descriptor = &engine->descriptors[fd];
    if (descriptor->generation != generation) { /* a file that lives on under another number: see backends/epoll.c */
        if (descriptor->renewed != engine->polls) engine->backend->disarm(engine, -1); /* else: of this batch */
        return;
    }
    short unwanted = revents;
    for (nb_link_t *l = descriptor->interests.next, *next; l != &descriptor->interests; l = next) {
        nb_interest_t *interest = NB_ENTRY(l, nb_interest_t, link);
        next = l->next;
        short ready = interest->events & revents;
        unwanted &= ~interest->events;
        if (!ready || interest->wait->outcome != NB_PENDING) continue;
        interest->revents = ready;
        if (interest->wait->event_came) interest->wait->event_came(interest->wait);
        nb_wake(engine, interest->wait, NB_READY, true);
    }
    nb_watch_t *watch = descriptor->watch;
    if (watch && (revents & watch->events)) {
        unwanted &= ~watch->events;
        watch->ready(watch, revents & watch->events);
        descriptor = &engine->descriptors[fd]; /* the table may have grown */
        if (descriptor->generation != generation) return;
    }
    if (!unwanted) return;
    short rest = wanted(descriptor);
    if (rest && rest != descriptor->armed) {
        arm(engine, fd, descriptor, rest);
    } else if (!rest) {
        engine->backend->disarm(engine, fd);
        descriptor->armed = 0;
    }
}

/* ---- watches ---- */
int nb_watch_open(nb_engine_t *engine, nb_watch_t *watch, int fd, short events) {
    nb_descriptor_t *descriptor = descriptor_at(engine, fd);
    watch->fd = fd;
    watch->events = events;
    descriptor->watch = watch;
    descriptor->io = 0;
    int error = arm(engine, fd, descriptor, wanted(descriptor));
    if (error) {
        descriptor->watch = NULL;
        return error;
    }
    watch->engine = engine;
    engine->watch_count++;
    return 0;
}

/* Events that are no longer wanted stay registered until they happen: most often they are wanted again before. */
int nb_watch_want(nb_watch_t *watch, short events) {
    nb_engine_t *engine = watch->engine;
    if (!engine) return EBADF;
    nb_descriptor_t *descriptor = &engine->descriptors[watch->fd];
    watch->events = events;
    return (events & ~descriptor->armed) ? arm(engine, watch->fd, descriptor, wanted(descriptor)) : 0;
}

void nb_watch_close(nb_watch_t *watch, bool closing) {
    nb_engine_t *engine = watch->engine;
    if (!engine) return;
    watch->engine = NULL;
    if (engine->fork_generation != nb_fork_generation || watch->fd >= engine->descriptor_count) return;
    nb_descriptor_t *descriptor = &engine->descriptors[watch->fd];
    if (descriptor->watch != watch) return;
    descriptor->watch = NULL;
    engine->watch_count--;
    if (!closing) return; /* the first unwanted event ends the registration */
    bool shared = nb_has_forked && descriptor->armed; /* a child may have the file open too */
    if (shared) engine->backend->disarm(engine, watch->fd);
    renew(engine, descriptor);
    descriptor->armed = 0; /* the kernel drops it with the file */
}

int nb_descriptor_closing(nb_engine_t *engine, int fd) {
    if (fd < 0 || fd >= engine->descriptor_count) return 0;
    nb_descriptor_t *descriptor = &engine->descriptors[fd];
    int woken = 0;
    for (nb_link_t *l = descriptor->interests.next, *next; l != &descriptor->interests; l = next, woken++) {
        next = l->next;
        end_with_error(engine, NB_ENTRY(l, nb_interest_t, link));
    }
    if (descriptor->armed) {
        engine->backend->disarm(engine, fd);
        descriptor->armed = 0;
    }
    return woken;
}
