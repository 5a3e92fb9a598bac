/*
 * The crew: fibers that serve requests, one request at a time each. One of the crew takes request after request as
 * long as there are any, so that those which never wait cost no switch; when it parks in an app's wait, the next one
 * goes on with the queue. Whenever something is queued and may run, exactly one of them is on its way to it
 * (core->summoned), or waits for the loop (core->deferred_start).
 *
 * What a request leaves on its fiber - fiber-local variables, storage, instance variables - is wiped off before the next
 * one: Rails leaves some each time. Where that can't be done, and after a cancellation, the fiber ends, and a fresh one
 * takes its place. So no request ever sees another's state.
 */
#include "../http.h"

#define REQUEST_COST 2                     /* as how many switches a request counts */
#define LEAST_IDLE 8                       /* fibers kept however quiet it is */

static ID id_call, id_keys, id_storage, id_store, id_failed, id_full;
static VALUE task_name;

/* ---- taking ---- */
static void spawn(nb_core_t *core) {
    nb_scheduler_t *scheduler = nb_scheduler(core->scheduler);
    nb_task_spawn(scheduler, core->scope, core->body, Qnil, task_name, core->storage, false);
    core->crew_count++;
}

void nb_crew_send(nb_core_t *core) {
    core->summoned = true;
    if (nb_list_empty(&core->idle)) {
        spawn(core);
        return;
    }
    nb_idler_t *idler = NB_ENTRY(core->idle.next, nb_idler_t, link);
    nb_list_remove(&idler->link);
    if (--core->idle_count < core->idle_least) core->idle_least = core->idle_count;
    nb_wake(core->engine, &idler->wait, NB_READY, false);
}

void nb_crew_summon(nb_core_t *core) {
    nb_admission_advance(core);
    if (!core->summoned && !nb_list_empty(&core->ready) && nb_admission_turn(core)) nb_crew_send(core);
}

/* Hijacked, or its head is out and its body goes on: while there is room for streams it takes no request's place. */
void nb_crew_stream(nb_request_t *request) {
    nb_core_t *core = request->core;
    if (request->streams || !request->counted || core->streams >= core->settings.max_streams) return;
    request->streams = true;
    core->streams++;
    request->counted = false;
    nb_admission_leave_place(request);
    nb_crew_summon(core);
}

/* ---- serving ---- */
/* A child that came back from an app's fork: the connection is its parent's to answer. */
static bool is_forked(nb_core_t *core) { return core->engine->fork_generation != nb_fork_generation; }

static VALUE call_app(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    nb_core_t *core = request->core;
    if (!nb_admission_has_place(core)) rb_funcall(core->events, id_full, 0); /* here, where an interrupt costs no request */
    nb_env_queue_time(request, request->started);
    nb_request_open_input(request);
    VALUE answer = rb_funcallv(request->core->app, id_call, 1, &request->env);
    if (!is_forked(request->core)) nb_answer(request, answer);
    RB_GC_GUARD(answer);
    return Qnil;
}

typedef struct { nb_request_t *request; VALUE error; } event_t;

static VALUE report(VALUE argument) {
    event_t *event = (event_t *)argument;
    return rb_funcall(event->request->core->events, id_failed, 2, event->request->env, event->error);
}

typedef struct { event_t *event; VALUE callback; } callback_t;

