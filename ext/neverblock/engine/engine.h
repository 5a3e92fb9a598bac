/*
 * The engine: which fibers can go on now? This header is what the other folders may use of it; internal.h is for the
 * engine's own files and back ends.
 *
 *     engine.c           parks and wakes fibers; the loop
 *     fibers.c           starts and ends fibers, and switches between them
 *     handback.c         fibers that a task's own code transferred to
 *     starter.c          starts fibers, also where memory runs out
 *     stacks.c           limits on fibers' stacks
 *     deferred_starts.c  work that waits while the loop is busy
 *     lifecycle.c        opens and closes an engine
 *
 *     clock.c            the time, real or virtual (clock.h)
 *     timers.c           deadlines
 *     settling.c         fibers that wait until all others wait
 *     outstanding.c      what else could end a wait: asked before virtual time jumps
 *     unblock.c          wake-ups of Mutex, Queue, Thread#join; fibermap.c: the wait of each fiber
 *     mailbox.c          messages from other threads
 *     descriptors.c      waits and watches of descriptors
 *     operations.c       what a back end does to a socket by itself
 *     thread_pool.c      native threads; job.h: the work for them
 *
 *     choose.c           chooses a back end
 *     backends/          epoll.c, poll.c; uring.c, uring_operations.c: io_uring
 *
 * The engine knows fibers, descriptors, deadlines and messages from other threads. It knows nothing of Ruby's scheduler
 * hooks, HTTP or databases. A fiber that must wait describes its wait in an nb_wait_t on its own stack and parks. The
 * event that ends the wait calls nb_wake.
 *
 *     nb_wait_t wait;
 *     nb_wait_init(&wait, NB_WAIT_SLEEP, Qnil);
 *     nb_wait_deadline(&wait, nb_now() + 5 * NB_MILLISECOND);
 *     nb_park(engine, &wait);                       // other fibers run; may raise
 *     if (wait.outcome == NB_TIMED_OUT) ...
 *
 * All functions need the GVL, except nb_mailbox_interrupt and nb_job_t's perform and release.
 */
#ifndef NB_ENGINE_H
#define NB_ENGINE_H

#include <ruby.h>
#ifdef NB_PORTABLE /* Ruby's own config.h has them */
#undef HAVE_SYS_EPOLL_H
#undef HAVE_SYS_EVENTFD_H
#endif
#include <ruby/fiber/scheduler.h>
#include "clock.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NB_MILLISECOND UINT64_C(1000000)
#define NB_SECOND UINT64_C(1000000000)
#define NB_NEVER UINT64_MAX /* a deadline that does not come */
#define NB_LONGEST 1000000000 /* seconds, 31 years: from this length on a wait has no end */
#define NB_TAG_FATAL 8      /* Ruby's number for "the thread is being killed": vm_core.h, unchanged since 1.9 */

typedef struct nb_engine nb_engine_t;
typedef struct nb_wait nb_wait_t;
typedef struct nb_task nb_task_t;
typedef struct nb_backend nb_backend_t;
typedef struct nb_descriptor nb_descriptor_t;
typedef struct nb_mailbox nb_mailbox_t;

/* ---- lists: intrusive, circular; a zeroed or self-linked node is in no list ---- */
typedef struct nb_link { struct nb_link *prev, *next; } nb_link_t;

static inline void nb_list_init(nb_link_t *l) { l->prev = l->next = l; }
static inline bool nb_list_empty(const nb_link_t *l) { return l->next == l; }
static inline void nb_list_insert(nb_link_t *before, nb_link_t *l) {
    l->prev = before->prev; l->next = before; before->prev->next = l; before->prev = l;
}
static inline void nb_list_append(nb_link_t *list, nb_link_t *l) { nb_list_insert(list, l); }
static inline void nb_list_prepend(nb_link_t *list, nb_link_t *l) { nb_list_insert(list->next, l); }
static inline void nb_list_remove(nb_link_t *l) {
    l->prev->next = l->next; l->next->prev = l->prev; l->prev = l->next = l;
}
#define NB_ENTRY(link, type, member) ((type *)((char *)(link) - offsetof(type, member)))

/* ---- timers (timers.c): arming and cancelling cost the same ---- */
typedef struct nb_timer {
    uint64_t deadline; /* ns, of nb_now */
    size_t index;      /* place in the heap, 0 = not armed */
    void (*fire)(nb_engine_t *, struct nb_timer *);
} nb_timer_t;

typedef struct { nb_timer_t **slots; size_t count, capacity; } nb_timers_t;

