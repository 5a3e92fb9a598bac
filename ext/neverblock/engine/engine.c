/*
 * The engine itself: parking and waking, and the loop that the home fiber runs.
 *
 * The home fiber alone enters the kernel, fires timers and takes interrupts. A fiber that parks switches directly to
 * the next runnable one. It switches to the home fiber when none is runnable, or after NB_SWITCHES switches or
 * NB_LONGEST_TURN.
 */
#include "internal.h"
#include <ruby/io.h>
#include <ruby/thread.h>
#include <string.h>

#define VERIFY_TURNS 16    /* turns of a busy loop between two nb_descriptors_verify */
#define INTERRUPT_TURNS 16 /* … and between two looks for interrupts that a parked fiber's mask hides */
#define VIRTUAL_WAIT NB_MILLISECOND /* under a virtual clock, between two looks at what is outstanding */
#define TIMELESS_WAITS 1000 /* of VIRTUAL_WAIT: longer than the kernel of a busy machine takes from socket to socket */
#define MASKS_HOLD (50 * NB_MILLISECOND) /* between two looks at the masks that hide a pending interrupt */

/* ---- parking and waking ---- */
static void deadline_came(nb_engine_t *engine, nb_timer_t *timer) {
    nb_wake(engine, NB_ENTRY(timer, nb_wait_t, timer), NB_TIMED_OUT, true);
}

void nb_wait_init(nb_wait_t *wait, nb_wait_kind_t kind, VALUE subject) {
    memset(wait, 0, sizeof *wait);
    nb_list_init(&wait->queue);
    nb_list_init(&wait->parked);
    wait->kind = kind;
    wait->subject = subject;
    wait->exception = Qundef;
    wait->timer.deadline = NB_NEVER;
    wait->timer.fire = deadline_came;
}

void nb_wait_deadline(nb_wait_t *wait, uint64_t deadline) { wait->timer.deadline = deadline; }

bool nb_wake(nb_engine_t *engine, nb_wait_t *wait, nb_outcome_t outcome, bool urgent) {
    if (wait->outcome != NB_PENDING) return false;
    wait->outcome = outcome;
    nb_timer_cancel(engine, &wait->timer);
    nb_list_append(urgent ? &engine->urgent : &engine->normal, &wait->queue);
    nb_mailbox_interrupt(engine->mailbox);
    return true;
}

bool nb_interrupt(nb_engine_t *engine, nb_wait_t *wait, VALUE exception) {
    if (wait->outcome != NB_PENDING) return false;
    if (wait->withdraw && !wait->withdraw(engine, wait)) {
        nb_mailbox_interrupt(engine->mailbox); /* withdraw may have armed a timer, on another thread */
        return false;
    }
    wait->exception = exception;
    return nb_wake(engine, wait, NB_RAISE, true);
}

void nb_checkpoint(nb_engine_t *engine) {
    nb_task_t *task = engine->task;
    if (task && task->pending && engine->hooks->deliverable(task)) engine->hooks->deliver(task);
}

typedef struct { nb_engine_t *engine; nb_wait_t *wait; } park_t;

static VALUE park_switch(VALUE argument) {
    park_t *park = (park_t *)argument;
    nb_wait_t *wait = park->wait;
    /* this may find no memory, as may the next line */
    if (wait->timer.deadline != NB_NEVER) nb_timer_arm(park->engine, &wait->timer);
    if (wait->blockable) nb_fibermap_put(&park->engine->fibers, wait);
    nb_switch_away(park->engine, wait);
    return Qnil;
}

static void unlink_wait(nb_engine_t *engine, nb_wait_t *wait) {
    nb_list_remove(&wait->queue);
    nb_list_remove(&wait->parked);
    engine->parked_count--;
    nb_timer_cancel(engine, &wait->timer);
    if (wait->blockable) nb_fibermap_remove(&engine->fibers, wait);
    for (int i = 0; i < wait->interest_count; i++) nb_interest_remove(engine, &wait->interests[i]);
    if (wait->task && wait->task->wait == wait) wait->task->wait = NULL;
}

/* The wait's fiber can't be reached any more, and never runs again. If other code points to the wait (a job, or a
 * task that is joined), the wait stays among the parked ones, which keeps its fiber's stack. */
void nb_orphan(nb_engine_t *engine, nb_wait_t *wait) {
    if (wait->kind != NB_WAIT_BLOCK && wait->kind != NB_WAIT_JOB) unlink_wait(engine, wait);
    if (wait->task) wait->task->wait = NULL;
    wait->task = NULL;
}

