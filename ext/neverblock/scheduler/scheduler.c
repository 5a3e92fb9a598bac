/*
 * NeverBlock::Scheduler: the object that Fiber.set_scheduler takes. Its hooks are in the other files of this folder:
 * scheduler.h has the map.
 */
#include "scheduler.h"
#include <ruby/io.h>
#include <ruby/ractor.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

VALUE nb_cScheduler, nb_cFiber;

/* All open schedulers of the process, so that closing a descriptor finds the waits for it in other threads' loops. Only
 * schedulers of the calling Ractor are touched, because its lock guards them. */
static nb_link_t all_open = {&all_open, &all_open};
static pthread_mutex_t all_open_lock = PTHREAD_MUTEX_INITIALIZER;

static void enlist(nb_scheduler_t *scheduler) {
    pthread_mutex_lock(&all_open_lock);
    nb_list_append(&all_open, &scheduler->open);
    pthread_mutex_unlock(&all_open_lock);
}

static void close_scheduler(nb_scheduler_t *scheduler) {
    pthread_mutex_lock(&all_open_lock);
    nb_list_remove(&scheduler->open);
    pthread_mutex_unlock(&all_open_lock);
    nb_engine_close(&scheduler->engine);
}

static void scheduler_mark(void *pointer) {
    nb_scheduler_t *scheduler = pointer;
    nb_engine_mark(&scheduler->engine);
    rb_gc_mark(scheduler->engine.self); /* pinned: C code returns it, also between two runs */
    rb_gc_mark(scheduler->ractor);
    rb_gc_mark(scheduler->inner_fibers);
    rb_gc_mark(scheduler->masks);
}

/* At the end of the process all objects are freed in any order, so only our own memory may be touched here. */
static void scheduler_free(void *pointer) {
    close_scheduler(pointer);
    xfree(pointer);
}

static size_t scheduler_size(const void *pointer) {
    const nb_scheduler_t *scheduler = pointer;
    return sizeof *scheduler + nb_engine_size(&scheduler->engine);
}

static const rb_data_type_t scheduler_type = {
    .wrap_struct_name = "NeverBlock::Scheduler",
    .function = {.dmark = scheduler_mark, .dfree = scheduler_free, .dsize = scheduler_size},
};

static VALUE scheduler_alloc(VALUE klass) {
    nb_scheduler_t *scheduler;
    VALUE self = TypedData_Make_Struct(klass, nb_scheduler_t, &scheduler_type, scheduler);
    scheduler->engine.self = self;
    scheduler->engine.thread = scheduler->ractor = scheduler->inner_fibers = scheduler->masks = Qnil;
    nb_list_init(&scheduler->open);
    return self;
}

/* call-seq: open_engine(name_or_nil) -> nil, or the errno's number that kept it from opening */
static VALUE open_engine(VALUE self, VALUE name) {
    nb_scheduler_t *scheduler;
    const char *failed;
    TypedData_Get_Struct(self, nb_scheduler_t, &scheduler_type, scheduler);
    if (scheduler->engine.backend) rb_raise(rb_eRuntimeError, "this scheduler has been initialized before");
    const char *wanted = NIL_P(name) ? NULL : StringValueCStr(name);
    int error = nb_engine_open(&scheduler->engine, &nb_scheduler_hooks, wanted, &failed);
    if (error == EMFILE || error == ENFILE) { /* as core does for files: engines of dead threads may be garbage */
        rb_gc_start();
        error = nb_engine_open(&scheduler->engine, &nb_scheduler_hooks, wanted, &failed);
    }
    if (error) return INT2NUM(error);
    scheduler->ractor = rb_funcall(rb_cRactor, rb_intern("current"), 0);
    if (NUM2INT(rb_funcall(rb_cRactor, rb_intern("count"), 0)) > 1) nb_stacks_are_shared();
    enlist(scheduler);
    return Qnil;
}

nb_scheduler_t *nb_scheduler_any(VALUE self) { return rb_check_typeddata(self, &scheduler_type); }

nb_scheduler_t *nb_scheduler(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    if (!scheduler->engine.backend) rb_raise(rb_path2class("NeverBlock::ClosedError"), "this scheduler is closed");
    return scheduler;
}

static void forget_parent(nb_engine_t *engine) {
    if (NIL_P(engine->thread)) return;
    nb_lock_waiters_keep(engine);
    nb_engine_drop(engine);
}

/* In a forked child the task that forked goes on without a loop, and blocks as in stock Ruby. The other tasks are
 * gone. */
static bool left_behind_by_fork(nb_scheduler_t *scheduler) {
    nb_engine_t *engine = &scheduler->engine;
    if (engine->fork_generation == nb_fork_generation) return false;
    forget_parent(engine);
    if (rb_fiber_scheduler_get() == engine->self) rb_fiber_scheduler_set(Qnil);
    return true;
}

