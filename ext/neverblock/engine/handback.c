/*
 * Fibers that a task's own code transferred to, for example:
 *
 *     NeverBlock.spawn { Fiber.new { sleep 1 }.transfer }
 *
 * When such a fiber ends, Ruby returns to the thread's root fiber, and so to the home fiber here. The home fiber hands
 * the value or the exception back to the task's own fiber, as Ruby would to the root fiber of a thread.
 */
#include "internal.h"

typedef struct { nb_engine_t *engine; nb_task_t *task; VALUE value; int state; } trampoline_t;

static VALUE switch_to(VALUE argument) {
    trampoline_t *trampoline = (trampoline_t *)argument;
    nb_switch_to(trampoline->engine, (nb_wait_t *)trampoline->value);
    return Qnil;
}

static VALUE hand_back(VALUE argument) {
    trampoline_t *trampoline = (trampoline_t *)argument;
    nb_engine_t *engine = trampoline->engine;
    nb_task_t *task = trampoline->task;
    VALUE fiber = task->fiber, error = trampoline->value;
    bool resuming = engine->hooks->is_resuming(fiber);
    engine->task = task;
    engine->current_fiber = fiber;
    if (!trampoline->state && resuming)
        error = rb_exc_new_cstr(rb_path2class("FiberError"), "a fiber that was transferred to has ended, and nothing "
                                                             "tells which one goes on: end it with a transfer back");
    if (!trampoline->state && !resuming) {
        rb_fiber_transfer(fiber, 0, NULL);
    } else {
        if (!resuming) {
            task->resumed_externally = true; /* Ruby resumes it */
            task->resumer = NULL;
        }
        rb_fiber_raise(fiber, 1, &error);
    }
    nb_after_switch(engine);
    RB_GC_GUARD(fiber);
    RB_GC_GUARD(error);
    return Qnil;
}

/* The home fiber runs again although the running task has not parked: the task's own fiber is to go on. */
static bool needs_handback(nb_engine_t *engine) {
    nb_task_t *task = engine->task;
    if (engine->fork_generation != nb_fork_generation || engine->current_fiber == engine->home) return false;
    if (!task || task->engine != engine || task->wait) return false;
    return task->fiber != engine->finished_fiber && rb_fiber_alive_p(task->fiber);
}

static void hand_back_with(trampoline_t *trampoline, VALUE error) {
    trampoline->task = trampoline->engine->task;
    trampoline->value = error;
    VALUE self = trampoline->task->self;
    rb_protect(hand_back, (VALUE)trampoline, &trampoline->state);
    RB_GC_GUARD(self);
    RB_GC_GUARD(error);
}

static VALUE jump(VALUE state) { rb_jump_tag((int)state); }

static VALUE unwind(VALUE argument) {
    trampoline_t *trampoline = (trampoline_t *)argument;
    while (needs_handback(trampoline->engine)) {
        trampoline->state = 1;
        hand_back_with(trampoline, trampoline->engine->hooks->unwinding(trampoline->engine->task));
    }
    return Qnil;
}

void nb_run_fibers(nb_engine_t *engine, nb_wait_t *next) {
    trampoline_t trampoline = {.engine = engine, .value = (VALUE)next};
    rb_protect(switch_to, (VALUE)&trampoline, &trampoline.state);
    while (needs_handback(engine)) {
        VALUE error = trampoline.state ? rb_errinfo() : Qnil;
        if (trampoline.state && SPECIAL_CONST_P(error)) /* Thread#kill, which goes on after the task has been unwound */
            rb_ensure(jump, (VALUE)trampoline.state, unwind, (VALUE)&trampoline);
        rb_set_errinfo(Qnil);
        hand_back_with(&trampoline, error);
    }
    if (trampoline.state) rb_jump_tag(trampoline.state);
}
