/*
 * What the engine's own files, and the back ends, use of one another. No file outside of this folder includes it.
 */
#ifndef NB_ENGINE_INTERNAL_H
#define NB_ENGINE_INTERNAL_H

#include "engine.h"

#define NB_SWITCHES 64      /* fiber to fiber switches before the home fiber looks at the kernel and the timers */
#define NB_LONGEST_TURN (5 * NB_MILLISECOND) /* … or after so long, if they compute */
#define NB_START_COST 8     /* as how many switches the start of a task counts */
#define NB_SHARE 16         /* every so many turns one is for fibers that wait behind others: see nb_next */

/* ---- outstanding.c ---- */
/* What but its own fibers and timers could end a wait of the loop? foreign: other processes count. */
nb_obstacle_t nb_outstanding(nb_engine_t *, bool foreign);

/* ---- settling.c ---- */
void nb_wake_settled(nb_engine_t *);     /* those that have no deadline; all, if the clock is real */
void nb_give_up_settling(nb_engine_t *, bool runnable); /* those for which virtual time has stood still for too long */

/* ---- timers.c ---- */
void nb_timers_fire(nb_engine_t *, uint64_t now);
void nb_timers_free(nb_engine_t *);

/* ---- engine.c, unblock.c ---- */
void nb_orphan(nb_engine_t *, nb_wait_t *);  /* its task has ended, while a fiber that it transferred to waits */
bool nb_take_early_wakeup(nb_engine_t *, const nb_wait_t *); /* an unblock that came before the wait */

/* ---- fibers.c, handback.c ---- */
void nb_switch_away(nb_engine_t *, nb_wait_t *); /* returns when the wait has an outcome */
bool nb_switch_to(nb_engine_t *, nb_wait_t *);   /* false: it could not be started, nothing was switched */
void nb_run_fibers(nb_engine_t *, nb_wait_t *);  /* from the home fiber, which goes on when none is runnable */
void nb_requeue(nb_engine_t *);                  /* the running task, which a transfer by hand has left in no queue: it
                                                    goes on next */
void nb_raise_postponed(nb_engine_t *);
void nb_after_switch(nb_engine_t *);             /* first call on every fiber that was switched to */
nb_wait_t *nb_next(nb_engine_t *);               /* takes the next runnable one, or NULL: go home */

/* ---- stacks.c ---- */
unsigned long nb_fiber_limit(void);          /* how many may be started at a time */
bool nb_stacks_lock(nb_engine_t *);          /* around all that takes a stack or gives it back */
void nb_stacks_unlock(bool locked);
void nb_stacks_after_fork(void);

/* ---- starter.c ---- */
VALUE nb_start_fiber(nb_engine_t *, VALUE fiber); /* Qnil, or Ruby's error: there is no memory for its stack */
void nb_starter_mark(nb_engine_t *);
bool nb_count_is_right(nb_engine_t *);       /* false: Ruby has lost count of the thread's blocking fibers, and calls
                                                no scheduler any more */

/* ---- fibermap.c: fiber -> wait, for unblock ---- */
void nb_fibermap_put(nb_fibermap_t *, nb_wait_t *);
void nb_fibermap_remove(nb_fibermap_t *, nb_wait_t *);
nb_wait_t *nb_fibermap_get(nb_fibermap_t *, VALUE fiber);

/* ---- deferred_starts.c ---- */
void nb_deferred_starts_begin(nb_engine_t *); /* after a look at the kernel */

/* ---- descriptors.c ---- */
struct nb_descriptor {
    nb_link_t interests;
    nb_watch_t *watch;
    VALUE io;             /* the IO of the registration; compared, never used */
    uint32_t generation;
    unsigned long renewed; /* engine->polls when the generation last changed */
    short armed;          /* the events registered with the kernel; 0: none */
    bool drained;         /* the last read took all there was */
};

void nb_descriptors_verify(nb_engine_t *);
void nb_descriptor_event(nb_engine_t *, int fd, uint32_t generation, int revents); /* for back ends */
short nb_descriptor_wanted(nb_engine_t *, int fd);
void nb_descriptors_free(nb_engine_t *);

/* ---- mailbox.c: how other threads, native threads and signal handlers reach a loop ---- */
struct nb_mailbox {
    _Atomic(nb_message_t *) head;
    atomic_int references;
    atomic_bool sleeping; /* the loop is in the kernel, or about to be */
    atomic_bool signalled; /* a byte is already on its way */
    int reader, writer;   /* one eventfd, or the ends of a pipe */
};

nb_mailbox_t *nb_mailbox_open(void);
void nb_mailbox_retain(nb_mailbox_t *);
void nb_mailbox_release(nb_mailbox_t *);
void nb_mailbox_post(nb_mailbox_t *, nb_message_t *); /* any native thread, without the GVL */
void nb_mailbox_clear(nb_mailbox_t *);
bool nb_mailbox_drain(nb_engine_t *);

/* ---- thread_pool.c ---- */
void nb_job_finish(nb_engine_t *, nb_job_t *); /* once; with the GVL, unless engine is NULL: its loop is gone */

/* ---- operations.c ---- */
void nb_operations_settle(nb_engine_t *);    /* waits for the end of the abandoned ones */
void nb_operations_close(nb_engine_t *);
void nb_operations_free(nb_engine_t *);
void nb_operation_completed(nb_engine_t *, nb_operation_t *, int result, char *bytes, bool more); /* for back ends */

/* ---- back ends: backends/, and choose.c ---- */
struct nb_backend {
    const char *name;
    int (*open)(nb_engine_t *);                                 /* 0, or errno: it does not work here */
    void (*close)(nb_engine_t *);
    int (*arm)(nb_engine_t *, int fd, int events, uint32_t generation); /* 0 or errno */
    void (*disarm)(nb_engine_t *, int fd);
    void (*prepare)(nb_engine_t *);                             /* with the GVL, before a wait; optional */
    void (*wait)(nb_engine_t *, uint64_t nanoseconds);          /* perhaps without the GVL; NB_NEVER = for ever */
    void (*dispatch)(nb_engine_t *);                            /* with the GVL: calls nb_descriptor_event */
    bool (*busy)(nb_engine_t *);                                /* operations in flight; optional */
    bool (*transfer)(nb_engine_t *, nb_transfer_t *);           /* optional; false: let a native thread do it */
    bool (*complete)(nb_engine_t *);                            /* blocks until a transfer is done; false: can't */
    /* All optional together: operations. */
    bool (*begin)(nb_engine_t *, nb_operation_t *);             /* false: the kernel takes none now */
    bool (*cancel)(nb_engine_t *, nb_operation_t *);            /* false: later, in a wait */
    bool (*settle)(nb_engine_t *, nb_operation_t *);            /* until it has ended; false: it does not */
    void (*submit)(nb_engine_t *);                              /* hands the begun ones to the kernel */
    void (*deliver)(nb_engine_t *);                             /* what has been completed */
};

extern const nb_backend_t nb_backend_poll;
#ifdef HAVE_SYS_EPOLL_H
extern const nb_backend_t nb_backend_epoll;
#ifdef HAVE_LIBURING
extern const nb_backend_t nb_backend_uring;
#endif
#endif
/* Picks by name, or the best that works here when name is NULL; *reason says why, *failure names the errno. */
const nb_backend_t *nb_backend_choose(nb_engine_t *, const char *name, const char **reason, int *failure);

#endif
