/*
 * Switching: how fibers are started, parked, resumed and ended.
 *
 * Fibers transfer to one another, except at both ends of a fiber's life. At its start a fiber is resumed and yields at
 * once, before its block runs. So Ruby regards it as a yielded fiber. When its block has ended it is the finished
 * fiber, and the fiber that runs next reaps it with a resume: Ruby gives its stack back at once, and knows where to
 * return to, whatever fiber called run. Ended by transfer, a fiber keeps its stack until the next garbage collection on
 * Ruby 3.3, 3.4 up to 3.4.9 and 4.0 up to 4.0.3 (bug 21955), and returns to the root fiber.
 *
 * Fiber#raise and Fiber#kill on a parked fiber resume it externally. Its next wait, or its end, then goes back to that
 * resumer, as it does for any other fiber.
 */
#include "internal.h"
#include <string.h>
#include <time.h>

#define END_STACK 3072 /* bytes below a task's first call that its end uses at most */
#define LOOK_EVERY 8 /* switches between two looks at the clock; a look costs a tenth of a switch */

static VALUE reap(VALUE fiber) {
    VALUE result = rb_fiber_resume(fiber, 0, NULL);
    RB_GC_GUARD(fiber); /* bug 22196: the fiber we come back from must outlive the switch */
    return result;
}

void nb_after_switch(nb_engine_t *engine) {
    VALUE finished = engine->finished_fiber;
    if (!finished) return;
    engine->finished_fiber = 0;
    engine->started--;
    int state = 0;
    bool locked = nb_stacks_lock(engine);
    rb_protect(reap, finished, &state);
    nb_stacks_unlock(locked);
    if (!state) return;
    if (!RTEST(rb_fiber_alive_p(finished))) rb_jump_tag(state); /* an interrupt */
    rb_set_errinfo(Qnil); /* Ruby can't resume it: its code had no memory for a fiber (starter.c). The GC takes it */
}

/* Keeps an interrupt that came in the middle of a switch, where nothing may be raised. The home fiber, which is
 * next, raises it. Thread#kill has no exception that could be kept: a caller of nb_take_killed goes on with it. */
void nb_postpone(nb_engine_t *engine, int state) {
    VALUE exception = rb_errinfo();
    engine->budget = 0;
    if (SPECIAL_CONST_P(exception)) {
        engine->killed = state;
        return;
    }
    engine->interrupt = exception;
    rb_set_errinfo(Qnil);
}

bool nb_take_killed(nb_engine_t *engine) {
    bool killed = engine->killed;
    engine->killed = 0;
    return killed;
}

void nb_raise_postponed(nb_engine_t *engine) {
    VALUE exception = engine->interrupt;
    if (nb_take_killed(engine)) rb_jump_tag(NB_TAG_FATAL);
    engine->interrupt = 0;
    if (exception) rb_exc_raise(exception);
}

static VALUE after_switch(VALUE engine) {
    nb_after_switch((nb_engine_t *)engine);
    return Qnil;
}

/* ---- starting ---- */
static VALUE first_yield(VALUE argument) {
    nb_task_t *task = (nb_task_t *)argument;
    rb_fiber_yield(0, NULL);
    nb_after_switch(task->engine);
    return Qnil;
}

static bool finish(nb_engine_t *engine, nb_task_t *task, VALUE fiber);

/* Clears the calls below this one from the stack, which the next fiber gets as it is: a word that is left there would
 * keep this task, and all that its block refers to, alive as long as that fiber. */
