/*
 * Bytes on their way out. They gather in a buffer and leave in one system call: a response's head with its body, a
 * chunk with all that came before it. Buffers are used again.
 *
 * Where the kernel does not take all at once, the request's fiber waits, with the limit for stalls. Before the app's
 * own waits (nb_output_try) it does not: the rest leaves with the next bytes.
 */
#include "transport.h"
#include <errno.h>
#include <ruby/io.h>
#include <string.h>
#include <sys/socket.h>

void nb_output_add(nb_output_t *output, const void *bytes, size_t length) {
    if (output->length + length > output->capacity) {
        size_t capacity = output->capacity ? output->capacity : 4096;
        while (capacity < output->length + length) capacity *= 2;
        REALLOC_N(output->bytes, char, capacity);
        output->capacity = capacity;
    }
    memcpy(output->bytes + output->length, bytes, length);
    output->length += length;
}

void nb_output_take(nb_exchange_t *exchange) {
    nb_transport_t *transport = exchange->transport;
    if (exchange->out.bytes || !transport->output_count) return;
    exchange->out = transport->outputs[--transport->output_count];
    exchange->out.length = exchange->out.sent = 0;
}

void nb_output_give(nb_exchange_t *exchange) {
    nb_output_recycle(exchange->transport, &exchange->out);
}

void nb_output_recycle(nb_transport_t *transport, nb_output_t *output) {
    if (!output->bytes) return;
    bool kept = transport->output_count < NB_KEPT_OUTPUTS && output->capacity <= 4 * NB_GATHER && !transport->closed;
    if (kept) transport->outputs[transport->output_count++] = *output;
    else xfree(output->bytes);
    *output = (nb_output_t){0};
}

/* ---- waiting ---- */
/* Mostly the request's own task waits. Other tasks may read and write a stream too: the end of the request wakes
 * them. */
typedef struct {
    nb_wait_t wait;
    nb_link_t link; /* in exchange->waits */
    nb_exchange_t *exchange;
    nb_transport_t *transport;
    bool flushes, woken, over, sends;
} waiter_t;

static void next_turns(nb_exchange_t *exchange) {
    exchange->flushing = false;
    for (nb_link_t *l = exchange->waits.next; l != &exchange->waits; l = l->next) {
        waiter_t *waiter = NB_ENTRY(l, waiter_t, link);
        if (waiter->wait.kind != NB_WAIT_BLOCK) continue;
        exchange->turn_wanted |= nb_wake(waiter->transport->engine, &waiter->wait, NB_READY, false);
    }
}

static VALUE waiter_park(VALUE argument) {
    waiter_t *waiter = (waiter_t *)argument;
    nb_park(waiter->transport->engine, &waiter->wait);
    waiter->woken = true;
    return Qnil;
}

static VALUE waiter_leave(VALUE argument) {
    waiter_t *waiter = (waiter_t *)argument;
    nb_list_remove(&waiter->link);
    if (waiter->sends && !waiter->over) nb_rate_end(&waiter->exchange->rate, nb_now());
    if (waiter->flushes && !waiter->over) next_turns(waiter->exchange);
    return Qnil;
}

static void await(waiter_t *waiter) {
    nb_list_append(&waiter->exchange->waits, &waiter->link);
    waiter->exchange->flushing |= waiter->flushes;
    rb_ensure(waiter_park, (VALUE)waiter, waiter_leave, (VALUE)waiter);
    if (waiter->over) rb_raise(rb_eIOError, "the request is over, or its connection was hijacked");
}

static bool wait_for(nb_exchange_t *exchange, int events, uint64_t timeout, const char *what, bool flushes) {
    nb_connection_t *connection = exchange->connection;
    nb_transport_t *transport = exchange->transport;
    bool sends = events & RUBY_IO_WRITABLE;
    waiter_t waiter = {.exchange = exchange, .transport = transport, .flushes = flushes, .sends = sends};
    if (sends) transport->hooks->stalls(exchange);
    nb_interest_t interest = {.wait = &waiter.wait, .fd = connection->watch.fd, .events = (short)events};
    nb_wait_init(&waiter.wait, NB_WAIT_IO, transport->self);
    if (timeout != NB_NEVER) nb_wait_deadline(&waiter.wait, nb_now() + timeout);
    waiter.wait.interests = &interest;
    waiter.wait.interest_count = 1;
    if (!connection->watch.engine) nb_watch_open(transport->engine, &connection->watch, connection->watch.fd, 0);
    int error = nb_interest_add(transport->engine, &interest, transport->self);
    if (error) rb_syserr_fail(error, what);
    if (sends && transport->settings.min_answer_rate)
        nb_rate_begin(&exchange->rate, connection->watch.fd, exchange->sent_bytes, nb_now());
    await(&waiter);
    if (waiter.wait.outcome == NB_TIMED_OUT) transport->timeouts++;
    return waiter.wait.outcome != NB_TIMED_OUT;
}

