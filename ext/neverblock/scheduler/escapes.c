/*
 * Escapes: unwinding a block from outside of it, at its next wait. Timeout.timeout, NeverBlock.timeout and a nested
 * run whose child has failed are escapes.
 *
 * A timeout is an exception of the class Expiry first, which is no StandardError, as with threads: transactions take a
 * throw for the ordinary end of their block, and would commit. Each escape knows its own, so that an inner timeout never
 * claims an outer deadline. Where `rescue Exception` has swallowed it, a throw follows at the next wait, which nothing
 * can, and the block's end counts as unwound. The others' unwinding is a throw from the beginning, except that it can't
 * cross fibers: when the wait is in another fiber of the task (an Enumerator), an Expiry carries it there.
 *
 * Whom an Expiry unwinds may give it a note, what has become of his work, which the timeout's own exception then says.
 *
 * An escape that has an exception (Timeout.timeout with a class of the caller's) raises that inside the block.
 *
 * The fibers of one task interleave: an Enumerator may yield from the middle of a timeout's block and be resumed later or
 * never. So escapes are objects in lists, outermost first, that end in any order. One whose fiber is suspended leaves the
 * waits of others alone. Those of the task's own fiber are in one list, those of its inner fibers in another, which is
 * looked at only when an inner fiber waits. An escape holds its inner fiber weakly, so that an Enumerator that is dropped
 * in the middle of a block is collected, and its escape with it (R8 of the runtime's review).
 */
#include "scheduler.h"
#include <string.h>

#define FIRST_PRUNING 32 /* inner escapes; then whenever their number has doubled */

static VALUE cEscape, cExpiry;
static ID id_escape, id_new, id_cause, id_note, id_aref, id_aset;

static void escape_mark(void *pointer) {
    nb_escape_t *escape = pointer;
    VALUE all[] = {escape->tag, escape->exception, escape->expiry, escape->place, escape->note};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (all[i]) rb_gc_mark(all[i]);
}

static size_t escape_size(const void *pointer) { return sizeof(nb_escape_t); }

