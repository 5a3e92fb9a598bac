/*
 * Connections: a few hundred bytes each, and no fiber while there is nothing to do for them.
 *
 * Each has one timer. Its deadline moves with every request, nearly always to a later time. Then the heap is
 * not changed: the timer fires early, and is set again (timer_fired).
 */
#include "transport.h"
#include <errno.h>
#include <ruby/io.h>
#include <string.h>
#include <unistd.h>

static void timer_fired(nb_engine_t *engine, nb_timer_t *timer);

static void connection_ready(nb_watch_t *watch, int revents) {
    nb_connection_t *connection = NB_ENTRY(watch, nb_connection_t, watch);
    nb_exchange_t *exchange = connection->exchange;
    if (revents & RUBY_IO_WRITABLE && exchange) { /* what nb_output_try had to leave */
        nb_watch_want(watch, watch->events & ~RUBY_IO_WRITABLE);
        nb_output_try(exchange);
    }
    if (revents & RUBY_IO_READABLE & watch->events) nb_connection_receive(connection);
}

static void copy_address(nb_connection_t *connection, const struct sockaddr_storage *from) {
    connection->has_address = true;
    if (from->ss_family == AF_INET6) {
        memcpy(connection->address, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
    } else if (from->ss_family == AF_INET) {
        nb_address_map(connection->address, &((const struct sockaddr_in *)from)->sin_addr);
    } else if (connection->local) {
        memcpy(connection->address, nb_loopback, 16);
    }
}

/* An address that came with the accepted descriptor is known already. Another is asked for when it is first needed. The
 * kernel doesn't tell it any more after a reset: NULL, and the client has left. */
const uint8_t *nb_connection_address(nb_connection_t *connection) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (connection->has_address) return connection->address;
    if (!connection->local && getpeername(connection->watch.fd, (struct sockaddr *)&address, &length) < 0) return NULL;
    copy_address(connection, &address);
    return connection->address;
}

nb_connection_t *nb_connection_open(nb_transport_t *transport, nb_accepted_t client,
                                    const struct sockaddr_storage *address) {
    nb_connection_t *connection = ZALLOC(nb_connection_t);
    connection->watch = (nb_watch_t){.fd = client.fd, .ready = connection_ready};
    connection->transport = transport;
    connection->local = client.local;
    connection->awaits_proxy = client.proxy;
    connection->deadline = NB_NEVER;
    connection->began = nb_now();
    connection->timer = (nb_timer_t){.deadline = NB_NEVER, .fire = timer_fired};
    nb_list_init(&connection->sends);
    if (address) copy_address(connection, address);
    nb_list_append(&transport->connections, &connection->link);
    nb_list_append(&transport->idlers, &connection->idles);
    if (transport->connection_count++ == 0) nb_transport_tick_soon(transport);
    nb_listeners_count(transport);
    uint64_t limit = transport->settings.head_timeout;
    if (limit != NB_NEVER) nb_connection_deadline(connection, connection->began + limit);
    return connection;
}

static void forget(nb_connection_t *connection, bool closing) {
    nb_transport_t *transport = connection->transport;
    if (connection->receiving) nb_operation_abandon(transport->engine, connection->receiving);
    nb_send_abandon(connection);
    nb_watch_close(&connection->watch, closing);
    nb_timer_cancel(transport->engine, &connection->timer);
    nb_list_remove(&connection->link);
    nb_list_remove(&connection->idles);
    nb_address_limit_release(transport, connection->address_count);
    transport->connection_count--;
    nb_exchange_t *exchange = connection->exchange;
    if (exchange) {
        exchange->connection = NULL;
        transport->hooks->closed(exchange);
    }
    xfree(connection->in_memory);
}

static void made_room(nb_transport_t *transport) {
    nb_listeners_count(transport);
    if (transport->paused && !transport->draining && !nb_transport_is_full(transport))
        nb_listeners_pause(transport, false);
}

/* A forked child may hold the descriptor too: our close alone would not end the connection then. */
static void end_for_all(int fd, bool reset) {
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    /* Connecting to AF_UNSPEC sends a reset. */
    if (!reset || connect(fd, &none, sizeof none) < 0) shutdown(fd, SHUT_RDWR);
}

void nb_connection_close(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    int fd = connection->watch.fd;
    bool reset = connection->close_mode == NB_CLOSE_RESET;
    forget(connection, true);
    xfree(connection);
    if (nb_has_forked) end_for_all(fd, reset);
    close(fd);
    made_room(transport);
}

void nb_connection_release(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    int fd = connection->watch.fd;
    connection->watch.events = 0;
    nb_hijacked_add(transport, fd, connection->address_count);
    connection->address_count = NULL;
    forget(connection, false);
    xfree(connection);
    nb_listeners_count(transport);
}