bool nb_connection_wait(nb_exchange_t *exchange, int events, uint64_t timeout, const char *what) {
    return wait_for(exchange, events, timeout, what, false);
}

static void lose_client(nb_exchange_t *exchange, int error) {
    if (!exchange->client_left && error != ETIMEDOUT) exchange->transport->dropped++;
    exchange->client_left = true;
    exchange->failure = error;
    if (exchange->connection) nb_connection_close_by(exchange->connection, NB_CLOSE_AT_ONCE);
}

void nb_output_client_left(nb_exchange_t *exchange, int error) {
    lose_client(exchange, error);
    rb_syserr_fail(error, "the client has left");
}

void nb_output_turn(nb_exchange_t *exchange) {
    while (exchange->flushing) {
        waiter_t waiter = {.exchange = exchange, .transport = exchange->transport};
        nb_wait_init(&waiter.wait, NB_WAIT_BLOCK, exchange->transport->self);
        await(&waiter);
    }
    if (exchange->failure == ECANCELED)
        rb_raise(rb_eIOError, "a write before this one was broken off in its middle: nothing can follow it");
    if (exchange->failure) nb_output_client_left(exchange, exchange->failure);
}

void nb_output_release(nb_exchange_t *exchange) {
    while (!nb_list_empty(&exchange->waits)) {
        waiter_t *waiter = NB_ENTRY(exchange->waits.next, waiter_t, link);
        nb_list_remove(&waiter->link);
        waiter->over = true;
        nb_wake(exchange->transport->engine, &waiter->wait, NB_READY, false);
    }
    exchange->flushing = false;
}

void nb_output_check_rate(nb_exchange_t *exchange, uint64_t now) {
    if (!exchange->connection || exchange->too_slow) return;
    int fd = exchange->connection->watch.fd;
    if (!nb_rate_is_slow(&exchange->rate, &exchange->transport->settings, fd, exchange->sent_bytes, now)) return;
    for (nb_link_t *l = exchange->waits.next; l != &exchange->waits; l = l->next) {
        waiter_t *waiter = NB_ENTRY(l, waiter_t, link);
        if (waiter->sends) exchange->too_slow = nb_wake(exchange->transport->engine, &waiter->wait, NB_TIMED_OUT, true);
    }
}

void nb_output_stalled(nb_exchange_t *exchange, uint64_t timeout, const char *what) {
    VALUE error = rb_path2class("NeverBlock::TimeoutError");
    lose_client(exchange, ETIMEDOUT);
    if (exchange->too_slow) rb_raise(error, "the client takes its answer too slowly (min_answer_rate): %s", what);
    rb_raise(error, "the client took nothing for %g s: %s", (double)timeout / 1e9, what);
}

/* Earlier responses that were handed over (send.c) come first. */
static void settle(nb_exchange_t *exchange) {
    nb_transport_t *transport = exchange->transport;
    uint64_t limit = transport->settings.write_timeout;
    while (exchange->connection && exchange->connection->sending) {
        uint64_t since = exchange->connection->sending_since;
        waiter_t waiter = {.exchange = exchange, .transport = transport, .flushes = true};
        nb_wait_init(&waiter.wait, NB_WAIT_IO, transport->self);
        if (limit != NB_NEVER) nb_wait_deadline(&waiter.wait, since + limit);
        await(&waiter);
        if (waiter.wait.outcome == NB_TIMED_OUT && exchange->connection->sending_since == since) {
            transport->timeouts++;
            nb_output_stalled(exchange, limit, "sending an answer");
        }
        if (exchange->failure) nb_output_client_left(exchange, exchange->failure);
    }
}