static VALUE park_leave(VALUE argument) {
    park_t *park = (park_t *)argument;
    nb_engine_t *engine = park->engine;
    nb_wait_t *wait = park->wait;
    nb_task_t *task = wait->task;
    unlink_wait(engine, wait);
    if (task && task->fiber == wait->fiber && engine->current_fiber != wait->fiber && !task->resumed_externally) {
        task->resumed_externally = true; /* by Fiber#raise: see fibers.c */
        task->resumer = engine->task;
        engine->task = task;
    } else if (task && task->fiber != wait->fiber && engine->current_fiber != wait->fiber) {
        nb_requeue(engine);
        engine->current_fiber = wait->fiber;
        engine->task = task;
    }
    return Qnil;
}

static VALUE check_ints(VALUE unused) {
    rb_thread_check_ints();
    return Qnil;
}

static void leave_unparked(nb_engine_t *engine, nb_wait_t *wait) {
    for (int i = 0; i < wait->interest_count; i++) nb_interest_remove(engine, &wait->interests[i]);
    nb_list_remove(&wait->queue);
}

/* Raises what is due. The wait has been undone: without an exception it would have no result, or never end. */
static void deliver(nb_engine_t *engine, nb_task_t *task) {
    engine->hooks->deliver(task);
    rb_raise(rb_eThreadError, "a wait was interrupted by an event that is no longer due");
}

void nb_park(nb_engine_t *engine, nb_wait_t *wait) {
    park_t park = {engine, wait};
    nb_task_t *task = wait->task = engine->task;
    wait->fiber = rb_fiber_current();
    if (engine->struck) {
        int state = 0;
        engine->struck = false;
        rb_protect(check_ints, Qnil, &state);
        if (state) {
            leave_unparked(engine, wait);
            rb_jump_tag(state);
        }
    }
    if (task && task->on_park) task->on_park(task);
    if (nb_take_early_wakeup(engine, wait)) {
        wait->outcome = NB_READY;
        return;
    }
    bool due = task && task->pending && !wait->successor && engine->hooks->deliverable(task);
    if (due && (!wait->withdraw || wait->withdraw(engine, wait))) {
        leave_unparked(engine, wait);
        deliver(engine, task);
    }
    nb_list_append(&engine->parked, &wait->parked);
    engine->parked_count++;
    if (task) task->wait = wait;
    rb_ensure(park_switch, (VALUE)&park, park_leave, (VALUE)&park);
    if (wait->outcome != NB_RAISE) return;
    if (wait->exception != Qundef) rb_exc_raise(wait->exception);
    deliver(engine, task);
}

void nb_yield(nb_engine_t *engine) {
    nb_wait_t wait;
    nb_wait_init(&wait, NB_WAIT_YIELD, Qnil);
    wait.outcome = NB_READY;
    nb_list_append(&engine->normal, &wait.queue);
    nb_park(engine, &wait);
}

/* ---- the loop ---- */
static bool runnable(nb_engine_t *engine) {
    return !nb_list_empty(&engine->urgent) || !nb_list_empty(&engine->normal) || !nb_list_empty(&engine->resume_first);
}

static bool kernel_may_wake(nb_engine_t *engine) {
    return engine->interest_count || engine->watch_count || (engine->backend->busy && engine->backend->busy(engine));
}

bool nb_engine_idle(nb_engine_t *engine) {
    return !runnable(engine) && !engine->timers.count && !kernel_may_wake(engine) && !engine->job_count;
}

static VALUE check_masked(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, data)) {
    rb_thread_check_ints();
    return Qnil;
}

static VALUE call_under_mask(VALUE mask) {
    return rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, check_masked, Qnil);
}

static bool interrupted(nb_engine_t *engine) {
    return RTEST(rb_funcall(engine->thread, rb_intern("pending_interrupt?"), 0));
}

/* Thread.handle_interrupt's masks belong to the thread, not the fiber. A parked fiber that holds one (as
 * connection_pool does) would hide Thread#raise and Thread#kill from all others. So the home fiber takes the
 * interrupts, under the masks that were in force when the loop began, which are the caller's. */
