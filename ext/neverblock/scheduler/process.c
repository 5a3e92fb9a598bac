/*
 * process_wait: a pidfd is readable when its process has ended. The loop reaps the child at that event, before a trap
 * for SIGCHLD runs, which may reap children too.
 *
 * For the other cases (any child, a process group, a stopped child, a system without pidfds) a native thread waits with
 * waitid(2) and WNOWAIT, which does not take the child's status. So a wait that is left early loses no status: the
 * fiber itself reaps the child when it goes on.
 */
#include "scheduler.h"
#include <errno.h>
#include <pthread.h>
#include <ruby/io.h>
#include <signal.h>
#include <stdlib.h>
#ifndef NB_PORTABLE
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/syscall.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

static int open_pidfd(pid_t pid) {
#if defined(SYS_pidfd_open) && !defined(NB_PORTABLE)
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    errno = ENOSYS;
    return -1;
#endif
}

/* A wait for one child. The status is on the fiber's stack, which the GC scans. */
typedef struct {
    nb_wait_t wait;
    nb_engine_t *engine;
    VALUE subject, status;
    pid_t pid;
    int flags, fd;
} pidfd_t;

/* The status of a child that has ended, with the pid -1 if there is no such child; nil: it has not ended. */
static VALUE reap(pid_t pid, int flags) {
    VALUE status = rb_process_status_wait(pid, flags | WNOHANG);
    return NIL_P(status) || rb_funcall(status, rb_intern("pid"), 0) == INT2FIX(0) ? Qnil : status;
}

static void ended(nb_wait_t *wait) {
    pidfd_t *pidfd = NB_ENTRY(wait, pidfd_t, wait);
    pidfd->status = reap(pidfd->pid, pidfd->flags);
}

static VALUE wait_on(VALUE argument) {
    pidfd_t *pidfd = (pidfd_t *)argument;
    nb_wait_t *wait = &pidfd->wait;
    nb_interest_t interest = {.wait = wait, .fd = pidfd->fd, .events = RUBY_IO_READABLE};
    int error = nb_interest_add(pidfd->engine, &interest, Qnil);
    if (error) rb_syserr_fail(error, "pidfd");
    nb_wait_init(wait, NB_WAIT_PROCESS, pidfd->subject);
    wait->interests = &interest;
    wait->interest_count = 1;
    wait->event_came = ended;
    nb_park(pidfd->engine, wait);
    return Qnil;
}

static VALUE close_it(VALUE argument) {
    pidfd_t *pidfd = (pidfd_t *)argument;
    nb_descriptor_closing(pidfd->engine, pidfd->fd);
    close(pidfd->fd);
    return Qnil;
}

/* ---- without a pidfd ---- */
typedef struct {
    nb_job_t job;
    pid_t pid;
    int options, error;
} wait_job_t;

static void release(nb_job_t *job) { free(job); }

static void perform(nb_job_t *job) {
    wait_job_t *wait = (wait_job_t *)job;
    idtype_t type = wait->pid > 0 ? P_PID : wait->pid == -1 ? P_ALL : P_PGID;
    id_t group = wait->pid == 0 ? (id_t)getpgrp() : (id_t)-wait->pid;
    id_t id = wait->pid > 0 ? (id_t)wait->pid : wait->pid == -1 ? 0 : group;
    siginfo_t information;
    do wait->error = waitid(type, id, &information, wait->options) < 0 ? errno : 0;
    while (wait->error == EINTR && !atomic_load(&job->interrupted));
}

/* Returns when there is a status to collect, or no child. */
static void wait_on_thread(nb_engine_t *engine, VALUE subject, pid_t pid, int flags) {
    wait_job_t *wait = calloc(1, sizeof *wait);
    if (!wait) rb_memerror();
    *wait = (wait_job_t){.job = {.perform = perform, .release = release}, .pid = pid,
                         .options = WEXITED | WNOWAIT | (flags & WUNTRACED ? WSTOPPED : 0)};
    nb_job_await(engine, NB_POOL_WAITS, NB_LEAVE_INTERRUPTED, &wait->job, subject);
    int error = wait->error;
    release(&wait->job);
    if (error == EINTR) nb_checkpoint(engine);
    else if (error && error != ECHILD) rb_syserr_fail(error, "waitid");
}