uint64_t nb_after(double seconds); /* the deadline so many seconds from now */
void nb_timer_arm(nb_engine_t *, nb_timer_t *);
void nb_timer_cancel(nb_engine_t *, nb_timer_t *);
uint64_t nb_next_deadline(const nb_engine_t *); /* of all armed timers; NB_NEVER: none is armed */
void nb_timers_shift(nb_engine_t *, int64_t nanoseconds); /* the clock has moved by so much: what is left stays */

/* ---- waits (engine.c, unblock.c) ---- */
typedef enum {
    NB_WAIT_START,    /* a task that has not run yet */
    NB_WAIT_YIELD,    /* runnable: it only lets others go first */
    NB_WAIT_SLEEP,
    NB_WAIT_BLOCK,    /* Mutex, Queue, Thread#join: until unblock */
    NB_WAIT_IO,
    NB_WAIT_SELECT,
    NB_WAIT_PROCESS,
    NB_WAIT_JOB,      /* a native thread or the kernel's ring does the work */
} nb_wait_kind_t;

typedef enum { NB_PENDING, NB_READY, NB_TIMED_OUT, NB_RAISE } nb_outcome_t;
/* Why virtual time must not jump: see outstanding.c. NB_TASKS: a fiber can go on. */
typedef enum { NB_NOTHING, NB_TASKS, NB_JOBS, NB_THREADS, NB_FOREIGN, NB_SENDING } nb_obstacle_kind_t;
typedef struct { nb_obstacle_kind_t kind; int fd; } nb_obstacle_t; /* fd: a descriptor, or -1: it is closed */

/* The events of one descriptor that a wait asks for. */
typedef struct nb_interest {
    nb_link_t link;      /* in the descriptor's list */
    nb_link_t unverified;  /* in engine->unverified: see descriptors.c */
    nb_wait_t *wait;
    VALUE io;            /* whose descriptor it is, kept by the waiter; or any other object */
    int fd;
    short events, revents; /* RUBY_IO_READABLE | RUBY_IO_WRITABLE | RUBY_IO_PRIORITY */
} nb_interest_t;

struct nb_wait {
    nb_link_t queue;     /* in a run queue */
    nb_link_t parked;    /* in engine->parked: what the GC marks */
    nb_timer_t timer;
    VALUE fiber;
    nb_task_t *task;     /* the task that waits; NULL outside tasks */
    VALUE subject;       /* what it waits for, for people: an IO, a Queue … */
    VALUE exception;     /* with NB_RAISE: what to raise, or Qundef to ask the task */
    nb_interest_t *interests;
    int interest_count;
    nb_wait_kind_t kind;
    nb_outcome_t outcome;
    bool blockable;      /* unblock(blocker, fiber) may wake it, if the blocker is its subject: see nb_unblock */
    bool bare;           /* a Kernel#sleep without an end, which Ruby never takes for a deadlock */
    bool handed_over;    /* its fiber was given something, and runs before those that are due */
    /* Called before an exception ends the wait. NULL: there is nothing to undo. True: the wait's effect has been
     * undone. False: the wait goes on until its own end, and the exception is raised at the next wait. */
    bool (*withdraw)(nb_engine_t *, nb_wait_t *);
    /* Called when an event of its descriptors ends the wait, before interrupts are looked at. Neither raises nor parks.
     * May be NULL. */
    void (*event_came)(nb_wait_t *);
    nb_wait_t *successor; /* the wait to resume when this one parks; NULL: the next in the queues */
};

void nb_wait_init(nb_wait_t *, nb_wait_kind_t, VALUE subject);
void nb_wait_deadline(nb_wait_t *, uint64_t deadline);
void nb_park(nb_engine_t *, nb_wait_t *);             /* raises the exception that ended the wait */
bool nb_wake(nb_engine_t *, nb_wait_t *, nb_outcome_t, bool urgent); /* false: it had been woken before */
void nb_yield(nb_engine_t *);                         /* lets every runnable fiber go first */
/* Virtual clock: until all others wait, and the time comes. If time stands still for `patience` real nanoseconds, it
 * returns what is in the way. */
nb_obstacle_t nb_settle(nb_engine_t *, uint64_t until, uint64_t patience);
bool nb_turn_is_long(nb_engine_t *);                  /* fibers have run for long since the last look at the kernel */
/* Ends the wait with the exception; Qundef: with what its task has pending. False: it has an outcome, or can't be
 * withdrawn. */
