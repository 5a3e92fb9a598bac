/*
 * Handlers: fibers that serve requests, one at a time. A handler takes request after request as long as there are
 * any, so that requests which never wait cost no switch. When it parks in an app's wait, the next handler goes on
 * with the queue. Whenever a request may run, exactly one handler is on its way to it (server->waking), or waits for
 * the loop (server->deferred_start).
 *
 * What a request leaves on its fiber (fiber-local variables, storage, instance variables) is wiped before the next
 * one: Rails leaves some each time. Where that is impossible, and after a cancellation, the fiber ends and a new one
 * takes its place. So no request ever sees another's state.
 */
#include "app.h"
#include <errno.h>

#define REQUEST_COST 2                     /* a request counts as so many switches */
#define LEAST_IDLE 8                       /* idle handlers that are always kept */

static ID id_call, id_keys, id_storage, id_store, id_failed, id_full;
static VALUE task_name;

/* ---- taking ---- */
static void spawn(nb_server_t *server) {
    nb_scheduler_t *scheduler = nb_scheduler(server->scheduler);
    VALUE task = nb_task_spawn(scheduler, server->scope, server->body, Qnil, task_name, server->storage, false);
    nb_task_of(task)->watcher = server->self;
    server->starting = task;
    server->handler_count++;
    server->waking = true;
}

void nb_handlers_send(nb_server_t *server) {
    if (nb_list_empty(&server->idle)) {
        spawn(server);
        return;
    }
    server->waking = true;
    nb_idler_t *idler = NB_ENTRY(server->idle.next, nb_idler_t, link);
    nb_list_remove(&idler->link);
    if (--server->idle_count < server->idle_least) server->idle_least = server->idle_count;
    nb_wake(server->net.engine, &idler->wait, NB_READY, false);
}

void nb_handlers_wake(nb_server_t *server) {
    nb_admission_advance(server);
    if (!server->waking && !nb_list_empty(&server->ready) && nb_admission_turn(server)) nb_handlers_send(server);
}

/* A hijacked request, or one whose body goes on, does not take a place among max_in_flight while there is room for
 * streams. */
void nb_handlers_stream(nb_request_t *request) {
    nb_server_t *server = request->server;
    if (request->phase != NB_REQUEST_IN_FLIGHT || server->streams >= server->settings.max_streams) return;
    request->phase = NB_REQUEST_STREAM;
    server->streams++;
    nb_admission_leave_place(request);
    nb_handlers_wake(server);
}

/* ---- serving ---- */
static VALUE call_app(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    nb_server_t *server = request->server;
    /* An interrupt costs no request here. */
    if (!nb_admission_has_place(server)) rb_funcall(server->events, id_full, 0);
    nb_env_queue_time(request, request->started);
    nb_request_open_input(request);
    VALUE returned = rb_funcallv(request->server->app, id_call, 1, &request->env);
    if (!nb_server_is_forked(request->server)) nb_respond(request, returned);
    RB_GC_GUARD(returned);
    return Qnil;
}

typedef struct { nb_request_t *request; VALUE error; } event_t;

static VALUE report(VALUE argument) {
    event_t *event = (event_t *)argument;
    return rb_funcall(event->request->server->events, id_failed, 2, event->request->env, event->error);
}

typedef struct { event_t *event; VALUE callback; } callback_t;

static VALUE call_back(VALUE argument) {
    callback_t *callback = (callback_t *)argument;
    nb_request_t *request = callback->event->request;
    return rb_funcall(callback->callback, id_call, 4, request->env, INT2FIX(request->status), request->headers,
                      callback->event->error);
}

/* Rack 3: in the reverse of the order in which they were added. */
static VALUE tell_finished(VALUE argument) {
    event_t *event = (event_t *)argument;
    VALUE callbacks = nb_env_finished(event->request);
    if (!RB_TYPE_P(callbacks, T_ARRAY)) return Qnil;
    for (long i = RARRAY_LEN(callbacks); i-- > 0;) {
        int state = 0;
        callback_t callback = {event, RARRAY_AREF(callbacks, i)};
        rb_protect(call_back, (VALUE)&callback, &state);
        if (!state) continue;
        if (SPECIAL_CONST_P(rb_errinfo())) rb_jump_tag(state);
        event_t failure = {event->request, rb_errinfo()};
        rb_set_errinfo(Qnil);
        report((VALUE)&failure);
    }
    return Qnil;
}