bool nb_scheduler_may_park(nb_scheduler_t *scheduler) {
    nb_engine_t *engine = &scheduler->engine;
    if (left_behind_by_fork(scheduler)) return false;
    if (rb_thread_current() != engine->thread) return false;
    VALUE fiber = rb_fiber_current();
    return fiber != engine->home && !nb_is_helper(engine, fiber);
}

static nb_scheduler_t *ours(VALUE scheduler) {
    if (NIL_P(scheduler) || !rb_typeddata_is_kind_of(scheduler, &scheduler_type)) return NULL;
    nb_scheduler_t *found = RTYPEDDATA_GET_DATA(scheduler);
    return found->engine.backend && !left_behind_by_fork(found) ? found : NULL;
}

nb_scheduler_t *nb_scheduler_here(void) { return ours(rb_fiber_scheduler_current()); }

nb_scheduler_t *nb_scheduler_of_thread(void) { return ours(rb_fiber_scheduler_get()); }

/* call-seq: Scheduler.current -> the scheduler of the running fiber, if it is one of ours and may park; or nil */
static VALUE s_current(VALUE klass) {
    nb_scheduler_t *scheduler = nb_scheduler_here();
    return scheduler ? scheduler->engine.self : Qnil;
}

/* call-seq: Scheduler.of_thread -> the scheduler of this thread, if it is one of ours; or nil */
static VALUE s_of_thread(VALUE klass) {
    nb_scheduler_t *scheduler = nb_scheduler_of_thread();
    return scheduler ? scheduler->engine.self : Qnil;
}

/* call-seq: spawn(scope, block, arguments, name, storage) -> Task, which runs when its turn comes; from any thread */
static VALUE spawn(VALUE self, VALUE scope, VALUE block, VALUE arguments, VALUE name, VALUE storage) {
    if (!rb_obj_is_proc(block))
        rb_raise(rb_eArgError, "spawn: the block must be a Proc, not %"PRIsVALUE"; NeverBlock.spawn is the public way",
                 rb_inspect(block));
    if (!NIL_P(arguments)) Check_Type(arguments, T_ARRAY);
    if (storage != Qtrue && !NIL_P(storage)) Check_Type(storage, T_HASH);
    return nb_task_spawn(nb_scheduler(self), scope, block, arguments, name, storage, false);
}

/* call-seq: schedule(scope, block, storage) -> Task, which has run until its first wait */
static VALUE schedule(VALUE self, VALUE scope, VALUE block, VALUE storage) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (left_behind_by_fork(scheduler))
        rb_raise(rb_eThreadError, "Fiber.schedule: a forked child has no scheduler; NeverBlock.run starts one");
    if (rb_thread_current() != scheduler->engine.thread)
        rb_raise(rb_eThreadError, "Fiber.schedule: this scheduler belongs to another thread");
    return nb_task_spawn(scheduler, scope, block, Qnil, Qnil, storage, true);
}

static bool stopped(nb_engine_t *engine, void *scheduler) { return ((nb_scheduler_t *)scheduler)->stop; }

static VALUE loop_leave(VALUE argument) {
    ((nb_scheduler_t *)argument)->looping = false;
    return Qnil;
}

static VALUE loop_body(VALUE argument) {
    nb_scheduler_t *scheduler = (nb_scheduler_t *)argument;
    return RBOOL(nb_engine_loop(&scheduler->engine, stopped, scheduler));
}

/* call-seq: turn_until_stopped -> true, or false when nothing is left that could end a wait */
static VALUE turn_until_stopped(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (scheduler->engine.home) rb_raise(rb_eThreadError, "this scheduler's loop is running already");
    scheduler->looping = true;
    return rb_ensure(loop_body, (VALUE)scheduler, loop_leave, (VALUE)scheduler);
}

/* call-seq: stop = true -- the loop ends at its next turn; from any thread */
static VALUE set_stop(VALUE self, VALUE stop) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    scheduler->stop = RTEST(stop);
    if (scheduler->stop) nb_mailbox_interrupt(scheduler->engine.mailbox);
    return stop;
}

/* call-seq: deaf? -- whether Ruby calls this scheduler no more: a fiber could not be started for want of memory */
static VALUE deaf_p(VALUE self) { return RBOOL(nb_scheduler_any(self)->engine.deaf); }

static VALUE looping_p(VALUE self) { return RBOOL(nb_scheduler_any(self)->looping); }

static VALUE closed_p(VALUE self) { return RBOOL(!nb_scheduler_any(self)->engine.backend); }

static VALUE forked_p(VALUE self) {
    nb_scheduler_t *scheduler = nb_scheduler_any(self);
    return RBOOL(scheduler->engine.backend && scheduler->engine.fork_generation != nb_fork_generation);
}