bool nb_interrupt(nb_engine_t *, nb_wait_t *, VALUE exception);
void nb_checkpoint(nb_engine_t *);                    /* raises what is pending in the running task, if anything is */
bool nb_unblock(nb_engine_t *, VALUE blocker, VALUE fiber);
bool nb_unblock_next(nb_engine_t *, VALUE blocker, VALUE fiber);
nb_wait_t *nb_blocked(nb_engine_t *, VALUE fiber);    /* its wait, if nb_unblock may end that; else NULL */
bool nb_woken_without_loop(nb_engine_t *, VALUE fiber); /* an unblock has come for that fiber, which can't park */

/* ---- tasks (fibers.c): what the engine must know of one; the class is the scheduler's ---- */
struct nb_task {
    nb_link_t link;      /* in engine->tasks while unfinished */
    nb_engine_t *engine; /* NULL once finished */
    VALUE self, fiber;
    nb_wait_t *wait;     /* where it is parked */
    nb_wait_t start;     /* its place in the run queue before it first runs */
    bool begun;          /* its fiber has been, or is being, started, though its block may not have been called yet */
    bool pending;        /* something waits to be raised in it: nb_hooks_t.deliver knows what */
    bool resumed_externally; /* by Fiber#raise, not by us: parking returns to that resumer */
    nb_task_t *resumer;  /* with resumed_externally: the task that was running */
    void (*on_park)(nb_task_t *); /* called before it parks; neither raises nor parks. May be NULL */
    void *on_park_data;
};

/* What the scheduler supplies, so that the engine need not know it. */
typedef struct {
    bool (*run)(nb_task_t *, int state);      /* the body of a task; state: an exception came first. Does not raise;
                                                 true: Thread#kill unwound it, and must go on unwinding */
    void (*start_failed)(nb_task_t *, VALUE exception, unsigned long fibers); /* Qnil: too many fibers */
    bool (*deliverable)(nb_task_t *);         /* is something pending that may be raised now? */
    void (*deliver)(nb_task_t *);             /* raise it */
    VALUE (*unwinding)(nb_task_t *);          /* the exception that unwinds it for Thread#kill */
    VALUE (*fiber_class)(void);               /* of the tasks' fibers */
    bool (*is_resuming)(VALUE fiber);         /* has this suspended fiber resumed another? */
    bool (*is_striking)(VALUE fiber);         /* has it called raise, kill or transfer of another? */
    bool (*is_lock)(VALUE blocker);           /* may ConditionVariable#wait have been given it? */
    bool (*is_thread)(VALUE blocker);
    VALUE (*closed_error)(void);              /* for waits whose descriptor was closed */
    bool (*alone)(nb_engine_t *);             /* nothing outside of the loop could end a wait */
    bool (*threads_outstanding)(nb_engine_t *); /* does another thread or Ractor run, or wait for a time or event? */
    VALUE (*caller_masks)(void);              /* the masks around the loop: a Hash, or nil if they aren't known */
} nb_hooks_t;

VALUE nb_task_fiber(nb_engine_t *, nb_task_t *, VALUE storage); /* Qtrue: inherit the caller's */
void nb_task_enqueue(nb_engine_t *, nb_task_t *);
void nb_task_run_now(nb_engine_t *, nb_task_t *);  /* an enqueued one; the caller goes on when it first parks */
void nb_postpone(nb_engine_t *, int state);        /* after rb_protect: the home fiber raises it */
bool nb_take_killed(nb_engine_t *);                /* whether that was Thread#kill; the caller goes on with it */
void nb_stacks_are_shared(void);                   /* there is more than one Ractor: see stacks.c */
bool nb_is_helper(nb_engine_t *, VALUE fiber);     /* one of the engine's own: it can't park */

/* ---- descriptors (descriptors.c) ---- */
int nb_interest_add(nb_engine_t *, nb_interest_t *, VALUE io); /* 0, or errno: EPERM = always ready (a file) */
void nb_interest_remove(nb_engine_t *, nb_interest_t *);
int nb_descriptor_closing(nb_engine_t *, int fd);          /* how many waits were woken */
bool nb_descriptor_drained(nb_engine_t *, int fd, VALUE io);
void nb_descriptor_was_read(nb_engine_t *, int fd, VALUE io, bool drained);

/* A watch: readiness without a fiber, for code that holds thousands of idle descriptors. */
typedef struct nb_watch {
    nb_engine_t *engine;  /* NULL: it watches nothing */
    int fd;
    short events;         /* what is wanted now; 0: nothing for the time being */
    void (*ready)(struct nb_watch *, int revents); /* on the home fiber; neither raises nor parks */
} nb_watch_t;

