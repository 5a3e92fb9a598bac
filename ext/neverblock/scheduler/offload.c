/*
 * The sizes of the native pools, and blocking_operation_wait, Ruby 3.4 and later.
 *
 * Core offers operations that it would otherwise run without the GVL on our thread. Handing one over costs several times a
 * stat, so most are run where they are; those that can take long go to another thread. The method that asks tells which
 * is which: on 3.4 the operation itself is a closed box.
 */
#include "scheduler.h"

/* {method => [class paths]} from lib/neverblock/scheduler.rb, where the list and its reasons are. */
static VALUE slow_callers;

/* The name of the method that asks, if its operations can take long; else Qfalse. */
static VALUE slow_caller(void) {
    static const char *const hooks[] = {"blocking_operation_wait"};
    nb_caller_t caller = nb_caller(hooks, 1);
    VALUE classes = NIL_P(caller.name) ? Qnil : rb_hash_lookup(slow_callers, caller.name);
    return !NIL_P(classes) && RTEST(rb_ary_includes(classes, nb_caller_class(caller))) ? caller.name : Qfalse;
}

static VALUE call_work(RB_BLOCK_CALL_FUNC_ARGLIST(fiber, work)) { return rb_funcall(work, rb_intern("call"), 0); }

static VALUE run_here(VALUE work) { return rb_block_call(nb_cFiber, rb_intern("blocking"), 0, NULL, call_work, work); }

/* call-seq: blocking_operation_wait(work)
 *
 * Core calls this in the middle of its own C code, some of which is on its way out with an exception (a GzipWriter
 * that closes its file): $! must be what it was. */
static VALUE blocking_operation_wait(VALUE self, VALUE work) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    VALUE error = rb_errinfo();
    VALUE caller = nb_scheduler_may_park(scheduler) ? slow_caller() : Qfalse;
    if (caller == Qfalse) {
        run_here(work);
    } else {
        rb_funcall(self, rb_intern("run_on_thread"), 2, work, caller);
    }
    if (!SPECIAL_CONST_P(error)) rb_set_errinfo(error);
    return Qnil;
}

static VALUE set_slow_callers(VALUE klass, VALUE names) { return slow_callers = names; }

/* ---- the native pools ---- */
/* call-seq: Scheduler.native_pools -> {name => {limit:, threads:, idle:, queued:}} */
static VALUE s_native_pools(VALUE klass) {
    VALUE all = rb_hash_new();
    for (nb_pool_id_t id = 0; id < NB_POOLS; id++) {
        nb_pool_statistics_t statistics = nb_pool_statistics(id);
        const struct { const char *name; int value; } facts[] = {
            {"limit", statistics.limit}, {"threads", statistics.threads}, {"idle", statistics.idle}, {"queued", statistics.queued}};
        VALUE pool = rb_hash_new();
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) rb_hash_aset(pool, ID2SYM(rb_intern(facts[i].name)), INT2NUM(facts[i].value));
        rb_hash_aset(all, ID2SYM(rb_intern(nb_pool_name(id))), pool);
    }
    return all;
}

/* call-seq: Scheduler.limit_native_pool(name, threads) */
static VALUE s_limit_native_pool(VALUE klass, VALUE name, VALUE threads) {
    for (nb_pool_id_t id = 0; id < NB_POOLS; id++) {
        if (name != ID2SYM(rb_intern(nb_pool_name(id)))) continue;
        nb_pool_set_limit(id, NUM2INT(threads));
        return Qnil;
    }
    rb_raise(rb_eArgError, "there is no native pool %"PRIsVALUE, rb_inspect(name));
}

void nb_init_offload(void) {
    rb_define_singleton_method(nb_cScheduler, "native_pools", s_native_pools, 0);
    rb_define_singleton_method(nb_cScheduler, "limit_native_pool", s_limit_native_pool, 2);
    rb_gc_register_address(&slow_callers);
    slow_callers = rb_hash_new();
    rb_define_singleton_method(nb_cScheduler, "slow_callers=", set_slow_callers, 1);
    rb_define_method(nb_cScheduler, "blocking_operation_wait", blocking_operation_wait, 1);
}
