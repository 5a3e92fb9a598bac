/*
 * NeverBlock::Scheduler::Ticket: the identity of one wait. Only a waker that holds the ticket ends the wait, and a
 * ticket that is signalled late ends nothing else.
 *
 *     ticket = Scheduler::Ticket.new(scheduler, job)   # job: what the wait is for, for people
 *     queue << ticket                                  # hand it to the waker
 *     ticket.wait                                      # parks; returns at once if it has been signalled before
 *
 *     ticket.signal                                    # the waker, on any thread of the Ractor, once
 *
 * A ticket can be claimed once: by the side that begins the work, or by the waiter that withdraws it.
 */
#include "scheduler.h"

#define FIRST_NUDGE NB_MILLISECOND
#define LONGEST_NUDGE (50 * NB_MILLISECOND)

typedef struct {
    nb_wait_t wait;
    nb_timer_t nudge; /* calls a leaver that has refused again: its interrupt may have come too early */
    uint64_t pause;
    VALUE self, scheduler, subject, leaver;
    bool waiting, signalled, claimed;
} ticket_t;

static VALUE class_ticket;
static ID id_leaving;

static void ticket_mark(void *pointer) {
    ticket_t *ticket = pointer;
    rb_gc_mark(ticket->scheduler);
    rb_gc_mark(ticket->subject);
    rb_gc_mark(ticket->leaver);
}

static size_t ticket_size(const void *pointer) { return sizeof(ticket_t); }

static const rb_data_type_t ticket_type = {
    .wrap_struct_name = "NeverBlock::Scheduler::Ticket",
    .function = {.dmark = ticket_mark, .dfree = RUBY_DEFAULT_FREE, .dsize = ticket_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static ticket_t *ticket_of(VALUE self) { return rb_check_typeddata(self, &ticket_type); }

/* call-seq: Ticket.new(scheduler, subject = nil) -- raises what is pending in the task, before anything has begun */
static VALUE ticket_s_new(int argc, VALUE *argv, VALUE klass) {
    ticket_t *ticket;
    rb_check_arity(argc, 1, 2);
    nb_checkpoint(&nb_scheduler(argv[0])->engine);
    VALUE self = TypedData_Make_Struct(klass, ticket_t, &ticket_type, ticket);
    ticket->self = self;
    ticket->scheduler = argv[0];
    ticket->subject = argc > 1 ? argv[1] : Qnil;
    ticket->leaver = Qnil;
    return self;
}

/* ---- leaving ---- */
typedef struct { ticket_t *ticket; bool leaves; } leaving_t;

static VALUE ask_leaver(VALUE argument) {
    leaving_t *leaving = (leaving_t *)argument;
    leaving->leaves = RTEST(rb_funcall(leaving->ticket->leaver, id_leaving, 0));
    return Qnil;
}

/* An exception of the leaver is raised in the loop: see nb_postpone. */
static bool may_leave(nb_engine_t *engine, ticket_t *ticket) {
    leaving_t leaving = {ticket, false};
    int state = 0;
    rb_protect(ask_leaver, (VALUE)&leaving, &state);
    if (state) nb_postpone(engine, state);
    if (leaving.leaves || ticket->nudge.index || !ticket->waiting) return leaving.leaves;
    ticket->nudge.deadline = nb_now() + ticket->pause;
    if (ticket->pause < LONGEST_NUDGE) ticket->pause *= 2;
    nb_timer_arm(engine, &ticket->nudge);
    return false;
}

static void nudge(nb_engine_t *engine, nb_timer_t *timer) { may_leave(engine, NB_ENTRY(timer, ticket_t, nudge)); }

/* nb_wait_t.withdraw */
static bool withdraw(nb_engine_t *engine, nb_wait_t *wait) { return may_leave(engine, NB_ENTRY(wait, ticket_t, wait)); }

/* ---- waiting ---- */
typedef struct { nb_engine_t *engine; ticket_t *ticket; } waiter_t;

static VALUE park(VALUE argument) {
    waiter_t *waiter = (waiter_t *)argument;
    waiter->engine->job_count++;
    nb_park(waiter->engine, &waiter->ticket->wait);
    return Qnil;
}

static VALUE leave(VALUE argument) {
    waiter_t *waiter = (waiter_t *)argument;
    if (waiter->engine->fork_generation == nb_fork_generation) waiter->engine->job_count--;
    waiter->ticket->waiting = false;
    nb_timer_cancel(waiter->engine, &waiter->ticket->nudge);
    return Qnil;
}

/*
 * call-seq: wait(leaver = nil) -> self, when the ticket has been signalled
 *
 * leaver.leaving is called when an exception is to end the wait; its value says whether that may be. It neither waits
 * nor takes a lock. Without a leaver an exception may end the wait at any time. During the wait the loop reports no
 * deadlock, because the waker is outside of the loop.
 */
static VALUE ticket_wait(int argc, VALUE *argv, VALUE self) {
    ticket_t *ticket = ticket_of(self);
    nb_scheduler_t *scheduler = nb_scheduler(ticket->scheduler);
    rb_check_arity(argc, 0, 1);
    if (ticket->signalled) return self;
    if (ticket->waiting) rb_raise(rb_eThreadError, "this ticket has a waiter already");
    if (!nb_scheduler_may_park(scheduler))
        rb_raise(rb_eThreadError, "a ticket is waited for in the loop that it was made for");
    ticket->leaver = argc ? argv[0] : Qnil;
    nb_wait_init(&ticket->wait, NB_WAIT_JOB, ticket->subject);
    if (!NIL_P(ticket->leaver)) ticket->wait.withdraw = withdraw;
    ticket->nudge = (nb_timer_t){.fire = nudge};
    ticket->pause = FIRST_NUDGE;
    ticket->waiting = true;
    waiter_t waiter = {&scheduler->engine, ticket};
    rb_ensure(park, (VALUE)&waiter, leave, (VALUE)&waiter);
    RB_GC_GUARD(self);
    return self;
}

/* call-seq: signal -> true, or false if it had been signalled before */
static VALUE ticket_signal(VALUE self) {
    ticket_t *ticket = ticket_of(self);
    nb_engine_t *engine = &nb_scheduler_any(ticket->scheduler)->engine;
    if (ticket->signalled) return Qfalse;
    ticket->signalled = true;
    bool alive = engine->backend && engine->fork_generation == nb_fork_generation;
    if (ticket->waiting && alive) nb_wake(engine, &ticket->wait, NB_READY, true);
    return Qtrue;
}

static VALUE ticket_signalled_p(VALUE self) { return RBOOL(ticket_of(self)->signalled); }

/* call-seq: claim -> true for the first caller, then false */
static VALUE ticket_claim(VALUE self) {
    ticket_t *ticket = ticket_of(self);
    bool first = !ticket->claimed;
    ticket->claimed = true;
    return RBOOL(first);
}

void nb_init_ticket(void) {
    id_leaving = rb_intern("leaving");
    class_ticket = rb_define_class_under(nb_cScheduler, "Ticket", rb_cObject);
    rb_undef_alloc_func(class_ticket);
    rb_define_singleton_method(class_ticket, "new", ticket_s_new, -1);
    rb_define_method(class_ticket, "wait", ticket_wait, -1);
    rb_define_method(class_ticket, "signal", ticket_signal, 0);
    rb_define_method(class_ticket, "signalled?", ticket_signalled_p, 0);
    rb_define_method(class_ticket, "claim", ticket_claim, 0);
}
