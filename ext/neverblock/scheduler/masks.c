/*
 * Thread.handle_interrupt inside of tasks: lib/neverblock/patches/handle_interrupt.rb calls `masked` for each block.
 *
 *     Thread.handle_interrupt(Exception => :never) do
 *       connection = pool.pop
 *       begin
 *         Thread.handle_interrupt(Exception => :immediate) { use(connection) }
 *       ensure
 *         lock.synchronize { pool << connection }     # may wait: what is raised in the task comes at the block's end
 *       end
 *     end
 *
 * Ruby keeps masks by the thread. A parked task leaves its masks on the thread for all others, and the end of a mask
 * removes the last one, even if that is another task's. So a task keeps a list of its own too. Its masks hold off what
 * is raised in the task: a cancellation, and a timeout or the end of a scope that began outside of the mask. The
 * innermost mask that has an entry for the exception decides, and of its entries that of the nearest ancestor, as in
 * Ruby. We raise at waits, so :on_blocking does not hold off.
 *
 * As in Ruby, exceptions that a change of the masks lets through are raised at both ends of a block.
 *
 * Masks of the task's own fiber are in one list. Those of its inner fibers (Enumerators) are in another, and count only
 * while that fiber is at work. The fiber is held weakly: an Enumerator that is dropped in the middle of a block is
 * collected.
 *
 * scheduler->masks are the masks of our tasks on Ruby's own stack, in its order. The helper thread of timeouts uses it
 * to know whether a Thread#raise would arrive at once: later it would find another task.
 */
#include "scheduler.h"

#define FIRST_PRUNING 32 /* at so many inner masks; then whenever their number has doubled */

static VALUE never, on_blocking, plain; /* plain: Ruby's own Thread.handle_interrupt, a Method */
static ID id_call;

/* ---- what they hold off ---- */
static bool holds(VALUE masks, VALUE class, long from, bool waits) {
    if (NIL_P(masks) || RARRAY_LEN(masks) <= from) return false;
    VALUE ancestors = rb_mod_ancestors(class);
    for (long i = RARRAY_LEN(masks); i-- > from;) {
        for (long j = 0; j < RARRAY_LEN(ancestors); j++) {
            VALUE timing = rb_hash_lookup(RARRAY_AREF(masks, i), RARRAY_AREF(ancestors, j));
            if (!NIL_P(timing)) return timing == never || (timing == on_blocking && !waits);
        }
    }
    return false;
}

/* The masks around the code that runs, or waits, outermost first: an Array, or nil. */
static VALUE in_force(ruby_task_t *task) {
    VALUE inner = task->inner_masks;
    if (NIL_P(inner) || RARRAY_LEN(inner) == 0) return task->masks;
    VALUE masks = NIL_P(task->masks) ? rb_ary_new() : rb_ary_dup(task->masks);
    for (long i = 0; i < RARRAY_LEN(inner); i++) {
        VALUE mask = RARRAY_AREF(inner, i), fiber = nb_inner_fiber((nb_scheduler_t *)task->base.engine, mask);
        if (fiber && nb_fiber_is_at_work(task, fiber)) rb_ary_push(masks, mask);
    }
    return masks;
}

long nb_masks(ruby_task_t *task) {
    VALUE masks = in_force(task);
    return NIL_P(masks) ? 0 : RARRAY_LEN(masks);
}

bool nb_masks_hold(ruby_task_t *task, VALUE class, long from, bool waits) {
    return holds(in_force(task), class, from, waits);
}

bool nb_masks_hide(nb_scheduler_t *scheduler, VALUE class) { return holds(scheduler->masks, class, 0, false); }

static bool any(VALUE masks) { return !NIL_P(masks) && RARRAY_LEN(masks); }

bool nb_masks_any(ruby_task_t *task) { return any(task->masks) || any(task->inner_masks); }

/* ---- raising between waits ---- */
static bool may_raise(ruby_task_t *task) {
    if (!task->base.pending) return false;
    task->between_waits = true;
    bool may = nb_scheduler_hooks.deliverable(&task->base);
    task->between_waits = false;
    return may;
}

static VALUE deliver(VALUE task) {
    nb_scheduler_hooks.deliver((nb_task_t *)task);
    return Qnil;
}

static void raise_now(ruby_task_t *task) {
    int state = 0;
    task->between_waits = true;
    rb_protect(deliver, (VALUE)task, &state);
    task->between_waits = false;
    if (state) rb_jump_tag(state);
}

/* ---- a block under one ---- */
typedef struct { ruby_task_t *task; VALUE mask; bool inner, open_before, completed; } block_t;

static bool is_its_turn(ruby_task_t *task) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread();
    return scheduler && scheduler->engine.task == &task->base && task->base.engine == &scheduler->engine;
}

/* Removes the masks whose Enumerator has been collected. */
static void prune(nb_scheduler_t *scheduler, VALUE masks) {
    for (long i = RARRAY_LEN(masks); i-- > 0;)
        if (!nb_inner_fiber(scheduler, RARRAY_AREF(masks, i))) rb_ary_delete_at(masks, i);
}

static void push(nb_scheduler_t *scheduler, block_t *block) {
    ruby_task_t *task = block->task;
    VALUE *masks = block->inner ? &task->inner_masks : &task->masks;
    if (NIL_P(*masks)) *masks = rb_ary_new();
    if (block->inner) {
        long count = RARRAY_LEN(*masks);
        if (count >= FIRST_PRUNING && (count & (count - 1)) == 0) prune(scheduler, *masks);
        nb_inner_fiber_note(scheduler, block->mask);
    }
    rb_ary_push(*masks, block->mask);
    if (NIL_P(scheduler->masks)) scheduler->masks = rb_ary_new();
    rb_ary_push(scheduler->masks, block->mask);
    scheduler->engine.masks = (size_t)RARRAY_LEN(scheduler->masks);
}

