/*
 * NeverBlock::Server::Core: the Ruby object that owns a server's connections, requests and counters. It belongs to the
 * loop it was made in, and its fibers to the scope that was open there.
 *
 *     core = Core.new(app, settings, events)
 *     core.listen(TCPServer.new("127.0.0.1", 0), false)
 */
#include "app.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

VALUE nb_cCore;
static ID id_trouble, id_slow, id_access, id_cancel;

static const nb_transport_hooks_t transport_hooks;

/* ---- the object ---- */
static void core_mark(void *pointer) {
    nb_server_t *server = pointer;
    VALUE all[] = {server->app, server->events, server->scheduler, server->scope, server->body, server->template,
                   server->errors, server->storage, server->server_name, server->server_port, server->default_name,
                   server->default_port, server->remote, server->settings.stream_paths, server->starting,
                   server->balance};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rb_gc_mark(all[i]);
    nb_transport_mark(&server->net);
    if (!server->requests.next) return;
    for (nb_link_t *l = server->requests.next; l != &server->requests; l = l->next) {
        nb_request_t *request = NB_ENTRY(l, nb_request_t, link);
        VALUE held[] = {request->env, request->input, request->rack_request, request->hints, request->path,
                        request->task, request->collected, request->headers};
        for (size_t i = 0; i < sizeof held / sizeof *held; i++) rb_gc_mark(held[i]);
    }
}

/* Frees memory and descriptors; the engine may be gone already. */
static void core_free(void *pointer) {
    nb_server_t *server = pointer;
    while (server->requests.next && !server->net.closed && !nb_list_empty(&server->requests)) {
        nb_request_t *request = NB_ENTRY(server->requests.next, nb_request_t, link);
        nb_list_remove(&request->link);
        if (request->file >= 0) close(request->file);
        xfree(request->io.out.bytes);
        xfree(request);
    }
    while (server->spare) {
        nb_request_t *request = server->spare;
        server->spare = request->next_spare;
        xfree(request);
    }
    nb_transport_free(&server->net);
    xfree(server);
}

static size_t core_size(const void *pointer) {
    const nb_server_t *server = pointer;
    return sizeof *server + NB_SCRATCH + server->net.connection_count * sizeof(nb_connection_t) +
           server->request_count * sizeof(nb_request_t);
}

static const rb_data_type_t core_type = {
    .wrap_struct_name = "NeverBlock::Server::Core",
    .function = {.dmark = core_mark, .dfree = core_free, .dsize = core_size},
};

static VALUE core_alloc(VALUE klass) {
    nb_server_t *server;
    VALUE self = TypedData_Make_Struct(klass, nb_server_t, &core_type, server);
    server->self = self;
    server->app = server->events = server->scheduler = server->scope = server->body = server->storage = Qnil;
    server->starting = server->template = server->errors = server->default_name = server->default_port = Qnil;
    server->server_name = server->server_port = server->remote = server->settings.stream_paths = Qnil;
    server->balance = Qnil;
    nb_transport_init(&server->net, self, &transport_hooks);
    nb_list_init(&server->requests);
    nb_list_init(&server->queue);
    nb_list_init(&server->ready);
    nb_list_init(&server->idle);
    return self;
}

nb_server_t *nb_server_get(VALUE self) { return rb_check_typeddata(self, &core_type); }

/* For methods that touch the loop. */
static nb_server_t *here(VALUE self) {
    nb_server_t *server = nb_server_get(self);
    if (!server->net.engine || server->net.closed)
        rb_raise(rb_path2class("NeverBlock::ClosedError"), "this server is closed");
    if (rb_thread_current() != server->net.engine->thread)
        rb_raise(rb_eThreadError, "a server belongs to the thread whose loop it was made in");
    return server;
}

/* ---- events and the clock ---- */
static VALUE tell_trouble(VALUE argument) {
    VALUE *call = (VALUE *)argument;
    return rb_funcallv(call[0], id_trouble, 2, call + 1);
}

static void tell(nb_server_t *server, const char *name, VALUE message) {
    VALUE call[] = {server->events, ID2SYM(rb_intern(name)), message};
    nb_server_protect(tell_trouble, (VALUE)call);
    RB_GC_GUARD(message);
}

