/*
 * Ruby's hooks onto the engine, and tasks. Hooks that need no speed are in lib/neverblock/scheduler.rb.
 *
 *     scheduler.c      the Ruby object: opens, runs the loop, closes
 *     introspection.c  its tasks and figures, as other threads may ask for them
 *
 *     hooks
 *     waits.c          kernel_sleep, block, unblock, yield
 *     io_wait.c        io_wait, io_close
 *     io_transfer.c    io_read, io_write, io_pread, io_pwrite
 *     io_select.c      io_select: IO.select
 *     timeout_after.c  timeout_after: Timeout.timeout
 *     process.c        process_wait
 *     dns.c            getaddrinfo and getnameinfo on native threads, for address_resolve
 *     offload.c        blocking_operation_wait, and the sizes of the native pools
 *     frames.c         which method of Ruby's core has called a hook
 *
 *     tasks
 *     task.c           the lifecycle of a task; task_fiber.c: its fiber, with Fiber#raise and Fiber#kill
 *     joiners.c        waits for a task's end
 *     cancel_scopes.c  regions that a timeout, or a cancellation, unwinds
 *     masks.c          Thread.handle_interrupt inside of tasks
 *     suspended.c      whether a fiber is at work
 *
 *     for lib/neverblock and its patches
 *     files.c          fsync, fdatasync, flock
 *     ticket.c         the identity of one wait
 *     signals.c        which signals have a handler
 *     select_queue.c   waits for queues in NeverBlock.select
 *     lock_waiters.c   fibers that wait for a Mutex and never run again
 *     in_turn.c        one thread of the process at a time
 *     chdir.c          Dir.chdir, which only one task may be in
 *     native_threads.c whether the system lets a thread run
 *     clock_module.c   NeverBlock::Clock
 */
#ifndef NB_SCHEDULER_H
#define NB_SCHEDULER_H

#include "../engine/engine.h"

#ifndef RBOOL
#define RBOOL(condition) ((condition) ? Qtrue : Qfalse)
#endif

typedef struct {
    nb_engine_t engine; /* first: the engine's hooks cast it back */
    nb_link_t open;     /* in the list of all open ones: see scheduler.c */
    VALUE ractor;
    VALUE inner_fibers; /* a WeakMap: a cancel scope, or a mask, to its fiber, if that is not the task's own; or nil */
    VALUE masks;        /* an Array: what Ruby's own stack has of our tasks, see masks.c; or nil */
    size_t timeouts;    /* cancel scopes whose deadline has not come */
    uint64_t steps_time; /* of Zlib's steps since the switch of steps_switches: see offload.c */
    unsigned long steps_switches;
    bool stop;          /* the loop may end */
    bool looping;
    bool unmasked;      /* masks hold off no cancellation: the loop is being killed */
} nb_scheduler_t;

/*
 *     ENTERED ──► FIRED ──► DELIVERED ──► UNWOUND
 *                   ▲           │
 *                   └───────────┘ its exception has missed the task: take_back
 */
typedef enum {
    NB_SCOPE_ENTERED,
    NB_SCOPE_FIRED,        /* the block is to be unwound, at its next wait */
    NB_SCOPE_DELIVERED,    /* an exception was raised for that; if a rescue keeps it, a throw follows */
    NB_SCOPE_UNWOUND,      /* … or the throw is under way */
} nb_scope_state_t;

/* A place in a task's stack that can be unwound to from outside: the end of a timeout's block or of a nested run.
 * See cancel_scopes.c. */
typedef struct nb_cancel_scope {
    nb_link_t link;        /* in its task's cancel_scopes or inner_cancel_scopes */
    struct ruby_task *task;
    nb_engine_t *engine;
    VALUE self;
    VALUE tag;             /* an object that stands for it, or Qnil */
    VALUE exception;       /* what to raise inside, or Qnil: a ScopeExit, or a throw, which no rescue keeps */
    VALUE exit;            /* the ScopeExit that is under way, or Qnil */
    nb_timer_t timer;
    unsigned shields;      /* how many the task had when it began: those begun since protect from it */
    long masks;            /* … and of Thread.handle_interrupt's */
    bool inner;            /* it began in another fiber than the task's own, an Enumerator's for example */
    nb_scope_state_t state;
    struct nb_cancel_scope *overtaken; /* an outer one whose throw this one's would replace, or NULL */
    bool struck;           /* the helper thread has sent the exception: see strike */
    VALUE place;           /* the backtrace of where it was unwound from, or nil */
    VALUE note;            /* what the unwound code has said of its work, or nil */
    VALUE earlier;         /* the Cancelled that had been raised in the task when it began, or nil */
} nb_cancel_scope_t;

