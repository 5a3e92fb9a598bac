/*
 * Native threads for calls that block and have no readiness to wait for. The threads never touch Ruby. They start when
 * needed and end after five idle seconds. Each kind of call has a bounded pool of its own, so that none waits behind
 * calls of another kind:
 *
 *   files   transfers of regular files, fsync: short, and never interrupted
 *   names   getaddrinfo, getnameinfo: a dead resolver never stalls files
 *   waits   calls that may never end (flock, waitid, terminals): a signal to their thread ends them. One of them may
 *           wait for an effect of another, so a call that has queued for PATIENCE gets a thread beyond the limit
 *
 * A job has one of four phases. The phase decides how its waiter may leave (docs/cancellation-and-timeouts.md):
 *
 *   phase       leaving
 *   NEW         the job has not been submitted: it is released
 *   QUEUED      the job is taken back: nothing has happened
 *   RUNNING     job->leave decides: wait for the end, interrupt and wait, or leave the job to end by itself
 *   PERFORMED   the result is being delivered: the waiter takes it, and the exception comes at the next wait
 */
#include "internal.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <ruby/thread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define IDLE_SECONDS 5
#define INTERRUPT_SIGNAL SIGVTALRM       /* Ruby's own handler for it does nothing, and no program may trap it */
#define FIRST_NUDGE NB_MILLISECOND       /* a signal just before the system call has no effect: it is sent again … */
#define LONGEST_NUDGE (50 * NB_MILLISECOND) /* … with pauses up to this */
#define PATIENCE (50 * NB_MILLISECOND)      /* how long a call that may never end queues behind others */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wanted, performed;
    nb_link_t queue;
    int threads, idle, queued, limit;
} pool_t;

static pool_t pools[NB_POOLS] = {
    [NB_POOL_FILES] = {.limit = 8}, [NB_POOL_NAMES] = {.limit = 16}, [NB_POOL_WAITS] = {.limit = 256},
};
static const char *const pool_names[NB_POOLS] = {
    [NB_POOL_FILES] = "files", [NB_POOL_NAMES] = "names", [NB_POOL_WAITS] = "waits",
};

unsigned nb_fork_generation;
bool nb_has_forked;

static void init_pools(void) {
    for (int i = 0; i < NB_POOLS; i++) {
        pool_t *pool = &pools[i];
        *pool = (pool_t){.lock = PTHREAD_MUTEX_INITIALIZER, .limit = pool->limit};
        nb_condition_init(&pool->wanted);
        nb_condition_init(&pool->performed);
        nb_list_init(&pool->queue);
    }
}

/* ---- fork: the child has none of the threads, and no waiters for their work ---- */
static void before_fork(void) {
    for (int i = 0; i < NB_POOLS; i++) pthread_mutex_lock(&pools[i].lock);
}
static void after_fork_parent(void) {
    nb_has_forked = true;
    for (int i = NB_POOLS - 1; i >= 0; i--) pthread_mutex_unlock(&pools[i].lock);
}
static void after_fork_child(void) {
    init_pools();
    nb_stacks_after_fork();
    nb_clock_after_fork();
    nb_fork_generation++;
}

