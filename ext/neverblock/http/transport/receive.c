/*
 * Receiving. A back end that receives by itself (engine/operations.c) hands bytes over as they come, whatever the
 * connection is doing: those of a later request are kept for its turn, up to a limit. With the others the kernel keeps
 * the bytes until the descriptor is ready, and recv puts them into one buffer for all connections.
 *
 * A fiber that reads the socket itself (a streamed body, an upgraded or hijacked connection) first stops the back end
 * (nb_receive_stop), and is the only reader from then on.
 */
#include "transport.h"
#include <errno.h>
#include <ruby/io.h>
#include <string.h>

#define MOST_AHEAD 65536 /* bytes kept for later requests, beyond which the client waits */
#define MORE_OF_A_HEAD 16384 /* bytes received at a time behind a part of one */

/* ---- bytes that are kept: incomplete, or not yet wanted ---- */
/* Returns where so many bytes more can be put. Consumed bytes stay in front of the rest until it pays to move the rest:
 * many small reads of a large buffer would move all of it each time. */
static char *room_for(nb_connection_t *connection, size_t more) {
    size_t length = connection->in_length, needed = length + more;
    size_t before = length ? (size_t)(connection->in - connection->in_memory) : 0;
    if (before + needed > connection->in_capacity && before >= length && needed <= connection->in_capacity) {
        memcpy(connection->in_memory, connection->in, length);
        before = 0;
    } else if (before + needed > connection->in_capacity) {
        size_t capacity = connection->in_capacity ? connection->in_capacity : 512;
        while (capacity < before + needed) capacity *= 2;
        REALLOC_N(connection->in_memory, char, capacity);
        connection->in_capacity = (uint32_t)capacity;
    }
    connection->in = connection->in_memory + before;
    return connection->in + length;
}

static void append(nb_connection_t *connection, const char *bytes, size_t length) {
    memcpy(room_for(connection, length), bytes, length);
    connection->in_length += (uint32_t)length;
}

static bool is_in_memory(const nb_connection_t *connection, const char *bytes) {
    const char *memory = connection->in_memory;
    return memory && bytes >= memory && bytes < memory + connection->in_capacity;
}

void nb_connection_keep(nb_connection_t *connection, const char *bytes, size_t length) {
    if (length == 0) {
        xfree(connection->in_memory);
        connection->in = connection->in_memory = NULL;
        connection->in_length = connection->in_capacity = 0;
    } else if (is_in_memory(connection, bytes)) {
        connection->in = (char *)bytes;
        connection->in_length = (uint32_t)length;
    } else {
        connection->in_length = 0;
        append(connection, bytes, length);
    }
}

/* ---- the end of input ---- */
static void peer_ended(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    connection->ended = true;
    if (connection->state == NB_CONNECTION_BUSY) { /* without an exchange: it is being hijacked */
        bool cancels = transport->settings.cancel_on_disconnect && connection->exchange;
        if (cancels) transport->hooks->client_ended(connection->exchange);
        return;
    }
    if (connection->state == NB_CONNECTION_BODY) transport->dropped++;
    nb_connection_leave(connection);
}

/* ---- the back end receives by itself ---- */
static bool is_wanted(nb_connection_t *connection) {
    if (connection->fiber_reads) return false;
    if (connection->state != NB_CONNECTION_BUSY) return true;
    return connection->transport->settings.cancel_on_disconnect && connection->in_length < MOST_AHEAD;
}

static void again(nb_connection_t *connection) {
    if (is_wanted(connection) && nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
}

static void came(nb_connection_t *connection, char *bytes, size_t length) {
    if (connection->state == NB_CONNECTION_BUSY) append(connection, bytes, length);
    if (connection->state == NB_CONNECTION_BUSY || connection->state == NB_CONNECTION_LINGER) {
        if (!connection->receiving) again(connection);
        else if (connection->in_length >= MOST_AHEAD)
            nb_operation_cancel(connection->transport->engine, connection->receiving);
        return;
    }
    if (connection->in_length) { /* of a head or a chunk's size */
        append(connection, bytes, length);
        bytes = connection->in;
        length = connection->in_length;
        connection->in_length = 0; /* the hook keeps what it does not consume */
    }
    connection->transport->hooks->bytes(connection, bytes, length);
}

static void received(void *owner, nb_operation_t *operation, int result, bool more) {
    nb_connection_t *connection = owner;
    if (!more) connection->receiving = NULL;
    if (result > 0) {
        came(connection, operation->bytes, (size_t)result);
    } else if (result == -EAGAIN) {
        again(connection);
    } else {
        if (result < 0) nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
        peer_ended(connection);
    }
}

void nb_receive_stop(nb_connection_t *connection) {
    connection->fiber_reads = true; /* bytes that come while it stops must not start it again */
    if (connection->receiving) nb_operation_stop(connection->transport->engine, connection->receiving);
    connection->receiving = NULL;
}

static bool receives_by_itself(nb_connection_t *connection) {
    if (connection->receiving) return true;
    if (connection->fiber_reads) return false;
    nb_engine_t *engine = connection->transport->engine;
    connection->receiving = nb_operation_receive(engine, connection->watch.fd, received, connection);
    return connection->receiving != NULL;
}

/* Watching begins with the first wait. A connection that brings its request and closes after the response never enters
 * the kernel's list. */
int nb_connection_want(nb_connection_t *connection, short events) {
    if (events & RUBY_IO_READABLE) {
        if (connection->ended) return ENOTCONN;
        if (receives_by_itself(connection)) events &= ~RUBY_IO_READABLE;
    }
    if (connection->watch.engine) return nb_watch_want(&connection->watch, events);
    if (!events) return 0;
    return nb_watch_open(connection->transport->engine, &connection->watch, connection->watch.fd, events);
}

/* ---- the kernel tells that there are bytes ---- */
static void linger_read(nb_connection_t *connection) {
    for (int i = 0; i < 4; i++) {
        ssize_t got = recv(connection->watch.fd, connection->transport->scratch, NB_SCRATCH, MSG_DONTWAIT);
        if (got > 0) continue;
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            nb_connection_close(connection);
            return;
        }
        break;
    }
    if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
}

/* The kernel's bytes are put behind those that were kept. */
void nb_connection_receive(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    if (connection->receiving) return;
    if (connection->state == NB_CONNECTION_LINGER) {
        linger_read(connection);
        return;
    }
    if (connection->state == NB_CONNECTION_BUSY) { /* with cancel_on_disconnect: is it the end of input? */
        if (nb_connection_gone(connection)) peer_ended(connection);
        else nb_connection_want(connection, 0); /* the next request, which has to wait */
        return;
    }
    size_t kept = connection->in_length;
    /* An incomplete head grows in place, up to the limit for heads. */
    char *to = kept ? room_for(connection, MORE_OF_A_HEAD) : transport->scratch;
    ssize_t got = recv(connection->watch.fd, to, kept ? MORE_OF_A_HEAD : NB_SCRATCH, MSG_DONTWAIT);
    if (got > 0) {
        connection->in_length = 0; /* the hook keeps what it does not consume */
        transport->hooks->bytes(connection, to - kept, kept + (size_t)got);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
    } else {
        peer_ended(connection);
    }
}

bool nb_connection_gone(nb_connection_t *connection) {
    if (connection->ended) return connection->in_length == 0;
    char byte;
    ssize_t got = recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}
