/*
 * NeverBlock::Server::Core: the Ruby object that owns a server's connections, requests and counters. It belongs to the
 * loop it was made in, and its fibers to the scope that was open there.
 *
 *     core = Core.new(app, settings, events)
 *     core.listen(TCPServer.new("127.0.0.1", 0), false)
 */
#include "../http.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

VALUE nb_cCore;
static ID id_trouble, id_slow, id_access, id_cancel;

/* ---- the object ---- */
static void core_mark(void *pointer) {
    nb_core_t *core = pointer;
    VALUE all[] = {core->app, core->events, core->scheduler, core->scope, core->body, core->template, core->errors, core->storage,
                   core->server_name, core->server_port, core->default_name, core->default_port, core->remote, core->settings.stream_paths};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rb_gc_mark(all[i]);
    if (!core->requests.next) return;
    for (nb_link_t *l = core->requests.next; l != &core->requests; l = l->next) {
        nb_request_t *request = NB_ENTRY(l, nb_request_t, link);
        VALUE held[] = {request->env, request->input, request->handle, request->hints, request->path, request->task,
                        request->collected, request->headers};
        for (size_t i = 0; i < sizeof held / sizeof *held; i++) rb_gc_mark(held[i]);
    }
    for (nb_link_t *l = core->listeners.next; l != &core->listeners; l = l->next) rb_gc_mark(NB_ENTRY(l, nb_listener_t, link)->io);
}

/* Frees memory and descriptors; the engine may be gone already. */
static void core_free(void *pointer) {
    nb_core_t *core = pointer;
    if (core->requests.next && !core->closed) {
        while (!nb_list_empty(&core->requests)) {
            nb_request_t *request = NB_ENTRY(core->requests.next, nb_request_t, link);
            nb_list_remove(&request->link);
            if (request->file >= 0) close(request->file);
            xfree(request->out.bytes);
            xfree(request);
        }
        while (!nb_list_empty(&core->connections)) {
            nb_connection_t *connection = NB_ENTRY(core->connections.next, nb_connection_t, link);
            nb_list_remove(&connection->link);
            close(connection->watch.fd);
            xfree(connection->in_memory);
            xfree(connection->behind.bytes);
            xfree(connection);
        }
    }
    while (core->spare) {
        nb_request_t *request = core->spare;
        core->spare = (nb_request_t *)request->connection;
        xfree(request);
    }
    xfree(core->settings.trusted.networks);
    while (core->output_count) xfree(core->outputs[--core->output_count].bytes);
    while (core->door_count) close(core->door[--core->door_count].fd);
    xfree(core->door);
    nb_guests_free(core);
    xfree(core->scratch);
    xfree(core);
}

static size_t core_size(const void *pointer) {
    const nb_core_t *core = pointer;
    return sizeof *core + NB_SCRATCH + core->connection_count * sizeof(nb_connection_t) + core->request_count * sizeof(nb_request_t);
}

static const rb_data_type_t core_type = {
    .wrap_struct_name = "NeverBlock::Server::Core",
    .function = {.dmark = core_mark, .dfree = core_free, .dsize = core_size},
};

static VALUE core_alloc(VALUE klass) {
    nb_core_t *core;
    VALUE self = TypedData_Make_Struct(klass, nb_core_t, &core_type, core);
    core->self = self;
    core->app = core->events = core->scheduler = core->scope = core->body = core->template = core->errors = core->storage = Qnil;
    core->server_name = core->server_port = core->default_name = core->default_port = core->remote = core->settings.stream_paths = Qnil;
    nb_list_init(&core->connections);
    nb_list_init(&core->idlers);
    nb_list_init(&core->listeners);
    nb_list_init(&core->requests);
    nb_list_init(&core->sending);
    nb_list_init(&core->queue);
    nb_list_init(&core->ready);
    nb_list_init(&core->idle);
    return self;
}

nb_core_t *nb_core_of(VALUE self) { return rb_check_typeddata(self, &core_type); }

