/*
 * The clock: see clock.h. The virtual one is for the whole process, so a lock guards it; the real one has no state.
 */
#include "internal.h"

atomic_bool nb_clock_virtual;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t virtual_now;  /* ns */
static int64_t wall_offset;   /* ns to add to virtual_now for the wall clock */
static uint64_t wait_began;   /* real ns, while loops wait */
static int waiting;           /* loops that wait in the kernel */

static uint64_t read_clock(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return (uint64_t)time.tv_sec * NB_SECOND + (uint64_t)time.tv_nsec;
}

uint64_t nb_now_real(void) { return read_clock(CLOCK_MONOTONIC); }

/* With the lock held: adds what has passed during waits. */
static uint64_t catch_up(void) {
    if (waiting) {
        uint64_t real = nb_now_real();
        virtual_now += real - wait_began;
        wait_began = real;
    }
    return virtual_now;
}

uint64_t nb_now_virtual(void) {
    pthread_mutex_lock(&lock);
    uint64_t now = catch_up();
    pthread_mutex_unlock(&lock);
    return now;
}

uint64_t nb_now_coarse(void) {
#ifdef CLOCK_MONOTONIC_COARSE
    if (!nb_clock_is_virtual()) return read_clock(CLOCK_MONOTONIC_COARSE);
#endif
    return nb_now();
}

uint64_t nb_now_wall(void) {
    if (!nb_clock_is_virtual()) return read_clock(CLOCK_REALTIME);
    return nb_now_virtual() + (uint64_t)wall_offset;
}

/* A whole second: sums of a Float time and short limits are then exact more often. */
static uint64_t whole_second(uint64_t time) { return (time + NB_SECOND - 1) / NB_SECOND * NB_SECOND; }

int64_t nb_clock_start_virtual(void) {
    pthread_mutex_lock(&lock);
    wait_began = nb_now_real();
    virtual_now = whole_second(wait_began);
    wall_offset = (int64_t)(whole_second(read_clock(CLOCK_REALTIME)) - virtual_now);
    int64_t moved = (int64_t)(virtual_now - wait_began);
    atomic_store(&nb_clock_virtual, true);
    pthread_mutex_unlock(&lock);
    return moved;
}

int64_t nb_clock_stop_virtual(void) {
    int64_t moved = (int64_t)(nb_now_real() - nb_now_virtual());
    atomic_store(&nb_clock_virtual, false);
    return moved;
}

void nb_clock_advance_to(uint64_t time) {
    pthread_mutex_lock(&lock);
    if (time != NB_NEVER && time > catch_up()) virtual_now = time;
    pthread_mutex_unlock(&lock);
}

void nb_clock_wait_begins(void) {
    pthread_mutex_lock(&lock);
    catch_up();
    if (waiting++ == 0) wait_began = nb_now_real();
    pthread_mutex_unlock(&lock);
}

void nb_clock_wait_ends(void) {
    pthread_mutex_lock(&lock);
    catch_up();
    waiting--;
    pthread_mutex_unlock(&lock);
}

void nb_clock_after_fork(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&nb_clock_virtual, false);
    waiting = 0;
}

/* ---- conditions ---- */
#ifdef __APPLE__ /* no other clock is possible there */
#define CONDITION_CLOCK CLOCK_REALTIME
#else
#define CONDITION_CLOCK CLOCK_MONOTONIC
#endif

void nb_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CONDITION_CLOCK);
#endif
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec nb_real_after(uint64_t nanoseconds) {
    uint64_t time = read_clock(CONDITION_CLOCK) + nanoseconds;
    return (struct timespec){.tv_sec = (time_t)(time / NB_SECOND), .tv_nsec = (long)(time % NB_SECOND)};
}
