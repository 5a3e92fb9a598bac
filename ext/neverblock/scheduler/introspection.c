/*
 * Introspection: what lib/neverblock asks a loop about its tasks, its engine and its counters. Other threads may ask,
 * and after the loop was closed.
 */
#include "scheduler.h"

/* call-seq: tasks -> the unfinished ones, oldest first */
static VALUE tasks(VALUE self) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    VALUE list = rb_ary_new();
    for (nb_link_t *l = engine->tasks.next; l != &engine->tasks; l = l->next)
        rb_ary_push(list, NB_ENTRY(l, nb_task_t, link)->self);
    return list;
}

/* call-seq: tasks_of(fibers) -> for each fiber the unfinished task that it belongs to, or nil
 *
 * Own fibers only, not inner ones. In one walk, from any thread. */
static VALUE tasks_of(VALUE self, VALUE fibers) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    Check_Type(fibers, T_ARRAY);
    VALUE found = rb_ary_new();
    if (RARRAY_LEN(fibers)) rb_ary_store(found, RARRAY_LEN(fibers) - 1, Qnil);
    for (nb_link_t *l = engine->tasks.next; l != &engine->tasks; l = l->next) {
        nb_task_t *task = NB_ENTRY(l, nb_task_t, link);
        for (long i = 0; i < RARRAY_LEN(fibers); i++)
            if (RARRAY_AREF(fibers, i) == task->fiber) RARRAY_ASET(found, i, task->self);
    }
    return found;
}

static bool is_visible_lock(nb_wait_t *wait) { return nb_waits_for_lock(wait) && RBASIC_CLASS(wait->subject); }

/* call-seq: locks_awaited(fibers) -> the mutexes that fibers of this loop wait for; empty if none of these fibers does
 *
 * A Monitor has a Mutex inside. The hidden ones of `require` and IO#close are left out. */
static VALUE locks_awaited(VALUE self, VALUE fibers) {
    nb_engine_t *engine = &nb_scheduler(self)->engine;
    Check_Type(fibers, T_ARRAY);
    VALUE locks = rb_ary_new();
    bool any = false;
    for (long i = 0; i < RARRAY_LEN(fibers) && !any; i++) {
        nb_wait_t *wait = nb_blocked(engine, RARRAY_AREF(fibers, i));
        any = wait && is_visible_lock(wait);
    }
    if (!any) return locks;
    for (nb_link_t *l = engine->parked.next; l != &engine->parked; l = l->next) {
        nb_wait_t *wait = NB_ENTRY(l, nb_wait_t, parked);
        if (is_visible_lock(wait)) rb_ary_push(locks, wait->subject);
    }
    return rb_funcall(locks, rb_intern("uniq"), 0);
}

/* call-seq: oldest_task -> the oldest of the unfinished ones, or nil */
static VALUE oldest_task(VALUE self) {
    nb_link_t *tasks = &nb_scheduler_any(self)->engine.tasks;
    return nb_list_empty(tasks) ? Qnil : NB_ENTRY(tasks->next, nb_task_t, link)->self;
}

static VALUE task_count(VALUE self) { return SIZET2NUM(nb_scheduler_any(self)->engine.task_count); }

static VALUE thread_m(VALUE self) { return nb_scheduler_any(self)->engine.thread; }

/* call-seq: idle_on(thread) -> the number of switches so far, or nil
 *
 * nil unless the loop runs on this thread and only another thread could wake its fibers. From any thread. */
static VALUE idle_on(VALUE self, VALUE thread) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    nb_engine_t *engine = &scheduler->engine;
    if (!scheduler->looping || engine->thread != thread || !nb_engine_idle(engine)) return Qnil;
    if (!nb_mailbox_empty(engine->mailbox) || nb_has_bare_sleep(engine)) return Qnil;
    return ULONG2NUM(atomic_load(&engine->switches));
}

/* nil: it is closed */
static VALUE engine_name(VALUE self) {
    const char *name = nb_engine_name(&nb_scheduler_any(self)->engine);
    return name ? rb_str_new_cstr(name) : Qnil;
}

static VALUE engine_reason(VALUE self) { return rb_str_new_cstr(nb_scheduler(self)->engine.reason); }

/* call-seq: statistics -> Hash of Integers */
static VALUE statistics(VALUE self) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    const struct { const char *name; unsigned long value; } all[] = {
        {"switches", atomic_load(&engine->switches)}, {"turns", engine->turn}, {"polls", engine->polls},
        {"waits", engine->waits}, {"registrations", engine->arms}, {"parked", engine->parked_count},
        {"tasks", engine->task_count}, {"timers", engine->timers.count}, {"interests", engine->interest_count},
        {"jobs", engine->job_count}, {"operations", engine->operation_count}, {"starved", engine->out_of_buffers},
        {"fibers", engine->started},
    };
    VALUE hash = rb_hash_new();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rb_hash_aset(hash, ID2SYM(rb_intern(all[i].name)), ULONG2NUM(all[i].value));
    return hash;
}

/* While timeouts run: the loop's earliest timer, in nanoseconds of the monotonic clock; else nil. */
static VALUE next_deadline(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    if (!scheduler->engine.backend || !scheduler->timeouts) return Qnil;
    uint64_t deadline = nb_next_deadline(&scheduler->engine);
    return deadline == NB_NEVER ? Qnil : ULL2NUM(deadline);
}

void nb_init_introspection(void) {
    rb_define_method(nb_cScheduler, "idle_on", idle_on, 1);
    rb_define_method(nb_cScheduler, "tasks", tasks, 0);
    rb_define_method(nb_cScheduler, "tasks_of", tasks_of, 1);
    rb_define_method(nb_cScheduler, "locks_awaited", locks_awaited, 1);
    rb_define_method(nb_cScheduler, "oldest_task", oldest_task, 0);
    rb_define_method(nb_cScheduler, "task_count", task_count, 0);
    rb_define_method(nb_cScheduler, "thread", thread_m, 0);
    rb_define_method(nb_cScheduler, "engine_name", engine_name, 0);
    rb_define_method(nb_cScheduler, "engine_reason", engine_reason, 0);
    rb_define_method(nb_cScheduler, "statistics", statistics, 0);
    rb_define_method(nb_cScheduler, "next_deadline", next_deadline, 0);
}