/* Blocks of one fiber end in order, those of several do not. */
static void pop(block_t *block) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread(); /* NULL in a forked child */
    if (scheduler && !NIL_P(scheduler->masks)) {
        rb_ary_pop(scheduler->masks); /* the last one, another task's perhaps, as Ruby does */
        scheduler->engine.masks = (size_t)RARRAY_LEN(scheduler->masks);
    }
    if (!block->inner) {
        rb_ary_pop(block->task->masks);
        return;
    }
    VALUE masks = block->task->inner_masks;
    for (long i = RARRAY_LEN(masks); i-- > 0;) if (RARRAY_AREF(masks, i) == block->mask) rb_ary_delete_at(masks, i);
}

static VALUE enter(VALUE argument) {
    block_t *block = (block_t *)argument;
    if (!block->open_before && may_raise(block->task)) raise_now(block->task);
    VALUE value = rb_yield_values(0);
    block->completed = true;
    return value;
}

/* Whether we may raise in place of an error or a throw that leaves the block, as Ruby does. Not in place of
 * Fiber#kill and Thread#kill, whose mark is an Integer. Nor in place of an exception that is not a StandardError:
 * most often it is an interrupt that Ruby's own mask has just let through, and it comes once. Ours comes at the next
 * wait then. */
static bool is_replaceable(VALUE error) {
    if (NIL_P(error)) return true;
    if (SPECIAL_CONST_P(error)) return false;
    return !RBASIC_CLASS(error) || RTEST(rb_obj_is_kind_of(error, rb_eStandardError)); /* a throw has no class */
}

static VALUE leave(VALUE argument) {
    block_t *block = (block_t *)argument;
    ruby_task_t *task = block->task;
    bool may = is_its_turn(task) && (block->completed || is_replaceable(rb_errinfo()));
    if (may) nb_cancel_scopes_look(task);
    may = may && !may_raise(task);
    pop(block);
    if (may && may_raise(task)) raise_now(task);
    return Qnil;
}

/* call-seq: masked(mask) { ... } -> the block's value
 *
 * For the running task. The block calls Ruby's own Thread.handle_interrupt. */
static VALUE masked(VALUE self, VALUE given) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    ruby_task_t *task = (ruby_task_t *)scheduler->engine.task;
    VALUE mask = rb_check_hash_type(given);
    if (!task || NIL_P(mask) || RHASH_EMPTY_P(mask)) return rb_yield_values(0); /* Ruby refuses it, or it is empty */
    VALUE holder = task->base.self;
    nb_cancel_scopes_look(task);
    block_t block = {
        .task = task, .mask = rb_obj_freeze(rb_hash_dup(mask)), .inner = rb_fiber_current() != task->base.fiber,
        .open_before = may_raise(task),
    };
    push(scheduler, &block);
    VALUE value = rb_ensure(enter, (VALUE)&block, leave, (VALUE)&block);
    RB_GC_GUARD(holder);
    return value;
}

/* ---- Ruby's own masks, which the task does not know ---- */
typedef struct { VALUE (*call)(VALUE); VALUE argument; } call_t;

static VALUE call_under(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, data)) {
    call_t *call = (call_t *)data;
    return call->call(call->argument);
}

VALUE nb_under_mask(VALUE class, const char *timing, VALUE (*function)(VALUE), VALUE argument) {
    call_t call = {function, argument};
    VALUE mask = rb_hash_new();
    rb_hash_aset(mask, class, ID2SYM(rb_intern(timing)));
    return rb_block_call(plain, id_call, 1, &mask, call_under, (VALUE)&call);
}

VALUE nb_uninterrupted(VALUE (*function)(VALUE), VALUE argument) {
    return nb_under_mask(rb_cObject, "never", function, argument);
}

/* call-seq: Scheduler.uninterrupted { } -> the block's value; Thread#raise and Thread#kill of this thread come
 *   afterwards */
static VALUE s_uninterrupted(VALUE klass) { return nb_uninterrupted(rb_yield, Qundef); }

/* call-seq: unmasked = whether masks hold off no cancellation any more; those that they have held off come too */
static VALUE set_unmasked(VALUE self, VALUE unmasked) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    nb_link_t *tasks = &scheduler->engine.tasks;
    scheduler->unmasked = RTEST(unmasked);
    if (!scheduler->unmasked || !scheduler->engine.backend) return unmasked;
    for (nb_link_t *l = tasks->next; l != tasks; l = l->next) {
        ruby_task_t *task = (ruby_task_t *)NB_ENTRY(l, nb_task_t, link);
        if (task->cancel_request != NB_CANCEL_NONE) nb_task_interrupt(task);
    }
    return unmasked;
}

void nb_init_masks(void) {
    never = ID2SYM(rb_intern("never"));
    on_blocking = ID2SYM(rb_intern("on_blocking"));
    id_call = rb_intern("call");
    plain = rb_obj_method(rb_cThread, ID2SYM(rb_intern("handle_interrupt")));
    rb_gc_register_mark_object(plain);
    rb_define_method(nb_cScheduler, "masked", masked, 1);
    rb_define_method(nb_cScheduler, "unmasked=", set_unmasked, 1);
    rb_define_singleton_method(nb_cScheduler, "uninterrupted", s_uninterrupted, 0);
}