static VALUE call_back(VALUE argument) {
    callback_t *callback = (callback_t *)argument;
    nb_request_t *request = callback->event->request;
    return rb_funcall(callback->callback, id_call, 4, request->env, INT2FIX(request->status), request->headers, callback->event->error);
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

/* fatal: the jump tag of a Thread#kill (or Fiber#kill), after which nothing more of Ruby's is called; returns it. */
static int quietly(VALUE (*function)(VALUE), VALUE argument, int fatal) {
    int state = 0;
    if (fatal) return fatal;
    rb_protect(function, argument, &state);
    if (!state) return 0;
    if (SPECIAL_CONST_P(rb_errinfo())) return state;
    rb_set_errinfo(Qnil); /* the events' own logger has failed: there is nobody left to tell */
    return 0;
}

static VALUE answer_failure(VALUE argument) {
    nb_request_t *request = (nb_request_t *)argument;
    if (request->refusal) nb_answer_plain(request, nb_refusal_status(request->refusal), request->refusal_text);
    else if (request->cancelled) nb_answer_plain(request, 503, "the request was cancelled");
    else nb_answer_plain(request, 500, "an error occurred");
    return Qnil;
}

static void break_off(nb_request_t *request) {
    bool by_close = !request->chunked_output && !request->has_declared_output && !request->raw;
    request->connection->doomed = true;
    if (request->head_sent && by_close) nb_connection_break(request->connection);
}

/* A body in a file would keep its descriptor until some garbage collection. */
static VALUE close_input(VALUE input) {
    if (RB_TYPE_P(input, T_FILE)) rb_io_close(input);
    return Qnil;
}

/* Thread#kill, whether the app's or another thread's, and what a signal's handler raised go on to the loop, whose thread
 * it is: neither is the request's own failure. */
static void serve(nb_request_t *request) {
    nb_core_t *core = request->core;
    ruby_task_t *task = (ruby_task_t *)core->engine->task;
    VALUE env = request->env, error = Qnil;
    int state = 0, fatal = 0;
    bool interrupted = false;
    request->task = task->base.self;
    task->name = request->path;
    task->spawned = request->started;
    rb_protect(call_app, (VALUE)request, &state);
    if (is_forked(core)) {
        if (state) rb_jump_tag(state);
        return;
    }
    if (state) {
        error = rb_errinfo();
        if (SPECIAL_CONST_P(error)) fatal = state;
        else rb_set_errinfo(Qnil);
        interrupted = !fatal && RTEST(rb_obj_is_kind_of(error, rb_eSignal));
        request->cancelled = task->cancelled || interrupted;
        if (!fatal && !request->client_left && !request->refusal && !request->cancelled) {
            event_t event = {request, error};
            core->failed++;
            fatal = quietly(report, (VALUE)&event, fatal);
        }
        nb_answer_take_back(request);
        if (request->connection && !request->head_sent && !request->client_left) fatal = quietly(answer_failure, (VALUE)request, fatal);
        else if (request->connection && !request->answered) break_off(request); /* else: it was the body's close */
    } else {
        core->answered++;
    }
    event_t event = {request, error};
    fatal = quietly(tell_finished, (VALUE)&event, fatal);
    if (core->settings.log_requests && !request->hijacked) fatal = quietly(nb_core_access, (VALUE)request, fatal);
    if (!request->hijacked) fatal = quietly(close_input, request->input, fatal);
    task->name = task_name;
    request->task = Qnil;
    if (request->counted) {
        request->counted = false;
        nb_admission_leave_place(request);
    }
    if (request->streams) core->streams--;
    if (!request->connection) {
        nb_request_free(request);
    } else if (fatal) {
        nb_connection_close(request->connection);
    } else {
        nb_request_drain(request);
        nb_connection_next(request->connection);
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
    if (rb_ivar_count(fiber) == 0) return; /* it goes on counting some that are gone */
    VALUE names = rb_obj_instance_variables(fiber);
    for (long i = 0; i < RARRAY_LEN(names); i++) rb_obj_remove_instance_variable(fiber, RARRAY_AREF(names, i));
    RB_GC_GUARD(names);
}

typedef struct { VALUE fibers, kept, storage; } storages_t;

static void store(const storages_t *storages, VALUE name, VALUE value) { rb_funcall(storages->fibers, id_store, 2, name, value); }

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

/* Fiber#storage gives a copy, so that it can be gone through while the fiber's own changes. */
static void wipe_storage(nb_core_t *core, VALUE fiber) {
    storages_t storages = {core->engine->fiber_class, core->storage, rb_funcall(fiber, id_storage, 0)};
    if (NIL_P(storages.storage)) {
        if (NIL_P(storages.kept)) return;
        storages.storage = rb_hash_new(); /* all of it was taken away */
    }
    rb_hash_foreach(storages.storage, wipe_stored, (VALUE)&storages);
    if (!NIL_P(storages.kept)) rb_hash_foreach(storages.kept, restore_stored, (VALUE)&storages);
    RB_GC_GUARD(storages.storage);
}

static VALUE wipe_all(VALUE argument) {
    nb_core_t *core = (nb_core_t *)argument;
    VALUE fiber = core->engine->task->fiber;
    wipe_locals(core->engine->thread);
    wipe_variables(fiber);
    wipe_storage(core, fiber);
    return Qnil;
}

/* A fiber that somebody froze stays as it is. What else comes here is an interrupt: the loop's. */
static bool is_clean(nb_core_t *core, ruby_task_t *task) {
    if (task->cancelled || task->cancelling || task->shields || !NIL_P(task->inner_shields) || nb_masks_any(task)) return false;
    if (task->inner != task->scope) return false;
    if (!nb_list_empty(&task->cancel_scopes) || !nb_list_empty(&task->inner_cancel_scopes)) return false;
    int state = 0;
    rb_protect(wipe_all, (VALUE)core, &state);
    if (!state) return true;
    if (!RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eFrozenError))) rb_jump_tag(state);
    rb_set_errinfo(Qnil);
    return false;
}