void nb_server_trouble(nb_server_t *server, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    VALUE message = rb_vsprintf(format, arguments);
    va_end(arguments);
    tell(server, name, message);
}

/* IMF-fixdate (RFC 9110 §5.6.7), made once a second. */
const char *nb_server_date(nb_server_t *server, size_t *length) {
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t now = nb_now();
    *length = 29;
    if (now < server->date_until) return server->date;
    uint64_t wall = nb_now_wall();
    time_t seconds = (time_t)(wall / NB_SECOND);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    snprintf(server->date, sizeof server->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday,
             tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    server->date_until = now + (NB_SECOND - wall % NB_SECOND);
    return server->date;
}

static VALUE tell_slow(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    double seconds = (double)(nb_now() - request->started) / 1e9;
    return rb_funcall(request->server->events, id_slow, 4, request->env, DBL2NUM(seconds), request->task,
                      request->timed_out ? Qtrue : Qfalse);
}

static VALUE cancel(VALUE task) { return rb_funcallv(task, id_cancel, 0, NULL); }

void nb_server_protect(VALUE (*function)(VALUE), VALUE argument) {
    int state = 0;
    rb_protect(function, argument, &state);
    if (state && SPECIAL_CONST_P(rb_errinfo())) rb_jump_tag(state); /* Thread#kill */
    if (state) rb_set_errinfo(Qnil);
}

VALUE nb_server_access(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    double seconds = (double)(nb_now() - request->arrived) / 1e9;
    return rb_funcall(request->server->events, id_access, 4, request->env, INT2FIX(request->status),
                      ULL2NUM(request->written), DBL2NUM(seconds));
}

static void look_at_requests(nb_server_t *server, uint64_t now) {
    for (nb_link_t *l = server->requests.next, *next; l != &server->requests; l = next) {
        nb_request_t *request = NB_ENTRY(l, nb_request_t, link);
        next = l->next;
        nb_output_check_rate(&request->io, now);
        if (NIL_P(request->task) || request->phase != NB_REQUEST_IN_FLIGHT) continue;
        uint64_t age = now - request->started;
        if (age > server->settings.request_timeout && !request->timed_out) {
            request->timed_out = true;
            server->net.timeouts++;
            nb_server_protect(tell_slow, (VALUE)request); /* first, while it still waits for what takes so long */
            nb_server_protect(cancel, request->task);
        } else if (age > server->settings.slow_request && !request->reported) {
            request->reported = true;
            nb_server_protect(tell_slow, (VALUE)request);
        }
    }
}

/* ---- the transport's hooks ---- */
static bool tick(nb_transport_t *transport, uint64_t now) {
    nb_server_t *server = (nb_server_t *)transport;
    look_at_requests(server, now);
    nb_handlers_trim(server);
    return server->idle_count > 0;
}

static void report(nb_transport_t *transport, const char *name, VALUE message) {
    tell((nb_server_t *)transport, name, message);
}

static void client_ended(nb_exchange_t *exchange) {
    nb_request_t *request = (nb_request_t *)exchange;
    nb_server_t *server = request->server;
    nb_connection_t *connection = exchange->connection;
    if (nb_request_begun(request)) {
        nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
        nb_connection_want(connection, 0);
        server->cut++;
        cancel(request->task);
    } else { /* it is in the queue */
        server->net.dropped++;
        nb_connection_close(connection);
    }
}

static bool break_off(nb_exchange_t *exchange) {
    nb_request_t *request = (nb_request_t *)exchange;
    if (!nb_request_begun(request) || request->response < NB_RESPONSE_HEAD_SENT) return false;
    cancel(request->task);
    return true;
}

/* A client that reads slowly must not keep other requests waiting. */
static void stalls(nb_exchange_t *exchange) {
    nb_request_t *request = (nb_request_t *)exchange;
    if (request->response >= NB_RESPONSE_HEAD_SENT) nb_handlers_stream(request);
}

static void timed_out(nb_connection_t *connection) {
    nb_refusal_t head = {NB_REFUSED_HEAD_TIMEOUT, "the request's head did not come in time"};
    nb_refusal_t body = {NB_REFUSED_BODY_TIMEOUT, "the request's body did not come in time"};
    nb_refuse_request(connection, connection->state == NB_CONNECTION_HEAD ? &head : &body);
}

static void closed(nb_exchange_t *exchange) { nb_request_free((nb_request_t *)exchange); }

static const nb_transport_hooks_t transport_hooks = {
    .bytes = nb_request_bytes, .timed_out = timed_out, .client_ended = client_ended, .break_off = break_off,
    .stalls = stalls, .closed = closed, .tick = tick, .report = report,
};

/* ---- methods ---- */
/* call-seq: Core.new(app, settings, events) -- in a task of a loop; see lib/neverblock/server.rb */
static VALUE core_initialize(VALUE self, VALUE app, VALUE settings, VALUE events) {
    nb_server_t *server = nb_server_get(self);
    nb_scheduler_t *scheduler = nb_scheduler_here();
    if (server->net.engine) rb_raise(rb_eRuntimeError, "this server has been initialized before");
    if (!scheduler || !scheduler->engine.task) rb_raise(rb_eThreadError, "a server is made inside NeverBlock.run");
    Check_Type(settings, T_HASH);
    nb_settings_read(server, settings);
    server->app = app;
    server->events = events;
    server->errors = rb_gv_get("$stderr");
    server->scheduler = scheduler->engine.self;
    server->scope = ((ruby_task_t *)scheduler->engine.task)->inner;
    server->storage = rb_funcall(rb_fiber_current(), rb_intern("storage"), 0);
    server->default_name = rb_str_freeze(rb_str_new_cstr("localhost"));
    server->default_port = rb_str_freeze(rb_str_new_cstr("80"));
    server->body = nb_handlers_body(self);
    nb_admission_open(server);
    nb_env_init(server);
    nb_transport_open(&server->net, &scheduler->engine);
    return self;
}

/* call-seq: listen(io, proxy) -> self; proxy: each connection begins with a PROXY header */
static VALUE core_listen(VALUE self, VALUE io, VALUE proxy) {
    nb_listener_open(&here(self)->net, io, RTEST(proxy));
    return self;
}

/* call-seq: stand_back(flag) -> self; while it does, other processes accept from the same sockets */
static VALUE core_stand_back(VALUE self, VALUE flag) {
    nb_server_t *server = here(self);
    if (!server->net.draining) nb_listeners_stand_back(&server->net, RTEST(flag));
    return self;
}

/* call-seq: stop_accepting(last) -> self; from now on every response is the last of its connection. last: no other
 * process accepts from the sockets; clients are refused from here on, though the sockets are closed later */
static VALUE core_stop_accepting(VALUE self, VALUE last) {
    nb_server_t *server = here(self);
    server->net.draining = true;
    nb_listeners_empty(&server->net, RTEST(last));
    nb_listeners_close(&server->net);
    return self;
}

/* A client sends its first request right after it has connected. Until then the connection is not an idle one. */
static bool is_new(const nb_connection_t *connection, uint64_t now) {
    return !connection->served && now < connection->began + NB_NEW_CONNECTION;
}

/* call-seq: drain -> true or false; idle connections end. false: some are too new for that, so call it again */
static VALUE core_drain(VALUE self) {
    nb_server_t *server = here(self);
    uint64_t now = nb_now();
    bool all = true;
    server->net.draining = true;
    nb_operations_deliver(server->net.engine);
    for (nb_link_t *l = server->net.connections.next, *next; l != &server->net.connections; l = next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, link);
        next = l->next;
        char byte;
        if (connection->state != NB_CONNECTION_IDLE) continue;
        bool came_in_time = recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
        if (came_in_time) nb_connection_receive(connection);
        else if (is_new(connection, now)) all = false;
        else nb_connection_linger(connection);
    }
    return RBOOL(all);
}

