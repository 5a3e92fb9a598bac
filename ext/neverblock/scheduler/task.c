/*
 * NeverBlock::Task: a block that runs in a fiber of its own. Its lifecycle is here, in C; its public methods (value,
 * status, inspect) are in lib/neverblock/task.rb.
 */
#include "scheduler.h"
#include <ruby/ractor.h>
#include <math.h>

VALUE nb_cTask, nb_eCancelled;
static VALUE state_names[TASK_CANCELLED + 1]; /* symbols of method names: they live for ever */
static ID id_tasks, id_finished;

/* ---- the object ---- */
static void task_mark(void *pointer) {
    ruby_task_t *task = pointer;
    VALUE all[] = {task->block, task->arguments, task->scope, task->name, task->result, task->inner, task->observers,
                   task->watcher, task->cancellation, task->cancelled_by, task->inner_shields, task->masks,
                   task->inner_masks, task->killed, task->raised, task->base.fiber};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (all[i]) rb_gc_mark(all[i]);
    if (task->inner_cancel_scopes.next) nb_cancel_scopes_mark(task);
    if (task->state == TASK_NEW && task->base.start.subject) rb_gc_mark(task->base.start.subject);
}

static size_t task_size(const void *pointer) { return sizeof(ruby_task_t); }

static const rb_data_type_t task_type = {
    .wrap_struct_name = "NeverBlock::Task", .flags = RUBY_TYPED_FREE_IMMEDIATELY,
    .function = {.dmark = task_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = task_size},
};

ruby_task_t *nb_task_of(VALUE self) {
    ruby_task_t *task;
    TypedData_Get_Struct(self, ruby_task_t, &task_type, task);
    return task;
}

static VALUE allocate(ruby_task_t **pointer) {
    ruby_task_t *task;
    VALUE self = TypedData_Make_Struct(nb_cTask, ruby_task_t, &task_type, task);
    task->base.self = self;
    task->block = task->arguments = task->scope = task->inner = task->name = Qnil;
    task->result = task->observers = task->watcher = task->cancellation = task->cancelled_by = Qnil;
    task->inner_shields = task->killed = task->raised = task->masks = task->inner_masks = Qnil;
    task->spawned = nb_now();
    nb_list_init(&task->joiners);
    nb_list_init(&task->cancel_scopes);
    nb_list_init(&task->inner_cancel_scopes);
    *pointer = task;
    return self;
}

/* In C, because an interrupt may come as soon as we return, and a task that no scope knows would outlive its run. */
static void join_scope(VALUE scope, VALUE task) {
    VALUE tasks = rb_ivar_get(scope, id_tasks);
    if (RB_TYPE_P(tasks, T_HASH)) rb_hash_aset(tasks, task, Qtrue);
}

VALUE nb_task_spawn(nb_scheduler_t *scheduler, VALUE scope, VALUE block, VALUE arguments, VALUE name, VALUE storage,
                    bool now) {
    ruby_task_t *task;
    VALUE self = allocate(&task);
    task->block = block;
    task->arguments = arguments;
    task->scope = task->inner = scope;
    task->name = name;
    bool here = rb_thread_current() == scheduler->engine.thread;
    if (here) { /* both may find no memory: first, so that nothing is half begun then */
        nb_task_fiber(&scheduler->engine, &task->base, storage);
        join_scope(scope, self);
    }
    nb_task_enqueue(&scheduler->engine, &task->base);
    if (!here) { /* a fiber can't be made for another thread; the task waits for release: see Scope#start_from_thread */
        task->base.start.subject = storage;
        nb_list_remove(&task->base.start.queue);
    }
    if (now) nb_task_run_now(&scheduler->engine, &task->base);
    RB_GC_GUARD(self);
    return self;
}

/* ---- the end ---- */
static VALUE tell(VALUE argument) {
    ruby_task_t *task = (ruby_task_t *)argument;
    bool waited_for = nb_joiners_any(task);
    if (!NIL_P(task->watcher)) rb_funcall(task->watcher, id_finished, 2, task->base.self, RBOOL(waited_for));
    if (!NIL_P(task->scope)) rb_funcall(task->scope, id_finished, 2, task->base.self, RBOOL(waited_for));
    nb_joiners_tell_threads(task);
    return Qnil;
}