/* For methods that touch the loop. */
static nb_core_t *here(VALUE self) {
    nb_core_t *core = nb_core_of(self);
    if (!core->engine || core->closed) rb_raise(rb_path2class("NeverBlock::ClosedError"), "this server is closed");
    if (rb_thread_current() != core->engine->thread) rb_raise(rb_eThreadError, "a server belongs to the thread whose loop it was made in");
    return core;
}

/* ---- what happens by itself ---- */
static VALUE tell_trouble(VALUE argument) {
    VALUE *call = (VALUE *)argument;
    return rb_funcallv(call[0], id_trouble, 2, call + 1);
}

void nb_core_trouble(nb_core_t *core, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    VALUE message = rb_vsprintf(format, arguments);
    va_end(arguments);
    VALUE call[] = {core->events, ID2SYM(rb_intern(name)), message};
    int state = 0;
    rb_protect(tell_trouble, (VALUE)call, &state);
    if (state && SPECIAL_CONST_P(rb_errinfo())) rb_jump_tag(state); /* Thread#kill */
    if (state) rb_set_errinfo(Qnil);
}

/* IMF-fixdate (RFC 9110 §5.6.7), made once a second. */
const char *nb_core_date(nb_core_t *core, size_t *length) {
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t now = nb_now();
    *length = 29;
    if (now < core->date_until) return core->date;
    struct timespec clock;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &clock);
    gmtime_r(&clock.tv_sec, &tm);
    snprintf(core->date, sizeof core->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday, tm.tm_mday,
             months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    core->date_until = now + (NB_SECOND - (uint64_t)clock.tv_nsec);
    return core->date;
}

static VALUE tell_slow(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    double seconds = (double)(nb_now() - request->started) / 1e9;
    return rb_funcall(request->core->events, id_slow, 4, request->env, DBL2NUM(seconds), request->task, request->timed_out ? Qtrue : Qfalse);
}

static VALUE cancel(VALUE task) { return rb_funcallv(task, id_cancel, 0, NULL); }

void nb_core_protect(VALUE (*function)(VALUE), VALUE argument) {
    int state = 0;
    rb_protect(function, argument, &state);
    if (state && SPECIAL_CONST_P(rb_errinfo())) rb_jump_tag(state); /* Thread#kill */
    if (state) rb_set_errinfo(Qnil);
}

VALUE nb_core_access(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    double seconds = (double)(nb_now() - request->arrived) / 1e9;
    return rb_funcall(request->core->events, id_access, 4, request->env, INT2FIX(request->status), ULL2NUM(request->written), DBL2NUM(seconds));
}

static void look_at_requests(nb_core_t *core, uint64_t now) {
    for (nb_link_t *l = core->requests.next, *next; l != &core->requests; l = next) {
        nb_request_t *request = NB_ENTRY(l, nb_request_t, link);
        next = l->next;
        nb_output_hurry(request, now);
        if (NIL_P(request->task) || !request->counted) continue;
        uint64_t age = now - request->started;
        if (age > core->settings.request_timeout && !request->timed_out) {
            request->timed_out = true;
            core->timeouts++;
            nb_core_protect(tell_slow, (VALUE)request); /* while it still waits for what takes so long */
            nb_core_protect(cancel, request->task);
        } else if (age > core->settings.slow_request && !request->reported) {
            request->reported = true;
            nb_core_protect(tell_slow, (VALUE)request);
        }
    }
}

static void arm(nb_core_t *core, nb_timer_t *timer, uint64_t deadline) {
    nb_timer_cancel(core->engine, timer);
    timer->deadline = deadline;
    nb_timer_arm(core->engine, timer);
}

