/*
 * Fibers that wait for a Mutex and never run again: the parent's in a forked child, and those of a loop that was left
 * with tasks in it.
 *
 * Ruby takes a dead thread out of the queues of all mutexes, but not such a fiber: test/unit/scheduler/fork_test.rb has
 * the program without NeverBlock. That has three consequences:
 *
 * - The queue points to the fiber's stack, which a garbage collection would free. So the fibers are kept.
 * - An unlock wakes the first in the queue, not a living waiter. So mutexes that the caller holds lose these fibers.
 * - If the process ends while such a mutex is locked, Ruby has the scheduler wake the first in the queue. Without a
 *   scheduler it takes the fiber for the thread that is ending, and aborts: "[BUG] unexpected THREAD_KILLED". So there
 *   is a scheduler again at the end: lib/neverblock/scheduler/lock_waiters.rb.
 */
#include "scheduler.h"
#include <ruby/thread.h>

static VALUE kept; /* Array of Fiber; 0: none */

bool nb_waits_for_lock(nb_wait_t *wait) {
    return wait->kind == NB_WAIT_BLOCK && !RB_SPECIAL_CONST_P(wait->subject) &&
           (!RBASIC_CLASS(wait->subject) || RTEST(rb_obj_is_kind_of(wait->subject, rb_path2class("Thread::Mutex"))));
}

/* Empties the mutex's queue of waiters. No other thread can take the mutex in between, because the GVL is held. Ruby
 * 3.3 and 3.4 hide the mutex of IO#close: it has no class, and a fiber that forks does not hold it. */
static void shift(VALUE mutex) {
    if (!RBASIC_CLASS(mutex) || !RTEST(rb_funcall(mutex, rb_intern("owned?"), 0))) return;
    rb_mutex_unlock(mutex);
    rb_mutex_lock(mutex);
}

void nb_lock_waiters_keep(nb_engine_t *engine) {
    VALUE fibers = rb_ary_new(), mutexes = rb_ary_new();
    for (nb_link_t *l = engine->parked.next; l != &engine->parked; l = l->next) {
        nb_wait_t *wait = NB_ENTRY(l, nb_wait_t, parked);
        if (!nb_waits_for_lock(wait)) continue;
        rb_ary_push(fibers, wait->fiber);
        rb_ary_push(mutexes, wait->subject);
    }
    if (RARRAY_LEN(fibers) == 0) return;
    if (!kept) {
        kept = rb_ary_new();
        rb_gc_register_address(&kept);
    }
    rb_ary_concat(kept, fibers);
    if (engine->fork_generation == nb_fork_generation) return;
    for (long i = 0; i < RARRAY_LEN(mutexes); i++) shift(RARRAY_AREF(mutexes, i));
    RB_GC_GUARD(mutexes);
}

/* call-seq: Scheduler.lock_waiters? -> whether there are any */
static VALUE s_lock_waiters_p(VALUE klass) { return RBOOL(kept); }

void nb_init_lock_waiters(void) {
    rb_define_singleton_method(nb_cScheduler, "lock_waiters?", s_lock_waiters_p, 0);
}