static const rb_data_type_t escape_type = {
    .wrap_struct_name = "NeverBlock::Scheduler::Escape",
    .function = {.dmark = escape_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = escape_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

#define EACH_ESCAPE(list, escape) \
    for (nb_link_t *l = (list)->next, *following; l != (list) && (following = l->next); l = following) \
        for (nb_escape_t *escape = NB_ENTRY(l, nb_escape_t, link); escape; escape = NULL)

void nb_escapes_mark(ruby_task_t *task) {
    EACH_ESCAPE(&task->escapes, escape) rb_gc_mark(escape->self);
    EACH_ESCAPE(&task->inner_escapes, escape) rb_gc_mark(escape->self);
}

/* ---- fibers ---- */
static nb_scheduler_t *scheduler_of(nb_escape_t *escape) { return (nb_scheduler_t *)escape->engine; }

/* 0: it has been collected. */
static VALUE fiber_of(nb_escape_t *escape) {
    if (!escape->inner) return escape->task->base.fiber;
    VALUE fiber = rb_funcall(scheduler_of(escape)->inner_fibers, id_aref, 1, escape->self);
    return NIL_P(fiber) ? 0 : fiber;
}

/* Where a suspended fiber stands, found out without touching it: by the method at the top of its backtrace. Fiber#raise and
 * Fiber#kill resume too, but their fiber ends or goes on at once. A method of Ruby code that is named so is told from core's
 * by its line: core's own have that of their caller. */
static bool is_resuming(VALUE fiber) {
    static const char *const resumers[] = {"resume", "next", "next_values", "peek", "peek_values"};
    VALUE locations = rb_funcall(fiber, rb_intern("backtrace_locations"), 2, INT2FIX(0), INT2FIX(2));
    if (NIL_P(locations) || RARRAY_LEN(locations) < 2) return false;
    VALUE top = RARRAY_AREF(locations, 0), caller = RARRAY_AREF(locations, 1);
    VALUE name = rb_funcall(top, rb_intern("base_label"), 0);
    bool listed = false;
    for (size_t i = 0; i < sizeof resumers / sizeof *resumers; i++) listed |= strcmp(StringValueCStr(name), resumers[i]) == 0;
    return listed && rb_funcall(top, rb_intern("lineno"), 0) == rb_funcall(caller, rb_intern("lineno"), 0);
}

bool nb_fiber_is_resuming(VALUE fiber) { return is_resuming(fiber); }

/* Whether the code that runs, or waits, is inside the escape's block. What ends a fiber by an exception that was
 * transferred to reaches the task's own fiber, as it would reach a thread's: see fibers.c. */
static bool encloses(nb_escape_t *escape) {
    nb_task_t *task = &escape->task->base;
    VALUE here = task->wait ? task->wait->fiber : rb_fiber_current();
    if (!escape->inner) return true;
    if (here == task->fiber) return false;
    VALUE fiber = fiber_of(escape);
    return fiber && (fiber == here || is_resuming(fiber));
}

/* Whether the exception is being handled: an ensure, or a rescue, is at work. */
static bool on_its_way(VALUE expiry) {
    VALUE error = rb_gv_get("$!");
    for (int depth = 0; !NIL_P(error) && depth < 100; depth++, error = rb_funcall(error, id_cause, 0))
        if (error == expiry) return true;
    return false;
}

static bool due(nb_escape_t *escape) {
    ruby_task_t *task = escape->task;
    if (!escape->fired || escape->shields != task->shields) return false;
    if (!escape->delivered) return encloses(escape);
    return !NIL_P(escape->expiry) && !task->base.wait && encloses(escape) && !on_its_way(escape->expiry); /* swallowed */
}

static bool is_open(nb_escape_t *escape) { return escape->fired && (!escape->delivered || !NIL_P(escape->expiry)); }

/* Whether something is still to be raised in the task, now or when a shield has ended. */
static void settle(ruby_task_t *task) {
    task->base.pending = task->cancelling;
    EACH_ESCAPE(&task->escapes, escape) if (is_open(escape)) task->base.pending = true;
    EACH_ESCAPE(&task->inner_escapes, escape) if (is_open(escape)) task->base.pending = true;
}

/* The outermost goes first: what it unwinds takes the inner ones with it. */
static nb_escape_t *first_due(ruby_task_t *task) {
    EACH_ESCAPE(&task->escapes, escape) if (due(escape)) return escape;
    VALUE here = task->base.wait ? task->base.wait->fiber : rb_fiber_current();
    if (here == task->base.fiber) return NULL;
    EACH_ESCAPE(&task->inner_escapes, escape) if (due(escape)) return escape;
    return NULL;
}

bool nb_escape_deliverable(ruby_task_t *task) { return first_due(task) != NULL; }

static VALUE make_expiry(nb_escape_t *escape) {
    escape->expiry = rb_exc_new_cstr(cExpiry, "execution expired");
    rb_ivar_set(escape->expiry, id_escape, escape->self);
    return escape->expiry;
}

static void deliver(nb_escape_t *escape) {
    bool first = !escape->delivered;
    escape->delivered = true;
    if (!NIL_P(escape->exception)) {
        settle(escape->task);
        rb_exc_raise(escape->exception);
    }
    bool thrown = fiber_of(escape) == rb_fiber_current() && !(first && NIL_P(escape->tag));
    if (thrown) {
        if (NIL_P(escape->tag)) escape->place = rb_make_backtrace();
        if (!NIL_P(escape->expiry)) escape->note = rb_ivar_get(escape->expiry, id_note);
        escape->escaped = true;
        escape->expiry = Qnil;
    } else {
        make_expiry(escape);
    }
    settle(escape->task);
    if (thrown) rb_throw_obj(escape->self, escape->self);
    rb_exc_raise(escape->expiry);
}

void nb_escape_deliver(ruby_task_t *task) {
    nb_escape_t *escape = first_due(task);
    if (escape) deliver(escape);
}

static void fire(nb_escape_t *escape) {
    escape->fired = true;
    nb_task_interrupt(escape->task);
}

static void time_is_up(nb_engine_t *engine, nb_timer_t *timer) {
    ((nb_scheduler_t *)engine)->timeouts--;
    fire(NB_ENTRY(timer, nb_escape_t, timer));
}

/* ---- running a block under one ---- */
typedef struct { nb_escape_t *escape; VALUE argument; } guarded_t;

static VALUE caught(RB_BLOCK_CALL_FUNC_ARGLIST(tag, data)) { return rb_yield(((guarded_t *)data)->argument); }

static VALUE catching(VALUE data) { return rb_catch_obj(((guarded_t *)data)->escape->self, caught, data); }

static VALUE rescued(VALUE data, VALUE error) {
    nb_escape_t *escape = ((guarded_t *)data)->escape;
    if (rb_ivar_get(error, id_escape) != escape->self) rb_exc_raise(error);
    escape->escaped = true;
    escape->place = rb_funcall(error, rb_intern("backtrace"), 0);
    escape->note = rb_ivar_get(error, id_note);
    return Qnil;
}

static VALUE rescuing(VALUE data) { return rb_rescue2(catching, data, rescued, data, cExpiry, (VALUE)0); }

static void dismiss(nb_escape_t *escape) {
    if (escape->timer.index) scheduler_of(escape)->timeouts--;
    nb_timer_cancel(escape->engine, &escape->timer);
    nb_list_remove(&escape->link);
    if (escape->inner) escape->task->inner_count--;
}

/* Those that an Enumerator never came back to end. */
void nb_escapes_drop(ruby_task_t *task) {
    EACH_ESCAPE(&task->escapes, escape) dismiss(escape);
    EACH_ESCAPE(&task->inner_escapes, escape) dismiss(escape);
}

/* Those whose Enumerator has been collected. */
static void prune(ruby_task_t *task) {
    EACH_ESCAPE(&task->inner_escapes, escape) if (!fiber_of(escape)) dismiss(escape);
    task->inner_limit = task->inner_count * 2 + FIRST_PRUNING;
    settle(task);
}

static VALUE check_interrupts(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, data)) {
    rb_thread_check_ints();
    return Qnil;
}

static VALUE let_arrive(VALUE unused) {
    VALUE mask = rb_hash_new();
    rb_hash_aset(mask, cExpiry, ID2SYM(rb_intern("immediate")));
    return rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, check_interrupts, Qnil);
}