static void finish(ruby_task_t *task, nb_task_state_t state, VALUE result) {
    nb_engine_t *engine = task->base.engine;
    int failed = 0;
    task->state = state;
    task->result = result;
    task->base.pending = false;
    if (engine->fork_generation != nb_fork_generation) { /* a child has no joiners, but an exit status */
        if (state == TASK_FAILED) rb_ivar_set(engine->self, rb_intern("@child_error"), result);
        return;
    }
    nb_cancel_scopes_drop(task);
    nb_list_remove(&task->base.link);
    engine->task_count--;
    rb_protect(tell, (VALUE)task, &failed);
    if (failed) nb_postpone(engine, failed); /* an interrupt of the thread; the scope reports its own errors */
    nb_joiners_wake(task);
    task->base.engine = NULL;
    task->inner = Qnil;
}

/* ---- hooks of the engine ---- */
static VALUE call_block(VALUE argument) {
    ruby_task_t *task = (ruby_task_t *)argument;
    if (NIL_P(task->arguments)) return rb_proc_call_with_block(task->block, 0, NULL, Qnil);
    VALUE arguments = task->arguments;
    return rb_proc_call_with_block(task->block, (int)RARRAY_LEN(arguments), RARRAY_CONST_PTR(arguments), Qnil);
}

static bool run(nb_task_t *base, int state) {
    ruby_task_t *task = (ruby_task_t *)base;
    nb_engine_t *engine = base->engine;
    VALUE result = task->cancellation; /* it may have been cancelled during its start: then its block is not called */
    bool refused = task->cancel_request != NB_CANCEL_NONE;
    if (!state && !refused) {
        task->state = TASK_RUNNING;
        result = rb_protect(call_block, (VALUE)task, &state);
    }
    if (!state) {
        finish(task, refused ? TASK_CANCELLED : TASK_RETURNED, result);
        return nb_take_killed(engine);
    }
    VALUE error = rb_errinfo();
    if (SPECIAL_CONST_P(error)) { /* Fiber#kill; or Thread#kill, which goes on until it reaches the home fiber */
        bool thread_killed = error == INT2FIX(NB_TAG_FATAL);
        finish(task, TASK_CANCELLED, Qnil);
        return nb_take_killed(engine) || thread_killed;
    }
    rb_set_errinfo(Qnil);
    bool own = task->cancelled && rb_obj_is_kind_of(error, nb_eCancelled);
    finish(task, own ? TASK_CANCELLED : TASK_FAILED, error);
    return nb_take_killed(engine);
}

static VALUE limit_error(VALUE arguments) {
    return rb_funcallv(rb_path2class("NeverBlock::ResourceLimitError"), rb_intern("fibers"), 2, (VALUE *)arguments);
}

static void start_failed(nb_task_t *base, VALUE exception, unsigned long fibers) {
    VALUE arguments[] = {ULONG2NUM(fibers), exception};
    int state = 0;
    VALUE error = rb_protect(limit_error, (VALUE)arguments, &state);
    if (state) {
        error = rb_errinfo();
        rb_set_errinfo(Qnil);
    }
    finish((ruby_task_t *)base, TASK_FAILED, error);
}

/* An Enumerator that has yielded in the middle of a shielded block, or was dropped there, does not count. */
unsigned nb_shields(ruby_task_t *task) {
    unsigned count = task->shields;
    if (NIL_P(task->inner_shields)) return count;
    VALUE fibers = rb_funcall(task->inner_shields, rb_intern("keys"), 0);
    for (long i = 0; i < RARRAY_LEN(fibers); i++) {
        VALUE fiber = RARRAY_AREF(fibers, i);
        if (!nb_fiber_is_at_work(task, fiber)) continue;
        count += NUM2UINT(rb_funcall(task->inner_shields, rb_intern("[]"), 1, fiber));
    }
    return count;
}

