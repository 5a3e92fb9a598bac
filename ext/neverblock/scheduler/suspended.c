/*
 * Where a fiber of a thread stands, found out without touching it: by the method at the top of its backtrace. A method of
 * Ruby code that is named so is told from core's by its line: core's own have that of their caller.
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

/* Fiber#raise and Fiber#kill resume too, but their fiber ends or goes on at once. */
bool nb_fiber_is_resuming(VALUE fiber) {
    static const char *const methods[] = {"resume", "next", "next_values", "peek", "peek_values"};
    return stands_in(fiber, methods, sizeof methods / sizeof *methods);
}

/* Only its description tells that it is the one that its thread runs. */
bool nb_fiber_is_running(VALUE fiber) {
    static const char end[] = "(resumed)>";
    VALUE description = rb_funcall(fiber, rb_intern("to_s"), 0);
    long length = RSTRING_LEN(description) - (long)strlen(end);
    return length >= 0 && memcmp(RSTRING_PTR(description) + length, end, strlen(end)) == 0;
}

bool nb_fiber_is_striking(VALUE fiber) {
    static const char *const methods[] = {"raise", "kill", "transfer"};
    return stands_in(fiber, methods, sizeof methods / sizeof *methods);
}
