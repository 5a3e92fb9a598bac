/*
 * The methods of Ruby's core that frames name: those of the running fiber, of a suspended one, and of another thread.
 * What core tells a hook does not always say what it is for, and then only the name of the calling method does. No
 * other file looks for names of core's methods.
 */
#include "scheduler.h"
#include <ruby/debug.h>
#include <string.h>

#define DEPTH 3 /* the hook itself, that of a subclass, and the calling method */

/* The innermost method that is not one of the hooks. */
nb_caller_t nb_caller(const char *const *hooks, size_t count) {
    VALUE frames[DEPTH];
    int lines[DEPTH], depth = rb_profile_frames(0, DEPTH, frames, lines);
    for (int i = 0; i < depth; i++) {
        VALUE name = rb_profile_frame_method_name(frames[i]);
        if (!RB_TYPE_P(name, T_STRING)) break;
        bool hook = false;
        for (size_t j = 0; j < count; j++) hook |= strcmp(RSTRING_PTR(name), hooks[j]) == 0;
        if (!hook) return (nb_caller_t){.frame = frames[i], .name = name};
    }
    return (nb_caller_t){.frame = Qnil, .name = Qnil};
}

bool nb_caller_in_c(nb_caller_t caller) { return NIL_P(rb_profile_frame_path(caller.frame)); }

VALUE nb_caller_class(nb_caller_t caller) { return rb_profile_frame_classpath(caller.frame); }

bool nb_caller_starts_with(nb_caller_t caller, const char *prefix) {
    return !NIL_P(caller.name) && strncmp(RSTRING_PTR(caller.name), prefix, strlen(prefix)) == 0;
}

bool nb_caller_is(nb_caller_t caller, const char *name) {
    return !NIL_P(caller.name) && strcmp(RSTRING_PTR(caller.name), name) == 0;
}

/* Whether the hook, or its caller, has a name with this end. Cheaper than nb_caller: it is called for each read. */
bool nb_caller_named(const char *suffix, long length) {
    VALUE frames[2];
    int lines[2], depth = rb_profile_frames(0, 2, frames, lines);
    for (int i = 0; i < depth; i++) {
        VALUE name = rb_profile_frame_method_name(frames[i]);
        if (!RB_TYPE_P(name, T_STRING) || RSTRING_LEN(name) < length) continue;
        if (!memcmp(RSTRING_END(name) - length, suffix, (size_t)length)) return true;
    }
    return false;
}

/* ---- a suspended fiber ---- */
/* The method at the top of its backtrace. The line tells core's methods from methods of Ruby code with the same name:
 * core's have the line of their caller. */
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

bool nb_fiber_is_striking(VALUE fiber) {
    static const char *const methods[] = {"raise", "kill", "transfer"};
    return stands_in(fiber, methods, sizeof methods / sizeof *methods);
}

/* ---- another thread ---- */
static bool starts_with(VALUE string, const char *prefix) {
    return RB_TYPE_P(string, T_STRING) && strncmp(StringValueCStr(string), prefix, strlen(prefix)) == 0;
}

/* Ruby 3.3: "pop" in "<internal:thread_sync>"; later ones: "Thread::Queue#pop" in the caller's file. */
bool nb_thread_is_in_queue(VALUE thread) {
    VALUE places = rb_funcall(thread, rb_intern("backtrace_locations"), 2, INT2FIX(0), INT2FIX(1));
    if (NIL_P(places) || RARRAY_LEN(places) == 0) return false;
    VALUE place = RARRAY_AREF(places, 0), label = rb_funcall(place, rb_intern("label"), 0);
    if (starts_with(label, "Thread::Queue#") || starts_with(label, "Thread::SizedQueue#")) return true;
    return (starts_with(label, "pop") || starts_with(label, "push")) &&
           starts_with(rb_funcall(place, rb_intern("path"), 0), "<internal:thread_sync>");
}