/* ---- deadlines ---- */
void nb_connection_deadline(nb_connection_t *connection, uint64_t deadline) {
    nb_timer_t *timer = &connection->timer;
    connection->deadline = deadline;
    connection->grace_used = false;
    if (deadline == NB_NEVER || (timer->index && timer->deadline <= deadline)) return;
    nb_timer_cancel(connection->transport->engine, timer);
    timer->deadline = deadline;
    nb_timer_arm(connection->transport->engine, timer);
}

/* A turn of the loop fires timers before it looks at descriptors. After a long turn (a garbage collection, an app
 * that computes) the client may have been in time, and the server late. Bytes that wait are read first, once. io_uring
 * may already have received bytes, which recv can't peek at; so we assume that there are some. */
static bool is_our_delay(nb_connection_t *connection, uint64_t now) {
    char byte;
    if (connection->grace_used || connection->state > NB_CONNECTION_BODY) return false;
    if (!connection->receiving && recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return false;
    connection->grace_used = true;
    connection->timer.deadline = now + NB_MILLISECOND;
    nb_timer_arm(connection->transport->engine, &connection->timer);
    return true;
}

static void timer_fired(nb_engine_t *engine, nb_timer_t *timer) {
    nb_connection_t *connection = NB_ENTRY(timer, nb_connection_t, timer);
    uint64_t now = nb_now();
    if (connection->deadline == NB_NEVER) return;
    if (connection->deadline > now) {
        nb_connection_deadline(connection, connection->deadline);
        return;
    }
    if (is_our_delay(connection, now)) return;
    nb_transport_t *transport = connection->transport;
    if (connection->sending && (connection->state == NB_CONNECTION_IDLE || connection->state == NB_CONNECTION_LINGER)) {
        nb_connection_deadline(connection, now + NB_SECOND); /* the client has not read its response: nb_sends_expire */
        return;
    }
    switch (connection->state) {
    case NB_CONNECTION_IDLE: /* RFC 9112 §9.5: may close at any time */
        if (connection->in_length) transport->timeouts++; /* in the middle of a PROXY header */
        nb_connection_close(connection);
        break;
    case NB_CONNECTION_HEAD:
    case NB_CONNECTION_BODY: transport->hooks->timed_out(connection); break;
    case NB_CONNECTION_BUSY: break; /* its fiber has limits of its own */
    case NB_CONNECTION_LINGER: nb_connection_close(connection); break;
    }
}

/* ---- what follows a request ---- */
void nb_connection_next(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    connection->state = NB_CONNECTION_IDLE;
    connection->scanned = 0;
    uint64_t limit = transport->settings.idle_timeout;
    nb_connection_deadline(connection, limit == NB_NEVER ? NB_NEVER : nb_now() + limit);
    if (connection->in_length) { /* pipelined: it queues behind the requests of other connections */
        size_t length = connection->in_length;
        connection->in_length = 0;
        transport->hooks->bytes(connection, connection->in, length);
    } else if (nb_connection_want(connection, RUBY_IO_READABLE)) {
        nb_connection_leave(connection);
    } else {
        nb_list_append(&transport->idlers, &connection->idles);
        nb_listeners_retry(transport);
    }
}

/* Without a response to protect, or with all of the client's bytes read: no need to linger. */
void nb_connection_leave(nb_connection_t *connection) {
    if (!connection->sending || connection->close_mode >= NB_CLOSE_AT_ONCE) {
        nb_connection_close(connection);
        return;
    }
    connection->state = NB_CONNECTION_LINGER;
    nb_list_remove(&connection->idles);
    nb_connection_close_by(connection, NB_CLOSE_WHEN_SENT);
}

/* Closing with unread bytes resets the connection, so that the client may never read the last response (RFC 9112 §9.6).
 * Instead the sending side is shut down, and reading goes on for a while. */
void nb_connection_linger(nb_connection_t *connection) {
    nb_transport_t *transport = connection->transport;
    nb_connection_keep(connection, NULL, 0);
    connection->state = NB_CONNECTION_LINGER;
    nb_list_remove(&connection->idles);
    bool at_once = connection->close_mode >= NB_CLOSE_AT_ONCE;
    if (connection->sending && !at_once) return; /* we are called again when it is out */
    if (at_once || connection->ended || shutdown(connection->watch.fd, SHUT_WR) < 0) {
        nb_connection_close(connection);
        return;
    }
    nb_connection_deadline(connection, nb_now() + transport->settings.linger_timeout);
    nb_list_append(&transport->idlers, &connection->idles); /* it may go when room is needed */
    nb_connection_receive(connection);
    nb_listeners_retry(transport);
}

/* A response that ends with the connection was broken off: only a reset tells the client so (RFC 9112 §8). */
void nb_connection_break(nb_connection_t *connection) {
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(connection->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    nb_connection_close_by(connection, NB_CLOSE_RESET);
}
