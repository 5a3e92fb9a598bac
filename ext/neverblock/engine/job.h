/*
 * Jobs: work without the GVL, on a bounded pool of native threads or in the kernel, and transfers of files, which are
 * jobs. A part of engine.h, which includes it; the code is in thread_pool.c.
 *
 *     my_job_t *job = calloc(1, sizeof *job);      // begins with an nb_job_t; perform and release are set
 *     nb_job_await(engine, NB_POOL_FILES, NB_LEAVE_AT_END, &job->job, io);
 *     use(job->result);
 *     job->job.release(&job->job);
 */
#ifndef NB_JOB_H
#define NB_JOB_H

typedef enum { NB_POOL_FILES, NB_POOL_NAMES, NB_POOL_WAITS, NB_POOLS } nb_pool_id_t;
typedef enum { NB_JOB_NEW, NB_JOB_QUEUED, NB_JOB_RUNNING, NB_JOB_PERFORMED } nb_job_phase_t;

/* How the waiter of a job that has begun leaves. */
typedef enum {
    NB_LEAVE_AT_END,      /* it stays until the job's end: the job changes what others can see */
    NB_LEAVE_INTERRUPTED, /* … and a signal to the thread ends the job: it may never end by itself */
    NB_LEAVE_AT_ONCE,     /* at once; the job ends by itself, and its result is dropped: nothing of it is shared */
} nb_leave_t;

typedef struct nb_job {
    nb_message_t message;
    nb_link_t queue;                 /* in the pool's, while NB_JOB_QUEUED */
    nb_mailbox_t *mailbox;
    nb_wait_t *wait;                 /* NULL once its waiter has left */
    void (*perform)(struct nb_job *);/* on the native thread */
    bool (*submit)(nb_engine_t *, struct nb_job *); /* optional: hands it to the kernel. False: a thread performs it */
    void (*release)(struct nb_job *);/* when it has ended and its waiter has left. If the loop has ended, the native
                                        thread calls it, without the GVL */
    pthread_t thread;
    atomic_int phase;
    atomic_bool interrupted;         /* perform is to return as soon as its system call does */
    nb_pool_id_t pool;
    nb_leave_t leave;
    bool in_kernel, done, held;      /* held: its waiter is blocked until its end, and releases it */
} nb_job_t;

/* Parks until the job is done. The job owns its memory: if this call raises, it has been released, or will be at its
 * end; if it returns, the caller releases it. Nothing may be raised once the job has an effect: see nb_leave_t. */
void nb_job_await(nb_engine_t *, nb_pool_id_t, nb_leave_t, nb_job_t *, VALUE subject);

typedef struct { int limit, threads, idle, queued; } nb_pool_statistics_t;
const char *nb_pool_name(nb_pool_id_t);
void nb_pool_set_limit(nb_pool_id_t, int limit); /* threads at most; those that run stay */
nb_pool_statistics_t nb_pool_statistics(nb_pool_id_t);

/* A read or write of a file, by the back end's own means or a native thread. Memory and result are the job's. */
typedef struct nb_transfer {
    nb_job_t job;
    bool write;
    bool endless;   /* it may wait for ever, as a terminal may: not for the ring, which must be empty when it closes.
                       When its waiter is to leave, the result is -EINTR */
    int fd;
    char *base;
    size_t size;
    off_t from;     /* -1: the descriptor's own position */
    ssize_t result; /* or -errno */
} nb_transfer_t;
void nb_transfer_await(nb_engine_t *, nb_transfer_t *, VALUE subject);

#endif
