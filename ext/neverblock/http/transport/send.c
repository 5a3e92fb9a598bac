/*
 * Sends without a waiting fiber. A back end that sends by itself takes a finished response over with its buffer, and
 * the fiber goes on with its next request at once. A connection has one such send at a time; responses that are
 * finished meanwhile gather behind it. A direct send, or a close, waits for all of it first: bytes never overtake one
 * another.
 */
#include "transport.h"
#include <errno.h>
#include <ruby/io.h>

#define MOST_BEHIND (4 * NB_GATHER)
/* Sends are left for the loop's next look at the kernel, but not … */
#define SOON (NB_SECOND / 10000) /* … when the last ones were submitted so long ago, */
#define BATCH 8                  /* … or when there are so many */

static void sent(void *owner, nb_operation_t *operation, int result, bool more);

static void end(nb_connection_t *connection) {
    connection->sending = NULL;
    nb_list_remove(&connection->sends);
}

static bool start(nb_connection_t *connection, nb_output_t *out, uint64_t now) {
    nb_transport_t *transport = connection->transport;
    int fd = connection->watch.fd;
    nb_operation_t *operation = nb_operation_send(transport->engine, fd, out->bytes, out->length, sent, connection);
    if (!operation) return false;
    connection->sending = operation;
    connection->sending_capacity = (uint32_t)out->capacity;
    connection->sending_since = now;
    connection->rate = (nb_rate_t){0};
    nb_list_append(&transport->sending, &connection->sends);
    *out = (nb_output_t){0};
    return true;
}

/* The client has left, or the kernel has no memory: nothing can be sent after the missing bytes. */
static void failed(nb_connection_t *connection, int error) {
    if (connection->exchange) connection->exchange->failure = error; /* its next write raises it */
    else connection->transport->dropped++;
    nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
    nb_output_recycle(connection->transport, &connection->behind);
}

static void go_on(nb_connection_t *connection) {
    if (connection->state == NB_CONNECTION_BUSY) {
        nb_output_sent(connection->exchange);
        if (!connection->left_over) return;
        connection->left_over = false;
        nb_output_try(connection->exchange);
    } else if (connection->close_mode >= NB_CLOSE_WHEN_SENT) {
        nb_connection_close(connection);
    } else if (connection->state == NB_CONNECTION_LINGER) {
        nb_connection_linger(connection);
    } else if (connection->state == NB_CONNECTION_IDLE) {
        nb_listeners_retry(connection->transport);
    }
}

static void sent(void *owner, nb_operation_t *operation, int result, bool more) {
    nb_connection_t *connection = owner;
    nb_transport_t *transport = connection->transport;
    nb_list_remove(&connection->sends);
    if (more) { /* a part of it: the client is slow, but reads */
        connection->sending_since = nb_now();
        nb_list_append(&transport->sending, &connection->sends);
        return;
    }
    nb_output_t buffer = {.bytes = operation->bytes, .capacity = connection->sending_capacity};
    operation->bytes = NULL;
    nb_output_recycle(transport, &buffer);
    connection->sending = NULL;
    if (result < 0) failed(connection, -result);
    else if (connection->behind.length && !start(connection, &connection->behind, nb_now()))
        failed(connection, ENOBUFS);
    if (!connection->sending) go_on(connection);
}

/* Takes the bytes over. False: the caller has to send them. */
static bool hand_over(nb_connection_t *connection, nb_output_t *out, uint64_t now) {
    if (out->sent) return false;
    if (!connection->sending) return start(connection, out, now);
    if (connection->behind.length + out->length > MOST_BEHIND) return false;
    if (connection->behind.length) {
        nb_output_add(&connection->behind, out->bytes, out->length);
        out->length = 0;
    } else {
        nb_output_recycle(connection->transport, &connection->behind);
        connection->behind = *out;
        *out = (nb_output_t){0};
    }
    return true;
}

/* The last bytes of a response. */
void nb_send_finish(nb_exchange_t *exchange) {
    nb_output_turn(exchange);
    nb_connection_t *connection = exchange->connection;
    nb_transport_t *transport = exchange->transport;
    uint64_t length = exchange->out.length, now = nb_now();
    if (!connection || length == 0 || !hand_over(connection, &exchange->out, now)) {
        nb_output_flush(exchange);
        return;
    }
    exchange->sent_bytes += length;
    if (++transport->unsubmitted < BATCH && now - transport->submitted < SOON) return;
    transport->unsubmitted = 0;
    transport->submitted = now;
    nb_operations_submit(transport->engine);
}

/* A few bytes from outside a request's fiber. Best effort: only a client that never reads has no room for them. */
bool nb_send_words(nb_connection_t *connection, const char *text, size_t length) {
    if (connection->sending) {
        nb_output_add(&connection->behind, text, length);
        return true;
    }
    ssize_t sent = send(connection->watch.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
    return sent == (ssize_t)length;
}

/* ---- ending ---- */
void nb_send_abandon(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    if (connection->sending) {
        nb_operation_abandon(transport->engine, connection->sending);
        end(connection);
    }
    nb_output_recycle(transport, &connection->behind);
    if (connection->exchange) nb_output_sent(connection->exchange);
}

static void give_up(nb_connection_t *connection) {
    connection->transport->timeouts++;
    nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
    if (connection->state != NB_CONNECTION_BUSY) {
        nb_connection_close(connection);
        return;
    }
    if (connection->exchange) connection->exchange->failure = ETIMEDOUT; /* nothing can follow what is lost */
    nb_send_abandon(connection); /* its fiber closes it */
}

/* Connections whose client did not take the bytes at once: measured from here on. */
static void look_at_paces(nb_transport_t *transport, uint64_t now) {
    for (nb_link_t *l = transport->sending.next, *next; l != &transport->sending; l = next) {
        nb_connection_t *connection = NB_ENTRY(l, nb_connection_t, sends);
        next = l->next;
        int fd = connection->watch.fd;
        if (!connection->rate.measured) nb_rate_begin(&connection->rate, fd, connection->sending->sent, now);
        else if (nb_rate_is_slow(&connection->rate, &transport->settings, fd, connection->sending->sent, now))
            give_up(connection);
    }
}

/* Gives up clients that have read nothing for too long, or too little. The list is in the order of their last
 * progress. */
void nb_sends_expire(nb_transport_t *transport, uint64_t now) {
    if (transport->settings.min_answer_rate) look_at_paces(transport, now);
    while (!nb_list_empty(&transport->sending)) {
        nb_connection_t *connection = NB_ENTRY(transport->sending.next, nb_connection_t, sends);
        uint64_t limit = transport->settings.write_timeout;
        if (limit == NB_NEVER || now - connection->sending_since < limit) return;
        give_up(connection);
    }
}