/* call-seq: forget_parent -- in a forked child, which may have called none of our hooks */
static VALUE forget_parent_m(VALUE self) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    if (engine->fork_generation != nb_fork_generation) forget_parent(engine);
    return Qnil;
}

/* call-seq: keep_lock_waiters -- the loop is left with tasks in it */
static VALUE keep_lock_waiters(VALUE self) {
    nb_lock_waiters_keep(&nb_scheduler_any(self)->engine);
    return Qnil;
}

static VALUE close_engine(VALUE self) {
    close_scheduler(nb_scheduler_any(self));
    return Qnil;
}

/* call-seq: switches = count -- switches from fiber to fiber between two looks at the kernel and the timers */
static VALUE set_switches(VALUE self, VALUE count) {
    nb_scheduler(self)->engine.allowance = NUM2UINT(count);
    return count;
}

/* call-seq: settle(until, patience) -> nil, when all other tasks wait and the clock shows so many nanoseconds, or nil;
 * under a virtual clock only. After as many real nanoseconds without a jump: :tasks, :jobs, :threads or a descriptor,
 * which are in the way */
static VALUE settle(VALUE self, VALUE until, VALUE patience) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (!nb_scheduler_may_park(scheduler)) rb_raise(rb_eThreadError, "settle: call it in a task of the loop");
    uint64_t nanoseconds = NUM2ULL(patience);
    nb_obstacle_t obstacle = nb_settle(&scheduler->engine, NIL_P(until) ? NB_NEVER : NUM2ULL(until), nanoseconds);
    switch (obstacle.kind) {
    case NB_TASKS: return ID2SYM(rb_intern("tasks"));
    case NB_JOBS: return ID2SYM(rb_intern("jobs"));
    case NB_THREADS: return ID2SYM(rb_intern("threads"));
    case NB_FOREIGN:
    case NB_SENDING: return INT2NUM(obstacle.fd);
    default: return Qnil;
    }
}

/* call-seq: heard_since -> Float, seconds of the monotonic clock
 *
 * The events that the loop last got from the kernel came after this. It serves to measure how long a server takes:
 * the time until its response is read also contains the work of our own fibers. */
static VALUE heard_since(VALUE self) { return DBL2NUM((double)nb_scheduler(self)->engine.heard_since / 1e9); }

/* The schedulers of this Ractor that wait for descriptors, up to `most`; returns how many there are. */
static int waiting_schedulers(VALUE *found, int most) {
    VALUE ractor = rb_funcall(rb_cRactor, rb_intern("current"), 0);
    int count = 0;
    pthread_mutex_lock(&all_open_lock);
    for (nb_link_t *l = all_open.next; l != &all_open; l = l->next) {
        nb_scheduler_t *scheduler = NB_ENTRY(l, nb_scheduler_t, open);
        if (scheduler->ractor != ractor || !scheduler->engine.interest_count) continue;
        if (count < most) found[count] = scheduler->engine.self;
        count++;
    }
    pthread_mutex_unlock(&all_open_lock);
    return count;
}

static void end_waits(VALUE self, int fd) {
    nb_engine_t *engine = &nb_scheduler_any(self)->engine;
    if (engine->backend && engine->fork_generation == nb_fork_generation) nb_descriptor_closing(engine, fd);
}

/* The allocation may run other threads, which may open schedulers. */
static void closing(int fd, int write_fd) {
    VALUE few[16], memory = 0, *found = few;
    int most = 16, count;
    while ((count = waiting_schedulers(found, most)) > most) found = ALLOCV_N(VALUE, memory, most = count);
    for (int i = 0; i < count; i++) {
        end_waits(found[i], fd);
        end_waits(found[i], write_fd);
    }
    if (memory) ALLOCV_END(memory);
}

/* call-seq: Scheduler.closing(io) -- every fiber of this Ractor that waits for the IO's descriptor gets an IOError */
static VALUE s_closing(VALUE klass, VALUE io) {
    Check_Type(io, T_FILE);
    if (RTEST(rb_io_closed_p(io))) return io;
    VALUE other = rb_io_get_write_io(io); /* of a popen "r+": one IO, two descriptors */
    bool single = other == io || RTEST(rb_io_closed_p(other));
    closing(rb_io_descriptor(io), single ? -1 : rb_io_descriptor(other));
    return io;
}