static void check_interrupts(nb_engine_t *engine, bool masked_too) {
    rb_thread_check_ints();
    if (!masked_too) return;
    if (engine->masks_seen && nb_now_real() - engine->masks_seen < MASKS_HOLD) return;
    engine->masks_seen = 0;
    if (!interrupted(engine)) return;
    VALUE mask = engine->hooks->caller_masks();
    if (!NIL_P(mask)) call_under_mask(mask);
    if (interrupted(engine)) engine->masks_seen = nb_now_real();
}

static void *wait_in_kernel(void *argument) {
    nb_engine_t *engine = argument;
    engine->backend->wait(engine, engine->wait_nanoseconds);
    return NULL;
}

static void leave_kernel(void *argument) { nb_mailbox_interrupt(((nb_engine_t *)argument)->mailbox); }

/* Under a virtual clock time passes with whatever this process has no part in. Bytes between its own sockets take none,
 * or times would depend on the machine's pace; but not for ever, should the kernel keep them. */
static bool time_flows(nb_engine_t *engine) {
    if (!nb_clock_is_virtual() || nb_engine_idle(engine)) return false;
    return engine->obstacle.kind != NB_SENDING || engine->timeless_waits++ >= TIMELESS_WAITS;
}

static void poll_kernel(nb_engine_t *engine, uint64_t nanoseconds) {
    engine->polls++;
    uint64_t before = engine->polled;
    if (engine->backend->prepare) engine->backend->prepare(engine);
    if (nanoseconds == 0) {
        engine->backend->wait(engine, 0);
    } else {
        nb_mailbox_t *box = engine->mailbox;
        engine->waits++;
        engine->wait_nanoseconds = nanoseconds;
        atomic_store(&box->sleeping, true);
        bool flows = time_flows(engine);
        if (flows) nb_clock_wait_begins();
        if (!atomic_load(&box->head)) rb_nogvl(wait_in_kernel, engine, leave_kernel, engine, RB_NOGVL_INTR_FAIL);
        else engine->backend->wait(engine, 0);
        if (flows) nb_clock_wait_ends();
        atomic_store(&box->sleeping, false);
        before = nb_now();
    }
    engine->polled = nanoseconds ? before : nb_now();
    engine->heard_since = nanoseconds ? engine->polled : before; /* before it may sleep, a look has found nothing */
    engine->backend->dispatch(engine);
}

/* Asks the kernel once more. The back end may leave completions of operations for a wait: see uring.c. */
static bool look_again(nb_engine_t *engine) {
    if (engine->operation_count) {
        engine->backend->wait(engine, 1);
        engine->backend->dispatch(engine);
    } else {
        poll_kernel(engine, 0);
    }
    nb_deferred_starts_begin(engine);
    return runnable(engine);
}

/* Whether the loop must not simply wait in the kernel. A fiber may still settle when the clock has become real. */
static bool on_virtual_time(nb_engine_t *engine) { return nb_clock_is_virtual() || !nb_list_empty(&engine->settling); }

/* Wakes those that settle, or else jumps to the next deadline. False: time must pass by waiting. */
static bool jump(nb_engine_t *engine) {
    bool settling = !nb_list_empty(&engine->settling);
    if (!settling && nb_next_deadline(engine) == NB_NEVER) {
        engine->obstacle.kind = NB_NOTHING;
        return false;
    }
    if (look_again(engine)) return true;
    if (nb_clock_is_virtual()) engine->obstacle = nb_outstanding(engine, !settling);
    if (nb_clock_is_virtual() && engine->obstacle.kind != NB_NOTHING) return false;
    check_interrupts(engine, true);
    nb_mailbox_drain(engine);
    if (look_again(engine)) return true; /* what has arrived since the first look is not on its way any more */
    nb_wake_settled(engine);
    if (!runnable(engine)) nb_clock_advance_to(nb_next_deadline(engine));
    engine->moved = nb_now_real();
    return true;
}

/* Nothing inside of the loop can end a wait: can anything outside? The look is at all threads and fibers, so a "yes"
 * holds for a second. Else a thread that feeds a task would cause a look for each item. */
static bool deadlocked(nb_engine_t *engine, uint64_t *nanoseconds) {
    uint64_t now = nb_now_real();
    *nanoseconds = NB_SECOND;
    if (!nb_list_empty(&engine->settling)) return false;
    if (engine->company_seen && now - engine->company_seen < NB_SECOND) {
        *nanoseconds -= now - engine->company_seen;
        return false;
    }
    bool alone = engine->hooks->alone(engine);
    engine->company_seen = alone ? 0 : now;
    return alone;
}

