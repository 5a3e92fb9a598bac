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
 * The fibers of one task interleave: an Enumerator may yield from the middle of a timeout's block and be gone on with
 * later or never. So escapes are objects in a list, outermost first, that end in any order; and one whose fiber is
 * suspended lets the others' waits alone.
 */
#include "scheduler.h"
#include <string.h>

static VALUE cEscape, cExpiry;
static ID id_escape, id_new, id_cause, id_transfer, id_message, id_note;

static void escape_mark(void *pointer) {
    nb_escape_t *escape = pointer;
    VALUE all[] = {escape->fiber, escape->tag, escape->exception, escape->expiry, escape->place, escape->note};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (all[i]) rb_gc_mark(all[i]);
}

static size_t escape_size(const void *pointer) { return sizeof(nb_escape_t); }

static const rb_data_type_t escape_type = {
    .wrap_struct_name = "NeverBlock::Scheduler::Escape",
    .function = {.dmark = escape_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = escape_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

#define EACH_ESCAPE(task, escape) \
    for (nb_link_t *l = (task)->escapes.next; l != &(task)->escapes; l = l->next) \
        for (nb_escape_t *escape = NB_ENTRY(l, nb_escape_t, link); escape; escape = NULL)

void nb_escapes_mark(ruby_task_t *task) {
    EACH_ESCAPE(task, escape) rb_gc_mark(escape->self);
}

/* ---- what may be raised now ---- */
static VALUE try_transfer(VALUE fiber) { return rb_funcall(fiber, id_transfer, 0); }

/* A fiber that resumed another and one that yielded look alike, but Ruby refuses to transfer to either with its own
 * words. No fiber gets here in any other state: it has a block under way and is not the one that waits. */
static bool resumed_another(VALUE fiber) {
    int state = 0;
    rb_protect(try_transfer, fiber, &state);
    if (!state) return false;
    VALUE error = rb_errinfo();
    rb_set_errinfo(Qnil);
    VALUE message = rb_funcall(error, id_message, 0);
    return strstr(StringValueCStr(message), "resuming") != NULL;
}

/* Whether the code that runs, or waits, is inside the escape's block. */
static bool encloses(nb_escape_t *escape) {
    nb_task_t *task = &escape->task->base;
    VALUE here = task->wait ? task->wait->fiber : rb_fiber_current();
    return escape->fiber == here || escape->fiber == task->fiber || resumed_another(escape->fiber);
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

/* Whether something is still to be raised in the task, now or when a shield has ended. */
static void settle(ruby_task_t *task) {
    task->base.pending = task->cancelling;
    EACH_ESCAPE(task, escape)
        if (escape->fired && (!escape->delivered || !NIL_P(escape->expiry))) task->base.pending = true;
}

bool nb_escape_deliverable(ruby_task_t *task) {
    EACH_ESCAPE(task, escape) if (due(escape)) return true;
    return false;
}

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
    bool thrown = escape->fiber == rb_fiber_current() && !(first && NIL_P(escape->tag));
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

/* The outermost goes first: what it unwinds takes the inner ones with it. */
void nb_escape_deliver(ruby_task_t *task) {
    EACH_ESCAPE(task, escape) if (due(escape)) deliver(escape);
}

static void fire(nb_escape_t *escape) {
    escape->fired = true;
    nb_task_interrupt(escape->task);
}

static void time_is_up(nb_engine_t *engine, nb_timer_t *timer) { fire(NB_ENTRY(timer, nb_escape_t, timer)); }

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
    if (escape->timer.deadline != NB_NEVER) ((nb_scheduler_t *)escape->engine)->timeouts--;
    nb_timer_cancel(escape->engine, &escape->timer);
    nb_list_remove(&escape->link);
}

/* Those that an Enumerator never came back to end. */
void nb_escapes_drop(ruby_task_t *task) {
    while (!nb_list_empty(&task->escapes)) dismiss(NB_ENTRY(task->escapes.next, nb_escape_t, link));
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

static nb_escape_t *escape_new(nb_scheduler_t *scheduler, VALUE tag, VALUE exception, uint64_t deadline) {
    nb_escape_t *escape;
    VALUE self = TypedData_Make_Struct(cEscape, nb_escape_t, &escape_type, escape);
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    *escape = (nb_escape_t){
        .self = self, .engine = &scheduler->engine, .task = task, .fiber = rb_fiber_current(), .tag = tag,
        .exception = exception, .expiry = Qnil, .place = Qnil, .note = Qnil, .shields = task->shields, .timer = {.deadline = deadline, .fire = time_is_up},
    };
    nb_list_append(&task->escapes, &escape->link);
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
    uint64_t deadline = nb_deadline_from(seconds);
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
    EACH_ESCAPE(nb_task_of(owner), escape) if (escape->tag == tag && !escape->fired) found = escape;
    if (found) fire(found);
    return RBOOL(found);
}

/*
 * call-seq: overdue -> [exception, deadline] or nil
 *
 * For the helper thread: the exception to raise in our thread if the running task has a timeout whose deadline has
 * passed unnoticed. Asked with the GVL held while that task is stopped in the middle of its own code.
 */
static VALUE overdue(VALUE self, VALUE grace) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    if (!scheduler->engine.backend || !task || task->base.wait) return Qnil;
    uint64_t now = nb_now(), slack = (uint64_t)(NUM2DBL(grace) * 1e9);
    EACH_ESCAPE(task, escape) {
        if (escape->delivered || escape->timer.deadline >= now - slack || escape->shields != task->shields) continue;
        if (escape->fiber != task->base.fiber && escape->fiber != scheduler->engine.expected) continue; /* perhaps suspended */
        escape->fired = escape->delivered = task->base.pending = true;
        return NIL_P(escape->exception) ? make_expiry(escape) : escape->exception;
    }
    return Qnil;
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
    id_transfer = rb_intern("transfer");
    id_message = rb_intern("message");
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