/* ---- a member's life ---- */
static VALUE idle_park(VALUE argument) {
    nb_idler_t *idler = (nb_idler_t *)argument;
    nb_park(idler->core->engine, &idler->wait);
    return Qnil;
}

static VALUE idle_leave(VALUE argument) {
    nb_idler_t *idler = (nb_idler_t *)argument;
    nb_core_t *core = idler->core;
    if (nb_list_empty(&idler->link)) return Qnil;
    nb_list_remove(&idler->link); /* cancelled */
    if (--core->idle_count < core->idle_least) core->idle_least = core->idle_count;
    return Qnil;
}

static void be_idle(nb_core_t *core) {
    nb_idler_t idler = {.core = core};
    nb_wait_init(&idler.wait, NB_WAIT_BLOCK, core->self);
    nb_list_prepend(&core->idle, &idler.link);
    core->idle_count++;
    rb_ensure(idle_park, (VALUE)&idler, idle_leave, (VALUE)&idler);
}

static nb_request_t *take(nb_core_t *core) {
    nb_request_t *request = nb_admission_take(core);
    if (request) nb_crew_summon(core);
    return request;
}

/* Whether one that has served goes on with the next request. That is to be asked: in the place of another, no more requests run than
 * before, but no fewer either, however many had begun while they waited. */
static bool has_next(nb_core_t *core) {
    nb_admission_advance(core);
    return !nb_list_empty(&core->ready) && nb_admission_turn(core);
}

/* Requests that compute: new connections, idle ones and timers are not to wait for all of them. */
static void pass(nb_engine_t *engine) {
    engine->budget = 0;
    nb_yield(engine);
}

static VALUE work(VALUE argument) {
    nb_core_t *core = (nb_core_t *)argument;
    nb_engine_t *engine = core->engine;
    ruby_task_t *task = (ruby_task_t *)engine->task;
    while (!core->closed) {
        nb_request_t *request;
        if (nb_turn_is_long(engine)) pass(engine); /* those before it computed, and wait now */
        core->summoned = false;
        for (bool sent = true; (sent || has_next(core)) && (request = take(core)); sent = false) {
            serve(request);
            if (core->closed || is_forked(core) || !is_clean(core, task)) return Qnil;
            engine->budget -= engine->budget < REQUEST_COST ? engine->budget : REQUEST_COST;
            if (engine->budget > 0 && !nb_turn_is_long(engine)) continue;
            if (core->summoned) { /* by another one, which goes on: two are not needed where nobody waits */
                engine->budget = 0;
                break;
            }
            pass(engine);
        }
        if (core->draining && core->in_flight == 0) return Qnil;
        if (core->dismissed) {
            core->dismissed--;
            return Qnil;
        }
        be_idle(core);
    }
    return Qnil;
}

static VALUE work_leave(VALUE argument) {
    nb_core_t *core = (nb_core_t *)argument;
    core->crew_count--;
    if (!core->closed && !is_forked(core)) {
        core->summoned = false; /* if it was this one, another must go */
        nb_crew_summon(core);
    }
    return Qnil;
}

static VALUE member(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, self)) {
    nb_core_t *core = nb_core_of(self);
    rb_ensure(work, (VALUE)core, work_leave, (VALUE)core);
    RB_GC_GUARD(self);
    return Qnil;
}

VALUE nb_crew_body(VALUE self) { return rb_proc_new(member, self); }

/* Half of those that nobody has needed since the last look may go: their stacks cost memory and collections. */
void nb_crew_trim(nb_core_t *core) {
    unsigned spare = core->idle_least > LEAST_IDLE ? (core->idle_least - LEAST_IDLE + 1) / 2 : 0;
    core->idle_least = core->idle_count;
    nb_crew_dismiss(core, spare);
}

void nb_crew_dismiss(nb_core_t *core, unsigned count) {
    while (count-- > 0 && !nb_list_empty(&core->idle)) {
        nb_idler_t *idler = NB_ENTRY(core->idle.prev, nb_idler_t, link); /* the one that served longest ago */
        nb_list_remove(&idler->link);
        core->idle_count--;
        core->dismissed++;
        nb_wake(core->engine, &idler->wait, NB_READY, false);
    }
}

void nb_init_crew(void) {
    id_call = rb_intern("call");
    id_keys = rb_intern("keys");
    id_storage = rb_intern("storage");
    id_store = rb_intern("[]=");
    id_failed = rb_intern("failed");
    id_full = rb_intern("full");
    task_name = rb_str_freeze(rb_str_new_cstr("request"));
    rb_gc_register_mark_object(task_name);
}