/* One turn: the runnable fibers, the timers, the messages, the kernel. False: nothing is left to wait for. */
static bool turn(nb_engine_t *engine) {
    bool busy = true;
    engine->turn++;
    engine->budget = engine->allowance;
    if (!nb_list_empty(&engine->settling)) nb_give_up_settling(engine, runnable(engine));
    engine->turned = kernel_may_wake(engine) ? engine->polled : nb_now(); /* if so, the last turn ended by polling */
    nb_wait_t *next = nb_next(engine);
    if (next && next->fiber != engine->home) nb_run_fibers(engine, next);
    engine->task = NULL;
    engine->current_fiber = engine->home;
    if (engine->interrupt || engine->killed) nb_raise_postponed(engine);
    if (engine->timers.count) nb_timers_fire(engine, nb_now());
    nb_mailbox_drain(engine);
    bool looked = engine->quiet && !next; /* the last turn found nothing, and no fiber has run since */
    if (kernel_may_wake(engine) && !looked) {
        if (engine->turn % VERIFY_TURNS == 0) nb_descriptors_verify(engine); /* else a stale event could keep it busy */
        poll_kernel(engine, 0);
    }
    nb_deferred_starts_begin(engine);
    engine->quiet = !runnable(engine);
    if (next || runnable(engine)) {
        engine->timeless_waits = 0;
        check_interrupts(engine, engine->turn % INTERRUPT_TURNS == 0);
        return true;
    }
    nb_descriptors_verify(engine);
    if (runnable(engine)) return true;
    if (on_virtual_time(engine) && jump(engine)) return true;
    uint64_t nanoseconds = NB_NEVER;
    if (engine->timers.count) {
        uint64_t now = nb_now(), deadline = nb_next_deadline(engine);
        nanoseconds = deadline > now ? deadline - now : 0;
    } else if (nb_engine_idle(engine)) { /* only another thread can end a wait */
        busy = !deadlocked(engine, &nanoseconds);
    }
    bool may_jump = on_virtual_time(engine) && (engine->timers.count || !nb_list_empty(&engine->settling));
    if (may_jump && nanoseconds > VIRTUAL_WAIT) nanoseconds = VIRTUAL_WAIT;
    if (engine->masks) check_interrupts(engine, true); /* a busy turn may have looked too early */
    /* the masks are not checked again before MASKS_HOLD has passed, so don't sleep longer */
    if (engine->masks_seen && nanoseconds > MASKS_HOLD) nanoseconds = MASKS_HOLD;
    if (runnable(engine)) return true; /* a thread or a signal handler has woken it, and saw no sleeping loop */
    if (engine->fork_generation != nb_fork_generation) return true; /* by a trap: the back end is the parent's */
    if (busy) poll_kernel(engine, nanoseconds);
    nb_deferred_starts_begin(engine);
    check_interrupts(engine, true);
    return busy || runnable(engine);
}

typedef struct { nb_engine_t *engine; bool (*done)(nb_engine_t *, void *); void *argument; bool finished; } loop_t;

static VALUE loop_body(VALUE argument) {
    loop_t *loop = (loop_t *)argument;
    nb_engine_t *engine = loop->engine;
    engine->home = rb_fiber_current();
    engine->deaf = !nb_count_is_right(engine);
    while (!loop->done(engine, loop->argument)) {
        if (engine->deaf || engine->fork_generation != nb_fork_generation) return Qnil;
        if (!turn(engine)) {
            if (loop->done(engine, loop->argument)) break;
            return Qnil;
        }
        if (engine->quiet || engine->turn % INTERRUPT_TURNS == 0) engine->deaf = !nb_count_is_right(engine);
    }
    loop->finished = true;
    return Qnil;
}

static VALUE loop_leave(VALUE argument) {
    nb_engine_t *engine = ((loop_t *)argument)->engine;
    engine->home = 0;
    engine->task = NULL;
    atomic_store(&engine->mailbox->sleeping, false);
    nb_operations_settle(engine); /* else closed sockets would stay open until the next loop */
    return Qnil;
}

bool nb_engine_loop(nb_engine_t *engine, bool (*done)(nb_engine_t *, void *), void *argument) {
    loop_t loop = {engine, done, argument, false};
    rb_ensure(loop_body, (VALUE)&loop, loop_leave, (VALUE)&loop);
    return loop.finished;
}
