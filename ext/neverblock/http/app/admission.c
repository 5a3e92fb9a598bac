/*
 * Admission: which request starts next, and which is refused.
 *
 *     all there ──► queue ──► ready ──► taken by the crew
 *                   waits for a place     has one, waits for the processor
 *
 * There are max_in_flight places. A request with a place is not refused for what the others compute, unless max_queue_time
 * says so; the limits of the queue are for those without.
 *
 * Requests that have begun go before those that have not. Where hardly any of them could go on after a look at the kernel
 * (engine->room), the next one begins. Where they keep the loop busy, more of them at a time would only lengthen every request, would fill a cold cache with the same
 * thing several times, and would give each garbage collection more stacks to read: a new one waits for the end of another.
 * Since those that have begun may wait for it, one begins nevertheless when none has ended for twice as long as one usually
 * takes, and now and then one that has waited for LONGEST. Were that time the same for all apps, it would be too short where each
 * request computes for long: with every request that began late the next end would come later.
 */
#include "../http.h"
#include <ruby/io.h>

#define STALE (NB_SECOND / 10)          /* after so long a wait a request's client may have left */
#define HANDFUL 4                       /* as many begin, however busy the loop is */
#define LONGEST (2 * NB_SECOND)         /* that a request waits for the loop while it has a place */
#define PATIENCE (NB_SECOND / 10)       /* without an end, before one begins late, at least */
#define MOST_PATIENCE NB_SECOND
#define WEIGHT 8                        /* the last request counts as one of so many in the average */
#define HELD_BACK NB_MILLISECOND        /* one that has waited for the loop for so long is counted */

static nb_request_t *first(nb_link_t *list) {
    return nb_list_empty(list) ? NULL : NB_ENTRY(list->next, nb_request_t, queue);
}

bool nb_admission_has_place(nb_core_t *core) { return core->in_flight + core->ready_count < core->settings.max_in_flight; }

bool nb_admission_full(nb_core_t *core) { return !nb_admission_has_place(core) && core->queued_count >= core->settings.queue_limit; }

static void be_ready(nb_request_t *request) {
    request->placed = true;
    nb_list_append(&request->core->ready, &request->queue);
    request->core->ready_count++;
}

void nb_admission_leave(nb_request_t *request) {
    if (nb_list_empty(&request->queue)) return;
    nb_list_remove(&request->queue);
    if (request->placed) request->core->ready_count--;
    else request->core->queued_count--;
}

void nb_admission_advance(nb_core_t *core) {
    while (!nb_list_empty(&core->queue) && nb_admission_has_place(core)) {
        nb_request_t *request = first(&core->queue);
        nb_admission_leave(request);
        be_ready(request);
    }
}

void nb_admission_enter(nb_request_t *request) {
    nb_connection_t *connection = request->connection;
    nb_core_t *core = request->core;
    nb_admission_advance(core); /* those that came before */
    if (nb_admission_full(core)) {
        nb_admission_refuse(request);
        return;
    }
    connection->state = NB_CONNECTION_BUSY;
    connection->deadline = NB_NEVER;
    nb_connection_want(connection, core->settings.cancel_on_disconnect ? RUBY_IO_READABLE : 0);
    request->queued = nb_now();
    if (nb_admission_has_place(core)) {
        be_ready(request);
    } else {
        nb_list_append(&core->queue, &request->queue);
        core->queued_count++;
    }
    nb_admission_watch(core);
    nb_crew_summon(core);
}

void nb_admission_refuse(nb_request_t *request) {
    nb_core_t *core = request->core;
    nb_refusal_t refusal = {NB_REFUSED_QUEUE_LIMIT, NB_BUSY};
    snprintf(refusal.detail, sizeof refusal.detail, "%zu requests have a place (max_in_flight), and %zu wait for one (queue limit)",
             core->in_flight + core->ready_count, core->queued_count);
    nb_connection_decline(request->connection, &refusal);
}

nb_request_t *nb_admission_take(nb_core_t *core) {
    nb_request_t *request;
    uint64_t now = nb_now();
    nb_admission_expire(core, now);
    nb_admission_advance(core);
    while ((request = first(&core->ready))) {
        nb_admission_leave(request);
        if (now - request->queued <= STALE || !nb_connection_gone(request->connection)) {
            request->started = now;
            request->counted = true;
            core->in_flight++;
            return request;
        }
        core->dropped++;
        nb_connection_close(request->connection);
        nb_admission_advance(core);
    }
    return NULL;
}