int nb_watch_open(nb_engine_t *, nb_watch_t *, int fd, short events); /* 0 or errno; one watch a descriptor */
int nb_watch_want(nb_watch_t *, short events);     /* 0 or errno; costs a system call only if the kernel must be told */
void nb_watch_close(nb_watch_t *, bool closing);   /* closing: its descriptor is closed next, and nowhere else open */

/* ---- messages from native threads and signal handlers (mailbox.c) ---- */
typedef struct nb_message {
    struct nb_message *next;
    void (*deliver)(nb_engine_t *, struct nb_message *);
} nb_message_t;

void nb_mailbox_interrupt(nb_mailbox_t *); /* ends the loop's kernel wait; any thread, signal handlers too */
bool nb_mailbox_empty(const nb_mailbox_t *);

#include "job.h"

/* ---- operations (operations.c): what a back end does to a socket by itself, for code that holds thousands of them.
 * Without them (epoll, poll, older kernels) such code uses watches. An operation lives until the kernel has released
 * it, even if its owner has gone ---- */
typedef enum { NB_ACCEPT, NB_RECEIVE, NB_SEND } nb_operation_kind_t;
typedef struct nb_operation nb_operation_t;
/* Called on the loop's thread. It neither raises nor parks; it may begin and abandon any operation, but stop none.
 * result: a descriptor; bytes, 0 at the end of input; 0 when all is sent, bytes as they go; or -errno. -EAGAIN: it
 * ended though nothing is wrong, and may be begun again. more: it goes on by itself; else it is over, and the
 * owner's pointer to it invalid. */
typedef void nb_completed_t(void *owner, nb_operation_t *, int result, bool more);
struct nb_operation {
    nb_link_t link;        /* in engine->operations or engine->abandoned; or among the spare ones */
    nb_completed_t *completed;
    void *owner;           /* NULL: abandoned */
    char *bytes;           /* received bytes, during the call; or bytes to send, from ALLOC: the owner may take them at
                              the end */
    size_t length, sent;
    int fd;
    uint8_t kind;
    bool cancelled;        /* it is to end … */
    bool cancel_submitted; /* … and the kernel knows */
    bool out_of_buffers;   /* the kernel has ended it because no buffer was free: the back end begins it again … */
    nb_link_t refill;      /* … in this order */
    unsigned place;        /* in the back end's queue */
};

/* They return NULL where the back end can't do it. An accepted descriptor is non-blocking and close-on-exec. */
nb_operation_t *nb_operation_accept(nb_engine_t *, int fd, nb_completed_t *, void *owner);
nb_operation_t *nb_operation_receive(nb_engine_t *, int fd, nb_completed_t *, void *owner);
nb_operation_t *nb_operation_send(nb_engine_t *, int fd, char *bytes, size_t length, nb_completed_t *, void *owner);
void nb_operation_cancel(nb_engine_t *, nb_operation_t *);  /* it ends soon; its owner is called with -EAGAIN */
void nb_operation_abandon(nb_engine_t *, nb_operation_t *); /* the owner goes away and may close the descriptor */
void nb_operation_stop(nb_engine_t *, nb_operation_t *);    /* returns when it has ended, and the owner knows all */
void nb_operations_submit(nb_engine_t *);                   /* now, rather than with the next look at the kernel */
void nb_operations_deliver(nb_engine_t *);                  /* calls owners for all completions; not from a callback */

/* ---- deferred starts (deferred_starts.c): new work that is to begin when few fibers are runnable, or when nothing
 * that has begun has ended for its patience. One is in the list once, and leaves it with the call ---- */
typedef struct nb_deferred_start {
    nb_link_t link;              /* in engine->deferred_starts */
    uint64_t since;              /* when it came, or something else ended */
    uint64_t patience;           /* nanoseconds */
    void (*begin)(nb_engine_t *, struct nb_deferred_start *); /* takes its share of the room, if there is any */
} nb_deferred_start_t;

/* ---- the engine (engine.c, lifecycle.c) ---- */
typedef struct { nb_wait_t **slots; size_t capacity, count; } nb_fibermap_t;