static VALUE wait_for(nb_engine_t *engine, VALUE pid_value, int flags) {
    pid_t pid = NUM2PIDT(pid_value);
    for (;;) {
        VALUE status = reap(pid, flags); /* ended already, or no child of ours */
        if (!NIL_P(status)) return status;
        int fd = pid > 0 && !(flags & WUNTRACED) ? open_pidfd(pid) : -1;
        if (fd < 0) {
            wait_on_thread(engine, pid_value, pid, flags);
            continue;
        }
        pidfd_t pidfd = {.engine = engine, .subject = pid_value, .status = Qnil, .pid = pid, .flags = flags, .fd = fd};
        rb_ensure(wait_on, (VALUE)&pidfd, close_it, (VALUE)&pidfd);
        if (!NIL_P(pidfd.status)) return pidfd.status;
    }
}

/* Kernel#system takes the status of a child that is gone for success. Its other callers don't. */
static void refuse_missing(VALUE status, VALUE pid) {
    static const char *const hooks[] = {"process_wait"};
    if (rb_funcall(status, rb_intern("pid"), 0) != INT2FIX(-1)) return;
    nb_caller_t caller = nb_caller(hooks, 1);
    if (!nb_caller_is(caller, "system") || !nb_caller_in_c(caller)) return;
    VALUE message = rb_sprintf("system: another Process.wait, perhaps in a trap for SIGCHLD, has taken the status of "
                               "process %"PRIsVALUE, pid);
    rb_exc_raise(rb_syserr_new_str(ECHILD, message));
}

/* call-seq: process_wait(pid, flags) -> Process::Status */
static VALUE process_wait(VALUE self, VALUE pid, VALUE flags) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (!nb_scheduler_may_park(scheduler))
        return rb_funcall(self, rb_intern("process_wait_blocking"), 2, pid, flags);
    VALUE status = wait_for(&scheduler->engine, pid, NUM2INT(flags));
    refuse_missing(status, pid);
    return status;
}

/* call-seq: Scheduler.end_with_parent(signal, parent) -> nil
 *
 * From now on, and after an exec, the end of the parent sends this process the signal: prctl(2), PR_SET_PDEATHSIG.
 * If the parent has ended already, the signal is sent at once. Does nothing on other systems than Linux. */
static VALUE end_with_parent(VALUE class, VALUE signal, VALUE parent) {
    (void)class;
#if defined(PR_SET_PDEATHSIG)
    bool set = prctl(PR_SET_PDEATHSIG, (unsigned long)NUM2INT(signal), 0, 0, 0) == 0;
    if (set && getppid() != NUM2PIDT(parent)) kill(getpid(), NUM2INT(signal));
#else
    (void)signal, (void)parent;
#endif
    return Qnil;
}

/* ---- signals over exec ---- */
static pthread_t holder;
static sigset_t held;
static struct sigaction before[NSIG];

/* Sends the signal to the holding thread, where it stays pending, also across exec(2). */
static void forward(int signal) { pthread_kill(holder, signal); }

/* call-seq: Scheduler.hold_signals(signals) -> nil
 *
 * Signals of these numbers stay pending, on any thread, until release_signals or an exec, whose
 * program gets them. Only for the thread that calls exec. */
static VALUE hold_signals(VALUE class, VALUE signals) {
    (void)class;
    struct sigaction action = {.sa_handler = forward, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigemptyset(&held);
    holder = pthread_self();
    for (long i = 0; i < RARRAY_LEN(signals); i++) sigaddset(&held, NUM2INT(rb_ary_entry(signals, i)));
    pthread_sigmask(SIG_BLOCK, &held, NULL);
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigismember(&held, signal) == 1) sigaction(signal, &action, &before[signal]);
    }
    return Qnil;
}

/* call-seq: Scheduler.release_signals -> nil -- delivers the held signals */
static VALUE release_signals(VALUE class) {
    (void)class;
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigismember(&held, signal) == 1) sigaction(signal, &before[signal], NULL);
    }
    pthread_sigmask(SIG_UNBLOCK, &held, NULL);
    sigemptyset(&held);
    return Qnil;
}

void nb_init_process(void) {
    sigemptyset(&held);
    rb_define_singleton_method(nb_cScheduler, "hold_signals", hold_signals, 1);
    rb_define_singleton_method(nb_cScheduler, "release_signals", release_signals, 0);
    rb_define_method(nb_cScheduler, "process_wait", process_wait, 2);
    rb_define_singleton_method(nb_cScheduler, "end_with_parent", end_with_parent, 2);
}
