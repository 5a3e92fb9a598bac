/*
 * Signal handlers in C, as ways_out.rb looks at them: which signals have one, and how to look without losing it.
 */
#include "scheduler.h"
#include <signal.h>

/* call-seq: Scheduler.handled_signals -> the numbers of the signals that have a handler, Ruby's own or another */
static VALUE s_handled_signals(VALUE klass) {
    VALUE numbers = rb_ary_new();
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) < 0) continue;
        if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) rb_ary_push(numbers, INT2FIX(number));
    }
    return numbers;
}

typedef struct { int number; struct sigaction action; } handler_t;

static VALUE restore_handler(VALUE argument) {
    handler_t *handler = (handler_t *)argument;
    sigaction(handler->number, &handler->action, NULL);
    return Qnil;
}

/* call-seq: Scheduler.keep_handler(number) { } -> the block's value; afterwards the signal has its old handler in C */
static VALUE s_keep_handler(VALUE klass, VALUE number) {
    handler_t handler = {.number = NUM2INT(number)};
    if (sigaction(handler.number, NULL, &handler.action) < 0) rb_sys_fail("sigaction");
    return rb_ensure(rb_yield, Qundef, restore_handler, (VALUE)&handler);
}

void nb_init_signals(void) {
    rb_define_singleton_method(nb_cScheduler, "handled_signals", s_handled_signals, 0);
    rb_define_singleton_method(nb_cScheduler, "keep_handler", s_keep_handler, 1);
}