static VALUE core_idle_p(VALUE self) {
    nb_server_t *server = nb_server_get(self);
    return RBOOL(server->net.closed || (server->net.connection_count == 0 && server->request_count == 0));
}

/* call-seq: abort(reason) -> how many requests were cut; closes every connection, cancels every request. */
static VALUE core_abort(int argc, VALUE *argv, VALUE self) {
    nb_server_t *server = nb_server_get(self);
    size_t cut = 0;
    if (!server->net.engine || server->net.closed) return INT2FIX(0);
    here(self);
    nb_listeners_close(&server->net);
    server->net.draining = true;
    for (nb_link_t *l = server->requests.next; l != &server->requests; l = l->next) {
        nb_request_t *request = NB_ENTRY(l, nb_request_t, link);
        if (!request->cut && request->phase != NB_REQUEST_ARRIVING) cut++;
        request->cut = true;
        if (!NIL_P(request->task)) nb_server_protect(cancel, request->task);
    }
    server->cut += cut;
    for (nb_link_t *l = server->net.connections.next, *next; l != &server->net.connections; l = next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, link);
        nb_request_t *request = nb_request_of(connection);
        next = l->next;
        bool is_served = request && !NIL_P(request->task);
        if (is_served) nb_connection_close_by(connection, NB_CLOSE_AFTER_RESPONSE); /* its fiber closes it */
        else nb_connection_close(connection);
    }
    return SIZET2NUM(cut);
}

