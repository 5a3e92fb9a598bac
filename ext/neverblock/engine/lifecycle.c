/*
 * An engine's life: opening, closing, what a forked child forgets, and what the GC marks.
 */
#include "internal.h"
#include <errno.h>

static void init_lists(nb_engine_t *engine) {
    nb_list_init(&engine->urgent);
    nb_list_init(&engine->normal);
    nb_list_init(&engine->resume_first);
    nb_list_init(&engine->parked);
    nb_list_init(&engine->tasks);
    nb_list_init(&engine->unverified);
    nb_list_init(&engine->deferred_starts);
    nb_list_init(&engine->settling);
    nb_list_init(&engine->operations);
    nb_list_init(&engine->abandoned);
}

int nb_engine_open(nb_engine_t *engine, const nb_hooks_t *hooks, const char *name, const char **failed) {
    int failure = 0;
    init_lists(engine);
    nb_list_init(&engine->spare_operations);
    engine->hooks = hooks;
    engine->thread = rb_thread_current();
    engine->fiber_class = hooks->fiber_class();
    engine->fork_generation = nb_fork_generation;
    engine->allowance = NB_SWITCHES;
    *failed = "the wake-up descriptor";
    if (!(engine->mailbox = nb_mailbox_open())) return errno;
    engine->backend = nb_backend_choose(engine, name, &engine->reason, &failure);
    *failed = name ? name : "any engine";
    if (engine->backend) return 0;
    nb_mailbox_release(engine->mailbox);
    engine->mailbox = NULL;
    return failure;
}

void nb_engine_close(nb_engine_t *engine) {
    if (!engine->backend) return;
    nb_operations_close(engine);
    engine->closing = true;
    engine->backend->close(engine);
    engine->backend = NULL;
    nb_operations_free(engine); /* those that would not end have ended with the back end */
    nb_mailbox_release(engine->mailbox);
    engine->mailbox = NULL;
    nb_timers_free(engine);
    nb_descriptors_free(engine);
    xfree(engine->fibers.slots);
    engine->fibers = (nb_fibermap_t){0};
}

/* The other fibers' waits are on stacks that the child's GC will free, so no pointer to them may be left. The
 * forking task's own links (its place among the tasks, its timers) must stay valid, because it leaves its waits
 * later. */
void nb_engine_drop(nb_engine_t *engine) {
    while (!nb_list_empty(&engine->tasks)) nb_list_remove(engine->tasks.next);
    for (size_t i = 1; i <= engine->timers.count; i++) engine->timers.slots[i]->index = 0;
    engine->timers.count = 0;
    init_lists(engine);
    nb_descriptors_free(engine);
    MEMZERO(engine->fibers.slots, nb_wait_t *, engine->fibers.capacity);
    engine->fibers.count = 0;
    engine->parked_count = engine->task_count = engine->interest_count = engine->watch_count = 0;
    engine->job_count = engine->operation_count = 0;
    engine->thread = Qnil;
    engine->task = NULL;
    engine->finished_fiber = engine->early_fiber = engine->early_blocker = engine->interrupt = 0;
    engine->starter = engine->mender = engine->keeper = 0;
    engine->killed = 0;
    engine->started = 0;
}

size_t nb_engine_size(const nb_engine_t *engine) {
    return engine->descriptor_count * sizeof(nb_descriptor_t) + engine->timers.capacity * sizeof(nb_timer_t *) +
           engine->fibers.capacity * sizeof(nb_wait_t *);
}

const char *nb_engine_name(const nb_engine_t *engine) { return engine->backend ? engine->backend->name : NULL; }

void nb_engine_mark(nb_engine_t *engine) {
    rb_gc_mark(engine->thread);
    if (engine->fiber_class) rb_gc_mark(engine->fiber_class);
    if (engine->body) rb_gc_mark(engine->body);
    if (engine->home) rb_gc_mark(engine->home);
    if (engine->finished_fiber) rb_gc_mark(engine->finished_fiber);
    nb_starter_mark(engine);
    if (engine->interrupt) rb_gc_mark(engine->interrupt);
    if (engine->current_fiber) rb_gc_mark(engine->current_fiber);
    if (engine->early_blocker) rb_gc_mark(engine->early_blocker);
    if (!engine->parked.next) return;
    for (nb_link_t *l = engine->parked.next; l != &engine->parked; l = l->next) {
        nb_wait_t *wait = NB_ENTRY(l, nb_wait_t, parked);
        rb_gc_mark(wait->fiber);
        rb_gc_mark(wait->subject);
        if (wait->exception != Qundef) rb_gc_mark(wait->exception);
    }
    for (nb_link_t *l = engine->tasks.next; l != &engine->tasks; l = l->next) {
        nb_task_t *task = NB_ENTRY(l, nb_task_t, link);
        rb_gc_mark(task->self);
        if (task->fiber) rb_gc_mark(task->fiber);
        bool queued = task->start.fiber && !nb_list_empty(&task->start.queue);
        if (queued) rb_gc_mark(task->start.fiber); /* may be an Enumerator's: nb_requeue */
    }
}
