/*
 * Where a suspended fiber stands: the method at the top of its backtrace, which is read without touching the fiber. The
 * line tells core's methods from methods of Ruby code with the same name: core's have the line of their caller.
 */
#include "scheduler.h"
#include <string.h>

static bool stands_in(VALUE fiber, const char *const *methods, size_t count) {
    VALUE locations = rb_funcall(fiber, rb_intern("backtrace_locations"), 2, INT2FIX(0), INT2FIX(2));
    if (NIL_P(locations) || RARRAY_LEN(locations) < 2) return false;
    VALUE top = RARRAY_AREF(locations, 0), caller = RARRAY_AREF(locations, 1);
    VALUE name = rb_funcall(top, rb_intern("base_label"), 0);
    bool listed = false;
    for (size_t i = 0; i < count; i++) listed |= strcmp(StringValueCStr(name), methods[i]) == 0;
    return listed && rb_funcall(top, rb_intern("lineno"), 0) == rb_funcall(caller, rb_intern("lineno"), 0);
}

/* Without Fiber#raise and Fiber#kill, which resume too: their fiber ends or goes on at once. */
bool nb_fiber_is_resuming(VALUE fiber) {
    static const char *const methods[] = {"resume", "next", "next_values", "peek", "peek_values"};
    return stands_in(fiber, methods, sizeof methods / sizeof *methods);
}

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

bool nb_fiber_is_striking(VALUE fiber) {
    static const char *const methods[] = {"raise", "kill", "transfer"};
    return stands_in(fiber, methods, sizeof methods / sizeof *methods);
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