/* call-seq: close -- when nothing is left: ends the handlers */
static VALUE core_close(VALUE self) {
    nb_server_t *server = nb_server_get(self);
    if (!server->net.engine || server->net.closed) return self;
    core_abort(0, NULL, self);
    nb_timer_cancel(server->net.engine, &server->net.tick);
    nb_timer_cancel(server->net.engine, &server->queue_timer);
    nb_list_remove(&server->deferred_start.link);
    server->net.closed = server->request_count == 0;
    nb_handlers_end(server, server->idle_count);
    return self;
}

static VALUE core_stats(VALUE self) {
    nb_server_t *server = nb_server_get(self);
    VALUE stats = rb_hash_new();
    size_t taken_over = nb_hijacked_look(&server->net);
    const struct { const char *name; size_t value; } all[] = {
        {"connections", server->net.connection_count + taken_over}, {"taken_over", taken_over},
        {"in_flight", server->in_flight}, {"ready", server->ready_count},
        {"queued", server->queued_count}, {"streams", server->streams},
        {"fibers", server->handler_count}, {"idle_fibers", server->idle_count}, {"body_bytes", server->body_bytes},
        {"accepted", server->net.accepted_total}, {"requests", server->requests_total},
        {"answered", server->answered}, {"failed", server->failed}, {"dropped", server->net.dropped},
        {"proxy_errors", server->proxy_errors}, {"timeouts", server->net.timeouts}, {"hijacked", server->hijacked},
        {"cut", server->cut}, {"held_back", server->held_back}, {"let_in", server->let_in},
        {"evicted", server->net.evicted}, {"refused_address", server->net.refused_address},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rb_hash_aset(stats, ID2SYM(rb_intern(all[i].name)), SIZET2NUM(all[i].value));
    rb_hash_aset(stats, ID2SYM(rb_intern("refused")), nb_refusals_stats(server));
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
    nb_init_balance(server);
    nb_init_env();
    nb_init_response_fields();
    nb_init_response();
    nb_init_response_body();
    nb_init_rack_request();
    nb_cCore = rb_define_class_under(server, "Core", rb_cObject);
    rb_define_alloc_func(nb_cCore, core_alloc);
    nb_init_handlers(nb_cCore);
    rb_define_method(nb_cCore, "initialize", core_initialize, 3);
    rb_define_method(nb_cCore, "listen", core_listen, 2);
    rb_define_method(nb_cCore, "stop_accepting", core_stop_accepting, 1);
    rb_define_method(nb_cCore, "drain", core_drain, 0);
    rb_define_method(nb_cCore, "stand_back", core_stand_back, 1);
    rb_define_method(nb_cCore, "idle?", core_idle_p, 0);
    rb_define_method(nb_cCore, "abort", core_abort, -1);
    rb_define_method(nb_cCore, "close", core_close, 0);
    rb_define_method(nb_cCore, "stats", core_stats, 0);
    nb_init_http_inspect();
    return server;
}

void nb_init_http(void) {
    rb_define_private_method(rb_singleton_class(nb_mNeverBlock), "define_server", define_server, 0);
}