static bool may_cancel(ruby_task_t *task) {
    if (task->cancel_request != NB_CANCEL_ASKED) return task->cancel_request == NB_CANCEL_FORCED;
    if (nb_shields(task)) return false;
    if (((nb_scheduler_t *)task->base.engine)->unmasked) return true;
    VALUE class = NIL_P(task->cancellation) ? nb_eCancelled : rb_obj_class(task->cancellation);
    return !nb_masks_hold(task, class, 0, !task->between_waits);
}

static bool deliverable(nb_task_t *base) {
    ruby_task_t *task = (ruby_task_t *)base;
    return !NIL_P(task->raised) || may_cancel(task) || nb_task_survives(task) || nb_cancel_scope_deliverable(task);
}

static void deliver(nb_task_t *base) {
    ruby_task_t *task = (ruby_task_t *)base;
    if (!NIL_P(task->raised)) {
        VALUE exception = rb_ary_shift(task->raised);
        if (RARRAY_LEN(task->raised) == 0) task->raised = Qnil;
        rb_exc_raise(exception);
    }
    if (nb_task_survives(task)) rb_funcall(base->fiber, rb_intern("kill"), 0);
    if (may_cancel(task)) {
        task->cancel_request = NB_CANCEL_NONE;
        task->cancelled = true;
        VALUE given = task->cancellation;
        task->cancellation = Qnil;
        task->cancelled_by = NIL_P(given) ? rb_class_new_instance(0, NULL, nb_eCancelled) : given;
        rb_exc_raise(task->cancelled_by);
    }
    nb_cancel_scope_deliver(task);
}

static VALUE closed_error(void) {
    return rb_exc_new_cstr(rb_eIOError, "stream closed in another thread");
}

bool nb_has_bare_sleep(nb_engine_t *engine) {
    for (nb_link_t *l = engine->parked.next; l != &engine->parked; l = l->next)
        if (NB_ENTRY(l, nb_wait_t, parked)->bare) return true;
    return false;
}

static bool alone(nb_engine_t *engine) {
    if (nb_has_bare_sleep(engine)) return false;
    if (!rb_thread_alone() && !RTEST(rb_funcall(engine->self, rb_intern("alone?"), 0))) return false;
    return !RTEST(rb_funcall(rb_path2class("NeverBlock::WaysOut"), rb_intern("any?"), 0));
}

static bool threads_outstanding(nb_engine_t *engine) { /* other Ractors can't be looked into */
    if (NUM2INT(rb_funcall(rb_cRactor, rb_intern("count"), 0)) > 1) return true;
    return !rb_thread_alone() && RTEST(rb_funcall(engine->self, rb_intern("threads_outstanding?"), 0));
}

static VALUE caller_masks(void) { return rb_funcall(rb_path2class("NeverBlock::CallerMasks"), rb_intern("all"), 0); }

const nb_hooks_t nb_scheduler_hooks = {
    .run = run, .start_failed = start_failed, .deliverable = deliverable, .deliver = deliver,
    .unwinding = nb_task_unwinding, .fiber_class = nb_task_fiber_class,
    .is_resuming = nb_fiber_is_resuming, .is_striking = nb_fiber_is_striking,
    .is_lock = nb_is_lock, .is_thread = nb_is_thread, .closed_error = closed_error, .alone = alone,
    .threads_outstanding = threads_outstanding, .caller_masks = caller_masks,
};

bool nb_task_interrupt(ruby_task_t *task) {
    task->base.pending = true;
    if (!task->base.wait || !deliverable(&task->base)) return false;
    nb_wait_t *wait = task->base.wait; /* read again: other threads may have run in deliverable */
    return wait && nb_interrupt(task->base.engine, wait, Qundef);
}

/* ---- methods; documented in lib/neverblock/task.rb ---- */
static VALUE task_s_current(VALUE klass) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread();
    return scheduler && scheduler->engine.task ? scheduler->engine.task->self : Qnil;
}

typedef struct { VALUE self, force, cancelled; } cancel_t;

