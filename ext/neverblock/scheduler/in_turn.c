/*
 * One thread of the process at a time, of any Ractor: Ruby 3.3 and 3.4 crash when two Ractors prepend at once.
 *
 *     Scheduler.in_turn { target.prepend(patch) }
 *
 * Not for blocks that wait, nor for one inside another.
 */
#include "scheduler.h"
#include <ruby/thread.h>
#include <sched.h>

static atomic_uint taken; /* 1 + the fork generation of the process that took it: a forked child's starts free */

static void *let_others(void *unused) {
    sched_yield();
    return NULL;
}

static VALUE leave_turn(VALUE unused) {
    atomic_store(&taken, 0);
    return Qnil;
}

/* call-seq: in_turn { } -> the block's value
 *
 * A waiter takes Ruby's interrupts, which stop a Ractor while another collects garbage. */
static VALUE in_turn(VALUE klass) {
    for (unsigned ours = nb_fork_generation + 1, before = 0; !atomic_compare_exchange_weak(&taken, &before, ours);)
        if (before == ours) rb_thread_call_without_gvl(let_others, NULL, NULL, NULL), before = 0;
    return rb_ensure(rb_yield, Qundef, leave_turn, Qnil);
}

void nb_init_in_turn(void) {
    rb_define_singleton_method(nb_cScheduler, "in_turn", in_turn, 0);
}
