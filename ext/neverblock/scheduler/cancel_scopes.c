/*
 * Cancel scopes: regions that are unwound from outside, at their next wait. The block of Timeout.timeout or
 * NeverBlock.timeout is one, and so is that of a nested run, which is unwound when a child fails.
 *
 * A timeout first raises a Timeout::ExitException, which is not a StandardError, as with threads. It does not begin
 * with a throw, because a transaction takes that for the ordinary end of its block, and would commit. The module
 * ScopeExit marks the exception as ours. Each scope knows its own exception, so an inner timeout never claims an outer
 * deadline. If `rescue Exception` has swallowed the exception, a throw follows at the next wait. No rescue stops it,
 * and the block counts as unwound. Nested runs are unwound by a throw from the beginning. A throw can't cross fibers:
 * if the wait is in another fiber of the task (an Enumerator), a ScopeExit unwinds that fiber first.
 *
 * Code that a ScopeExit unwinds may give it a note about its work. The timeout's own exception then repeats the note.
 *
 * A cancel scope that has an exception (Timeout.timeout with a class of the caller's) raises that inside the block.
 *
 * The fibers of one task interleave: an Enumerator may yield from the middle of a timeout's block and be resumed later
 * or never. So cancel scopes are objects in lists, outermost first, that end in any order. A scope of a suspended fiber
 * does not end the waits of others. Scopes of the task's own fiber are in one list. Those of its inner fibers are in
 * another, which is read only when an inner fiber waits. A cancel scope holds its inner fiber weakly: an Enumerator
 * that is dropped in the middle of a block is collected, and its scope with it.
 */
#include "scheduler.h"

#define FIRST_PRUNING 32 /* at so many inner cancel scopes; then whenever their number has doubled */

static VALUE cCancelScope, mScopeExit, cExit;
static ID id_cancel_scope, id_cause, id_note;

static void cancel_scope_mark(void *pointer) {
    nb_cancel_scope_t *scope = pointer;
    VALUE all[] = {scope->tag, scope->exception, scope->exit, scope->place, scope->note, scope->earlier};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (all[i]) rb_gc_mark(all[i]);
}

static size_t cancel_scope_size(const void *pointer) { return sizeof(nb_cancel_scope_t); }

