/*
 * The waits without a descriptor: kernel_sleep, block, unblock, unblock_next, yield.
 */
#include "scheduler.h"
#include <string.h>

/* Validates as Kernel#sleep does: ArgumentError for a negative number, TypeError for other objects. */
uint64_t nb_deadline_from(VALUE seconds) {
    if (NIL_P(seconds)) return NB_NEVER;
    struct timespec interval = rb_time_timespec_interval(seconds);
    if (interval.tv_sec >= NB_LONGEST) return NB_NEVER;
    uint64_t length = (uint64_t)interval.tv_sec * NB_SECOND + (uint64_t)interval.tv_nsec;
    if (!length && RTEST(rb_funcall(seconds, '>', 1, INT2FIX(0)))) length = 1; /* as nb_after does */
    return nb_now() + length;
}

VALUE nb_seconds_since(uint64_t then) { return DBL2NUM((double)(nb_now() - then) / 1e9); }

static bool is_endless(VALUE seconds) {
    if (RB_FLOAT_TYPE_P(seconds)) return !(RFLOAT_VALUE(seconds) < NB_LONGEST);
    bool large = RB_TYPE_P(seconds, T_BIGNUM) || RB_TYPE_P(seconds, T_RATIONAL);
    return large && !(rb_num2dbl(seconds) < NB_LONGEST);
}

uint64_t nb_limit_from(VALUE seconds) { return is_endless(seconds) ? NB_NEVER : nb_deadline_from(seconds); }

static VALUE mutex_class, sleep_symbol;

/* Ruby 3.3 and 3.4 hide the mutex of IO#close: it has no class. */
static VALUE class_of(VALUE blocker) { return RB_SPECIAL_CONST_P(blocker) ? 0 : RBASIC_CLASS(blocker); }

static bool is_mutex(VALUE blocker) {
    return !RB_SPECIAL_CONST_P(blocker) && (!RBASIC_CLASS(blocker) || rb_obj_class(blocker) == mutex_class);
}

/* ConditionVariable#wait takes any object that has a public method `sleep`. */
bool nb_is_lock(VALUE blocker) {
    VALUE klass = class_of(blocker);
    return klass && rb_method_boundp(klass, rb_intern("sleep"), 1);
}

bool nb_is_thread(VALUE blocker) { return class_of(blocker) && RTEST(rb_obj_is_kind_of(blocker, rb_cThread)); }

typedef enum { CALLED_BY_KERNEL_SLEEP, CALLED_BY_LOCK, CALLED_BY_CLOSE, CALLED_BY_OTHER } caller_t;

/* The method that called the hook. CALLED_BY_LOCK is Mutex#sleep, or ConditionVariable#wait, which calls Mutex#sleep
 * by name up to Ruby 4.0 and directly in 4.1. */
static caller_t called_by(void) {
    static const char *const hooks[] = {"kernel_sleep", "block"};
    nb_caller_t caller = nb_caller(hooks, 2);
    if (NIL_P(caller.name)) return CALLED_BY_OTHER;
    bool closes = nb_caller_starts_with(caller, "close") || nb_caller_is(caller, "reopen");
    if (closes && nb_caller_in_c(caller)) return CALLED_BY_CLOSE;
    if (!nb_caller_is(caller, "sleep") && !nb_caller_is(caller, "wait")) return CALLED_BY_OTHER;
    VALUE class = nb_caller_class(caller);
    if (!RB_TYPE_P(class, T_STRING)) return CALLED_BY_OTHER;
    const char *path = RSTRING_PTR(class);
    return strcmp(path, "Kernel") == 0 || strcmp(path, "Object") == 0 ? CALLED_BY_KERNEL_SLEEP : CALLED_BY_LOCK;
}

static bool never(nb_engine_t *engine, nb_wait_t *wait) { return false; }

/* call-seq: kernel_sleep(seconds = nil) -- Kernel#sleep, Mutex#sleep, ConditionVariable#wait, IO#close
 *
 * A sleep without an end is a deadlock if nothing could end it, unless it is a Kernel#sleep. IO#close waits here for
 * operations that have been interrupted, and Ruby keeps pointers to the closing fiber until they have ended. So an
 * exception is raised at that fiber's next wait. */
static VALUE kernel_sleep(int argc, VALUE *argv, VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    rb_check_arity(argc, 0, 1);
    if (!nb_scheduler_may_park(scheduler)) return rb_funcallv(rb_mKernel, rb_intern("sleep"), argc, argv);
    VALUE seconds = argc ? argv[0] : Qnil;
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    if (seconds == INT2FIX(0)) {
        nb_yield(&scheduler->engine);
        if (task) task->late = true;
        return Qtrue;
    }
    nb_wait_t wait;
    nb_wait_init(&wait, NB_WAIT_SLEEP, Qnil);
    nb_wait_deadline(&wait, nb_deadline_from(seconds));
    wait.blockable = true;
    if (NIL_P(seconds)) {
        caller_t caller = called_by();
        wait.bare = caller == CALLED_BY_KERNEL_SLEEP;
        if (caller == CALLED_BY_CLOSE) wait.withdraw = never;
    }
    nb_park(&scheduler->engine, &wait);
    if (task) task->late = wait.outcome != NB_READY;
    return RBOOL(wait.outcome == NB_READY);
}

