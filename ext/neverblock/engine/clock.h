/*
 * The clock: the only place that reads the time. engine.h includes this header.
 *
 *     uint64_t deadline = nb_now() + 5 * NB_MILLISECOND;
 *
 * The clock is real, or virtual: a test's (lib/neverblock/testing/virtual_clock.rb). Virtual time stands still while
 * code runs. A loop without a runnable fiber jumps to its next deadline if nothing outside of the loop is outstanding
 * (outstanding.c); otherwise the loop waits in the kernel, and virtual time passes as real time does.
 */
#ifndef NB_CLOCK_H
#define NB_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

extern atomic_bool nb_clock_virtual; /* whether the clock is virtual */

uint64_t nb_now_real(void);    /* ns, CLOCK_MONOTONIC */
uint64_t nb_now_virtual(void);

static inline bool nb_clock_is_virtual(void) {
    return __builtin_expect(atomic_load_explicit(&nb_clock_virtual, memory_order_relaxed), false);
}

/* ns that only go forward; all deadlines are of this clock */
static inline uint64_t nb_now(void) { return nb_clock_is_virtual() ? nb_now_virtual() : nb_now_real(); }

uint64_t nb_now_coarse(void);              /* the same, some milliseconds behind, for a third of the cost */
uint64_t nb_now_wall(void);                /* ns since 1970 */

/* Both return by how much nb_now has moved. The virtual clock begins at the next whole second of the real one. */
int64_t nb_clock_start_virtual(void);
int64_t nb_clock_stop_virtual(void);
void nb_clock_advance_to(uint64_t time);   /* virtual; a time that has passed has no effect, nor has NB_NEVER */
void nb_clock_wait_begins(void);           /* around a wait in the kernel: time passes */
void nb_clock_wait_ends(void);
void nb_clock_after_fork(void);            /* a child's clock is real */

/* Conditions of native threads, for pthread_cond_timedwait until nb_real_after. No step of the wall clock matters. */
void nb_condition_init(pthread_cond_t *);
struct timespec nb_real_after(uint64_t nanoseconds);

#endif
