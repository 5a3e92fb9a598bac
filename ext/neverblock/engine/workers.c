/*
 * Native threads for calls that block where no readiness can be asked for: regular files, flock, getaddrinfo.
 * One bounded pool for files and one for names, so that a dead resolver never stalls files. The threads never
 * touch Ruby; they start when needed and leave after five idle seconds.
 */
#include "engine.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define IDLE_SECONDS 5

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    nb_job_t *first, **last;
    int threads, idle, queued, limit;
} pool_t;

#define POOL(n) {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL, 0, 0, 0, n}
static pool_t pools[NB_POOLS] = {[NB_POOL_FILES] = POOL(8), [NB_POOL_NAMES] = POOL(16)};

unsigned nb_fork_generation;
bool nb_has_forked;

/* ---- fork: the child has none of the threads, and nobody waits for their work ---- */
static void before_fork(void) {
    for (int i = 0; i < NB_POOLS; i++) pthread_mutex_lock(&pools[i].lock);
}
static void after_fork_parent(void) {
    nb_has_forked = true;
    for (int i = NB_POOLS - 1; i >= 0; i--) pthread_mutex_unlock(&pools[i].lock);
}
static void after_fork_child(void) {
    for (int i = 0; i < NB_POOLS; i++) pools[i] = (pool_t)POOL(pools[i].limit);
    nb_stacks_after_fork();
    nb_fork_generation++;
}

__attribute__((constructor)) static void install_fork_handlers(void) {
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- the threads ---- */
static nb_job_t *take(pool_t *pool) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    pool->idle++;
    while (!pool->first && pthread_cond_timedwait(&pool->wanted, &pool->lock, &until) != ETIMEDOUT) {}
    pool->idle--;
    nb_job_t *job = pool->first;
    if (job) {
        pool->first = job->next;
        if (!pool->first) pool->last = NULL;
        pool->queued--;
    }
    return job;
}

static void *work(void *argument) {
    pool_t *pool = argument;
    pthread_mutex_lock(&pool->lock);
    for (nb_job_t *job; (job = take(pool));) {
        pthread_mutex_unlock(&pool->lock);
        nb_mailbox_t *mailbox = job->mailbox; /* the job may be gone once it is posted */
        job->perform(job);
        nb_mailbox_post(mailbox, &job->message);
        nb_mailbox_release(mailbox);
        pthread_mutex_lock(&pool->lock);
    }
    pool->threads--;
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int start_thread(pool_t *pool) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all); /* signals are for Ruby's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, work, pool);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int submit(pool_t *pool, nb_job_t *job) {
    int error = 0;
    pthread_mutex_lock(&pool->lock);
    if (pool->queued >= pool->idle && pool->threads < pool->limit) {
        error = start_thread(pool);
        if (!error) pool->threads++;
        else if (pool->threads) error = 0; /* the others will get to it */
    }
    if (!error) {
        job->next = NULL;
        if (pool->last) *pool->last = job; else pool->first = job;
        pool->last = &job->next;
        pool->queued++;
        pthread_cond_signal(&pool->wanted);
    }
    pthread_mutex_unlock(&pool->lock);
    return error;
}

/* ---- waiting for one ---- */
void nb_job_finish(nb_engine_t *engine, nb_job_t *job) {
    job->done = true;
    if (engine) engine->job_count--;
    if (engine && job->wait) nb_wake(engine, job->wait, NB_READY, true);
    else job->release(job);
}

static void delivered(nb_engine_t *engine, nb_message_t *message) {
    nb_job_finish(engine, NB_ENTRY(message, nb_job_t, message));
}

typedef struct { nb_engine_t *engine; nb_job_t *job; nb_wait_t wait; bool completed; } await_t;

static VALUE await_park(VALUE argument) {
    await_t *await = (await_t *)argument;
    nb_park(await->engine, &await->wait);
    await->completed = true;
    return Qnil;
}

static VALUE await_leave(VALUE argument) {
    await_t *await = (await_t *)argument;
    if (await->completed) return Qnil;
    if (await->job->done) await->job->release(await->job);
    else await->job->wait = NULL; /* whoever finishes it releases it */
    return Qnil;
}

static void await_job(nb_engine_t *engine, nb_job_t *job, VALUE subject) {
    await_t await = {.engine = engine, .job = job};
    nb_wait_init(&await.wait, NB_WAIT_JOB, subject);
    job->wait = &await.wait;
    engine->job_count++;
    rb_ensure(await_park, (VALUE)&await, await_leave, (VALUE)&await);
}

void nb_job_await(nb_engine_t *engine, nb_pool_id_t id, nb_job_t *job, VALUE subject) {
    job->message.deliver = delivered;
    job->mailbox = engine->mailbox;
    job->done = false;
    nb_mailbox_retain(engine->mailbox);
    int error = submit(&pools[id], job);
    if (error) { /* no thread to be had: better late than never */
        nb_mailbox_release(engine->mailbox);
        job->perform(job);
        return;
    }
    await_job(engine, job, subject);
}

static void perform_transfer(nb_job_t *job) {
    nb_transfer_t *t = (nb_transfer_t *)job;
    do {
        if (t->from < 0) t->result = t->write ? write(t->fd, t->base, t->size) : read(t->fd, t->base, t->size);
        else t->result = t->write ? pwrite(t->fd, t->base, t->size, t->from) : pread(t->fd, t->base, t->size, t->from);
    } while (t->result < 0 && errno == EINTR);
    if (t->result < 0) t->result = -errno;
}

void nb_transfer_await(nb_engine_t *engine, nb_transfer_t *transfer, VALUE subject) {
    transfer->job.perform = perform_transfer;
    transfer->job.done = false;
    if (!transfer->endless && engine->backend->submit && engine->backend->submit(engine, transfer)) await_job(engine, &transfer->job, subject);
    else nb_job_await(engine, NB_POOL_FILES, &transfer->job, subject);
}