/* call-seq: nil_if_late { } -> the block's value; or nil, if the last sleep in it ended because the time was up */
static VALUE nil_if_late(VALUE self) {
    ruby_task_t *task = (ruby_task_t *)nb_scheduler(self)->engine.task;
    if (task) task->late = false;
    VALUE value = rb_yield_values(0);
    return task && task->late ? Qnil : value;
}

/* Core passes the limits of Thread#join and the like unchanged: negative, infinite, any object with to_f. */
static uint64_t deadline_of_block(VALUE timeout) {
    if (NIL_P(timeout)) return NB_NEVER;
    return nb_after(RFLOAT_VALUE(rb_Float(timeout)));
}

/* In a forked child: core called the scheduler before it could know that the loop is gone. */
static VALUE block_without_loop(nb_engine_t *engine, uint64_t deadline) {
    VALUE fiber = rb_fiber_current();
    while (!nb_woken_without_loop(engine, fiber)) {
        if (nb_now() >= deadline) return Qfalse;
        rb_thread_wait_for((struct timeval){.tv_usec = 2000});
    }
    return Qtrue;
}

/* call-seq: block(blocker, timeout = nil) -> true, or false after the timeout -- Mutex, Queue, Thread#join … */
static VALUE block(int argc, VALUE *argv, VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    rb_check_arity(argc, 1, 2);
    VALUE timeout = argc > 1 ? argv[1] : Qnil;
    if (scheduler->engine.fork_generation != nb_fork_generation) {
        VALUE woken = block_without_loop(&scheduler->engine, deadline_of_block(timeout));
        nb_scheduler_may_park(scheduler); /* removes the scheduler from the thread; else core would call no unblock */
        return woken;
    }
    if (!nb_scheduler_may_park(scheduler))
        rb_raise(rb_eThreadError, "block: this scheduler belongs to another thread, or the calling fiber is the one "
                                  "that runs its loop");
    nb_wait_t wait;
    nb_wait_init(&wait, NB_WAIT_BLOCK, argv[0]);
    wait.blockable = true;
    /* Mutex#sleep must take its mutex again: after an exception it would unlock a mutex that it does not have. Likewise
     * IO#close, whose mutex may be hidden. */
    if (is_mutex(argv[0])) {
        caller_t caller = called_by();
        if (caller == CALLED_BY_LOCK || caller == CALLED_BY_CLOSE) wait.withdraw = never;
    }
    /* A subclass may implement kernel_sleep by block(:sleep, seconds), as Ruby's own sample scheduler does. */
    if (argv[0] == sleep_symbol && called_by() == CALLED_BY_LOCK) wait.kind = NB_WAIT_SLEEP;
    nb_wait_deadline(&wait, deadline_of_block(timeout));
    nb_park(&scheduler->engine, &wait);
    if (wait.outcome == NB_READY) nb_probe_woken(&scheduler->engine);
    return RBOOL(wait.outcome == NB_READY);
}

/* call-seq: unblock(blocker, fiber) -- ends block(blocker) of that fiber, and no other wait
 *
 * From any thread. Never raises, and runs no Ruby code. */
static VALUE unblock(VALUE self, VALUE blocker, VALUE fiber) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    if (engine->backend) nb_unblock(engine, blocker, fiber);
    return Qnil;
}

/* call-seq: unblock_next(blocker, fiber) -- the same, and the fiber runs before those that are due already */
static VALUE unblock_next(VALUE self, VALUE blocker, VALUE fiber) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    if (engine->backend) nb_unblock_next(engine, blocker, fiber);
    return Qnil;
}

/* call-seq: yield -- lets the other runnable fibers go first */
static VALUE yield_m(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (nb_scheduler_may_park(scheduler)) nb_yield(&scheduler->engine);
    else rb_thread_schedule();
    return Qnil;
}

/* call-seq: NeverBlock.pass -- documented in lib/neverblock/api.rb */
static VALUE pass(VALUE module) {
    nb_scheduler_t *scheduler = nb_scheduler_here();
    if (scheduler && nb_scheduler_may_park(scheduler)) nb_yield(&scheduler->engine);
    else rb_thread_schedule();
    return Qnil;
}

void nb_init_waits(void) {
    mutex_class = rb_path2class("Thread::Mutex");
    rb_gc_register_mark_object(mutex_class);
    sleep_symbol = ID2SYM(rb_intern("sleep"));
    rb_define_method(nb_cScheduler, "kernel_sleep", kernel_sleep, -1);
    rb_define_method(nb_cScheduler, "nil_if_late", nil_if_late, 0);
    rb_define_method(nb_cScheduler, "block", block, -1);
    rb_define_method(nb_cScheduler, "unblock", unblock, 2);
    rb_define_method(nb_cScheduler, "unblock_next", unblock_next, 2);
    rb_define_method(nb_cScheduler, "yield", yield_m, 0);
    rb_define_singleton_method(nb_mNeverBlock, "pass", pass, 0);
}
