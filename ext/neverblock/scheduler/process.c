/*
 * process_wait: a pidfd is readable when its process has ended. What a pidfd can't tell (a process group, a stopped
 * child, another system) is waited for on a Ruby thread.
 */
#include "scheduler.h"
#include <errno.h>
#include <ruby/io.h>
#include <signal.h>
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

typedef struct { nb_engine_t *engine; VALUE subject; int fd; } pidfd_t;

static VALUE wait_on(VALUE argument) {
    pidfd_t *pidfd = (pidfd_t *)argument;
    nb_wait_t wait;
    nb_interest_t interest = {.wait = &wait, .fd = pidfd->fd, .events = RUBY_IO_READABLE};
    int error = nb_interest_add(pidfd->engine, &interest, Qnil);
    if (error) rb_syserr_fail(error, "pidfd");
    nb_wait_init(&wait, NB_WAIT_PROCESS, pidfd->subject);
    wait.interests = &interest;
    wait.interest_count = 1;
    nb_park(pidfd->engine, &wait);
    return Qnil;
}

static VALUE close_it(VALUE argument) {
    pidfd_t *pidfd = (pidfd_t *)argument;
    nb_descriptor_closing(pidfd->engine, pidfd->fd);
    close(pidfd->fd);
    return Qnil;
}

/* call-seq: process_wait(pid, flags) -> Process::Status */
static VALUE process_wait(VALUE self, VALUE pid_value, VALUE flags_value) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    pid_t pid = NUM2PIDT(pid_value);
    int flags = NUM2INT(flags_value);
    if (!nb_scheduler_may_park(scheduler)) return rb_funcall(self, rb_intern("process_wait_blocking"), 2, pid_value, flags_value);
    for (;;) {
        VALUE status = rb_process_status_wait(pid, flags | WNOHANG); /* ended already, or no child of ours */
        if (!NIL_P(status) && NUM2PIDT(rb_funcall(status, rb_intern("pid"), 0)) != 0) return status;
        int fd = pid > 0 && !(flags & WUNTRACED) ? open_pidfd(pid) : -1;
        if (fd < 0) return rb_funcall(self, rb_intern("process_wait_on_thread"), 2, pid_value, flags_value);
        pidfd_t pidfd = {&scheduler->engine, pid_value, fd};
        rb_ensure(wait_on, (VALUE)&pidfd, close_it, (VALUE)&pidfd);
    }
}

/* call-seq: Scheduler.end_with_parent(signal, parent) -> nil -- from now on, and in what this process becomes by exec, the end of
 * its parent is a signal to it. Nothing where the system has no such thing; see prctl(2), PR_SET_PDEATHSIG. A parent that has
 * ended meanwhile counts too. */
static VALUE end_with_parent(VALUE class, VALUE signal, VALUE parent) {
    (void)class;
#if defined(PR_SET_PDEATHSIG)
    if (prctl(PR_SET_PDEATHSIG, (unsigned long)NUM2INT(signal), 0, 0, 0) == 0 && getppid() != NUM2PIDT(parent)) kill(getpid(), NUM2INT(signal));
#else
    (void)signal, (void)parent;
#endif
    return Qnil;
}

void nb_init_process(void) {
    rb_define_method(nb_cScheduler, "process_wait", process_wait, 2);
    rb_define_singleton_method(nb_cScheduler, "end_with_parent", end_with_parent, 2);
}