struct nb_engine {
    VALUE self;                  /* the object that marks us */
    VALUE thread;
    VALUE home;                  /* the fiber that runs the loop, 0 while none does */
    nb_task_t *task;             /* the one whose code is running */
    const nb_backend_t *backend; /* NULL: the engine is closed */
    const char *reason;          /* why this back end */
    nb_mailbox_t *mailbox;
    unsigned fork_generation;    /* older than nb_fork_generation: this engine is the parent's */
    nb_link_t parked, tasks;     /* nb_wait_t, nb_task_t */
    nb_link_t deferred_starts;   /* nb_deferred_start_t */
    nb_link_t settling;          /* nb_wait_t.queue: see nb_settle */
    nb_obstacle_t obstacle;      /* at the last look before a jump */
    unsigned timeless_waits;     /* in a row, for bytes between descriptors of this process */
    uint64_t moved;              /* real ns: the last jump, or the begin of the first nb_settle since */
    unsigned room;               /* how many of them may begin before the next look at the kernel */
    unsigned budget;             /* switches left in this turn; 0: the home fiber is next */
    unsigned allowance;          /* switches between two looks at the kernel */
    VALUE current_fiber;         /* the fiber that we switched to last; another one that runs was resumed externally */
    bool struck;                 /* another thread has raised in the running task, which looks before it parks */
    size_t masks;                /* of Thread.handle_interrupt, that tasks have put on their thread */
    uint64_t heard_since;        /* what the kernel last told came after this */

    /* counters */
    atomic_ulong switches;       /* counts switches: stands still while one fiber runs */
    unsigned long polls, waits, arms;
    unsigned turn;
    size_t parked_count, task_count, interest_count, watch_count, job_count, operation_count;
    size_t out_of_buffers;       /* receives that found no buffer, so far */
    unsigned long started;       /* fibers whose stacks are mapped */

    /* what follows is private: internal.h */
    const nb_hooks_t *hooks;
    void *state;                 /* the back end's */
    VALUE fiber_class, body;     /* the class of the tasks' fibers, and the proc that all of them run */
    nb_task_t *starting;         /* handed to the fiber that is being started */
    VALUE starter, mender, keeper; /* fibers of starter.c; 0: not needed yet */
    struct nb_order *order;      /* … for the starter */
    VALUE finished_fiber;        /* its block has ended, and the next fiber is to reap it: see fibers.c; or 0 */
    VALUE interrupt;             /* an exception that the home fiber is to raise; 0: none */
    int killed;                  /* Thread#kill came in the middle of a switch */
    VALUE early_fiber, early_blocker; /* an unblock that came before its block; 0: none */
    nb_link_t urgent, normal;    /* run queues: woken by the kernel or a timer; by other fibers */
    nb_link_t resume_first;      /* run queue: callers of Fiber.schedule, and those of nb_requeue */
    nb_link_t unverified;        /* nb_interest_t: see descriptors.c */
    nb_timers_t timers;
    nb_fibermap_t fibers;        /* fiber -> wait, for unblock */
    nb_descriptor_t *descriptors; int descriptor_count;
    nb_link_t operations, abandoned, spare_operations;
    nb_operation_t *stopping;    /* set to NULL at its end */
    unsigned refused;            /* the kinds of operations, as bits, that the kernel will not do */
    uint64_t turned;             /* when this turn's fibers began to run */
    uint64_t polled;             /* when the kernel was last looked at */
    uint64_t wait_nanoseconds;   /* of the kernel wait under way */
    uint64_t company_seen;       /* real ns: when the world outside of the loop was last found able to end a wait */
    uint64_t masks_seen;         /* when a pending interrupt was last held off by the masks around the loop */
    unsigned share;              /* counts the turns that both queues wanted */
    unsigned handovers;          /* switches in a row to fibers that others had run next */
    uint32_t generation;         /* of descriptor registrations */
    bool deaf;                   /* Ruby tells it of no wait any more: nb_count_is_right */
    bool closing;                /* its fibers may be gone: what still ends wakes none of them */
    bool quiet;                  /* the last look at the kernel, without waiting, found nothing */
};

extern bool nb_has_forked;          /* a child may hold what we close, which then lives on */
extern unsigned nb_fork_generation; /* counts forks: an engine with an older number is its parent's */

int nb_engine_open(nb_engine_t *, const nb_hooks_t *, const char *backend, const char **failed);
void nb_engine_close(nb_engine_t *);
void nb_engine_mark(nb_engine_t *);
size_t nb_engine_size(const nb_engine_t *); /* bytes that it has allocated */
void nb_engine_drop(nb_engine_t *);         /* in a forked child: forget everything, run nothing */
bool nb_engine_idle(nb_engine_t *);         /* nothing inside of the loop could end a wait */
const char *nb_engine_name(const nb_engine_t *); /* of its back end; NULL: it is closed */
const char *nb_backend_name(size_t index);  /* those of this build, the preferred one first; NULL after the last */
/* Runs the loop on the calling fiber until done() says so. Returns false when all that is left are waits that
 * nothing can end. Raises what interrupts the thread; the loop may then be entered again. */
bool nb_engine_loop(nb_engine_t *, bool (*done)(nb_engine_t *, void *), void *argument);

#endif