__attribute__((noinline)) static void clear_stack(void) {
    char below[END_STACK];
    memset(below, 0, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}

static VALUE body(RB_BLOCK_CALL_FUNC_ARGLIST(first_argument, data)) {
    nb_engine_t *engine = (nb_engine_t *)data;
    nb_task_t *task = engine->starting;
    if (!task || task->fiber != rb_fiber_current())
        rb_raise(rb_eRuntimeError, "a task's fiber can't be resumed by hand before it has started");
    engine->starting = NULL;
    VALUE fiber = task->fiber, self = task->self; /* keeps the task from the GC until its end */
    int state = 0;
    rb_protect(first_yield, (VALUE)task, &state);
    bool killed = engine->hooks->run(task, state);
    if (killed) engine->budget = 0; /* the home fiber runs next, and has all tasks unwound */
    killed |= finish(engine, task, fiber);
    RB_GC_GUARD(self);
    clear_stack();
    if (killed) rb_jump_tag(NB_TAG_FATAL);
    return Qnil;
}

/* True: Thread#kill came meanwhile. */
static bool finish(nb_engine_t *engine, nb_task_t *task, VALUE fiber) {
    bool killed = false;
    int state = 0;
    if (task->wait) nb_orphan(engine, task->wait);
    /* Fiber#raise or Fiber#kill came by a transfer into one of the task's inner fibers: its caller is in no queue. */
    bool transferred = engine->task && engine->task != task && engine->current_fiber != fiber;
    if (!task->resumed_externally && transferred) nb_requeue(engine);
    if (task->resumed_externally) { /* Fiber#raise ended it: returning from the body goes back to the raiser */
        engine->task = task->resumer;
        engine->started--;
        return false;
    }
    rb_protect(after_switch, (VALUE)engine, &state); /* an exception may have kept the last one from being reaped */
    if (state) nb_postpone(engine, state);
    engine->finished_fiber = fiber;
    for (;;) {
        killed |= nb_take_killed(engine);
        nb_wait_t *next = nb_next(engine);
        if (next) {
            if (nb_switch_to(engine, next)) return killed;
        } else if (engine->home) {
            engine->task = NULL;
            engine->current_fiber = engine->home;
            rb_fiber_transfer(engine->home, 0, NULL);
            return killed;
        } else { /* a forked child, or a loop that has ended: return to the root fiber */
            engine->finished_fiber = 0;
            return killed;
        }
    }
}

/* Fiber.new with one proc for all of an engine's fibers: rb_fiber_new makes a proc for each. */
VALUE nb_task_fiber(nb_engine_t *engine, nb_task_t *task, VALUE storage) {
    VALUE class = engine->fiber_class;
    if (!engine->body) engine->body = rb_proc_new(body, (VALUE)engine);
    if (storage == Qtrue) return task->fiber = rb_funcall_with_block(class, rb_intern("new"), 0, NULL, engine->body);
    VALUE options = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("storage")), storage);
    return task->fiber = rb_funcall_with_block_kw(class, rb_intern("new"), 1, &options, engine->body, RB_PASS_KEYWORDS);
}

void nb_task_enqueue(nb_engine_t *engine, nb_task_t *task) {
    nb_wait_init(&task->start, NB_WAIT_START, Qnil);
    task->engine = engine;
    task->start.task = task;
    nb_list_append(&engine->tasks, &task->link);
    engine->task_count++;
    nb_wake(engine, &task->start, NB_READY, false);
}

static VALUE make_fiber(VALUE argument) {
    nb_task_t *task = (nb_task_t *)argument;
    return nb_task_fiber(task->engine, task, task->start.subject);
}

/* Qnil, or the error that kept it from beginning. */
static VALUE begin(nb_engine_t *engine, nb_task_t *task) {
    int state = 0;
    if (!task->fiber) rb_protect(make_fiber, (VALUE)task, &state); /* spawned by another thread: with its storage */
    if (state) {
        VALUE error = rb_errinfo();
        rb_set_errinfo(Qnil);
        return error;
    }
    task->start.fiber = task->fiber;
    engine->starting = task;
    bool locked = nb_stacks_lock(engine);
    VALUE error = nb_start_fiber(engine, task->fiber);
    nb_stacks_unlock(locked);
    engine->starting = NULL;
    return error;
}