typedef enum { TASK_NEW, TASK_RUNNING, TASK_RETURNED, TASK_FAILED, TASK_CANCELLED } nb_task_state_t;

typedef enum {
    NB_CANCEL_NONE,
    NB_CANCEL_ASKED,       /* shields and masks hold it off */
    NB_CANCEL_FORCED,      /* … and not this one */
} nb_cancel_request_t;

typedef struct ruby_task {
    nb_task_t base;
    VALUE block, arguments, scope, name, result;
    VALUE watcher;         /* told of the end before the scope is */
    VALUE inner;           /* the scope that spawn would join: the innermost open one */
    VALUE observers;       /* queues of threads that wait for the end */
    VALUE cancellation;    /* the Cancelled that is to be raised, with its reason; or nil */
    VALUE cancelled_by;    /* the Cancelled that has been raised, or nil */
    VALUE raised;          /* exceptions that Fiber#raise has left for the next wait: see task_fiber.c; or nil */
    VALUE killed;          /* the Cancelled that Fiber#kill has raised: see task_fiber.c; or nil */
    nb_link_t joiners;     /* waits of this loop's fibers for the end */
    nb_link_t cancel_scopes, inner_cancel_scopes; /* outermost first */
    size_t inner_count, inner_limit;  /* of inner cancel scopes; the next pruning comes beyond the limit */
    uint64_t spawned;
    nb_task_state_t state;
    unsigned shields;      /* of its own fiber */
    VALUE inner_shields;   /* fiber => how many, of its inner ones, held weakly; or nil */
    VALUE masks, inner_masks; /* of its own fiber, and of its inner ones: Arrays, outermost first; or nil: masks.c */
    bool between_waits;    /* the exception would not be raised at a wait */
    nb_cancel_request_t cancel_request; /* cancel was asked for and has not been raised yet */
    bool cancelled;        /* it was raised */
    bool dying;            /* Ruby has killed its fiber, which happens once */
    bool late;             /* its last sleep ended because the time was up */
    bool probing;          /* it waits for a queue's wake-up, and takes nothing: see select_queue.c */
} ruby_task_t;

extern VALUE nb_cFiber, nb_mNeverBlock, nb_cScheduler, nb_cTask, nb_eCancelled;
extern const nb_hooks_t nb_scheduler_hooks;

nb_scheduler_t *nb_scheduler(VALUE self);           /* raises once it is closed */
nb_scheduler_t *nb_scheduler_any(VALUE self);       /* closed or not: look at engine.backend */
nb_scheduler_t *nb_scheduler_here(void);            /* ours, if the running fiber is in one of our loops, else NULL */
nb_scheduler_t *nb_scheduler_of_thread(void);       /* ours, whether or not the running fiber may park, else NULL */
void nb_schedulers_shift(int64_t nanoseconds);      /* the clock has moved by so much */
bool nb_scheduler_may_park(nb_scheduler_t *);       /* false: the caller must do it the blocking way */

/* frames.c: the method that asks a hook */
typedef struct { VALUE frame, name; } nb_caller_t; /* nil: there is none */
nb_caller_t nb_caller(const char *const *hooks, size_t count);
bool nb_caller_in_c(nb_caller_t);
VALUE nb_caller_class(nb_caller_t);                 /* its class's path, or nil */
bool nb_caller_is(nb_caller_t, const char *name);
bool nb_caller_starts_with(nb_caller_t, const char *prefix);
bool nb_caller_named(const char *suffix, long length);
bool nb_fiber_is_resuming(VALUE fiber);             /* a suspended one: it waits for a fiber that it resumed */
bool nb_fiber_is_striking(VALUE fiber);             /* a suspended one: in raise, kill or transfer of another */
bool nb_thread_is_in_queue(VALUE thread);           /* another thread: in Queue#pop, SizedQueue#push */

VALUE nb_uninterrupted(VALUE (*call)(VALUE), VALUE argument); /* delays what is raised in this thread meanwhile */

ruby_task_t *nb_task_of(VALUE self);
bool nb_has_bare_sleep(nb_engine_t *);              /* whether a fiber waits in a Kernel#sleep without an end */
VALUE nb_task_spawn(nb_scheduler_t *, VALUE scope, VALUE block, VALUE arguments, VALUE name, VALUE storage, bool now);
bool nb_task_interrupt(ruby_task_t *);              /* wakes it if it is parked and something may be raised in it */
VALUE nb_seconds_since(uint64_t);
bool nb_is_lock(VALUE blocker);                     /* nb_hooks_t.is_lock */
bool nb_is_thread(VALUE blocker);                   /* nb_hooks_t.is_thread */
bool nb_waits_for_lock(nb_wait_t *);                /* for a Mutex; a hidden one has no class */