static const rb_data_type_t cancel_scope_type = {
    .wrap_struct_name = "NeverBlock::Scheduler::CancelScope",
    .function = {.dmark = cancel_scope_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = cancel_scope_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

#define EACH_SCOPE(list, scope) \
    for (nb_link_t *l = (list)->next, *following; l != (list) && (following = l->next); l = following) \
        for (nb_cancel_scope_t *scope = NB_ENTRY(l, nb_cancel_scope_t, link); scope; scope = NULL)

void nb_cancel_scopes_mark(ruby_task_t *task) {
    EACH_SCOPE(&task->cancel_scopes, scope) rb_gc_mark(scope->self);
    EACH_SCOPE(&task->inner_cancel_scopes, scope) rb_gc_mark(scope->self);
}

/* ---- fibers ---- */
static nb_scheduler_t *scheduler_of(nb_cancel_scope_t *scope) { return (nb_scheduler_t *)scope->engine; }

/* 0: it has been collected. */
static VALUE fiber_of(nb_cancel_scope_t *scope) {
    if (!scope->inner) return scope->task->base.fiber;
    return nb_inner_fiber(scheduler_of(scope), scope->self);
}

/* Whether the code that runs, or waits, is inside the scope's block. An exception that ends a fiber that was
 * transferred to reaches the task's own fiber, as it would reach a thread's: see engine/handback.c. */
static bool encloses(nb_cancel_scope_t *scope) {
    nb_task_t *task = &scope->task->base;
    if (!scope->inner) return true;
    VALUE here = task->wait ? task->wait->fiber : rb_fiber_current();
    VALUE fiber = fiber_of(scope);
    return fiber && (fiber == here || nb_fiber_is_resuming(fiber));
}

bool nb_on_its_way(VALUE exception) {
    VALUE error = rb_gv_get("$!");
    for (int depth = 0; !NIL_P(error) && depth < 100; depth++, error = rb_funcall(error, id_cause, 0))
        if (error == exception) return true;
    return false;
}

/* The class of the exception that is raised in its block, which a mask in there may hold off. */
static VALUE exit_class(nb_cancel_scope_t *scope) {
    ID name = rb_intern("ExitException"); /* since version 0.4 of that gem */
    if (!NIL_P(scope->exception)) return rb_obj_class(scope->exception);
    VALUE timeout = NIL_P(scope->tag) ? rb_path2class("Timeout") : Qnil;
    return !NIL_P(timeout) && rb_const_defined_from(timeout, name) ? rb_const_get_from(timeout, name) : cExit;
}

static bool is_masked(nb_cancel_scope_t *scope, bool waits) {
    return nb_masks_any(scope->task) && nb_masks_hold(scope->task, exit_class(scope), scope->masks, waits);
}

/* Never back: it may be delivered again while it is unwound. */
static void advance(nb_cancel_scope_t *scope, nb_scope_state_t state) {
    if (scope->state < state) scope->state = state;
}

static bool due(nb_cancel_scope_t *scope) {
    ruby_task_t *task = scope->task;
    if (scope->state == NB_SCOPE_ENTERED || scope->shields != nb_shields(task)) return false;
    if (is_masked(scope, !task->between_waits)) return false;
    if (scope->state == NB_SCOPE_FIRED) return encloses(scope);
    return !NIL_P(scope->exit) && !task->base.wait && encloses(scope) && !nb_on_its_way(scope->exit); /* swallowed */
}

static bool is_open(nb_cancel_scope_t *scope) { return scope->state == NB_SCOPE_FIRED || !NIL_P(scope->exit); }

/* Whether something is still to be raised in the task, now or when a shield has ended. */
static void settle(ruby_task_t *task) {
    task->base.pending = task->cancel_request != NB_CANCEL_NONE || !NIL_P(task->killed) || !NIL_P(task->raised);
    EACH_SCOPE(&task->cancel_scopes, scope) if (is_open(scope)) task->base.pending = true;
    EACH_SCOPE(&task->inner_cancel_scopes, scope) if (is_open(scope)) task->base.pending = true;
}

/* The outermost goes first: unwinding it ends the inner ones too. */
static nb_cancel_scope_t *first_due(ruby_task_t *task) {
    EACH_SCOPE(&task->cancel_scopes, scope) if (due(scope)) return scope;
    VALUE here = task->base.wait ? task->base.wait->fiber : rb_fiber_current();
    if (here == task->base.fiber) return NULL;
    EACH_SCOPE(&task->inner_cancel_scopes, scope) if (due(scope)) return scope;
    return NULL;
}

bool nb_cancel_scope_deliverable(ruby_task_t *task) { return first_due(task) != NULL; }

static VALUE make_exit(nb_cancel_scope_t *scope) {
    scope->exit = rb_exc_new_cstr(exit_class(scope), "execution expired");
    rb_extend_object(scope->exit, mScopeExit);
    rb_ivar_set(scope->exit, id_cancel_scope, scope->self);
    return scope->exit;
}

/* The throw leaves the inner scopes too. If one of them is due in an ensure on the way, its own throw must not
 * replace this one, which comes once. */
static void overtake(nb_cancel_scope_t *scope) {
    nb_link_t *list = scope->inner ? &scope->task->inner_cancel_scopes : &scope->task->cancel_scopes;
    VALUE fiber = fiber_of(scope);
    for (nb_link_t *l = scope->link.next; l != list; l = l->next) {
        nb_cancel_scope_t *inner = NB_ENTRY(l, nb_cancel_scope_t, link);
        if (fiber_of(inner) == fiber) inner->overtaken = scope;
    }
}

static void deliver(nb_cancel_scope_t *scope) {
    bool first = scope->state == NB_SCOPE_FIRED;
    advance(scope, NB_SCOPE_DELIVERED);
    VALUE cancelled = scope->task->cancelled_by;
    /* The task's Cancelled comes once, and ours would replace it: so it goes on in our place. One that was there
     * before our block began goes on when the block has ended. */
    if (first && NIL_P(scope->tag) && cancelled != scope->earlier && nb_on_its_way(cancelled)) {
        if (NIL_P(scope->exception)) scope->exit = cancelled;
        settle(scope->task);
        rb_exc_raise(cancelled);
    }
    if (!NIL_P(scope->exception)) {
        settle(scope->task);
        rb_exc_raise(scope->exception);
    }
    bool thrown = fiber_of(scope) == rb_fiber_current() && !(first && NIL_P(scope->tag));
    if (thrown) {
        if (NIL_P(scope->tag)) scope->place = rb_make_backtrace();
        if (!NIL_P(scope->exit)) scope->note = rb_ivar_get(scope->exit, id_note);
        scope->state = NB_SCOPE_UNWOUND;
        scope->exit = Qnil;
        overtake(scope);
    } else {
        make_exit(scope);
    }
    settle(scope->task);
    if (thrown) rb_throw_obj(scope->self, scope->self);
    rb_exc_raise(scope->exit);
}

void nb_cancel_scope_deliver(ruby_task_t *task) {
    nb_cancel_scope_t *scope = first_due(task), *outer = scope ? scope->overtaken : NULL;
    if (outer) advance(scope, NB_SCOPE_DELIVERED), scope->exit = Qnil; /* the outer one's throw ends this one too */
    if (scope) deliver(outer ? outer : scope);
}

static void fire(nb_cancel_scope_t *scope) {
    advance(scope, NB_SCOPE_FIRED);
    nb_task_interrupt(scope->task);
}

static void time_is_up(nb_engine_t *engine, nb_timer_t *timer) {
    ((nb_scheduler_t *)engine)->timeouts--;
    fire(NB_ENTRY(timer, nb_cancel_scope_t, timer));
}

static bool is_late(nb_cancel_scope_t *scope, uint64_t now) {
    return scope->state == NB_SCOPE_ENTERED && scope->timer.deadline <= now;
}

void nb_cancel_scopes_look(ruby_task_t *task) {
    if (nb_list_empty(&task->cancel_scopes) && nb_list_empty(&task->inner_cancel_scopes)) return;
    uint64_t now = nb_now();
    EACH_SCOPE(&task->cancel_scopes, scope) if (is_late(scope, now)) fire(scope);
    EACH_SCOPE(&task->inner_cancel_scopes, scope) if (is_late(scope, now)) fire(scope);
}

/* ---- running a block under one ---- */
typedef struct { nb_cancel_scope_t *scope; VALUE argument; } guarded_t;

static VALUE caught(RB_BLOCK_CALL_FUNC_ARGLIST(tag, data)) { return rb_yield(((guarded_t *)data)->argument); }

static VALUE catching(VALUE data) { return rb_catch_obj(((guarded_t *)data)->scope->self, caught, data); }

static VALUE rescued(VALUE data, VALUE error) {
    nb_cancel_scope_t *scope = ((guarded_t *)data)->scope;
    if (rb_ivar_get(error, id_cancel_scope) != scope->self) rb_exc_raise(error);
    scope->state = NB_SCOPE_UNWOUND;
    scope->place = rb_funcall(error, rb_intern("backtrace"), 0);
    scope->note = rb_ivar_get(error, id_note);
    return Qnil;
}

static VALUE rescuing(VALUE data) { return rb_rescue2(catching, data, rescued, data, mScopeExit, (VALUE)0); }

static void dismiss(nb_cancel_scope_t *scope) {
    if (scope->timer.index) scheduler_of(scope)->timeouts--;
    nb_timer_cancel(scope->engine, &scope->timer);
    nb_list_remove(&scope->link);
    if (scope->inner) scope->task->inner_count--;
}

/* Ends the scopes whose Enumerator was never resumed. */
void nb_cancel_scopes_drop(ruby_task_t *task) {
    EACH_SCOPE(&task->cancel_scopes, scope) dismiss(scope);
    EACH_SCOPE(&task->inner_cancel_scopes, scope) dismiss(scope);
}

/* Ends the scopes whose Enumerator has been collected. */
static void prune(ruby_task_t *task) {
    EACH_SCOPE(&task->inner_cancel_scopes, scope) if (!fiber_of(scope)) dismiss(scope);
    task->inner_limit = task->inner_count * 2 + FIRST_PRUNING;
    settle(task);
}

static VALUE check_interrupts(VALUE unused) {
    rb_thread_check_ints();
    return Qnil;
}

static VALUE let_arrive(VALUE class) { return nb_under_mask(class, "immediate", check_interrupts, Qnil); }

static VALUE arrived(VALUE self, VALUE error) {
    if (rb_ivar_get(error, id_cancel_scope) != self) rb_exc_raise(error);
    return Qnil;
}

static VALUE leave(VALUE data) {
    nb_cancel_scope_t *scope = ((guarded_t *)data)->scope;
    if (scope->struck && !NIL_P(scope->exception)) {
        scope->struck = false; /* a mask may hold off the helper thread's exception: it is raised in here */
        let_arrive(rb_obj_class(scope->exception));
    }
    /* A mask may hold it off: it must not reach later code. */
    if (!NIL_P(scope->exit) && scope->state != NB_SCOPE_UNWOUND)
        rb_rescue2(let_arrive, mScopeExit, arrived, scope->self, mScopeExit, (VALUE)0);
    if (nb_list_empty(&scope->link)) return Qnil; /* its task has ended */
    dismiss(scope);
    if (scope->task->base.pending) settle(scope->task);
    return Qnil;
}

/* Its fiber is known by a weak reference. */
static void make_inner(nb_scheduler_t *scheduler, nb_cancel_scope_t *scope) {
    ruby_task_t *task = scope->task;
    nb_inner_fiber_note(scheduler, scope->self);
    if (task->inner_count > task->inner_limit) prune(task);
    task->inner_count++;
    scope->inner = true;
}

nb_cancel_scope_t *nb_cancel_scope_new(nb_scheduler_t *scheduler, VALUE tag, VALUE exception, uint64_t deadline) {
    nb_cancel_scope_t *scope;
    VALUE self = TypedData_Make_Struct(cCancelScope, nb_cancel_scope_t, &cancel_scope_type, scope);
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    *scope = (nb_cancel_scope_t){
        .self = self, .engine = &scheduler->engine, .task = task, .tag = tag, .exception = exception, .exit = Qnil,
        .place = Qnil, .note = Qnil, .earlier = task->cancelled_by,
        .shields = nb_shields(task), .masks = nb_masks(task),
        .timer = {.deadline = deadline, .fire = time_is_up},
    };
    nb_list_init(&scope->link);
    if (rb_fiber_current() != task->base.fiber) make_inner(scheduler, scope);
    nb_list_append(scope->inner ? &task->inner_cancel_scopes : &task->cancel_scopes, &scope->link);
    RB_GC_GUARD(self); /* nothing else held it while make_inner allocated */
    if (deadline == NB_NEVER) return scope;
    scheduler->timeouts++;
    nb_timer_arm(scope->engine, &scope->timer);
    return scope;
}

/* Returns the block's value, or Qundef if it was unwound. */
VALUE nb_cancel_scope_guard(nb_cancel_scope_t *scope, VALUE argument) {
    VALUE self = scope->self, task = scope->task->base.self;
    guarded_t guarded = {scope, argument};
    VALUE value = rb_ensure(rescuing, (VALUE)&guarded, leave, (VALUE)&guarded);
    bool unwound = scope->state == NB_SCOPE_UNWOUND || !NIL_P(scope->exit);
    RB_GC_GUARD(self);
    RB_GC_GUARD(task);
    return unwound ? Qundef : value;
}

/* call-seq: cancel_scope(tag) { ... } -> the block's value, or tag if exit_scope(tag) unwound it */
static VALUE cancel_scope_m(VALUE self, VALUE tag) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (!scheduler->engine.task) rb_raise(rb_eThreadError, "cancel_scope: no task is running here");
    VALUE value = nb_cancel_scope_guard(nb_cancel_scope_new(scheduler, tag, Qnil, NB_NEVER), tag);
    return value == Qundef ? tag : value;
}

static bool is_entered_as(nb_cancel_scope_t *scope, VALUE tag) {
    return scope->state == NB_SCOPE_ENTERED && scope->tag == tag;
}

/* call-seq: exit_scope(task, tag) -> unwinds the task's block under cancel_scope(tag), at its next wait */
static VALUE exit_scope(VALUE self, VALUE owner, VALUE tag) {
    nb_cancel_scope_t *found = NULL;
    EACH_SCOPE(&nb_task_of(owner)->cancel_scopes, scope) if (is_entered_as(scope, tag)) found = scope;
    EACH_SCOPE(&nb_task_of(owner)->inner_cancel_scopes, scope) if (is_entered_as(scope, tag)) found = scope;
    if (found) fire(found);
    return RBOOL(found);
}

/* An inner fiber may have yielded in the middle of its block: code that computes then is not in the block. */
static bool is_overdue(nb_cancel_scope_t *scope, uint64_t latest) {
    if (scope->state >= NB_SCOPE_DELIVERED || scope->timer.deadline >= latest) return false;
    if (scope->shields != nb_shields(scope->task)) return false;
    if (is_masked(scope, false)) return false;
    if (!scope->inner) return true;
    VALUE fiber = fiber_of(scope);
    return fiber && (nb_fiber_is_running(fiber) || nb_fiber_is_resuming(fiber));
}

static nb_cancel_scope_t *first_overdue(ruby_task_t *task, uint64_t latest) {
    EACH_SCOPE(&task->cancel_scopes, scope) if (is_overdue(scope, latest)) return scope;
    EACH_SCOPE(&task->inner_cancel_scopes, scope) if (is_overdue(scope, latest)) return scope;
    return NULL;
}

/*
 * call-seq: strike(grace) -> true, or false if no timeout is overdue
 *
 * For the helper thread: raises in our thread if the running task has a timeout whose deadline has passed unnoticed. It
 * is called with the GVL held while that task is stopped in the middle of its own code. The GVL is not released in
 * between, so the exception finds the task where it was. A mask, of this task or of a parked one, might hold the
 * exception off until another task runs. Then nothing is sent: the next wait raises it.
 */
static VALUE strike(VALUE self, VALUE grace) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    nb_engine_t *engine = &scheduler->engine;
    ruby_task_t *task = (ruby_task_t *)engine->task;
    if (!engine->backend || !task || task->base.wait) return Qfalse;
    nb_cancel_scope_t *scope = first_overdue(task, nb_now() - (uint64_t)(NUM2DBL(grace) * 1e9));
    if (!scope) return Qfalse;
    if (nb_masks_hide(scheduler, exit_class(scope))) {
        fire(scope);
        return Qfalse;
    }
    advance(scope, NB_SCOPE_DELIVERED);
    scope->struck = engine->struck = task->base.pending = true;
    VALUE exception = NIL_P(scope->exception) ? make_exit(scope) : scope->exception;
    if (!rb_obj_frozen_p(exception)) rb_ivar_set(exception, id_cancel_scope, scope->self);
    rb_funcall(engine->thread, rb_intern("raise"), 1, exception);
    return Qtrue;
}

