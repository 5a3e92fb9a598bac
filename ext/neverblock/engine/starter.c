/*
 * Starts fibers in such a way that a start which fails leaves nothing behind.
 *
 * Ruby (up to 4.0 at least) changes its books before it allocates the stack, and leaves them so if there is no memory:
 *
 * - A blocking fiber is no longer counted among its thread's blocking ones. From then on no wait of the thread reaches
 *   the scheduler. So a blocking fiber, such as the home fiber, leaves starts to the starter, a non-blocking fiber.
 * - The fiber that tried counts as resuming the one that has not begun, and Ruby would not resume it any more. A resume
 *   that succeeds corrects that: the mender's, a fiber that does nothing but yield.
 *
 * Both helpers live as long as the fiber that had them made, which is the first of its thread as a rule. They must not
 * outlive the thread: Ruby's GC searches a suspended fiber's stack, where old values keep other loops from being freed.
 *
 * A program may start fibers in its own blocking sections. So the loop looks whether the count is right.
 */
#include "internal.h"

/* On the stack of the fiber that has another one started. */
struct nb_order { VALUE fiber, caller, error; bool done; };

static VALUE resume(VALUE fiber) { return rb_fiber_resume(fiber, 0, NULL); }
static VALUE transfer(VALUE fiber) { return rb_fiber_transfer(fiber, 0, NULL); }
static VALUE yield(VALUE unused) { return rb_fiber_yield(0, NULL); }

/* Interrupts come at the end of each switch; the home fiber raises them. */
static void switch_by(nb_engine_t *engine, VALUE (*function)(VALUE), VALUE fiber) {
    int state = 0;
    rb_protect(function, fiber, &state);
    if (state) nb_postpone(engine, state);
}

static VALUE take_error(void) {
    VALUE error = rb_errinfo();
    rb_set_errinfo(Qnil);
    return error;
}

/* Returns Qnil, or Ruby's error if the fiber has no stack. */
static VALUE attempt(nb_engine_t *engine, VALUE fiber) {
    int state = 0;
    rb_protect(resume, fiber, &state);
    if (state && engine->starting) {
        VALUE error = take_error();
        if (engine->mender) switch_by(engine, resume, engine->mender);
        return error;
    }
    if (state) nb_postpone(engine, state);
    return Qnil;
}

static VALUE mender(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument)) {
    nb_engine_t *engine = (nb_engine_t *)argument;
    engine->mender = rb_fiber_current();
    for (;;) switch_by(engine, yield, Qnil);
    return Qnil; /* never: only for the compiler */
}

static VALUE begin_mender(VALUE engine) { return resume(rb_fiber_new_storage(mender, engine, Qnil)); }

static void carry_out(nb_engine_t *engine, struct nb_order *order) {
    int state = 0;
    if (!engine->mender) rb_protect(begin_mender, (VALUE)engine, &state);
    if (state && engine->mender) nb_postpone(engine, state);
    order->error = engine->mender ? attempt(engine, order->fiber) : take_error();
    order->done = true;
}

static VALUE starter(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument)) {
    nb_engine_t *engine = (nb_engine_t *)argument;
    engine->starter = rb_fiber_current();
    engine->keeper = engine->order->caller;
    for (;;) {
        VALUE caller = engine->order->caller;
        carry_out(engine, engine->order);
        switch_by(engine, transfer, caller);
    }
    return Qnil; /* never: only for the compiler */
}

static VALUE call_starter(VALUE argument) {
    nb_engine_t *engine = (nb_engine_t *)argument;
    return transfer(engine->starter ? engine->starter : rb_fiber_new_storage(starter, argument, Qnil));
}

VALUE nb_start_fiber(nb_engine_t *engine, VALUE fiber) {
    if (engine->mender && !NIL_P(rb_fiber_scheduler_current())) return attempt(engine, fiber);
    struct nb_order order = {fiber, rb_fiber_current(), Qnil, false};
    int state = 0;
    engine->order = &order;
    rb_protect(call_starter, (VALUE)engine, &state);
    engine->order = NULL;
    if (!order.done) return take_error();
    if (state) nb_postpone(engine, state);
    return order.error;
}

void nb_starter_mark(nb_engine_t *engine) {
    if (!engine->starter) return;
    if (!RTEST(rb_fiber_alive_p(engine->keeper))) {
        engine->starter = engine->mender = engine->keeper = 0;
        return;
    }
    rb_gc_mark(engine->keeper);
    rb_gc_mark(engine->starter);
    if (engine->mender) rb_gc_mark(engine->mender);
}

bool nb_is_helper(nb_engine_t *engine, VALUE fiber) { return fiber == engine->starter || fiber == engine->mender; }

/* Of a thread's fibers the running one alone counts, if it is a blocking one. */
bool nb_count_is_right(nb_engine_t *engine) {
    ID blocking = rb_intern("blocking?");
    VALUE count = rb_funcall(engine->fiber_class, blocking, 0), own = rb_funcall(rb_fiber_current(), blocking, 0);
    return count == (RTEST(own) ? INT2FIX(1) : Qfalse);
}