static VALUE cancel(VALUE argument) {
    cancel_t *cancel = (cancel_t *)argument;
    ruby_task_t *task = nb_task_of(cancel->self);
    bool force = RTEST(cancel->force);
    if (!task->base.engine || task->state >= TASK_RETURNED) return Qfalse; /* ended, or being reported */
    if (task->cancelled && !force) return Qtrue; /* only once: its ensure blocks may wait */
    if (task->cancel_request != NB_CANCEL_FORCED) task->cancel_request = force ? NB_CANCEL_FORCED : NB_CANCEL_ASKED;
    if (!NIL_P(cancel->cancelled)) task->cancellation = cancel->cancelled;
    if (task->state == TASK_NEW && !task->base.begun) { /* it never runs */
        nb_list_remove(&task->base.start.queue);
        finish(task, TASK_CANCELLED, cancel->cancelled);
    } else {
        nb_task_interrupt(task);
    }
    return Qtrue;
}

/* call-seq: request_cancel(force, cancelled) -- cancelled: the exception to raise; nil: one without a reason
 *
 * If another thread cancels, an interrupt of that thread does not concern the loop: it is raised afterwards. */
static VALUE task_cancel(VALUE self, VALUE force, VALUE cancelled) {
    cancel_t argument = {self, force, cancelled};
    nb_engine_t *engine = nb_task_of(self)->base.engine;
    if (engine && rb_thread_current() != engine->thread) return nb_uninterrupted(cancel, (VALUE)&argument);
    return cancel((VALUE)&argument);
}

/* call-seq: hold(watcher) -- takes a new task out of the run queue until release
 *
 * At the task's end watcher.task_finished is called. */
static VALUE task_hold(VALUE self, VALUE watcher) {
    ruby_task_t *task = nb_task_of(self);
    task->watcher = watcher;
    if (task->state == TASK_NEW) nb_list_remove(&task->base.start.queue);
    return self;
}

/* call-seq: release -- the task runs when its turn comes */
static VALUE task_release(VALUE self) {
    ruby_task_t *task = nb_task_of(self);
    if (task->state != TASK_NEW || !nb_list_empty(&task->base.start.queue)) return self;
    task->base.start.outcome = NB_PENDING;
    nb_wake(task->base.engine, &task->base.start, NB_READY, false);
    return self;
}

/* call-seq: Task.finished(block, name, value) -- for spawn outside a loop, where the block has run already */
static VALUE task_s_finished(VALUE klass, VALUE block, VALUE name, VALUE value) {
    ruby_task_t *task;
    VALUE self = allocate(&task);
    task->block = block;
    task->name = name;
    task->result = value;
    task->state = TASK_RETURNED;
    return self;
}

static VALUE task_state(VALUE self) { return state_names[nb_task_of(self)->state]; }
static VALUE task_result(VALUE self) { return nb_task_of(self)->result; }
static VALUE task_name(VALUE self) { return nb_task_of(self)->name; }
static VALUE task_set_name(VALUE self, VALUE name) { return nb_task_of(self)->name = name; }
static VALUE task_block(VALUE self) { return nb_task_of(self)->block; }
static VALUE task_fiber(VALUE self) {
    ruby_task_t *task = nb_task_of(self);
    return task->state == TASK_NEW ? Qnil : task->base.fiber;
}
static VALUE task_scope(VALUE self) { return nb_task_of(self)->scope; }
static VALUE task_inner(VALUE self) { return nb_task_of(self)->inner; }
static VALUE task_set_inner(VALUE self, VALUE scope) { return nb_task_of(self)->inner = scope; }
static VALUE task_age(VALUE self) { return nb_seconds_since(nb_task_of(self)->spawned); }

/* [kind, subject, events, seconds until the deadline or nil, fiber] of its wait, or nil. An object that Ruby hides,
 * such as the mutex of IO#close, has no class, and no Ruby code may see it. */
