/*
 * File calls that block and have no hook: fsync, fdatasync and flock, for the patches of those names.
 */
#include "scheduler.h"
#include <errno.h>
#include <fcntl.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

typedef struct {
    nb_job_t job;
    int (*call)(int fd, int argument);
    int fd, argument, error;
} file_job_t;

static void release(nb_job_t *job) {
    file_job_t *file = (file_job_t *)job;
    close(file->fd);
    free(file);
}

static void perform(nb_job_t *job) {
    file_job_t *file = (file_job_t *)job;
    do file->error = file->call(file->fd, file->argument) < 0 ? errno : 0;
    while (file->error == EINTR && !atomic_load(&job->interrupted));
}

/* Calls on a duplicate of the descriptor: another fiber may close the descriptor before the thread is done. Returns
 * 0 or an errno. */
static int on_thread(VALUE self, VALUE io, nb_pool_id_t pool, nb_leave_t leave, int (*call)(int, int), int argument) {
    nb_engine_t *engine = &nb_scheduler(self)->engine;
    for (;;) {
        int fd = fcntl(rb_io_descriptor(io), F_DUPFD_CLOEXEC, 0);
        if (fd < 0 && errno == EMFILE && pool == NB_POOL_FILES) /* the limit is reached: the call blocks the loop */
            return call(rb_io_descriptor(io), argument) < 0 ? errno : 0;
        if (fd < 0) rb_sys_fail("dup");
        file_job_t *file = calloc(1, sizeof *file);
        if (!file) {
            close(fd);
            rb_memerror();
        }
        *file = (file_job_t){
            .job = {.perform = perform, .release = release}, .call = call, .fd = fd, .argument = argument,
        };
        nb_job_await(engine, pool, leave, &file->job, io);
        int error = file->error;
        release(&file->job);
        if (error != EINTR) return error;
        nb_checkpoint(engine);
    }
}

static int call_fsync(int fd, int unused) { return fsync(fd); }

static int call_fdatasync(int fd, int unused) {
#ifdef HAVE_FDATASYNC
    return fdatasync(fd);
#else
    return fsync(fd);
#endif
}

/* There is no result that could be lost, so a pending exception is raised now. */
static VALUE sync_file(VALUE self, VALUE io, int (*call)(int, int), const char *name) {
    int error = on_thread(self, io, NB_POOL_FILES, NB_LEAVE_AT_END, call, 0);
    nb_checkpoint(&nb_scheduler(self)->engine);
    if (error) rb_syserr_fail(error, name);
    return INT2FIX(0);
}

/* call-seq: fsync(io) -> 0 */
static VALUE fsync_m(VALUE self, VALUE io) { return sync_file(self, io, call_fsync, "fsync"); }

/* call-seq: fdatasync(io) -> 0 */
static VALUE fdatasync_m(VALUE self, VALUE io) { return sync_file(self, io, call_fdatasync, "fdatasync"); }

/* call-seq: flock(io, operation) -> 0, when the lock has been granted
 *
 * If the lock is granted while an exception is to end the wait, the caller has it. The exception comes at the next
 * wait, so the caller may unlock. */
static VALUE flock_m(VALUE self, VALUE io, VALUE operation) {
    int error = on_thread(self, io, NB_POOL_WAITS, NB_LEAVE_INTERRUPTED, flock, NUM2INT(operation));
    if (error) rb_syserr_fail(error, "flock");
    return INT2FIX(0);
}

void nb_init_files(void) {
    rb_define_method(nb_cScheduler, "fsync", fsync_m, 1);
    rb_define_method(nb_cScheduler, "fdatasync", fdatasync_m, 1);
    rb_define_method(nb_cScheduler, "flock", flock_m, 2);
}