__attribute__((constructor)) static void prepare(void) {
    init_pools();
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- the threads; each function is called with the pool's lock held ---- */
static nb_job_t *take(pool_t *pool) {
    struct timespec until = nb_real_after(IDLE_SECONDS * NB_SECOND);
    pool->idle++;
    while (nb_list_empty(&pool->queue) && pthread_cond_timedwait(&pool->wanted, &pool->lock, &until) != ETIMEDOUT) {}
    pool->idle--;
    if (nb_list_empty(&pool->queue)) return NULL;
    nb_job_t *job = NB_ENTRY(pool->queue.next, nb_job_t, queue);
    nb_list_remove(&job->queue);
    pool->queued--;
    job->phase = NB_JOB_RUNNING;
    job->thread = pthread_self();
    return job;
}

static void *work(void *argument) {
    pool_t *pool = argument;
    pthread_mutex_lock(&pool->lock);
    for (nb_job_t *job; (job = take(pool));) {
        pthread_mutex_unlock(&pool->lock);
        nb_mailbox_t *mailbox = job->mailbox; /* the job may be gone once it is posted */
        job->perform(job);
        pthread_mutex_lock(&pool->lock);
        job->phase = NB_JOB_PERFORMED;
        pthread_cond_broadcast(&pool->performed);
        pthread_mutex_unlock(&pool->lock);
        nb_mailbox_post(mailbox, &job->message);
        nb_mailbox_release(mailbox);
        pthread_mutex_lock(&pool->lock);
    }
    pool->threads--;
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int start_thread(pool_t *pool) {
    sigset_t blocked, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&blocked); /* all but ours are for Ruby's threads */
    sigdelset(&blocked, INTERRUPT_SIGNAL);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, work, pool);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int submit(nb_job_t *job) {
    pool_t *pool = &pools[job->pool];
    int error = 0;
    pthread_mutex_lock(&pool->lock);
    if (pool->queued >= pool->idle && pool->threads < pool->limit) {
        error = start_thread(pool);
        if (!error) pool->threads++;
        else if (pool->threads) error = 0; /* the threads that run will do it */
    }
    if (!error) {
        nb_list_append(&pool->queue, &job->queue);
        pool->queued++;
        job->phase = NB_JOB_QUEUED;
        pthread_cond_signal(&pool->wanted);
    }
    pthread_mutex_unlock(&pool->lock);
    return error;
}

/* ---- leaving a job ---- */
/* True: it was still queued, and never runs. A forked child has a new queue. */
static bool take_back(nb_engine_t *engine, nb_job_t *job) {
    if (job->in_kernel || engine->fork_generation != nb_fork_generation) return false;
    pool_t *pool = &pools[job->pool];
    pthread_mutex_lock(&pool->lock);
    bool queued = job->phase == NB_JOB_QUEUED;
    if (queued) {
        nb_list_remove(&job->queue);
        pool->queued--;
        job->phase = NB_JOB_NEW;
    }
    pthread_mutex_unlock(&pool->lock);
    if (queued) nb_mailbox_release(job->mailbox);
    return queued;
}

/* A signal ends the system call that the job is in, with EINTR; job->interrupted keeps it from starting another. */
static void interrupt(nb_job_t *job) {
    pool_t *pool = &pools[job->pool];
    atomic_store(&job->interrupted, true);
    pthread_mutex_lock(&pool->lock);
    if (job->phase == NB_JOB_RUNNING) pthread_kill(job->thread, INTERRUPT_SIGNAL);
    pthread_mutex_unlock(&pool->lock);
}

typedef struct { nb_job_t *job; bool interrupted; } blocked_t;

static void *block_until_performed(void *argument) {
    blocked_t *blocked = argument;
    nb_job_t *job = blocked->job;
    pool_t *pool = &pools[job->pool];
    pthread_mutex_lock(&pool->lock);
    while (job->phase == NB_JOB_RUNNING) {
        struct timespec until = nb_real_after(FIRST_NUDGE);
        if (job->leave == NB_LEAVE_INTERRUPTED) pthread_kill(job->thread, INTERRUPT_SIGNAL);
        pthread_cond_timedwait(&pool->performed, &pool->lock, &until);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Blocks the whole loop: Fiber#raise and Fiber#kill unwind a fiber that can't park any more. */
static void block_until_ended(nb_engine_t *engine, nb_job_t *job) {
    if (engine->fork_generation != nb_fork_generation) return;
    if (job->in_kernel) {
        while (!job->done) if (!engine->backend->complete(engine)) return;
        return;
    }
    blocked_t blocked = {.job = job};
    if (job->leave == NB_LEAVE_INTERRUPTED) atomic_store(&job->interrupted, true);
    rb_nogvl(block_until_performed, &blocked, NULL, NULL, RB_NOGVL_INTR_FAIL);
    if (job->phase == NB_JOB_RUNNING) block_until_performed(&blocked); /* an interrupt has prevented the call */
    /* The thread is about to post the job, and the loop may have no further turn. */
    while (!job->done) if (!nb_mailbox_drain(engine)) sched_yield();
}

/* ---- waiting for one ---- */
typedef struct {
    nb_engine_t *engine;
    nb_job_t *job;
    nb_wait_t wait;
    nb_timer_t nudge, growth;
    uint64_t pause;
    bool completed;
} await_t;

void nb_job_finish(nb_engine_t *engine, nb_job_t *job) {
    job->done = true;
    if (engine) engine->job_count--;
    if (job->held) return;
    if (engine && !engine->closing && job->wait) nb_wake(engine, job->wait, NB_READY, true);
    else job->release(job);
}

static void delivered(nb_engine_t *engine, nb_message_t *message) {
    nb_job_finish(engine, NB_ENTRY(message, nb_job_t, message));
}

static void nudge(nb_engine_t *engine, nb_timer_t *timer) {
    await_t *await = NB_ENTRY(timer, await_t, nudge);
    interrupt(await->job);
    timer->deadline = nb_now() + await->pause;
    if (await->pause < LONGEST_NUDGE) await->pause *= 2;
    nb_timer_arm(engine, timer);
}

/* Whether a job may have to wait for others of its pool. */
static bool is_crowded(nb_pool_id_t id) {
    nb_pool_statistics_t pool = nb_pool_statistics(id);
    return pool.queued > pool.idle && pool.threads >= pool.limit;
}

/* If no thread can be started, those that run do it, or this is called again. */
static void grow(nb_engine_t *engine, nb_timer_t *timer) {
    await_t *await = NB_ENTRY(timer, await_t, growth);
    pool_t *pool = &pools[await->job->pool];
    pthread_mutex_lock(&pool->lock);
    bool queued = await->job->phase == NB_JOB_QUEUED;
    if (queued && !start_thread(pool)) pool->threads++;
    pthread_mutex_unlock(&pool->lock);
    if (!queued) return;
    timer->deadline = nb_now() + PATIENCE;
    nb_timer_arm(engine, timer);
}

/* nb_wait_t.withdraw: see the table above. */
static bool withdraw(nb_engine_t *engine, nb_wait_t *wait) {
    await_t *await = NB_ENTRY(wait, await_t, wait);
    nb_job_t *job = await->job;
    if (take_back(engine, job)) {
        engine->job_count--;
        return true;
    }
    if (job->leave == NB_LEAVE_INTERRUPTED && await->nudge.index == 0) nudge(engine, &await->nudge);
    return job->leave == NB_LEAVE_AT_ONCE;
}

static VALUE await_end(VALUE argument) {
    await_t *await = (await_t *)argument;
    nb_engine_t *engine = await->engine;
    nb_job_t *job = await->job;
    nb_checkpoint(engine); /* before anything has happened */
    if (job->submit && job->submit(engine, job)) {
        job->in_kernel = true;
    } else {
        job->mailbox = engine->mailbox;
        nb_mailbox_retain(job->mailbox);
        if (submit(job)) { /* no thread can be started: the call blocks the loop */
            nb_mailbox_release(job->mailbox);
            job->perform(job);
            await->completed = true;
            return Qnil;
        }
    }
    engine->job_count++;
    if (job->pool == NB_POOL_WAITS && is_crowded(job->pool)) {
        await->growth.deadline = nb_now() + PATIENCE;
        nb_timer_arm(engine, &await->growth);
    }
    nb_park(engine, &await->wait);
    await->completed = true;
    return Qnil;
}

static VALUE await_leave(VALUE argument) {
    await_t *await = (await_t *)argument;
    nb_engine_t *engine = await->engine;
    nb_job_t *job = await->job;
    nb_timer_cancel(engine, &await->nudge);
    nb_timer_cancel(engine, &await->growth);
    if (await->completed) return Qnil;
    if (take_back(engine, job)) engine->job_count--;
    bool begun = job->in_kernel || job->phase != NB_JOB_NEW;
    if (begun && !job->done && job->leave != NB_LEAVE_AT_ONCE) {
        job->held = true;
        block_until_ended(engine, job);
        job->held = false;
    }
    if (!begun || job->done) job->release(job);
    else job->wait = NULL; /* nb_job_finish releases it */
    return Qnil;
}

void nb_job_await(nb_engine_t *engine, nb_pool_id_t pool, nb_leave_t leave, nb_job_t *job, VALUE subject) {
    await_t await = {
        .engine = engine, .job = job, .pause = FIRST_NUDGE, .nudge = {.fire = nudge}, .growth = {.fire = grow},
    };
    job->message.deliver = delivered;
    job->pool = pool;
    job->leave = leave;
    nb_list_init(&job->queue);
    nb_wait_init(&await.wait, NB_WAIT_JOB, subject);
    await.wait.withdraw = withdraw;
    job->wait = &await.wait;
    rb_ensure(await_end, (VALUE)&await, await_leave, (VALUE)&await);
}

/* ---- transfers of files ---- */
static void perform_transfer(nb_job_t *job) {
    nb_transfer_t *t = (nb_transfer_t *)job;
    do {
        if (t->from < 0) t->result = t->write ? write(t->fd, t->base, t->size) : read(t->fd, t->base, t->size);
        else t->result = t->write ? pwrite(t->fd, t->base, t->size, t->from) : pread(t->fd, t->base, t->size, t->from);
    } while (t->result < 0 && errno == EINTR && !atomic_load(&job->interrupted));
    if (t->result < 0) t->result = -errno;
}

static bool submit_transfer(nb_engine_t *engine, nb_job_t *job) {
    return engine->backend->transfer(engine, (nb_transfer_t *)job);
}

void nb_transfer_await(nb_engine_t *engine, nb_transfer_t *transfer, VALUE subject) {
    transfer->job.perform = perform_transfer;
    if (transfer->endless) {
        nb_job_await(engine, NB_POOL_WAITS, NB_LEAVE_INTERRUPTED, &transfer->job, subject);
    } else {
        if (engine->backend->transfer) transfer->job.submit = submit_transfer;
        nb_job_await(engine, NB_POOL_FILES, NB_LEAVE_AT_END, &transfer->job, subject);
        /* The kernel gets no thread for it (ulimit -u, pids.max), and has not begun: the call blocks the loop. */
        if (transfer->result == -ECANCELED) perform_transfer(&transfer->job);
    }
}

/* ---- sizes and statistics ---- */
const char *nb_pool_name(nb_pool_id_t id) { return pool_names[id]; }

void nb_pool_set_limit(nb_pool_id_t id, int limit) {
    pthread_mutex_lock(&pools[id].lock);
    pools[id].limit = limit;
    pthread_mutex_unlock(&pools[id].lock);
}

nb_pool_statistics_t nb_pool_statistics(nb_pool_id_t id) {
    pool_t *pool = &pools[id];
    pthread_mutex_lock(&pool->lock);
    nb_pool_statistics_t all = {pool->limit, pool->threads, pool->idle, pool->queued};
    pthread_mutex_unlock(&pool->lock);
    return all;
}
