/*
 * Whether the system lets a native thread run: what Ruby's Thread#status doesn't tell of a thread that has been woken.
 */
#include "scheduler.h"
#include <stdio.h>

/* call-seq: Scheduler.native_rest(id) -> Integer, which stays the same while the native thread sleeps; nil: it runs
 *
 * id: Thread#native_thread_id. Linux counts how often a thread has left its processor. Elsewhere the value is false. */
static VALUE s_native_rest(VALUE klass, VALUE id) {
    char path[64], line[128], state = 0;
    unsigned long switches = 0, more;
    int counts = 0;
    if (NIL_P(id)) return Qfalse;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", NUM2INT(id));
    FILE *file = fopen(path, "re");
    if (!file) return Qfalse;
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "State: %c", &state);
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &more) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %lu", &more) == 1) switches += more, counts++;
    }
    fclose(file);
    if (counts < 2) return Qfalse;
    return state == 'S' ? ULONG2NUM(switches) : Qnil;
}

void nb_init_native_threads(void) {
    rb_define_singleton_method(nb_cScheduler, "native_rest", s_native_rest, 1);
}
