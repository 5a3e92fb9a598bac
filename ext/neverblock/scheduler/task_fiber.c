/*
 * NeverBlock::Scheduler::TaskFiber: the fiber of a task. Fiber#raise and Fiber#kill at it reach the task where it
 * waits.
 *
 *     task = scope.spawn { Fiber.new { sleep }.transfer }
 *     task.fiber.raise(IOError)     # sleep raises it
 *
 * Ruby raises in the fiber at the end of the chain of resumes, which may have transferred to another. The fiber that
 * waits would keep its locks, skip its ensures, and go on later, beside the fiber in which the task has gone on. But a
 * task is in one place at a time. So an exception is raised where the task waits, as a cancellation is.
 */
#include "scheduler.h"

static VALUE class;
static ID id_raise;

static ruby_task_t *task_of(nb_engine_t *engine, VALUE fiber) {
    for (nb_link_t *l = engine->tasks.next; l != &engine->tasks; l = l->next) {
        nb_task_t *task = NB_ENTRY(l, nb_task_t, link);
        if (task->fiber == fiber) return (ruby_task_t *)task;
    }
    return NULL;
}

/* The fiber that the task waits in, if that is not its own; else 0. */
static VALUE waits_in(ruby_task_t *task) {
    nb_wait_t *wait = task ? task->base.wait : NULL;
    return wait && wait->fiber != task->base.fiber ? wait->fiber : 0;
}

/* Whether the task has been woken by an unlock, a push, the end of a child or the like, and has not gone on yet. No
 * other waiter gets that lock, item or status. So the task takes it, and the exception is raised at its next wait, as
 * a cancellation is. */
static bool has_been_woken(ruby_task_t *task) {
    nb_wait_t *wait = task ? task->base.wait : NULL;
    return wait && (wait->blockable || wait->kind == NB_WAIT_PROCESS) && wait->outcome == NB_READY;
}

typedef struct { int argc; const VALUE *argv; VALUE inner; nb_engine_t *engine; } strike_t;

static VALUE strike_body(VALUE argument) {
    strike_t *strike = (strike_t *)argument;
    if (!strike->inner) return rb_call_super_kw(strike->argc, strike->argv, RB_PASS_CALLED_KEYWORDS);
    return rb_funcallv_kw(strike->inner, id_raise, strike->argc, strike->argv, RB_PASS_CALLED_KEYWORDS);
}

static VALUE strike_leave(VALUE argument) {
    ((strike_t *)argument)->engine->current_fiber = rb_fiber_current();
    return Qnil;
}

/* Tells the engine which fiber raises, and so goes on afterwards. It need not be the one that was switched to last. */
static VALUE strike(nb_scheduler_t *scheduler, VALUE inner, int argc, const VALUE *argv) {
    strike_t strike = {argc, argv, inner, &scheduler->engine};
    VALUE holder = scheduler->engine.self;
    scheduler->engine.current_fiber = rb_fiber_current();
    VALUE result = rb_ensure(strike_body, (VALUE)&strike, strike_leave, (VALUE)&strike);
    RB_GC_GUARD(holder);
    return result;
}

/* call-seq: raise(...) -- as Fiber#raise */
static VALUE fiber_raise(int argc, VALUE *argv, VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread();
    if (!scheduler) return rb_call_super_kw(argc, argv, RB_PASS_CALLED_KEYWORDS);
    ruby_task_t *task = task_of(&scheduler->engine, self);
    if (!has_been_woken(task)) return strike(scheduler, waits_in(task), argc, argv);
    VALUE exception = rb_make_exception(argc, argv);
    if (NIL_P(exception)) exception = rb_exc_new_cstr(rb_eRuntimeError, "unhandled exception");
    if (NIL_P(task->raised)) task->raised = rb_ary_new();
    rb_ary_push(task->raised, exception);
    task->base.pending = true;
    return Qnil;
}

/* call-seq: kill -> self, or false -- as Fiber#kill
 *
 * Ruby kills a fiber once, and returns false from then on. `dying` notes that, so that nothing waits for a second
 * kill.
 *
 * A task that waits in an inner fiber is killed by Cancelled, which the fibers up to its own pass on. If one of them
 * swallows it, the task lives until its own fiber waits again. */
static VALUE fiber_kill(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread();
    if (!scheduler) return rb_call_super(0, NULL);
    ruby_task_t *task = task_of(&scheduler->engine, self);
    VALUE inner = waits_in(task);
    bool woken = has_been_woken(task);
    if (task && task->dying) return Qfalse;
    if (!inner && !woken) {
        if (task) task->dying = true;
        return strike(scheduler, 0, 0, NULL);
    }
    if (!NIL_P(task->killed)) return Qfalse;
    VALUE exception = task->killed = nb_task_unwinding(&task->base);
    task->base.pending = true;
    if (!woken) strike(scheduler, inner, 1, &exception);
    return self;
}

/* call-seq: transfer(...) -- as Fiber#transfer; also from a fiber that the task's own has transferred to
 *
 * Ruby takes the task's fiber for one that has yielded, because of its start: see engine/fibers.c. */
static VALUE fiber_transfer(int argc, VALUE *argv, VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread();
    nb_engine_t *engine = scheduler ? &scheduler->engine : NULL;
    ruby_task_t *task = engine && engine->task && engine->task->fiber == self ? (ruby_task_t *)engine->task : NULL;
    bool gone_on = task && !task->base.wait && task->state == TASK_RUNNING;
    if (!gone_on || task->base.resumed_externally || rb_fiber_current() == self || nb_fiber_is_resuming(self))
        return rb_call_super_kw(argc, argv, RB_PASS_CALLED_KEYWORDS);
    return rb_fiber_transfer(self, argc, argv);
}

bool nb_task_survives(ruby_task_t *task) {
    if (NIL_P(task->killed) || task->dying || task->base.wait) return false;
    return rb_fiber_current() == task->base.fiber && !nb_on_its_way(task->killed);
}

VALUE nb_task_unwinding(nb_task_t *base) {
    ((ruby_task_t *)base)->cancelled = true;
    return rb_class_new_instance(0, NULL, nb_eCancelled);
}

VALUE nb_task_fiber_class(void) { return class; }

void nb_init_task_fiber(void) {
    id_raise = rb_intern("raise");
    class = rb_define_class_under(nb_cScheduler, "TaskFiber", nb_cFiber);
    rb_define_method(class, "raise", fiber_raise, -1);
    rb_define_method(class, "kill", fiber_kill, 0);
    rb_define_method(class, "transfer", fiber_transfer, -1);
}
