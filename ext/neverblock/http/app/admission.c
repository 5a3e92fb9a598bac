/*
 * Admission: which request starts next, and which is refused.
 *
 *     complete ──► queue ──► ready ──► taken by a handler
 *                   waits for a place     has a place, waits for the processor
 *
 * There are max_in_flight places. The limits of the queue hold for requests without a place. A request with a place
 * is refused only by max_queue_time.
 *
 * Started requests go before new ones. A new request starts only if polling the kernel has left few started requests
 * ready to run (engine->room). If started requests keep the loop busy, a new one waits until one of them ends: more
 * requests at a time would lengthen every request, fill a cold cache with the same thing several times, and give each
 * garbage collection more stacks to read.
 *
 * But started requests may wait for what a new one will do. So a new request also starts when no request has ended for
 * twice as long as a request usually takes; and now and then one that has waited for LONGEST starts. A patience that is
 * the same for all apps would be too short for an app whose requests compute for long: every late start would delay the
 * next end.
 */
#include "app.h"
#include <ruby/io.h>

#define STALE (NB_SECOND / 10)          /* a wait after which the client may have left */
#define HANDFUL 4                       /* requests that begin however busy the loop is */
#define LONGEST (2 * NB_SECOND)         /* a wait for the loop, with a place */
#define PATIENCE (NB_SECOND / 10)       /* the least time without an end before one begins late */
#define MOST_PATIENCE NB_SECOND
#define WEIGHT 8                        /* of the average: the last request counts as one of so many */
#define HELD_BACK NB_MILLISECOND        /* a wait for the loop from which on it is counted */

static nb_request_t *first(nb_link_t *list) {
    return nb_list_empty(list) ? NULL : NB_ENTRY(list->next, nb_request_t, queue);
}

bool nb_admission_has_place(nb_server_t *server) {
    return server->in_flight + server->ready_count < server->settings.max_in_flight;
}

bool nb_admission_full(nb_server_t *server) {
    return !nb_admission_has_place(server) && server->queued_count >= server->settings.queue_limit;
}

static void be_ready(nb_request_t *request) {
    request->phase = NB_REQUEST_READY;
    nb_list_append(&request->server->ready, &request->queue);
    request->server->ready_count++;
}

void nb_admission_leave(nb_request_t *request) {
    if (nb_list_empty(&request->queue)) return;
    nb_list_remove(&request->queue);
    if (request->phase == NB_REQUEST_READY) request->server->ready_count--;
    else request->server->queued_count--;
}

void nb_admission_advance(nb_server_t *server) {
    while (!nb_list_empty(&server->queue) && nb_admission_has_place(server)) {
        nb_request_t *request = first(&server->queue);
        nb_admission_leave(request);
        be_ready(request);
    }
}

void nb_admission_enter(nb_request_t *request) {
    nb_connection_t *connection = request->io.connection;
    nb_server_t *server = request->server;
    nb_admission_advance(server); /* those that came before */
    if (nb_admission_full(server)) {
        nb_admission_refuse(request);
        return;
    }
    connection->state = NB_CONNECTION_BUSY;
    connection->deadline = NB_NEVER;
    nb_connection_want(connection, server->net.settings.cancel_on_disconnect ? RUBY_IO_READABLE : 0);
    request->queued = nb_now();
    if (nb_admission_has_place(server)) {
        be_ready(request);
    } else {
        request->phase = NB_REQUEST_QUEUED;
        nb_list_append(&server->queue, &request->queue);
        server->queued_count++;
    }
    nb_admission_watch(server);
    nb_handlers_wake(server);
}

void nb_admission_refuse(nb_request_t *request) {
    nb_server_t *server = request->server;
    nb_refusal_t refusal = {NB_REFUSED_QUEUE_LIMIT, NB_BUSY};
    snprintf(refusal.detail, sizeof refusal.detail,
             "%zu requests have a place (max_in_flight), and %zu wait for one (queue limit)",
             server->in_flight + server->ready_count, server->queued_count);
    nb_decline_request(request, &refusal);
}

nb_request_t *nb_admission_take(nb_server_t *server) {
    nb_request_t *request;
    uint64_t now = nb_now();
    nb_admission_expire(server, now);
    nb_admission_advance(server);
    while ((request = first(&server->ready))) {
        nb_admission_leave(request);
        if (now - request->queued <= STALE || !nb_connection_gone(request->io.connection)) {
            request->started = now;
            request->phase = NB_REQUEST_IN_FLIGHT;
            server->in_flight++;
            return request;
        }
        server->net.dropped++;
        nb_connection_close(request->io.connection);
        nb_admission_advance(server);
    }
    return NULL;
}

