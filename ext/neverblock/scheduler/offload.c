/*
 * The sizes of the native pools, and blocking_operation_wait, Ruby 3.4 and later.
 *
 * Core offers operations that it would otherwise run without the GVL on our thread. A hand-over costs several times as
 * much as a stat. So most operations run on our thread, and those that can take long go to another thread. The calling
 * method's name decides, because on 3.4 the operation itself can't be inspected. Zlib calls this once for each step (at
 * most 16 KiB of output); a step takes less time than a hand-over to a thread. Steps run on our thread, and after a
 * millisecond of them the other fibers have their turn.
 */
#include "scheduler.h"

#define STEPS_LIMIT NB_MILLISECOND /* of steps, without a turn of the other fibers */

/* {method => {class path => kind of operation}}; the list and its reasons are in lib/neverblock/scheduler.rb. */
static VALUE operations;
static VALUE sym_step, sym_large;

/* The kind of the operation, if it can take long; else nil. */
static VALUE kind_of_operation(void) {
    static const char *const hooks[] = {"blocking_operation_wait"};
    nb_caller_t caller = nb_caller(hooks, 1);
    VALUE classes = NIL_P(caller.name) ? Qnil : rb_hash_lookup(operations, caller.name);
    return NIL_P(classes) ? Qnil : rb_hash_lookup(classes, nb_caller_class(caller));
}

/* Patches::Zlib has marked the call, because its argument is large. */
static bool is_large(void) { return RTEST(rb_funcall(nb_cFiber, rb_intern("[]"), 1, sym_large)); }

static VALUE call_work(RB_BLOCK_CALL_FUNC_ARGLIST(fiber, work)) { return rb_funcall(work, rb_intern("call"), 0); }

static void run_here(VALUE work) { rb_block_call(nb_cFiber, rb_intern("blocking"), 0, NULL, call_work, work); }

static void run_step(nb_scheduler_t *scheduler, VALUE self, VALUE work) {
    if (scheduler->steps_switches != atomic_load(&scheduler->engine.switches)) {
        scheduler->steps_time = 0;
    } else if (scheduler->steps_time > STEPS_LIMIT) {
        rb_funcall(self, rb_intern("between_steps"), 0);
        scheduler->steps_time = 0;
    }
    uint64_t begun = nb_now();
    run_here(work);
    scheduler->steps_time += nb_now() - begun;
    scheduler->steps_switches = atomic_load(&scheduler->engine.switches);
}

/* call-seq: blocking_operation_wait(work)
 *
 * Core calls this in the middle of its own C code, sometimes while an exception leaves that code (a GzipWriter that
 * closes its file). So $! must be the same afterwards. */
static VALUE blocking_operation_wait(VALUE self, VALUE work) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    VALUE error = rb_errinfo();
    VALUE kind = nb_scheduler_may_park(scheduler) ? kind_of_operation() : Qnil;
    if (NIL_P(kind)) {
        run_here(work);
    } else if (kind == sym_step && !is_large()) {
        run_step(scheduler, self, work);
    } else {
        rb_funcall(self, rb_intern("run_on_thread"), 2, work, kind);
    }
    if (!SPECIAL_CONST_P(error)) rb_set_errinfo(error);
    return Qnil;
}

static VALUE set_operations(VALUE klass, VALUE table) { return operations = table; }

/* ---- the native pools ---- */
/* call-seq: Scheduler.native_pools -> {name => {limit:, threads:, idle:, queued:}} */
static VALUE s_native_pools(VALUE klass) {
    VALUE all = rb_hash_new();
    for (nb_pool_id_t id = 0; id < NB_POOLS; id++) {
        nb_pool_statistics_t statistics = nb_pool_statistics(id);
        const struct { const char *name; int value; } facts[] = {
            {"limit", statistics.limit}, {"threads", statistics.threads},
            {"idle", statistics.idle}, {"queued", statistics.queued},
        };
        VALUE pool = rb_hash_new();
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            rb_hash_aset(pool, ID2SYM(rb_intern(facts[i].name)), INT2NUM(facts[i].value));
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
    sym_step = ID2SYM(rb_intern("step"));
    sym_large = ID2SYM(rb_intern("neverblock_large"));
    rb_gc_register_address(&operations);
    operations = rb_hash_new();
    rb_define_singleton_method(nb_cScheduler, "operations=", set_operations, 1);
    rb_define_method(nb_cScheduler, "blocking_operation_wait", blocking_operation_wait, 1);
}