static bool is_socket(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* After popen("r+") and close_read, core gives the descriptor of the other half to this IO, but calls the scheduler
 * with the former one, which is closed. */
VALUE nb_io_open_half(VALUE io) {
    if (!RB_TYPE_P(io, T_FILE) || !RTEST(rb_io_closed_p(io))) return io;
    VALUE moved = rb_attr_get(io, rb_intern("__moved_to"));
    return NIL_P(moved) ? io : moved;
}

/* call-seq: Scheduler.closing_half(io, writing) -- the same for close_read and close_write
 *
 * They close the descriptor if it is not open for the other direction, or not shared by both. A socket whose one
 * direction they shut down stays open, and the kernel ends its waits. */
static VALUE s_closing_half(VALUE klass, VALUE io, VALUE writing) {
    Check_Type(io, T_FILE);
    if (RTEST(rb_io_closed_p(io))) return io;
    VALUE other = rb_io_get_write_io(io);
    int fd = rb_io_descriptor(io);
    if (other != io) {
        if (!RTEST(writing)) {
            closing(fd, -1);
            rb_ivar_set(other, rb_intern("__moved_to"), io);
        }
        else if (!RTEST(rb_io_closed_p(other))) closing(rb_io_descriptor(other), -1);
        return io;
    }
    int mode = rb_io_mode(io), kept = RTEST(writing) ? FMODE_READABLE : FMODE_WRITABLE;
    bool single = !(mode & kept);
    if (single || (!is_socket(fd) && mode & FMODE_DUPLEX)) closing(fd, -1);
    return io;
}

/* The clock has moved: the timers of this Ractor's loops move with it, and loops that wait look at the clock again. */
void nb_schedulers_shift(int64_t nanoseconds) {
    VALUE ractor = rb_funcall(rb_cRactor, rb_intern("current"), 0);
    pthread_mutex_lock(&all_open_lock);
    for (nb_link_t *l = all_open.next; l != &all_open; l = l->next) {
        nb_scheduler_t *scheduler = NB_ENTRY(l, nb_scheduler_t, open);
        if (scheduler->ractor != ractor || scheduler->engine.fork_generation != nb_fork_generation) continue;
        nb_timers_shift(&scheduler->engine, nanoseconds);
        nb_mailbox_interrupt(scheduler->engine.mailbox);
    }
    pthread_mutex_unlock(&all_open_lock);
}

/* call-seq: Scheduler.resuming?(fiber) -> whether it has resumed another fiber, and waits for that */
static VALUE s_resuming_p(VALUE klass, VALUE fiber) { return RBOOL(nb_fiber_is_resuming(fiber)); }

/* call-seq: Scheduler.backends -> the names that this build knows */
static VALUE s_backends(VALUE klass) {
    VALUE names = rb_ary_new();
    const char *name;
    for (size_t i = 0; (name = nb_backend_name(i)); i++) rb_ary_push(names, rb_str_new_cstr(name));
    return names;
}

void nb_init_scheduler(void) {
    nb_cFiber = rb_const_get(rb_cObject, rb_intern("Fiber"));
    rb_gc_register_mark_object(nb_cFiber);
    nb_cScheduler = rb_define_class_under(nb_mNeverBlock, "Scheduler", rb_cObject);
    rb_define_alloc_func(nb_cScheduler, scheduler_alloc);
    rb_define_singleton_method(nb_cScheduler, "current", s_current, 0);
    rb_define_singleton_method(nb_cScheduler, "of_thread", s_of_thread, 0);
    rb_define_singleton_method(nb_cScheduler, "closing", s_closing, 1);
    rb_define_singleton_method(nb_cScheduler, "closing_half", s_closing_half, 2);
    rb_define_singleton_method(nb_cScheduler, "resuming?", s_resuming_p, 1);
    rb_define_singleton_method(nb_cScheduler, "backends", s_backends, 0);
    rb_define_private_method(nb_cScheduler, "open_engine", open_engine, 1);
    rb_define_private_method(nb_cScheduler, "close_engine", close_engine, 0);
    rb_define_method(nb_cScheduler, "forget_parent", forget_parent_m, 0);
    rb_define_private_method(nb_cScheduler, "keep_lock_waiters", keep_lock_waiters, 0);
    rb_define_private_method(nb_cScheduler, "schedule", schedule, 3);
    rb_define_method(nb_cScheduler, "spawn", spawn, 5);
    rb_define_method(nb_cScheduler, "turn_until_stopped", turn_until_stopped, 0);
    rb_define_method(nb_cScheduler, "stop=", set_stop, 1);
    rb_define_method(nb_cScheduler, "looping?", looping_p, 0);
    rb_define_method(nb_cScheduler, "deaf?", deaf_p, 0);
    rb_define_method(nb_cScheduler, "closed?", closed_p, 0);
    rb_define_method(nb_cScheduler, "forked?", forked_p, 0);
    rb_define_private_method(nb_cScheduler, "switches=", set_switches, 1);
    rb_define_method(nb_cScheduler, "settle", settle, 2);
    rb_define_method(nb_cScheduler, "heard_since", heard_since, 0);
}