/* fatal: the jump tag of a Thread#kill (or Fiber#kill), after which no Ruby code is called any more. Returns it. */
static int quietly(VALUE (*function)(VALUE), VALUE argument, int fatal) {
    int state = 0;
    if (fatal) return fatal;
    rb_protect(function, argument, &state);
    if (!state) return 0;
    if (SPECIAL_CONST_P(rb_errinfo())) return state;
    rb_set_errinfo(Qnil); /* the logger itself has failed: there is no other place to report it */
    return 0;
}

static VALUE respond_to_failure(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    if (request->refusal) nb_respond_plain(request, nb_refusal_status(request->refusal), request->refusal_text);
    else if (request->cancelled) nb_respond_plain(request, 503, "the request was cancelled");
    else nb_respond_plain(request, 500, "an error occurred");
    return Qnil;
}

static void break_off(nb_request_t *request) {
    bool by_close = request->response_framing == NB_BODY_NONE;
    nb_connection_close_by(request->io.connection, NB_CLOSE_AFTER_RESPONSE);
    if (request->response >= NB_RESPONSE_HEAD_SENT && by_close) nb_connection_break(request->io.connection);
}

/* Without it a body in a file would keep its descriptor until a garbage collection. */
static VALUE close_input(VALUE input) {
    if (RB_TYPE_P(input, T_FILE)) rb_io_close(input);
    return Qnil;
}

/* Thread#kill, and an exception that a signal's handler raised, go on to the loop: neither is the request's own
 * failure. */
static void serve(nb_request_t *request) {
    nb_server_t *server = request->server;
    ruby_task_t *task = (ruby_task_t *)server->net.engine->task;
    VALUE env = request->env, error = Qnil;
    int state = 0, fatal = 0;
    bool interrupted = false;
    request->task = task->base.self;
    task->name = request->path;
    task->spawned = request->started;
    rb_protect(call_app, (VALUE)request, &state);
    if (nb_server_is_forked(server)) {
        if (state) rb_jump_tag(state);
        return;
    }
    if (state) {
        error = rb_errinfo();
        if (SPECIAL_CONST_P(error)) fatal = state;
        else rb_set_errinfo(Qnil);
        interrupted = !fatal && RTEST(rb_obj_is_kind_of(error, rb_eSignal));
        request->cancelled = task->cancelled || interrupted;
        if (!fatal && !request->io.client_left && !request->refusal && !request->cancelled) {
            event_t event = {request, error};
            server->failed++;
            fatal = quietly(report, (VALUE)&event, fatal);
        }
        nb_response_take_back(request);
        bool can_respond = request->response < NB_RESPONSE_HEAD_SENT && !request->io.client_left;
        bool incomplete = request->response < NB_RESPONSE_COMPLETE; /* else the body's close failed */
        if (request->io.connection && can_respond) fatal = quietly(respond_to_failure, (VALUE)request, fatal);
        bool torn = request->io.failure == ECANCELED; /* a part of an interim response has left: nothing can follow */
        if (request->io.connection && (can_respond ? torn : incomplete)) break_off(request);
    } else {
        server->answered++;
    }
    event_t event = {request, error};
    fatal = quietly(tell_finished, (VALUE)&event, fatal);
    if (server->settings.log_requests && !request->hijacked) fatal = quietly(nb_server_access, (VALUE)request, fatal);
    if (!request->hijacked) fatal = quietly(close_input, request->input, fatal);
    task->name = task_name;
    request->task = Qnil;
    if (request->phase == NB_REQUEST_STREAM) server->streams--;
    else nb_admission_leave_place(request);
    request->phase = NB_REQUEST_SERVED;
    if (!request->io.connection) {
        nb_request_free(request);
    } else if (fatal) {
        nb_connection_close(request->io.connection);
    } else {
        nb_request_drain(request);
        nb_request_over(request);
    }
    if (fatal) rb_jump_tag(fatal);
    if (interrupted) rb_exc_raise(error);
    RB_GC_GUARD(env);
}

static void wipe_locals(VALUE thread) {
    VALUE names = rb_funcall(thread, id_keys, 0);
    for (long i = 0; i < RARRAY_LEN(names); i++) rb_thread_local_aset(thread, rb_sym2id(RARRAY_AREF(names, i)), Qnil);
    RB_GC_GUARD(names);
}