void nb_output_sent(nb_exchange_t *exchange) {
    for (nb_link_t *l = exchange->waits.next; l != &exchange->waits; l = l->next) {
        waiter_t *waiter = NB_ENTRY(l, waiter_t, link);
        bool settles = waiter->wait.kind == NB_WAIT_IO && waiter->wait.interest_count == 0;
        if (settles) nb_wake(waiter->transport->engine, &waiter->wait, NB_READY, true);
    }
}

/* ---- sending ---- */
typedef struct { const char *bytes; size_t length; } piece_t;

/* Bytes that went, or -1 with errno. */
static ssize_t send_pieces(int fd, piece_t *pieces, int count) {
    struct iovec vectors[3];
    int used = 0;
    for (int i = 0; i < count; i++)
        if (pieces[i].length) vectors[used++] = (struct iovec){(void *)pieces[i].bytes, pieces[i].length};
    if (used == 1) return send(fd, vectors[0].iov_base, vectors[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)used};
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void advance(piece_t *pieces, int count, size_t sent) {
    for (int i = 0; i < count; i++) {
        size_t here = sent < pieces[i].length ? sent : pieces[i].length;
        pieces[i].bytes += here;
        pieces[i].length -= here;
        sent -= here;
    }
}

/* Sends the buffer, the String's bytes, and the tail. The String may change or die during a wait: only then a frozen
 * copy, which shares its memory, takes its place. */
void nb_output_flush_with(nb_exchange_t *exchange, VALUE string, const char *tail, size_t tail_length) {
    nb_output_t *out = &exchange->out;
    VALUE held = Qnil;
    bool big = !NIL_P(string);
    settle(exchange);
    piece_t pieces[3] = {{out->bytes + out->sent, out->length - out->sent},
                         {big ? RSTRING_PTR(string) : NULL, big ? (size_t)RSTRING_LEN(string) : 0},
                         {tail, tail_length}};
    if (!exchange->connection) rb_raise(rb_eIOError, "the connection is closed");
    while (pieces[0].length + pieces[1].length + pieces[2].length > 0) {
        ssize_t sent = send_pieces(exchange->connection->watch.fd, pieces, 3);
        if (sent >= 0) {
            exchange->sent_bytes += (uint64_t)sent;
            advance(pieces, 3, (size_t)sent);
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) nb_output_client_left(exchange, errno);
        if (big && NIL_P(held)) {
            size_t done = (size_t)RSTRING_LEN(string) - pieces[1].length;
            held = rb_str_new_frozen(string);
            pieces[1].bytes = RSTRING_PTR(held) + done;
        }
        out->sent = out->length - pieces[0].length;
        if (big) exchange->failure = ECANCELED; /* if the wait is interrupted, nothing can follow half a String */
        uint64_t timeout = exchange->transport->settings.write_timeout;
        if (!wait_for(exchange, RUBY_IO_WRITABLE, timeout, "sending an answer", true))
            nb_output_stalled(exchange, timeout, "sending an answer");
        exchange->failure = 0;
    }
    out->length = out->sent = 0;
    RB_GC_GUARD(held);
    RB_GC_GUARD(string);
    if (!exchange->turn_wanted) return;
    exchange->turn_wanted = false;
    nb_yield(exchange->transport->engine); /* the turn of others; the request may be over after it */
}

void nb_output_flush(nb_exchange_t *exchange) {
    nb_output_turn(exchange);
    if (exchange->out.length > exchange->out.sent) nb_output_flush_with(exchange, Qnil, NULL, 0);
    else settle(exchange);
}

/* Before the app waits for something else: sends what goes without waiting. */
void nb_output_try(nb_exchange_t *exchange) {
    nb_output_t *out = &exchange->out;
    if (exchange->flushing) return;
    if (exchange->connection && exchange->connection->sending) {
        exchange->connection->left_over = true;
        return;
    }
    while (exchange->connection && out->sent < out->length) {
        nb_watch_t *watch = &exchange->connection->watch;
        ssize_t sent = send(watch->fd, out->bytes + out->sent, out->length - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) nb_connection_want(exchange->connection, watch->events | RUBY_IO_WRITABLE);
        else if (sent < 0) exchange->failure = errno; /* the next write or flush raises it */
        if (sent < 0) return;
        exchange->sent_bytes += (uint64_t)sent;
        out->sent += (size_t)sent;
    }
    if (out->sent == out->length) out->length = out->sent = 0;
}
