/*
 * Sends that nobody waits for. Where the back end sends by itself, a finished answer is handed over with its buffer, and
 * the fiber goes on with its next request at once. There is one such send for a connection at a time; answers that are
 * finished meanwhile gather behind it. Whoever sends by himself, or closes, first waits for all of it: bytes never
 * overtake one another.
 */
#include "../http.h"
#include <errno.h>
#include <ruby/io.h>

#define MOST_BEHIND (4 * NB_GATHER)
#define SOON (NB_SECOND / 10000) /* so long after the last ones, … */
#define BATCH 8                  /* … or when there are so many, answers are not left for the loop's next look at the kernel */

static void sent(void *owner, nb_operation_t *operation, int result, bool more);

static void end(nb_connection_t *connection) {
    connection->sending = NULL;
    nb_list_remove(&connection->sends);
}

static bool start(nb_connection_t *connection, nb_output_t *out, uint64_t now) {
    nb_core_t *core = connection->core;
    nb_operation_t *operation = nb_operation_send(core->engine, connection->watch.fd, out->bytes, out->length, sent, connection);
    if (!operation) return false;
    connection->sending = operation;
    connection->sending_capacity = (uint32_t)out->capacity;
    connection->sending_since = now;
    connection->pace = (nb_pace_t){0};
    nb_list_append(&core->sending, &connection->sends);
    *out = (nb_output_t){0};
    return true;
}

/* The client has left, or the kernel would not go on: nothing can be sent after what is missing. */
static void failed(nb_connection_t *connection, int error) {
    if (connection->request) connection->request->failure = error; /* its next write raises it */
    else connection->core->dropped++;
    connection->peer_left = connection->doomed = true;
    nb_output_recycle(connection->core, &connection->behind);
}

static void go_on(nb_connection_t *connection) {
    if (connection->state == NB_CONNECTION_BUSY) {
        nb_output_sent(connection->request);
        if (!connection->left_over) return;
        connection->left_over = false;
        nb_output_try(connection->request);
    } else if (connection->peer_left || connection->leaving) {
        nb_connection_close(connection);
    } else if (connection->state == NB_CONNECTION_LINGER) {
        nb_connection_linger(connection);
    } else if (connection->state == NB_CONNECTION_IDLE) {
        nb_listeners_retry(connection->core);
    }
}

static void sent(void *owner, nb_operation_t *operation, int result, bool more) {
    nb_connection_t *connection = owner;
    nb_core_t *core = connection->core;
    nb_list_remove(&connection->sends);
    if (more) { /* some of it: the client is slow, but reads */
        connection->sending_since = nb_now();
        nb_list_append(&core->sending, &connection->sends);
        return;
    }
    nb_output_t buffer = {.bytes = operation->bytes, .capacity = connection->sending_capacity};
    operation->bytes = NULL;
    nb_output_recycle(core, &buffer);
    connection->sending = NULL;
    if (result < 0) failed(connection, -result);
    else if (connection->behind.length && !start(connection, &connection->behind, nb_now())) failed(connection, ENOBUFS);
    if (!connection->sending) go_on(connection);
}

/* Takes the bytes over, or returns false: then the caller sends them. */
static bool hand_over(nb_connection_t *connection, nb_output_t *out, uint64_t now) {
    if (out->sent) return false;
    if (!connection->sending) return start(connection, out, now);
    if (connection->behind.length + out->length > MOST_BEHIND) return false;
    if (connection->behind.length) {
        nb_output_add(&connection->behind, out->bytes, out->length);
        out->length = 0;
    } else {
        nb_output_recycle(connection->core, &connection->behind);
        connection->behind = *out;
        *out = (nb_output_t){0};
    }
    return true;
}

/* The last bytes of an answer. */
void nb_send_finish(nb_request_t *request) {
    nb_output_turn(request);
    nb_connection_t *connection = request->connection;
    nb_core_t *core = request->core;
    uint64_t length = request->out.length, now = nb_now();
    if (!connection || length == 0 || !hand_over(connection, &request->out, now)) {
        nb_output_flush(request);
        return;
    }
    request->sent_bytes += length;
    if (++core->unsubmitted < BATCH && now - core->submitted < SOON) return;
    core->unsubmitted = 0;
    core->submitted = now;
    nb_operations_submit(core->engine);
}

/* Some words from outside a request's fiber. Best effort: only a client that never reads has no room for them. */
bool nb_send_words(nb_connection_t *connection, const char *text, size_t length) {
    if (connection->sending) {
        nb_output_add(&connection->behind, text, length);
        return true;
    }
    ssize_t sent = send(connection->watch.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) connection->peer_left = true;
    return sent == (ssize_t)length;
}

/* ---- ending ---- */
void nb_send_abandon(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    if (connection->sending) {
        nb_operation_abandon(core->engine, connection->sending);
        end(connection);
    }
    nb_output_recycle(core, &connection->behind);
    if (connection->request) nb_output_sent(connection->request);
}

static void give_up(nb_connection_t *connection) {
    connection->core->timeouts++;
    connection->peer_left = connection->doomed = true;
    if (connection->state != NB_CONNECTION_BUSY) {
        nb_connection_close(connection);
        return;
    }
    if (connection->request) connection->request->failure = ETIMEDOUT; /* what is lost can't be followed by anything */
    nb_send_abandon(connection); /* its fiber closes it */
}

/* Those whose answer was not taken at once: measured from here on. */
static void look_at_paces(nb_core_t *core, uint64_t now) {
    for (nb_link_t *l = core->sending.next, *next; l != &core->sending; l = next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, sends);
        next = l->next;
        int fd = connection->watch.fd;
        if (!connection->pace.measured) nb_pace_begin(&connection->pace, fd, connection->sending->sent, now);
        else if (nb_pace_is_slow(&connection->pace, &core->settings, fd, connection->sending->sent, now)) give_up(connection);
    }
}

/* Clients that have not read for too long, or too little; the list is in the order of their last progress. */
void nb_sends_expire(nb_core_t *core, uint64_t now) {
    if (core->settings.min_answer_rate) look_at_paces(core, now);
    while (!nb_list_empty(&core->sending)) {
        nb_connection_t *connection = NB_ENTRY(core->sending.next, nb_connection_t, sends);
        if (core->settings.write_timeout == NB_NEVER || now - connection->sending_since < core->settings.write_timeout) return;
        give_up(connection);
    }
}