static void wipe_variables(VALUE fiber) {
    if (rb_ivar_count(fiber) == 0) return; /* the count may include removed ones */
    VALUE names = rb_obj_instance_variables(fiber);
    for (long i = 0; i < RARRAY_LEN(names); i++) rb_obj_remove_instance_variable(fiber, RARRAY_AREF(names, i));
    RB_GC_GUARD(names);
}

typedef struct { VALUE fibers, kept, storage; } storages_t;

static void store(const storages_t *storages, VALUE name, VALUE value) {
    rb_funcall(storages->fibers, id_store, 2, name, value);
}

static int wipe_stored(VALUE name, VALUE value, VALUE argument) {
    storages_t *storages = (storages_t *)argument;
    VALUE kept = NIL_P(storages->kept) ? Qnil : rb_hash_lookup(storages->kept, name);
    if (kept != value) store(storages, name, kept);
    return ST_CONTINUE;
}

static int restore_stored(VALUE name, VALUE value, VALUE argument) {
    storages_t *storages = (storages_t *)argument;
    if (rb_hash_lookup(storages->storage, name) != value) store(storages, name, value);
    return ST_CONTINUE;
}

/* Fiber#storage returns a copy, which can be iterated while the fiber's own changes. */
static void wipe_storage(nb_server_t *server, VALUE fiber) {
    storages_t storages = {server->net.engine->fiber_class, server->storage, rb_funcall(fiber, id_storage, 0)};
    if (NIL_P(storages.storage)) {
        if (NIL_P(storages.kept)) return;
        storages.storage = rb_hash_new(); /* the app removed all of it */
    }
    rb_hash_foreach(storages.storage, wipe_stored, (VALUE)&storages);
    if (!NIL_P(storages.kept)) rb_hash_foreach(storages.kept, restore_stored, (VALUE)&storages);
    RB_GC_GUARD(storages.storage);
}

static VALUE wipe_all(VALUE argument) {
    nb_server_t *server = (nb_server_t *)argument;
    VALUE fiber = server->net.engine->task->fiber;
    wipe_locals(server->net.engine->thread);
    wipe_variables(fiber);
    wipe_storage(server, fiber);
    return Qnil;
}

/* A frozen fiber can't be wiped. Any other exception here is an interrupt, for the loop. */
static bool is_clean(nb_server_t *server, ruby_task_t *task) {
    if (task->cancelled || task->cancel_request != NB_CANCEL_NONE) return false;
    if (task->shields || !NIL_P(task->inner_shields) || nb_masks_any(task)) return false;
    if (task->inner != task->scope) return false;
    if (!nb_list_empty(&task->cancel_scopes) || !nb_list_empty(&task->inner_cancel_scopes)) return false;
    int state = 0;
    rb_protect(wipe_all, (VALUE)server, &state);
    if (!state) return true;
    if (!RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eFrozenError))) rb_jump_tag(state);
    rb_set_errinfo(Qnil);
    return false;
}

/* ---- a handler's life ---- */
static VALUE idle_park(VALUE argument) {
    nb_idler_t *idler = (nb_idler_t *)argument;
    nb_park(idler->server->net.engine, &idler->wait);
    return Qnil;
}

static VALUE idle_leave(VALUE argument) {
    nb_idler_t *idler = (nb_idler_t *)argument;
    nb_server_t *server = idler->server;
    if (nb_list_empty(&idler->link)) return Qnil;
    nb_list_remove(&idler->link); /* cancelled */
    if (--server->idle_count < server->idle_least) server->idle_least = server->idle_count;
    return Qnil;
}

static void be_idle(nb_server_t *server) {
    nb_idler_t idler = {.server = server};
    nb_wait_init(&idler.wait, NB_WAIT_BLOCK, server->self);
    nb_list_prepend(&server->idle, &idler.link);
    server->idle_count++;
    rb_ensure(idle_park, (VALUE)&idler, idle_leave, (VALUE)&idler);
}

static nb_request_t *take(nb_server_t *server) {
    nb_request_t *request = nb_admission_take(server);
    if (request) nb_handlers_wake(server);
    return request;
}

/* Whether a handler goes on with the next request. That takes the place of the last one, so no more requests run than
 * before. It needs a turn all the same: many may have started while others waited, and their number must fall again. */
