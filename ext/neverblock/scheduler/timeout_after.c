/*
 * timeout_after, which Timeout.timeout calls: a cancel scope with a deadline, and the error that is raised outside of
 * it.
 */
#include "scheduler.h"

static VALUE blocking_timeout(RB_BLOCK_CALL_FUNC_ARGLIST(fiber, data)) {
    VALUE *arguments = (VALUE *)data;
    return rb_funcall_with_block(rb_path2class("Timeout"), rb_intern("timeout"), 3, arguments, arguments[3]);
}

static bool is_negative(VALUE number) {
    return RTEST(rb_obj_is_kind_of(number, rb_cNumeric)) && RTEST(rb_funcall(number, '<', 1, INT2FIX(0)));
}

/*
 * call-seq: timeout_after(seconds, exception_class, message) { |seconds| ... } -> the block's value
 *
 * The bare Timeout::Error unwinds the block, and no rescue stops it. Any other class is raised inside of the block.
 * Code that never waits is interrupted too, by a helper thread (lib/neverblock/scheduler/timeout_watchdog.rb).
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
    /* A negative time is what is left until a deadline that has passed. */
    uint64_t deadline = is_negative(seconds) ? nb_now() : nb_limit_from(seconds);
    if (deadline != NB_NEVER) rb_funcall(self, rb_intern("watch_overdue"), 1, ULL2NUM(deadline));
    nb_cancel_scope_t *scope = nb_cancel_scope_new(scheduler, Qnil, exception, deadline);
    VALUE holder = scope->self, value = nb_cancel_scope_guard(scope, seconds);
    if (value != Qundef) return value;
    VALUE note = scope->note;
    if (!NIL_P(note)) message = NIL_P(message) ? note : rb_sprintf("%"PRIsVALUE" %"PRIsVALUE, message, note);
    if (!NIL_P(bare)) exception = rb_funcall(bare, rb_intern("new"), NIL_P(message) ? 0 : 1, message);
    /* The backtrace begins where the code was slow. The place of the limit is further down in it. */
    if (!NIL_P(scope->place)) rb_funcall(exception, rb_intern("set_backtrace"), 1, scope->place);
    RB_GC_GUARD(holder);
    rb_exc_raise(exception);
}

void nb_init_timeout_after(void) {
    rb_define_method(nb_cScheduler, "timeout_after", timeout_after, 3);
}