/* Other threads, or a trap handler, may run meanwhile. */
static bool start(nb_engine_t *engine, nb_task_t *task) {
    task->begun = true;
    bool possible = engine->started < nb_fiber_limit();
    VALUE error = possible ? begin(engine, task) : Qnil;
    if (!possible || !NIL_P(error)) {
        engine->hooks->start_failed(task, error, engine->started);
        return false;
    }
    engine->started++;
    if (!engine->interrupt && !engine->killed) return true;
    task->start.kind = NB_WAIT_YIELD; /* an interrupt goes first; the task runs when its turn comes */
    nb_list_prepend(&engine->normal, &task->start.queue);
    return false;
}

/* ---- the next fiber ---- */
static nb_wait_t *shift(nb_link_t *queue) {
    nb_link_t *first = queue->next;
    nb_list_remove(first);
    return NB_ENTRY(first, nb_wait_t, queue);
}

/* By the clock of the kernel's ticks, if there is one: it may be some milliseconds behind, and costs a third. */
bool nb_turn_is_long(nb_engine_t *engine) {
    return nb_now_coarse() > engine->turned + NB_LONGEST_TURN;
}

static bool is_start(nb_link_t *queue) { return NB_ENTRY(queue->next, nb_wait_t, queue)->kind == NB_WAIT_START; }

/* The order:
 * - A fiber that started another by hand goes on as soon as that one parks.
 * - Fibers that the kernel or a timer woke go before those that other fibers woke, so they never wait behind many
 *   yielding fibers. Every NB_SHARE-th turn is the others', so a flood of input does not starve them.
 * - A fiber that another gave something runs next (nb_unblock_next), up to NB_SHARE such fibers in a row.
 * - A start counts as several switches. Otherwise a burst of new tasks would open all its connections before the
 *   first response is looked at, and every task that has begun costs memory and time in each garbage collection. */
nb_wait_t *nb_next(nb_engine_t *engine) {
    if (engine->fork_generation != nb_fork_generation) return NULL; /* these fibers are our parent's */
    if (!nb_list_empty(&engine->resume_first)) return shift(&engine->resume_first);
    if (!engine->home || engine->budget == 0) return NULL;
    bool urgent = !nb_list_empty(&engine->urgent), normal = !nb_list_empty(&engine->normal);
    if (!urgent && !normal) return NULL;
    if (urgent && normal && ++engine->share % NB_SHARE == 0) urgent = false;
    nb_link_t *queue = urgent ? &engine->urgent : &engine->normal;
    unsigned cost = is_start(queue) ? NB_START_COST : 1;
    engine->budget -= cost < engine->budget ? cost : engine->budget;
    if (engine->budget % LOOK_EVERY == 0 && nb_turn_is_long(engine)) engine->budget = 0; /* this is the last */
    nb_wait_t *wait = shift(queue);
    engine->handovers = wait->handed_over ? engine->handovers + 1 : 0;
    return wait;
}

bool nb_switch_to(nb_engine_t *engine, nb_wait_t *wait) {
    if (wait->kind == NB_WAIT_START && !start(engine, wait->task)) return false;
    VALUE fiber = wait->fiber;
    engine->task = wait->task;
    engine->current_fiber = fiber;
    /* only this thread writes it: a locked addition would cost as much as the switch */
    unsigned long switches = atomic_load_explicit(&engine->switches, memory_order_relaxed) + 1;
    atomic_store_explicit(&engine->switches, switches, memory_order_relaxed);
    rb_fiber_transfer(fiber, 0, NULL);
    RB_GC_GUARD(fiber);
    nb_after_switch(engine);
    return true;
}

/* ---- parking ---- */
static bool has_run(nb_engine_t *engine, void *argument) {
    nb_wait_t *wait = argument;
    return wait->outcome != NB_PENDING && nb_list_empty(&wait->queue);
}

/* The fiber of the running task that called raise, kill or transfer of one of our fibers: the one that we switched
 * to last, or the task's own, if the former was an Enumerator's and has yielded or ended since. */