static void ticked(nb_engine_t *engine, nb_timer_t *timer) {
    nb_core_t *core = NB_ENTRY(timer, nb_core_t, tick);
    uint64_t now = nb_now();
    look_at_requests(core, now);
    nb_sends_expire(core, now);
    nb_crew_trim(core);
    if (core->paused && !core->draining && core->connection_count < core->settings.max_connections) nb_listeners_pause(core, false);
    if (core->connection_count || core->idle_count > 0 || core->paused) nb_core_tick_soon(core);
}

void nb_core_tick_soon(nb_core_t *core) {
    if (!core->tick.index && !core->closed) arm(core, &core->tick, nb_now() + NB_SECOND);
}

/* ---- methods ---- */
/* call-seq: Core.new(app, settings, events) -- in a task of a loop; see lib/neverblock/server.rb */
static VALUE core_initialize(VALUE self, VALUE app, VALUE settings, VALUE events) {
    nb_core_t *core = nb_core_of(self);
    nb_scheduler_t *scheduler = nb_scheduler_here();
    if (core->engine) rb_raise(rb_eRuntimeError, "this server has been initialized before");
    if (!scheduler || !scheduler->engine.task) rb_raise(rb_eThreadError, "a server is made inside NeverBlock.run");
    Check_Type(settings, T_HASH);
    nb_settings_read(&core->settings, settings);
    core->app = app;
    core->events = events;
    core->errors = rb_gv_get("$stderr");
    core->scheduler = scheduler->engine.self;
    core->scope = ((ruby_task_t *)scheduler->engine.task)->inner;
    core->storage = rb_funcall(rb_fiber_current(), rb_intern("storage"), 0);
    core->default_name = rb_str_freeze(rb_str_new_cstr("localhost"));
    core->default_port = rb_str_freeze(rb_str_new_cstr("80"));
    core->body = nb_crew_body(self);
    nb_admission_open(core);
    core->tick.fire = ticked;
    core->scratch = ALLOC_N(char, NB_SCRATCH);
    nb_env_init(core);
    core->engine = &scheduler->engine;
    return self;
}

/* call-seq: listen(io, proxy) -> self; proxy: each connection begins with a PROXY header */
static VALUE core_listen(VALUE self, VALUE io, VALUE proxy) {
    nb_listener_open(here(self), io, RTEST(proxy));
    return self;
}

/* call-seq: stand_back(flag) -> self; while it does, other processes accept from the same sockets */
static VALUE core_stand_back(VALUE self, VALUE flag) {
    nb_core_t *core = here(self);
    if (!core->draining) nb_listeners_stand_back(core, RTEST(flag));
    return self;
}

/* call-seq: stop_accepting -> self; from now on every answer is its connection's last */
static VALUE core_stop_accepting(VALUE self) {
    nb_core_t *core = here(self);
    core->draining = true;
    nb_listeners_empty(core);
    nb_listeners_close(core);
    return self;
}

/* call-seq: drain -> self; idle connections end */
static VALUE core_drain(VALUE self) {
    nb_core_t *core = here(self);
    core->draining = true;
    nb_operations_deliver(core->engine);
    for (nb_link_t *l = core->connections.next, *next; l != &core->connections; l = next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, link);
        next = l->next;
        char byte;
        if (connection->state != NB_CONNECTION_IDLE) continue;
        if (recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) nb_connection_receive(connection); /* it came in time */
        else nb_connection_linger(connection);
    }
    return self;
}

static VALUE core_idle_p(VALUE self) {
    nb_core_t *core = nb_core_of(self);
    return RBOOL(core->closed || (core->connection_count == 0 && core->request_count == 0));
}