static VALUE arrived(VALUE self, VALUE error) {
    if (rb_ivar_get(error, id_escape) != self) rb_exc_raise(error);
    return Qnil;
}

static VALUE leave(VALUE data) {
    nb_escape_t *escape = ((guarded_t *)data)->escape;
    if (!NIL_P(escape->expiry) && !escape->escaped) /* an interrupt mask may hold it back still: not for later code */
        rb_rescue2(let_arrive, Qnil, arrived, escape->self, cExpiry, (VALUE)0);
    if (nb_list_empty(&escape->link)) return Qnil; /* its task has ended */
    dismiss(escape);
    if (escape->task->base.pending) settle(escape->task);
    return Qnil;
}

/* Its fiber is known by a weak reference. */
static void make_inner(nb_scheduler_t *scheduler, nb_escape_t *escape) {
    ruby_task_t *task = escape->task;
    if (NIL_P(scheduler->inner_fibers)) scheduler->inner_fibers = rb_class_new_instance(0, NULL, rb_path2class("ObjectSpace::WeakMap"));
    rb_funcall(scheduler->inner_fibers, id_aset, 2, escape->self, rb_fiber_current());
    if (task->inner_count > task->inner_limit) prune(task);
    task->inner_count++;
    escape->inner = true;
}

static nb_escape_t *escape_new(nb_scheduler_t *scheduler, VALUE tag, VALUE exception, uint64_t deadline) {
    nb_escape_t *escape;
    VALUE self = TypedData_Make_Struct(cEscape, nb_escape_t, &escape_type, escape);
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    *escape = (nb_escape_t){
        .self = self, .engine = &scheduler->engine, .task = task, .tag = tag, .exception = exception, .expiry = Qnil,
        .place = Qnil, .note = Qnil, .shields = task->shields, .timer = {.deadline = deadline, .fire = time_is_up},
    };
    nb_list_init(&escape->link);
    if (rb_fiber_current() != task->base.fiber) make_inner(scheduler, escape);
    nb_list_append(escape->inner ? &task->inner_escapes : &task->escapes, &escape->link);
    if (deadline == NB_NEVER) return escape;
    scheduler->timeouts++;
    nb_timer_arm(escape->engine, &escape->timer);
    return escape;
}

/* Returns the block's value, or Qundef if it was unwound. */
static VALUE guard(nb_escape_t *escape, VALUE argument) {
    VALUE self = escape->self, task = escape->task->base.self;
    guarded_t guarded = {escape, argument};
    VALUE value = rb_ensure(rescuing, (VALUE)&guarded, leave, (VALUE)&guarded);
    bool unwound = escape->escaped || !NIL_P(escape->expiry);
    RB_GC_GUARD(self);
    RB_GC_GUARD(task);
    return unwound ? Qundef : value;
}

static VALUE blocking_timeout(RB_BLOCK_CALL_FUNC_ARGLIST(fiber, data)) {
    VALUE *arguments = (VALUE *)data;
    return rb_funcall_with_block(rb_path2class("Timeout"), rb_intern("timeout"), 3, arguments, arguments[3]);
}

/*
 * call-seq: timeout_after(seconds, exception_class, message) { |seconds| ... } -> the block's value
 *
 * Timeout.timeout calls this. The bare Timeout::Error unwinds the block whatever rescues it; any other class is
 * raised inside of it. Code that never waits is interrupted too, by a helper thread (lib/neverblock/overdue.rb).
 */
