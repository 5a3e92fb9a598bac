/*
 * IO.select: one park, as many interests as there are descriptors.
 */
#include "scheduler.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <ruby/io.h>

typedef struct {
    VALUE object; /* the element of the caller's array, which is returned */
    int list;     /* 0 readable, 1 writable, 2 exceptional */
} choice_t;

typedef struct {
    nb_engine_t *engine;
    nb_wait_t wait;
    VALUE lists[3], ios, result;
    nb_interest_t *interests;
    choice_t *choices;
    struct pollfd *entries;
    int count;
    uint64_t deadline;
} select_t;

static const short wanted_events[] = {RUBY_IO_READABLE, RUBY_IO_WRITABLE, RUBY_IO_PRIORITY};
static const short wanted_polls[] = {POLLIN, POLLOUT, POLLPRI};
static const short granted_polls[] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLHUP | POLLERR, POLLPRI};

static bool has_buffered_input(VALUE io) {
    rb_io_t *fptr;
    RB_IO_POINTER(io, fptr);
    return rb_io_read_pending(fptr);
}

static void grant(select_t *select, int index) {
    rb_ary_push(RARRAY_AREF(select->result, select->choices[index].list), select->choices[index].object);
}

static bool any_granted(select_t *select) {
    for (int list = 0; list < 3; list++) if (RARRAY_LEN(RARRAY_AREF(select->result, list))) return true;
    return false;
}

static void gather(select_t *select) {
    for (int list = 0; list < 3; list++) {
        if (NIL_P(select->lists[list])) continue;
        for (long i = 0; i < RARRAY_LEN(select->lists[list]); i++) {
            int index = select->count;
            VALUE object = RARRAY_AREF(select->lists[list], i), io = rb_io_get_io(object);
            if (list == 1) io = rb_io_get_write_io(io);
            rb_ary_push(select->ios, io);
            select->choices[index] = (choice_t){object, list};
            int fd = rb_io_descriptor(io);
            select->interests[index] = (nb_interest_t){.wait = &select->wait, .fd = fd, .events = wanted_events[list]};
            select->entries[index] = (struct pollfd){.fd = fd, .events = wanted_polls[list]};
            select->count++; /* only now: before this a closed stream raises, and there is nothing to undo */
            if (list == 0 && has_buffered_input(io)) grant(select, index);
        }
    }
}

/* Buffered input, files, and all that is ready already. */
static void look(select_t *select) {
    if (any_granted(select)) { /* buffered ones are in; add what the kernel has, once each */
        rb_ary_clear(RARRAY_AREF(select->result, 0));
    }
    if (poll(select->entries, select->count, 0) < 0 && errno != EINTR) rb_sys_fail("poll");
    for (int i = 0; i < select->count; i++) {
        int list = select->choices[i].list;
        if (select->entries[i].revents & POLLNVAL) rb_syserr_fail(EBADF, "select");
        bool ready = select->entries[i].revents & granted_polls[list];
        if (!ready && list == 0) ready = has_buffered_input(RARRAY_AREF(select->ios, i));
        if (ready) grant(select, i);
    }
}

static VALUE run(VALUE argument) {
    select_t *select = (select_t *)argument;
    gather(select);
    look(select);
    if (any_granted(select) || select->deadline <= nb_now()) return Qnil;
    for (int i = 0; i < select->count; i++) {
        int error = nb_interest_add(select->engine, &select->interests[i], RARRAY_AREF(select->ios, i));
        if (error) rb_syserr_fail(error, "select");
    }
    select->wait.interests = select->interests;
    select->wait.interest_count = select->count;
    nb_wait_deadline(&select->wait, select->deadline);
    nb_park(select->engine, &select->wait);
    if (select->wait.outcome == NB_READY)
        for (int i = 0; i < select->count; i++) if (select->interests[i].revents) grant(select, i);
    return Qnil;
}

static VALUE leave(VALUE argument) {
    select_t *select = (select_t *)argument;
    for (int i = 0; i < select->count; i++) nb_interest_remove(select->engine, &select->interests[i]);
    return Qnil;
}

static VALUE select_blocking(RB_BLOCK_CALL_FUNC_ARGLIST(fiber, data)) {
    return rb_funcallv(rb_cIO, rb_intern("select"), 4, (VALUE *)data);
}

/* call-seq: io_select(readables, writables, exceptables, timeout) -> three arrays, or nil after the timeout */
static VALUE io_select(int argc, VALUE *argv, VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    VALUE arguments[4] = {Qnil, Qnil, Qnil, Qnil};
    rb_check_arity(argc, 1, 4);
    for (int i = 0; i < argc; i++) arguments[i] = argv[i];
    if (!nb_scheduler_may_park(scheduler))
        return rb_block_call(nb_cFiber, rb_intern("blocking"), 0, NULL, select_blocking, (VALUE)arguments);
    bool for_ever = RB_FLOAT_TYPE_P(arguments[3]) && RFLOAT_VALUE(arguments[3]) == HUGE_VAL; /* Ruby 4.1 takes it */
    select_t select = {.engine = &scheduler->engine, .deadline = for_ever ? NB_NEVER : nb_deadline_from(arguments[3])};
    long total = 0;
    for (int i = 0; i < 3; i++) {
        select.lists[i] = arguments[i];
        if (NIL_P(arguments[i])) continue;
        Check_Type(arguments[i], T_ARRAY);
        select.lists[i] = rb_ary_dup(arguments[i]); /* to_io may change it */
        total += RARRAY_LEN(arguments[i]);
    }
    VALUE memory[3];
    nb_wait_init(&select.wait, NB_WAIT_SELECT, select.lists[0]);
    select.ios = rb_ary_new_capa(total);
    select.result = rb_ary_new_from_args(3, rb_ary_new(), rb_ary_new(), rb_ary_new());
    select.interests = ALLOCV_N(nb_interest_t, memory[0], total + 1);
    select.choices = ALLOCV_N(choice_t, memory[1], total + 1);
    select.entries = ALLOCV_N(struct pollfd, memory[2], total + 1);
    rb_ensure(run, (VALUE)&select, leave, (VALUE)&select);
    VALUE result = any_granted(&select) ? select.result : Qnil;
    for (int i = 0; i < 3; i++) RB_GC_GUARD(select.lists[i]);
    RB_GC_GUARD(select.ios);
    for (int i = 0; i < 3; i++) ALLOCV_END(memory[i]);
    return result;
}

void nb_init_io_select(void) { rb_define_method(nb_cScheduler, "io_select", io_select, -1); }
