/*
 * Calls on files that block and have no hook: fsync and fdatasync, for the patch of that name.
 */
#include "scheduler.h"
#include <errno.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    nb_job_t job;
    int (*call)(int);
    int fd, error;
} file_job_t;

static void release(nb_job_t *job) {
    file_job_t *file = (file_job_t *)job;
    close(file->fd);
    free(file);
}

static void perform(nb_job_t *job) {
    file_job_t *file = (file_job_t *)job;
    do file->error = file->call(file->fd) < 0 ? errno : 0; while (file->error == EINTR);
}

/* On a duplicate of the descriptor: the caller may be cancelled, and close its own, before the thread is done. */
static VALUE on_thread(VALUE self, VALUE io, int (*call)(int), const char *name) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    int fd = dup(rb_io_descriptor(io));
    if (fd < 0) rb_sys_fail("dup");
    file_job_t *file = calloc(1, sizeof *file);
    if (!file) {
        close(fd);
        rb_memerror();
    }
    *file = (file_job_t){.job = {.perform = perform, .release = release}, .call = call, .fd = fd};
    nb_job_await(&scheduler->engine, NB_POOL_FILES, &file->job, io);
    int error = file->error;
    release(&file->job);
    if (error) rb_syserr_fail(error, name);
    return INT2FIX(0);
}

/* call-seq: fsync(io) -> 0 */
static VALUE fsync_m(VALUE self, VALUE io) { return on_thread(self, io, fsync, "fsync"); }

/* call-seq: fdatasync(io) -> 0 */
static VALUE fdatasync_m(VALUE self, VALUE io) {
#ifdef HAVE_FDATASYNC
    return on_thread(self, io, fdatasync, "fdatasync");
#else
    return on_thread(self, io, fsync, "fsync");
#endif
}

void nb_init_files(void) {
    rb_define_method(nb_cScheduler, "fsync", fsync_m, 1);
    rb_define_method(nb_cScheduler, "fdatasync", fdatasync_m, 1);
}