/* ---- the loop is busy ---- */
static bool has_turn(nb_server_t *server) {
    if (server->in_flight < HANDFUL || server->net.draining) return true;
    if (server->net.engine->room) {
        server->net.engine->room--;
        return true;
    }
    uint64_t now = nb_now();
    if (now - first(&server->ready)->queued < LONGEST || now - server->forced < server->deferred_start.patience)
        return false;
    server->forced = now;
    return true;
}

bool nb_admission_turn(nb_server_t *server) {
    if (has_turn(server)) return true;
    if (nb_list_empty(&server->deferred_start.link)) {
        server->deferred_start.since = nb_now();
        nb_list_append(&server->net.engine->deferred_starts, &server->deferred_start.link);
    }
    return false;
}

static void begin(nb_engine_t *engine, nb_deferred_start_t *deferred_start) {
    nb_server_t *server = NB_ENTRY(deferred_start, nb_server_t, deferred_start);
    nb_admission_advance(server);
    if (server->waking || nb_list_empty(&server->ready)) return;
    if (nb_now() - first(&server->ready)->queued >= HELD_BACK) server->held_back++;
    if (engine->room) engine->room--;
    else server->let_in++;
    nb_handlers_send(server);
}

void nb_admission_leave_place(nb_request_t *request) {
    nb_server_t *server = request->server;
    uint64_t now = nb_now(), took = now - request->started;
    server->in_flight--;
    server->usual = server->usual ? server->usual - server->usual / WEIGHT + took / WEIGHT : took;
    server->deferred_start.since = now;
    uint64_t patience = server->usual * 2;
    if (patience < PATIENCE) patience = PATIENCE;
    if (patience > MOST_PATIENCE) patience = MOST_PATIENCE;
    server->deferred_start.patience = patience;
}

/* ---- too long a wait ---- */
static bool refuse_late(nb_request_t *request, nb_refusal_kind_t kind, uint64_t waited, uint64_t limit,
                        const char *what) {
    if (waited < limit) return false;
    nb_refusal_t refusal = {kind, NB_BUSY};
    snprintf(refusal.detail, sizeof refusal.detail, "it waited %.2f s for %s, the limit is %g s", (double)waited / 1e9,
             what, (double)limit / 1e9);
    nb_admission_leave(request);
    nb_decline_request(request, &refusal);
    return true;
}

/* Each list is in the order of arrival, so only its front can be too old. */
void nb_admission_expire(nb_server_t *server, uint64_t now) {
    const nb_settings_t *settings = &server->settings;
    const char *place = "a place (max_in_flight)";
    for (nb_request_t *request; (request = first(&server->queue));) {
        uint64_t waited = now - request->queued;
        if (refuse_late(request, NB_REFUSED_QUEUE_MAX_WAIT, waited, settings->queue_max_wait, place)) continue;
        if (!refuse_late(request, NB_REFUSED_MAX_QUEUE_TIME, waited, settings->max_queue_time, place)) break;
    }
    for (nb_request_t *request; (request = first(&server->ready));) {
        uint64_t waited = now - request->queued;
        if (!refuse_late(request, NB_REFUSED_MAX_QUEUE_TIME, waited, settings->max_queue_time, "the processor")) break;
    }
}

static uint64_t deadline_of(nb_request_t *request, uint64_t limit) {
    return request && limit != NB_NEVER ? request->queued + limit : NB_NEVER;
}

static uint64_t earlier(uint64_t one, uint64_t other) { return one < other ? one : other; }

void nb_admission_watch(nb_server_t *server) {
    const nb_settings_t *settings = &server->settings;
    uint64_t queue_limit = earlier(settings->queue_max_wait, settings->max_queue_time);
    uint64_t deadline = earlier(deadline_of(first(&server->queue), queue_limit),
                                deadline_of(first(&server->ready), settings->max_queue_time));
    if (deadline == NB_NEVER || (server->queue_timer.index && server->queue_timer.deadline <= deadline)) return;
    nb_timer_cancel(server->net.engine, &server->queue_timer);
    server->queue_timer.deadline = deadline;
    nb_timer_arm(server->net.engine, &server->queue_timer);
}

static void queue_aged(nb_engine_t *engine, nb_timer_t *timer) {
    nb_server_t *server = NB_ENTRY(timer, nb_server_t, queue_timer);
    nb_admission_expire(server, nb_now());
    nb_admission_watch(server);
}

void nb_admission_open(nb_server_t *server) {
    nb_list_init(&server->deferred_start.link);
    server->deferred_start.begin = begin;
    server->deferred_start.patience = PATIENCE;
    server->queue_timer.fire = queue_aged;
}
