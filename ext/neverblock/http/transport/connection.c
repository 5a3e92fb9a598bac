/*
 * Connections: a few hundred bytes each, and no fiber while nothing is to be done for them.
 *
 * One timer each. Its deadline moves with every request, nearly always further away; so the heap is left alone, and a
 * timer that fires early is set again (nb_connection_deadline).
 */
#include "../http.h"
#include <errno.h>
#include <ruby/io.h>
#include <string.h>
#include <unistd.h>

static void timer_fired(nb_engine_t *engine, nb_timer_t *timer);

static void connection_ready(nb_watch_t *watch, int revents) {
    nb_connection_t *connection = NB_ENTRY(watch, nb_connection_t, watch);
    nb_request_t *request = connection->request;
    if (revents & RUBY_IO_WRITABLE && request) { /* what nb_output_try had to leave */
        nb_watch_want(watch, watch->events & ~RUBY_IO_WRITABLE);
        nb_output_try(request);
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

/* Who it is: 16 bytes, IPv4 as mapped. Where the back end accepts by itself it is asked for when somebody wants to know. */
const uint8_t *nb_connection_address(nb_connection_t *connection) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (connection->has_address) return connection->address;
    if (connection->local || getpeername(connection->watch.fd, (struct sockaddr *)&address, &length) == 0) copy_address(connection, &address);
    connection->has_address = true;
    return connection->address;
}

nb_connection_t *nb_connection_open(nb_core_t *core, nb_door_t client, const struct sockaddr_storage *address) {
    nb_connection_t *connection = ZALLOC(nb_connection_t);
    connection->watch = (nb_watch_t){.fd = client.fd, .ready = connection_ready};
    connection->core = core;
    connection->local = client.local;
    connection->awaits_proxy = client.proxy;
    connection->deadline = NB_NEVER;
    connection->timer = (nb_timer_t){.deadline = NB_NEVER, .fire = timer_fired};
    nb_list_init(&connection->sends);
    if (address) copy_address(connection, address);
    nb_list_append(&core->connections, &connection->link);
    nb_list_append(&core->idlers, &connection->idles);
    if (core->connection_count++ == 0) nb_core_tick_soon(core);
    if (core->settings.head_timeout != NB_NEVER) nb_connection_deadline(connection, nb_now() + core->settings.head_timeout);
    return connection;
}

static void forget(nb_connection_t *connection, bool closing) {
    nb_core_t *core = connection->core;
    if (connection->receiving) nb_operation_abandon(core->engine, connection->receiving);
    nb_send_abandon(connection);
    nb_watch_close(&connection->watch, closing);
    nb_timer_cancel(core->engine, &connection->timer);
    nb_list_remove(&connection->link);
    nb_list_remove(&connection->idles);
    nb_guest_leave(connection);
    core->connection_count--;
    if (connection->request) {
        connection->request->connection = NULL;
        nb_request_free(connection->request);
    }
    xfree(connection->in_memory);
}

static void made_room(nb_core_t *core) {
    if (!core->paused || core->draining || core->connection_count >= core->settings.max_connections) return;
    nb_listeners_pause(core, false);
}

/* A child may have it too, so that our close alone would end nothing. */
static void end_for_all(int fd, bool broken) {
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (!broken || connect(fd, &nobody, sizeof nobody) < 0) shutdown(fd, SHUT_RDWR); /* connected to nobody: a reset */
}

void nb_connection_close(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    int fd = connection->watch.fd;
    bool broken = connection->broken;
    forget(connection, true);
    xfree(connection);
    if (nb_has_forked) end_for_all(fd, broken);
    close(fd);
    made_room(core);
}

int nb_connection_release(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    int fd = connection->watch.fd;
    connection->watch.events = 0;
    forget(connection, false);
    xfree(connection);
    made_room(core);
    return fd;
}

/* ---- deadlines ---- */
void nb_connection_deadline(nb_connection_t *connection, uint64_t deadline) {
    nb_timer_t *timer = &connection->timer;
    connection->deadline = deadline;
    connection->excused = false;
    if (deadline == NB_NEVER || (timer->index && timer->deadline <= deadline)) return;
    nb_timer_cancel(connection->core->engine, timer);
    timer->deadline = deadline;
    nb_timer_arm(connection->core->engine, timer);
}

/* A client that sends a byte now and then keeps every pause short; its rate tells. */
bool nb_connection_body_slow(nb_connection_t *connection) {
    const nb_settings_t *settings = &connection->core->settings;
    uint64_t age = nb_now() - connection->began;
    if (!settings->min_body_rate || age < settings->min_body_rate_after) return false;
    return (double)connection->request->received < (double)settings->min_body_rate * (double)age / 1e9;
}

/* A turn of the loop fires timers before it looks at descriptors. After a long turn - a collection, an app that computes -
 * the client may have been in time and we are late: what it has sent is read first, once. What the back end has received
 * by itself the kernel does not show: so then there may always be something. */
static bool is_our_delay(nb_connection_t *connection, uint64_t now) {
    char byte;
    if (connection->excused || connection->state > NB_CONNECTION_BODY) return false;
    if (!connection->receiving && recv(connection->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return false;
    connection->excused = true;
    connection->timer.deadline = now + NB_MILLISECOND;
    nb_timer_arm(connection->core->engine, &connection->timer);
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
    nb_core_t *core = connection->core;
    if (connection->sending && (connection->state == NB_CONNECTION_IDLE || connection->state == NB_CONNECTION_LINGER)) {
        nb_connection_deadline(connection, now + NB_SECOND); /* the client has not read its answer: nb_sends_expire */
        return;
    }
    switch (connection->state) {
    case NB_CONNECTION_IDLE: /* RFC 9112 §9.5: may close at any time */
        if (connection->in_length) core->timeouts++; /* in the middle of a PROXY header */
        nb_connection_close(connection);
        break;
    case NB_CONNECTION_HEAD:
        nb_connection_refuse(connection, &(nb_refusal_t){NB_REFUSED_HEAD_TIMEOUT, "the request's head did not come in time"});
        break;
    case NB_CONNECTION_BODY:
        nb_connection_refuse(connection, &(nb_refusal_t){NB_REFUSED_BODY_TIMEOUT, "the request's body did not come in time"});
        break;
    case NB_CONNECTION_BUSY: break; /* its fiber has limits of its own */
    case NB_CONNECTION_LINGER: nb_connection_close(connection); break;
    }
}

/* ---- what follows a request ---- */
void nb_connection_next(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    nb_request_t *request = connection->request;
    connection->request = NULL;
    connection->taken = false;
    connection->served++;
    bool keep = request->keep_alive && !connection->doomed && !core->draining;
    bool end = connection->peer_left || (request->client_closes && connection->in_length == 0 && request->input_ended && !connection->doomed);
    request->connection = NULL;
    nb_request_free(request);
    if (end) nb_connection_leave(connection); /* nothing of its can be unread */
    else if (!keep) nb_connection_linger(connection);
    if (end || !keep) return;
    connection->state = NB_CONNECTION_IDLE;
    connection->scanned = 0;
    uint64_t now = nb_now();
    if (core->settings.idle_timeout != NB_NEVER) nb_connection_deadline(connection, now + core->settings.idle_timeout);
    else connection->deadline = NB_NEVER;
    if (connection->in_length) { /* pipelined: it takes its place behind the others' requests */
        size_t length = connection->in_length;
        connection->in_length = 0;
        nb_request_bytes(connection, connection->in, length);
    } else if (nb_connection_want(connection, RUBY_IO_READABLE)) {
        nb_connection_leave(connection);
    } else {
        nb_list_append(&core->idlers, &connection->idles);
        nb_listeners_retry(core);
    }
}

/* Closes when what is on its way out is out. */
void nb_connection_leave(nb_connection_t *connection) {
    if (!connection->sending || connection->peer_left) {
        nb_connection_close(connection);
        return;
    }
    connection->state = NB_CONNECTION_LINGER;
    nb_list_remove(&connection->idles);
    connection->leaving = true;
}

/* A close with unread bytes of the client's would reset the connection, and our last answer might never be read
 * (RFC 9112 §9.6). So we say that we are done, and read on for a while. */
void nb_connection_linger(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    nb_connection_keep(connection, NULL, 0);
    connection->state = NB_CONNECTION_LINGER;
    nb_list_remove(&connection->idles);
    if (connection->sending && !connection->peer_left) return; /* we are called again when it is out */
    if (connection->peer_left || connection->ended || shutdown(connection->watch.fd, SHUT_WR) < 0) {
        nb_connection_close(connection);
        return;
    }
    nb_connection_deadline(connection, nb_now() + core->settings.linger_timeout);
    nb_list_append(&core->idlers, &connection->idles); /* nothing more is done for it */
    nb_connection_receive(connection);
    nb_listeners_retry(core);
}

void nb_connection_continue(nb_connection_t *connection) {
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (connection->request->continued) return;
    connection->request->continued = true;
    nb_send_words(connection, text, sizeof text - 1);
}

/* An answer of our own, outside of any fiber. */
static bool send_refusal(nb_connection_t *connection, const nb_refusal_t *refusal, bool close) {
    char head[512];
    size_t date_length, text_length = strlen(refusal->text) + 1;
    const char *date = nb_core_date(connection->core, &date_length);
    nb_request_t *request = connection->request;
    int status = nb_refusal_status(refusal->kind);
    bool head_only = request ? request->head_only : connection->asks_head;
    int length = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nDate: %.*s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n%s%s\r\n%s%s",
                          status, nb_reason(status), (int)date_length, date, text_length, status == 503 ? "Retry-After: 1\r\n" : "",
                          close ? "Connection: close\r\n" : "", head_only ? "" : refusal->text, head_only ? "" : "\n");
    if (request) {
        request->status = status;
        request->written = head_only ? 0 : text_length;
    }
    return nb_send_words(connection, head, (size_t)length);
}

/* An answer whose end is the connection's was broken off: a reset is the only sign of it that there is (RFC 9112 §8). */
void nb_connection_break(nb_connection_t *connection) {
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(connection->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    connection->peer_left = connection->broken = true;
}

static void refuse(nb_connection_t *connection, const nb_refusal_t *refusal) {
    nb_request_t *request = connection->request;
    send_refusal(connection, refusal, true);
    if (request) {
        nb_refused_access(request);
        connection->request = NULL;
        request->connection = NULL;
        nb_request_free(request);
    }
    nb_connection_linger(connection);
}

/* Head or body were not to be had, or are no HTTP: nothing that follows on this connection can be trusted. */
void nb_connection_refuse(nb_connection_t *connection, const nb_refusal_t *refusal) {
    if (nb_refusal_status(refusal->kind) == 408) connection->core->timeouts++;
    nb_refused(connection, refusal);
    refuse(connection, refusal);
}

/* Too busy for a request that is all there: its connection may ask again. Where more requests follow at once it ends:
 * to refuse each would be work too. */
void nb_connection_decline(nb_connection_t *connection, const nb_refusal_t *refusal) {
    nb_request_t *request = connection->request;
    bool keep = request->keep_alive && !request->http10 && request->input_ended && connection->in_length == 0 && !connection->core->draining;
    nb_refused(connection, refusal);
    if (!keep || !send_refusal(connection, refusal, false)) {
        refuse(connection, refusal);
        return;
    }
    nb_refused_access(request);
    nb_connection_next(connection);
}