/* Waits for readiness; returns the ready events, 0 on timeout. deadline as in nb_wait_deadline. */
int nb_wait_ready(nb_engine_t *, VALUE io, int fd, int events, uint64_t deadline);
uint64_t nb_deadline_from(VALUE seconds_or_nil);    /* as Kernel#sleep takes them: infinity is a RangeError */
uint64_t nb_limit_from(VALUE seconds_or_nil);       /* as Timeout.timeout: NaN and huge numbers are no limit */
VALUE nb_io_open_half(VALUE io);                    /* after close_read of popen("r+") */
uint64_t nb_io_deadline(VALUE io);                  /* from IO#timeout */
NORETURN(void nb_raise_io_timeout(void));

/* suspended.c */
bool nb_fiber_is_running(VALUE fiber);              /* called from another thread */
bool nb_fiber_is_at_work(ruby_task_t *, VALUE fiber); /* one of its inner ones: the task runs, or waits, inside of it */
void nb_lock_waiters_keep(nb_engine_t *);           /* before the parked fibers are left for good */
void nb_probe_woken(nb_engine_t *);                 /* after unblock has ended a wait; does not return to a probe */

VALUE nb_task_fiber_class(void);                    /* nb_hooks_t.fiber_class */
VALUE nb_task_unwinding(nb_task_t *);               /* nb_hooks_t.unwinding */
bool nb_task_survives(ruby_task_t *);               /* Fiber#kill has been swallowed, and its own fiber is at work */

bool nb_joiners_any(ruby_task_t *);                 /* whether anything waits for the task's end */
void nb_joiners_wake(ruby_task_t *);
void nb_joiners_tell_threads(ruby_task_t *);

/* Masks of Thread.handle_interrupt: masks.c. waits: whether the exception would be raised at a wait. */
long nb_masks(ruby_task_t *);                       /* how many the code that runs, or waits, is inside of */
bool nb_masks_any(ruby_task_t *);
bool nb_masks_hold(ruby_task_t *, VALUE class, long from, bool waits); /* those from that place on */
bool nb_masks_hide(nb_scheduler_t *, VALUE class);  /* a Thread#raise would not arrive at once */
VALUE nb_under_mask(VALUE class, const char *timing, VALUE (*call)(VALUE), VALUE argument); /* unknown to the task */

unsigned nb_shields(ruby_task_t *);                 /* how many the code that runs, or waits, is inside of */
/* Cancel scopes of the running task: cancel_scopes.c */
nb_cancel_scope_t *nb_cancel_scope_new(nb_scheduler_t *, VALUE tag, VALUE exception, uint64_t deadline);
VALUE nb_cancel_scope_guard(nb_cancel_scope_t *, VALUE argument); /* yields the argument to the caller's block inside */
bool nb_cancel_scope_deliverable(ruby_task_t *);
void nb_cancel_scope_deliver(ruby_task_t *);
void nb_cancel_scopes_mark(ruby_task_t *);
void nb_cancel_scopes_drop(ruby_task_t *);
void nb_cancel_scopes_look(ruby_task_t *);          /* fires those whose deadline has passed; so does the loop */
VALUE nb_inner_fiber(nb_scheduler_t *, VALUE object); /* 0: it has been collected */
void nb_inner_fiber_note(nb_scheduler_t *, VALUE object); /* that the running fiber is the object's */
bool nb_on_its_way(VALUE exception);                /* an ensure or a rescue of the running fiber is handling it */

void nb_init_scheduler(void);
void nb_init_clock(void);
void nb_init_introspection(void);
void nb_init_native_threads(void);
void nb_init_chdir(void);
void nb_init_signals(void);
void nb_init_task(void);
void nb_init_joiners(void);
void nb_init_task_fiber(void);
void nb_init_cancel_scopes(void);
void nb_init_waits(void);
void nb_init_ticket(void);
void nb_init_io_wait(void);
void nb_init_io_select(void);
void nb_init_io_transfer(void);
void nb_init_files(void);
void nb_init_dns(void);
void nb_init_process(void);
void nb_init_offload(void);
void nb_init_select_queue(void);
void nb_init_lock_waiters(void);
void nb_init_masks(void);
void nb_init_in_turn(void);
void nb_init_timeout_after(void);

#endif