/* call-seq: abort(reason) -> how many requests were cut; closes every connection, cancels what runs. The core is closed then. */
static VALUE core_abort(int argc, VALUE *argv, VALUE self) {
    nb_core_t *core = nb_core_of(self);
    size_t cut = 0;
    if (!core->engine || core->closed) return INT2FIX(0);
    here(self);
    nb_listeners_close(core);
    core->draining = true;
    for (nb_link_t *l = core->requests.next; l != &core->requests; l = l->next) {
        nb_request_t *request = NB_ENTRY(l, nb_request_t, link);
        if (!request->cut && (request->started || !nb_list_empty(&request->queue))) cut++;
        request->cut = true;
        if (!NIL_P(request->task)) nb_core_protect(cancel, request->task);
    }
    core->cut += cut;
    for (nb_link_t *l = core->connections.next, *next; l != &core->connections; l = next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, link);
        nb_request_t *request = connection->request;
        next = l->next;
        if (request && !NIL_P(request->task)) connection->doomed = true; /* its fiber closes it */
        else nb_connection_close(connection);
    }
    return SIZET2NUM(cut);
}

/* call-seq: close -- when nothing is left: ends the crew */
static VALUE core_close(VALUE self) {
    nb_core_t *core = nb_core_of(self);
    if (!core->engine || core->closed) return self;
    core_abort(0, NULL, self);
    nb_timer_cancel(core->engine, &core->tick);
    nb_timer_cancel(core->engine, &core->queue_timer);
    nb_list_remove(&core->deferred_start.link);
    core->closed = core->request_count == 0;
    nb_crew_dismiss(core, core->idle_count);
    return self;
}

static VALUE core_stats(VALUE self) {
    nb_core_t *core = nb_core_of(self);
    VALUE stats = rb_hash_new();
    const struct { const char *name; size_t value; } all[] = {
        {"connections", core->connection_count}, {"in_flight", core->in_flight}, {"ready", core->ready_count},
        {"queued", core->queued_count}, {"streams", core->streams},
        {"fibers", core->crew_count}, {"idle_fibers", core->idle_count}, {"body_bytes", core->body_bytes},
        {"accepted", core->accepted}, {"requests", core->requests_total}, {"answered", core->answered}, {"failed", core->failed},
        {"dropped", core->dropped}, {"proxy_errors", core->proxy_errors}, {"timeouts", core->timeouts}, {"hijacked", core->hijacked},
        {"cut", core->cut}, {"held_back", core->held_back}, {"let_in", core->let_in},
        {"evicted", core->evicted}, {"refused_address", core->refused_address},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rb_hash_aset(stats, ID2SYM(rb_intern(all[i].name)), SIZET2NUM(all[i].value));
    rb_hash_aset(stats, ID2SYM(rb_intern("refused")), nb_refusals_stats(core));
    return stats;
}

/* call-seq: NeverBlock.define_server -- defines Server::Core and Server::Request; lib/neverblock/server.rb calls it */
static VALUE define_server(VALUE module) {
    VALUE server = rb_path2class("NeverBlock::Server");
    if (nb_cCore) return server;
    id_trouble = rb_intern("trouble");
    id_slow = rb_intern("slow");
    id_access = rb_intern("access");
    id_cancel = rb_intern("cancel");
    nb_init_env();
    nb_init_crew();
    nb_init_answer();
    nb_init_bodies();
    nb_init_handle();
    nb_cCore = rb_define_class_under(server, "Core", rb_cObject);
    rb_define_alloc_func(nb_cCore, core_alloc);
    rb_define_method(nb_cCore, "initialize", core_initialize, 3);
    rb_define_method(nb_cCore, "listen", core_listen, 2);
    rb_define_method(nb_cCore, "stop_accepting", core_stop_accepting, 0);
    rb_define_method(nb_cCore, "drain", core_drain, 0);
    rb_define_method(nb_cCore, "stand_back", core_stand_back, 1);
    rb_define_method(nb_cCore, "idle?", core_idle_p, 0);
    rb_define_method(nb_cCore, "abort", core_abort, -1);
    rb_define_method(nb_cCore, "close", core_close, 0);
    rb_define_method(nb_cCore, "stats", core_stats, 0);
    nb_init_http_inspect();
    return server;
}

void nb_init_http(void) { rb_define_private_method(rb_singleton_class(nb_mNeverBlock), "define_server", define_server, 0); }