static bool has_next(nb_server_t *server) {
    nb_admission_advance(server);
    return !nb_list_empty(&server->ready) && nb_admission_turn(server);
}

/* New connections, idle ones and timers must not wait for all requests that compute. */
static void pass(nb_engine_t *engine) {
    engine->budget = 0;
    nb_yield(engine);
}

static VALUE work(VALUE argument) {
    nb_server_t *server = (nb_server_t *)argument;
    nb_engine_t *engine = server->net.engine;
    ruby_task_t *task = (ruby_task_t *)engine->task;
    while (!server->net.closed) {
        nb_request_t *request;
        if (nb_turn_is_long(engine)) pass(engine); /* the requests before it computed, and wait now */
        server->waking = false;
        for (bool sent = true; (sent || has_next(server)) && (request = take(server)); sent = false) {
            serve(request);
            if (server->net.closed || nb_server_is_forked(server) || !is_clean(server, task)) return Qnil;
            engine->budget -= engine->budget < REQUEST_COST ? engine->budget : REQUEST_COST;
            if (engine->budget > 0 && !nb_turn_is_long(engine)) continue;
            if (server->waking) { /* another handler goes on: one is enough */
                engine->budget = 0;
                break;
            }
            pass(engine);
        }
        if (server->net.draining && server->in_flight == 0) return Qnil;
        if (server->to_end) {
            server->to_end--;
            return Qnil;
        }
        be_idle(server);
    }
    return Qnil;
}

static VALUE handler(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, self)) {
    nb_server_t *server = nb_server_get(self);
    server->starting = Qnil;
    work((VALUE)server);
    RB_GC_GUARD(self);
    return Qnil;
}

/* There is no memory, or no memory map, for another fiber. A request that waited for it might wait for ever. */
static void refuse_without_fiber(nb_server_t *server) {
    if (nb_list_empty(&server->ready) || !nb_list_empty(&server->idle)) return;
    nb_request_t *request = NB_ENTRY(server->ready.next, nb_request_t, queue);
    nb_refusal_t refusal = {NB_REFUSED_FIBER, NB_BUSY, "no fiber can be started for it"};
    nb_admission_leave(request);
    nb_decline_request(request, &refusal);
}

/* call-seq: task_finished(task, waited_for) -- a handler has ended, or could not be started, or was cancelled before */
static VALUE task_finished(VALUE self, VALUE task, VALUE waited_for) {
    nb_server_t *server = nb_server_get(self);
    bool unstarted = server->starting == task;
    server->handler_count--;
    if (unstarted) server->starting = Qnil;
    if (server->net.closed || nb_server_is_forked(server)) return Qnil;
    server->waking = false; /* if this handler was on its way, another one goes */
    if (unstarted && nb_task_of(task)->state == TASK_FAILED) refuse_without_fiber(server);
    nb_handlers_wake(server);
    return Qnil;
}

VALUE nb_handlers_body(VALUE self) { return rb_proc_new(handler, self); }

/* Ends half of the handlers that were idle since the last tick: their stacks cost memory, and time in collections. */
void nb_handlers_trim(nb_server_t *server) {
    unsigned spare = server->idle_least > LEAST_IDLE ? (server->idle_least - LEAST_IDLE + 1) / 2 : 0;
    server->idle_least = server->idle_count;
    nb_handlers_end(server, spare);
}

void nb_handlers_end(nb_server_t *server, unsigned count) {
    while (count-- > 0 && !nb_list_empty(&server->idle)) {
        nb_idler_t *idler = NB_ENTRY(server->idle.prev, nb_idler_t, link); /* the one that served longest ago */
        nb_list_remove(&idler->link);
        server->idle_count--;
        server->to_end++;
        nb_wake(server->net.engine, &idler->wait, NB_READY, false);
    }
}

void nb_init_handlers(VALUE core) {
    rb_define_private_method(core, "task_finished", task_finished, 2);
    id_call = rb_intern("call");
    id_keys = rb_intern("keys");
    id_storage = rb_intern("storage");
    id_store = rb_intern("[]=");
    id_failed = rb_intern("failed");
    id_full = rb_intern("full");
    task_name = rb_str_freeze(rb_str_new_cstr("request"));
    rb_gc_register_mark_object(task_name);
}
