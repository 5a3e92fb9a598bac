/*
 * Waiting for queues in NeverBlock.select (lib/neverblock/select.rb): the part that Ruby code can't do.
 *
 * A probe waits in Queue#pop or SizedQueue#push without taking or adding an item. When the queue wakes it, a throw
 * leaves the wait, so it does not go on in core's loop. Core has removed the probe from the queue's waiters by then, as
 * it does for every exception. So the wake-up is spent, but the item is still there: a select that takes another
 * source's item passes the wake-up on.
 *
 * Passing on: core wakes the waiters of a queue one by one, and only with push and pop. A spurious wake-up does no
 * harm, because core looks at the queue again. So a waiter of one of our loops is woken directly, and threads are woken
 * by Thread#wakeup.
 */
#include "scheduler.h"

void nb_probe_woken(nb_engine_t *engine) {
    ruby_task_t *task = (ruby_task_t *)engine->task;
    if (task && task->probing) rb_throw_obj(task->base.self, Qnil);
}

static VALUE probe_block(RB_BLOCK_CALL_FUNC_ARGLIST(tag, data)) { return rb_ary_new_from_args(1, rb_yield_values(0)); }

static VALUE probe_catch(VALUE task) { return rb_catch_obj(task, probe_block, Qnil); }

static VALUE probe_leave(VALUE task) {
    nb_task_of(task)->probing = false;
    return Qnil;
}

/* call-seq: probe { queue.pop } -> nil, or [value]
 *
 * nil: the queue has woken the calling task, and the wait was left without an effect. [value]: the block has returned,
 * because it need not wait. */
static VALUE probe(VALUE self) {
    nb_engine_t *engine = &nb_scheduler(self)->engine;
    rb_need_block();
    if (!engine->task) rb_raise(rb_eThreadError, "probe: no task is running here");
    VALUE task = engine->task->self;
    nb_task_of(task)->probing = true;
    return rb_ensure(probe_catch, task, probe_leave, task);
}

/* call-seq: wake_waiter(blocker, all) -> whether a fiber of this loop waits for the blocker; wakes one of them, or
 *   all */
static VALUE wake_waiter(VALUE self, VALUE blocker, VALUE all) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    bool found = false;
    if (!engine->backend) return Qfalse; /* of another thread that has ended */
    for (nb_link_t *l = engine->parked.next; l != &engine->parked; l = l->next) {
        nb_wait_t *wait = NB_ENTRY(l, nb_wait_t, parked);
        if (wait->subject != blocker || !wait->blockable) continue;
        found = true;
        if (nb_wake(engine, wait, NB_READY, false) && !RTEST(all)) break;
    }
    return RBOOL(found);
}

/* call-seq: Scheduler.wake_threads_in_queues -> whether there is one
 *
 * In C, so that no thread runs between the look at its backtrace and its wake-up, which would end another wait then. */
static VALUE s_wake_threads_in_queues(VALUE klass) {
    VALUE threads = rb_funcall(rb_cThread, rb_intern("list"), 0);
    bool found = false;
    for (long i = 0; i < RARRAY_LEN(threads); i++) {
        VALUE thread = RARRAY_AREF(threads, i);
        if (thread == rb_thread_current() || !nb_thread_is_in_queue(thread)) continue;
        found = true;
        rb_thread_wakeup_alive(thread);
    }
    RB_GC_GUARD(threads);
    return RBOOL(found);
}

void nb_init_select_queue(void) {
    rb_define_method(nb_cScheduler, "probe", probe, 0);
    rb_define_method(nb_cScheduler, "wake_waiter", wake_waiter, 2);
    rb_define_singleton_method(nb_cScheduler, "wake_threads_in_queues", s_wake_threads_in_queues, 0);
}
