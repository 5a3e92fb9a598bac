/*
 * Limits on fibers' stacks that Ruby does not guard.
 *
 * The number: each started fiber takes two of the kernel's memory maps, the stack and its guard page. Ruby notices the
 * limit only in the middle of a switch, so we stop before it.
 *
 * The pool: Ruby's Ractors share one pool of stacks without a lock (Ruby 3.3 and 3.4 crash when plain fibers are made
 * in several at once). Our fibers take their stacks and give them back one at a time. In a process with one Ractor that
 * costs nothing. The lock belongs to an engine, not to a native thread: a Ractor's thread may change its native one.
 */
#include "internal.h"
#include <limits.h>
#include <ruby/thread.h>
#include <sched.h>
#include <stdio.h>

static atomic_bool several_ractors;
static _Atomic(nb_engine_t *) owner;
static unsigned depth; /* of the owner: a trap handler may start fibers while one is being started */

unsigned long nb_fiber_limit(void) {
    static unsigned long limit;
    if (limit) return limit;
    unsigned long maps = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file) {
        if (fscanf(file, "%lu", &maps) != 1) maps = 0;
        fclose(file);
    }
    return limit = maps > 8192 ? (maps - 4096) / 2 : ULONG_MAX;
}

void nb_stacks_are_shared(void) { atomic_store(&several_ractors, true); }

static void *let_others(void *unused) {
    sched_yield();
    return NULL;
}

/* With interrupts: Ruby stops Ractors by one, for a garbage collection for example, and the owner may wait for that. */
static VALUE give_way(VALUE unused) {
    rb_thread_call_without_gvl(let_others, NULL, NULL, NULL);
    return Qnil;
}

bool nb_stacks_lock(nb_engine_t *engine) {
    if (!atomic_load_explicit(&several_ractors, memory_order_relaxed)) return false;
    nb_engine_t *none = NULL;
    for (; !atomic_compare_exchange_weak(&owner, &none, engine) && none != engine; none = NULL) {
        int state = 0;
        rb_protect(give_way, Qnil, &state);
        if (state) nb_postpone(engine, state); /* nothing may be raised here */
    }
    depth++;
    return true;
}

void nb_stacks_unlock(bool locked) {
    if (locked && --depth == 0) atomic_store(&owner, NULL);
}

void nb_stacks_after_fork(void) {
    depth = 0;
    atomic_store(&owner, NULL);
}