/* call-seq: take_back(error) -> whether it is a timeout's that has missed its task, which gets it at its next wait */
static VALUE take_back(VALUE self, VALUE error) {
    nb_cancel_scope_t *scope;
    VALUE holder = rb_ivar_get(error, id_cancel_scope);
    if (NIL_P(holder)) return Qfalse;
    TypedData_Get_Struct(holder, nb_cancel_scope_t, &cancel_scope_type, scope);
    if (nb_list_empty(&scope->link)) return Qtrue; /* its block has ended */
    if (scope->state == NB_SCOPE_DELIVERED) scope->state = NB_SCOPE_FIRED;
    scope->struck = false;
    scope->exit = Qnil;
    nb_task_interrupt(scope->task);
    RB_GC_GUARD(holder);
    return Qtrue;
}

void nb_init_cancel_scopes(void) {
    id_cancel_scope = rb_intern("__neverblock_cancel_scope");
    id_cause = rb_intern("cause");
    id_note = rb_intern("@note");
    cCancelScope = rb_define_class_under(nb_cScheduler, "CancelScope", rb_cObject);
    rb_undef_alloc_func(cCancelScope);
    rb_undef_method(rb_singleton_class(cCancelScope), "new");
    mScopeExit = rb_define_module_under(nb_cScheduler, "ScopeExit");
    rb_define_attr(mScopeExit, "note", 1, 1);
    cExit = rb_define_class_under(nb_cScheduler, "Exit", rb_eException); /* of scopes that are no timeouts */
    rb_define_method(nb_cScheduler, "cancel_scope", cancel_scope_m, 1);
    rb_define_method(nb_cScheduler, "exit_scope", exit_scope, 2);
    rb_define_method(nb_cScheduler, "strike", strike, 1);
    rb_define_method(nb_cScheduler, "take_back", take_back, 1);
}