static VALUE timeout_after(VALUE self, VALUE seconds, VALUE klass, VALUE message) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    rb_need_block();
    if (!scheduler->engine.task || !nb_scheduler_may_park(scheduler)) {
        VALUE arguments[] = {seconds, klass, message, rb_block_proc()};
        return rb_block_call(nb_cFiber, rb_intern("blocking"), 0, NULL, blocking_timeout, (VALUE)arguments);
    }
    VALUE exception = Qnil, bare = rb_funcall(self, rb_intern("bare_timeout"), 1, klass);
    if (NIL_P(bare)) exception = rb_funcall(klass, rb_intern("exception"), NIL_P(message) ? 0 : 1, message);
    uint64_t deadline = nb_limit_from(seconds);
    if (deadline != NB_NEVER) rb_funcall(self, rb_intern("watch_overdue"), 1, ULL2NUM(deadline));
    nb_escape_t *escape = escape_new(scheduler, Qnil, exception, deadline);
    VALUE holder = escape->self, value = guard(escape, seconds);
    if (value != Qundef) return value;
    if (!NIL_P(escape->note)) message = NIL_P(message) ? escape->note : rb_sprintf("%"PRIsVALUE" %"PRIsVALUE, message, escape->note);
    if (!NIL_P(bare)) exception = rb_funcall(bare, id_new, NIL_P(message) ? 0 : 1, message);
    /* What was slow is what people want to know, not where the limit was set: it is further down there too. */
    if (!NIL_P(escape->place)) rb_funcall(exception, rb_intern("set_backtrace"), 1, escape->place);
    RB_GC_GUARD(holder);
    rb_exc_raise(exception);
}

/* call-seq: escapable(tag) { ... } -> the block's value, or tag if escape(tag) unwound it */
static VALUE escapable(VALUE self, VALUE tag) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (!scheduler->engine.task) rb_raise(rb_eThreadError, "escapable: no task is running here");
    VALUE value = guard(escape_new(scheduler, tag, Qnil, NB_NEVER), tag);
    return value == Qundef ? tag : value;
}

/* call-seq: escape(task, tag) -> unwinds the task's block under escapable(tag), at its next wait */
static VALUE escape_m(VALUE self, VALUE owner, VALUE tag) {
    nb_escape_t *found = NULL;
    EACH_ESCAPE(&nb_task_of(owner)->escapes, escape) if (escape->tag == tag && !escape->fired) found = escape;
    EACH_ESCAPE(&nb_task_of(owner)->inner_escapes, escape) if (escape->tag == tag && !escape->fired) found = escape;
    if (found) fire(found);
    return RBOOL(found);
}

/* An inner fiber that does not run itself is perhaps suspended. */
static bool is_overdue(nb_escape_t *escape, uint64_t latest) {
    if (escape->delivered || escape->timer.deadline >= latest || escape->shields != escape->task->shields) return false;
    return !escape->inner || fiber_of(escape) == escape->engine->expected;
}

static nb_escape_t *first_overdue(ruby_task_t *task, uint64_t latest) {
    EACH_ESCAPE(&task->escapes, escape) if (is_overdue(escape, latest)) return escape;
    EACH_ESCAPE(&task->inner_escapes, escape) if (is_overdue(escape, latest)) return escape;
    return NULL;
}

/*
 * call-seq: overdue(grace) -> exception or nil
 *
 * For the helper thread: the exception to raise in our thread if the running task has a timeout whose deadline has
 * passed unnoticed. Asked with the GVL held while that task is stopped in the middle of its own code.
 */
static VALUE overdue(VALUE self, VALUE grace) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    if (!scheduler->engine.backend || !task || task->base.wait) return Qnil;
    nb_escape_t *escape = first_overdue(task, nb_now() - (uint64_t)(NUM2DBL(grace) * 1e9));
    if (!escape) return Qnil;
    escape->fired = escape->delivered = task->base.pending = true;
    return NIL_P(escape->exception) ? make_expiry(escape) : escape->exception;
}

/* While timeouts run: the loop's earliest timer, in nanoseconds of the monotonic clock; else nil. */
static VALUE next_deadline(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    nb_timers_t *timers = &scheduler->engine.timers;
    return scheduler->engine.backend && scheduler->timeouts && timers->count ? ULL2NUM(timers->slots[1]->deadline) : Qnil;
}

void nb_init_escapes(void) {
    id_escape = rb_intern("__neverblock_escape");
    id_new = rb_intern("new");
    id_cause = rb_intern("cause");
    id_aref = rb_intern("[]");
    id_aset = rb_intern("[]=");
    id_note = rb_intern("@note");
    cEscape = rb_define_class_under(nb_cScheduler, "Escape", rb_cObject);
    rb_undef_alloc_func(cEscape);
    rb_undef_method(rb_singleton_class(cEscape), "new");
    cExpiry = rb_define_class_under(nb_cScheduler, "Expiry", rb_eException);
    rb_define_attr(cExpiry, "note", 1, 1);
    rb_define_method(nb_cScheduler, "timeout_after", timeout_after, 3);
    rb_define_method(nb_cScheduler, "escapable", escapable, 1);
    rb_define_method(nb_cScheduler, "escape", escape_m, 2);
    rb_define_method(nb_cScheduler, "overdue", overdue, 1);
    rb_define_method(nb_cScheduler, "next_deadline", next_deadline, 0);
}
