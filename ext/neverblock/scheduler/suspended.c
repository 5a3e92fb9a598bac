/*
 * Whether a fiber is at work, which is read without touching it, and objects of fibers that are held weakly.
 */
#include "scheduler.h"
#include <string.h>

/* Only a fiber's description tells that its thread runs it. */
bool nb_fiber_is_running(VALUE fiber) {
    static const char end[] = "(resumed)>";
    VALUE description = rb_funcall(fiber, rb_intern("to_s"), 0);
    long length = RSTRING_LEN(description) - (long)strlen(end);
    return length >= 0 && memcmp(RSTRING_PTR(description) + length, end, strlen(end)) == 0;
}

/* The helper thread of timeouts calls this too, and then means the fiber that the loop's thread runs. */
bool nb_fiber_is_at_work(ruby_task_t *task, VALUE fiber) {
    if (task->base.wait ? fiber == task->base.wait->fiber : fiber == rb_fiber_current()) return true;
    bool asked_outside = !task->base.wait && task->base.engine && rb_thread_current() != task->base.engine->thread;
    return (asked_outside && nb_fiber_is_running(fiber)) || nb_fiber_is_resuming(fiber);
}

/* ---- objects of a fiber that is held weakly ---- */
VALUE nb_inner_fiber(nb_scheduler_t *scheduler, VALUE object) {
    if (NIL_P(scheduler->inner_fibers)) return 0;
    VALUE fiber = rb_funcall(scheduler->inner_fibers, rb_intern("[]"), 1, object);
    return NIL_P(fiber) ? 0 : fiber;
}

void nb_inner_fiber_note(nb_scheduler_t *scheduler, VALUE object) {
    if (NIL_P(scheduler->inner_fibers))
        scheduler->inner_fibers = rb_class_new_instance(0, NULL, rb_path2class("ObjectSpace::WeakMap"));
    rb_funcall(scheduler->inner_fibers, rb_intern("[]="), 2, object, rb_fiber_current());
}