static VALUE task_waiting(VALUE self) {
    static const char *const kinds[] = {"start", "pass", "sleep", "block", "io", "select", "process", "job"};
    nb_wait_t *wait = nb_task_of(self)->base.wait;
    if (!wait) return Qnil;
    int events = wait->interest_count ? wait->interests[0].events : 0;
    bool hidden = !RB_SPECIAL_CONST_P(wait->subject) && !RBASIC_CLASS(wait->subject);
    VALUE left = Qnil;
    if (wait->timer.index) {
        uint64_t now = nb_now();
        left = DBL2NUM(wait->timer.deadline > now ? (double)(wait->timer.deadline - now) / 1e9 : 0.0);
    }
    VALUE kind = ID2SYM(rb_intern(kinds[wait->kind])), subject = hidden ? Qnil : wait->subject;
    return rb_ary_new_from_args(5, kind, subject, INT2NUM(events), left, wait->fiber);
}

/* The thread that runs the task now; nil: the task waits, or has ended. */
static VALUE task_thread(VALUE self) {
    nb_task_t *task = &nb_task_of(self)->base;
    return task->engine && task->engine->task == task && !task->wait ? task->engine->thread : Qnil;
}

static VALUE shield_body(VALUE unused) { return rb_yield_values(0); }

static void shield_inner(ruby_task_t *task, VALUE fiber, int change) {
    if (NIL_P(task->inner_shields))
        task->inner_shields = rb_class_new_instance(0, NULL, rb_path2class("ObjectSpace::WeakMap"));
    VALUE map = task->inner_shields, count = rb_funcall(map, rb_intern("[]"), 1, fiber);
    int sum = (NIL_P(count) ? 0 : FIX2INT(count)) + change;
    if (sum) rb_funcall(map, rb_intern("[]="), 2, fiber, INT2FIX(sum));
    else rb_funcall(map, rb_intern("delete"), 1, fiber);
    if (!sum && rb_funcall(map, rb_intern("size"), 0) == INT2FIX(0)) task->inner_shields = Qnil;
    RB_GC_GUARD(map);
}

static void shield(ruby_task_t *task, int change) {
    VALUE fiber = rb_fiber_current();
    if (fiber == task->base.fiber) task->shields += (unsigned)change;
    else shield_inner(task, fiber, change);
}

static VALUE shield_leave(VALUE task) {
    shield(nb_task_of(task), -1);
    return Qnil;
}

static VALUE task_shield(VALUE self) {
    shield(nb_task_of(self), 1);
    return rb_ensure(shield_body, Qnil, shield_leave, self);
}

void nb_init_task(void) {
    static const char *const names[] = {"new", "running", "returned", "failed", "cancelled"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) state_names[i] = ID2SYM(rb_intern(names[i]));
    id_tasks = rb_intern("@tasks");
    id_finished = rb_intern("task_finished");
    nb_cTask = rb_define_class_under(nb_mNeverBlock, "Task", rb_cObject);
    rb_undef_alloc_func(nb_cTask);
    rb_undef_method(rb_singleton_class(nb_cTask), "new");
    nb_eCancelled = rb_define_class_under(nb_mNeverBlock, "Cancelled", rb_eException);
    rb_define_singleton_method(nb_cTask, "current", task_s_current, 0);
    rb_define_singleton_method(nb_cTask, "finished", task_s_finished, 3);
    rb_define_method(nb_cTask, "hold", task_hold, 1);
    rb_define_method(nb_cTask, "release", task_release, 0);
    rb_define_method(nb_cTask, "name", task_name, 0);
    rb_define_method(nb_cTask, "name=", task_set_name, 1);
    rb_define_method(nb_cTask, "fiber", task_fiber, 0);
    rb_define_method(nb_cTask, "age", task_age, 0);
    rb_define_private_method(nb_cTask, "request_cancel", task_cancel, 2);
    rb_define_private_method(nb_cTask, "result", task_result, 0);
    rb_define_private_method(nb_cTask, "block", task_block, 0);
    rb_define_private_method(nb_cTask, "waiting", task_waiting, 0);
    rb_define_private_method(nb_cTask, "thread", task_thread, 0);
    rb_define_method(nb_cTask, "state", task_state, 0);
    rb_define_method(nb_cTask, "scope", task_scope, 0);
    rb_define_method(nb_cTask, "inner_scope", task_inner, 0);
    rb_define_method(nb_cTask, "inner_scope=", task_set_inner, 1);
    rb_define_method(nb_cTask, "shield", task_shield, 0);
}