static VALUE striker(VALUE argument) {
    nb_engine_t *engine = (nb_engine_t *)argument;
    VALUE own = engine->task->fiber, last = engine->current_fiber;
    if (last == own || engine->hooks->is_striking(last)) return last;
    return engine->hooks->is_striking(own) || !rb_fiber_alive_p(last) ? own : last;
}

/* Fiber#raise transfers to a fiber that waits inside of a task's own one (an Enumerator's). Its caller is in no
 * queue, and would never go on. So it is put into resume_first; its task's start wait, which is not needed any more,
 * stands for it. */
void nb_requeue(nb_engine_t *engine) {
    nb_task_t *task = engine->task;
    if (!task || engine->current_fiber == engine->home) return;
    int state = 0;
    VALUE fiber = rb_protect(striker, (VALUE)engine, &state);
    if (state) nb_postpone(engine, state);
    nb_wait_init(&task->start, NB_WAIT_YIELD, Qnil);
    task->start.fiber = state ? engine->current_fiber : fiber;
    task->start.task = task;
    task->start.outcome = NB_READY;
    nb_list_prepend(&engine->resume_first, &task->start.queue);
}

/* Leaves its queue only now: until here it may have been cancelled. */
static nb_wait_t *successor(nb_wait_t *wait) {
    nb_wait_t *next = wait->successor;
    wait->successor = NULL;
    if (!next || nb_list_empty(&next->queue)) return NULL;
    nb_list_remove(&next->queue);
    return next;
}

void nb_switch_away(nb_engine_t *engine, nb_wait_t *wait) {
    nb_task_t *task = wait->task;
    if (task && task->resumed_externally && task->fiber == wait->fiber) {
        task->resumed_externally = false;
        engine->task = task->resumer;
        rb_fiber_yield(0, NULL);
        nb_after_switch(engine);
    }
    while (!has_run(engine, wait)) {
        nb_wait_t *next = successor(wait);
        if (!next) next = nb_next(engine);
        if (next == wait) { /* an Enumerator may have been the last we switched to */
            engine->task = task;
            engine->current_fiber = wait->fiber;
            return;
        } else if (next) {
            if (!nb_switch_to(engine, next)) {
                if (nb_take_killed(engine)) rb_jump_tag(NB_TAG_FATAL);
                continue;
            }
        } else if (engine->home) {
            engine->task = NULL;
            engine->current_fiber = engine->home;
            rb_fiber_transfer(engine->home, 0, NULL);
            nb_after_switch(engine);
        } else { /* a non-blocking fiber outside any loop: it is the loop until it may go on */
            if (!nb_engine_loop(engine, has_run, wait))
                rb_raise(rb_eFatal, "nothing is left that could end this wait: no runnable fiber, timer, descriptor or "
                                    "thread");
            engine->task = task;
            return;
        }
        /* A resume or transfer by hand, without an exception: it is ignored. */
        while (engine->current_fiber != wait->fiber) {
            if (!task || task->fiber != wait->fiber) { /* by transfer: there is no resumer to go back to */
                nb_requeue(engine);
                engine->current_fiber = wait->fiber;
                engine->task = task;
                break;
            }
            rb_fiber_yield(0, NULL);
            nb_after_switch(engine);
        }
    }
}

/* Fiber.schedule: the task runs at once, and the caller goes on when the task first parks. A caller that was resumed
 * externally may never come back from parking; then the task runs when its turn comes. */
void nb_task_run_now(nb_engine_t *engine, nb_task_t *task) {
    nb_wait_t caller;
    if (engine->task && engine->task->resumed_externally) return;
    nb_wait_init(&caller, NB_WAIT_YIELD, Qnil);
    caller.outcome = NB_READY;
    caller.successor = &task->start;
    nb_list_prepend(&engine->resume_first, &caller.queue);
    nb_park(engine, &caller);
}
