/*
 * Waiting for a task's end. Fibers of its loop park in its list of joiners. Other threads pop from a queue of their
 * own, which is one of its observers. Task#join and #value in lib/neverblock/task.rb use `await`.
 */
#include "scheduler.h"

typedef struct { nb_link_t link; nb_wait_t wait; } joiner_t;

/* A joiner that is being cancelled, or whose time is up, will not look at the result. */
bool nb_joiners_any(ruby_task_t *task) {
    for (nb_link_t *l = task->joiners.next; l != &task->joiners; l = l->next)
        if (NB_ENTRY(l, joiner_t, link)->wait.outcome != NB_RAISE) return true;
    return !NIL_P(task->observers);
}

void nb_joiners_wake(ruby_task_t *task) {
    while (!nb_list_empty(&task->joiners)) {
        nb_link_t *first = task->joiners.next;
        nb_list_remove(first);
        nb_wake(task->base.engine, &NB_ENTRY(first, joiner_t, link)->wait, NB_READY, false);
    }
}

void nb_joiners_tell_threads(ruby_task_t *task) {
    VALUE observers = task->observers;
    if (NIL_P(observers)) return;
    task->observers = Qnil;
    for (long i = 0; i < RARRAY_LEN(observers); i++)
        rb_funcall(RARRAY_AREF(observers, i), rb_intern("push"), 1, task->base.self);
}

typedef struct { ruby_task_t *task; joiner_t joiner; } join_t;

static VALUE join_park(VALUE argument) {
    join_t *join = (join_t *)argument;
    nb_park(join->task->base.engine, &join->joiner.wait);
    return Qnil;
}

static VALUE join_leave(VALUE argument) {
    nb_list_remove(&((join_t *)argument)->joiner.link);
    return Qnil;
}

typedef struct { ruby_task_t *task; VALUE queue, limit; } observer_t;

static VALUE observe(VALUE argument) {
    observer_t *observer = (observer_t *)argument;
    VALUE options = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("timeout")), observer->limit);
    return rb_funcallv_kw(observer->queue, rb_intern("pop"), 1, &options, RB_PASS_KEYWORDS);
}

static VALUE observe_no_more(VALUE argument) {
    observer_t *observer = (observer_t *)argument;
    ruby_task_t *task = observer->task;
    if (NIL_P(task->observers)) return Qnil;
    rb_ary_delete(task->observers, observer->queue);
    if (RARRAY_LEN(task->observers) == 0) task->observers = Qnil;
    return Qnil;
}

static VALUE await_from_outside(ruby_task_t *task, VALUE limit) {
    observer_t observer = {task, rb_class_new_instance(0, NULL, rb_path2class("Thread::Queue")), limit};
    if (NIL_P(task->observers)) task->observers = rb_ary_new();
    rb_ary_push(task->observers, observer.queue);
    rb_ensure(observe, (VALUE)&observer, observe_no_more, (VALUE)&observer);
    RB_GC_GUARD(observer.queue);
    return RBOOL(task->state >= TASK_RETURNED);
}

/* call-seq: await(limit) -> whether the task has ended, after limit seconds at most; nil: no limit */
static VALUE task_await(VALUE self, VALUE limit) {
    ruby_task_t *task = nb_task_of(self);
    uint64_t deadline = nb_limit_from(limit);
    nb_engine_t *engine = task->base.engine;
    if (!engine || task->state >= TASK_RETURNED) return Qtrue;
    if (rb_thread_current() != engine->thread) return await_from_outside(task, limit);
    if (engine->task == &task->base) rb_raise(rb_eThreadError, "a task can't wait for itself");
    nb_scheduler_t *here = nb_scheduler_here();
    if (!here || &here->engine != engine)
        rb_raise(rb_eThreadError, "this would never end: the task needs its loop, which stands still in a blocking "
                                  "section (Fiber.blocking, neverblock(false)) meanwhile. Wait outside of that "
                                  "section.");
    if (!NIL_P(limit) && deadline <= nb_now()) return Qfalse;
    join_t join = {.task = task};
    nb_wait_init(&join.joiner.wait, NB_WAIT_BLOCK, self);
    nb_wait_deadline(&join.joiner.wait, deadline);
    nb_list_append(&task->joiners, &join.joiner.link);
    rb_ensure(join_park, (VALUE)&join, join_leave, (VALUE)&join);
    RB_GC_GUARD(self);
    return RBOOL(task->state >= TASK_RETURNED);
}

void nb_init_joiners(void) {
    rb_define_private_method(nb_cTask, "await", task_await, 1);
}
