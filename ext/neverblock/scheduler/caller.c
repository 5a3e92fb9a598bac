/*
 * The method that calls a hook. A hook's arguments do not always tell what it is called for, and then only the name of
 * the calling method does. All code that looks for names of core's methods in the running fiber's frames does so here.
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