/* ---- the loop is busy ---- */
static bool has_turn(nb_core_t *core) {
    if (core->in_flight < HANDFUL || core->draining) return true;
    if (core->engine->room) {
        core->engine->room--;
        return true;
    }
    uint64_t now = nb_now();
    if (now - first(&core->ready)->queued < LONGEST || now - core->forced < core->deferred_start.patience) return false;
    core->forced = now;
    return true;
}

bool nb_admission_turn(nb_core_t *core) {
    if (has_turn(core)) return true;
    if (nb_list_empty(&core->deferred_start.link)) {
        core->deferred_start.since = nb_now();
        nb_list_append(&core->engine->deferred_starts, &core->deferred_start.link);
    }
    return false;
}

static void begin(nb_engine_t *engine, nb_deferred_start_t *deferred_start) {
    nb_core_t *core = NB_ENTRY(deferred_start, nb_core_t, deferred_start);
    nb_admission_advance(core);
    if (core->summoned || nb_list_empty(&core->ready)) return;
    if (nb_now() - first(&core->ready)->queued >= HELD_BACK) core->held_back++;
    if (engine->room) engine->room--;
    else core->let_in++;
    nb_crew_send(core);
}

void nb_admission_leave_place(nb_request_t *request) {
    nb_core_t *core = request->core;
    uint64_t now = nb_now(), took = now - request->started;
    core->in_flight--;
    core->usual = core->usual ? core->usual - core->usual / WEIGHT + took / WEIGHT : took;
    core->deferred_start.since = now;
    core->deferred_start.patience = core->usual * 2 < PATIENCE ? PATIENCE : core->usual * 2 > MOST_PATIENCE ? MOST_PATIENCE : core->usual * 2;
}

/* ---- too long a wait ---- */
static bool refuse_late(nb_request_t *request, nb_refusal_kind_t kind, uint64_t waited, uint64_t limit, const char *what) {
    if (waited < limit) return false;
    nb_refusal_t refusal = {kind, NB_BUSY};
    snprintf(refusal.detail, sizeof refusal.detail, "it waited %.2f s for %s, the limit is %g s", (double)waited / 1e9, what, (double)limit / 1e9);
    nb_admission_leave(request);
    nb_connection_decline(request->connection, &refusal);
    return true;
}

/* Each list is in the order of arrival, so only its front can be too old. */
void nb_admission_expire(nb_core_t *core, uint64_t now) {
    const nb_settings_t *settings = &core->settings;
    nb_request_t *request;
    while ((request = first(&core->queue)))
        if (!refuse_late(request, NB_REFUSED_QUEUE_MAX_WAIT, now - request->queued, settings->queue_max_wait, "a place (max_in_flight)") &&
            !refuse_late(request, NB_REFUSED_MAX_QUEUE_TIME, now - request->queued, settings->max_queue_time, "a place (max_in_flight)")) break;
    while ((request = first(&core->ready)))
        if (!refuse_late(request, NB_REFUSED_MAX_QUEUE_TIME, now - request->queued, settings->max_queue_time, "the processor")) break;
}

static uint64_t deadline_of(nb_request_t *request, uint64_t limit) {
    return request && limit != NB_NEVER ? request->queued + limit : NB_NEVER;
}

static uint64_t earlier(uint64_t one, uint64_t other) { return one < other ? one : other; }

void nb_admission_watch(nb_core_t *core) {
    const nb_settings_t *settings = &core->settings;
    uint64_t deadline = earlier(deadline_of(first(&core->queue), earlier(settings->queue_max_wait, settings->max_queue_time)),
                                deadline_of(first(&core->ready), settings->max_queue_time));
    if (deadline == NB_NEVER || (core->queue_timer.index && core->queue_timer.deadline <= deadline)) return;
    nb_timer_cancel(core->engine, &core->queue_timer);
    core->queue_timer.deadline = deadline;
    nb_timer_arm(core->engine, &core->queue_timer);
}

static void queue_aged(nb_engine_t *engine, nb_timer_t *timer) {
    nb_core_t *core = NB_ENTRY(timer, nb_core_t, queue_timer);
    nb_admission_expire(core, nb_now());
    nb_admission_watch(core);
}

void nb_admission_open(nb_core_t *core) {
    nb_list_init(&core->deferred_start.link);
    core->deferred_start.begin = begin;
    core->deferred_start.patience = PATIENCE;
    core->queue_timer.fire = queue_aged;
}
