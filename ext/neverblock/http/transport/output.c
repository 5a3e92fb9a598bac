/*
 * Bytes on their way out. They gather in a buffer and leave in one system call: with an answer's head goes its body,
 * with one chunk all that came before it. A buffer belongs to a request while it is answered and is used again.
 *
 * What the kernel does not take at once is waited for, in the request's fiber, with the limit for stalls; except
 * before the app's own waits (nb_output_try), where what is left goes with the next bytes.
 */
#include "../http.h"
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

void nb_output_take(nb_request_t *request) {
    nb_core_t *core = request->core;
    if (request->out.bytes || !core->output_count) return;
    request->out = core->outputs[--core->output_count];
    request->out.length = request->out.sent = 0;
}

void nb_output_give(nb_request_t *request) {
    nb_output_recycle(request->core, &request->out);
}

void nb_output_recycle(nb_core_t *core, nb_output_t *output) {
    if (!output->bytes) return;
    if (core->output_count < NB_KEPT_OUTPUTS && output->capacity <= 4 * NB_GATHER && !core->closed) core->outputs[core->output_count++] = *output;
    else xfree(output->bytes);
    *output = (nb_output_t){0};
}

/* ---- waiting ---- */
/* Most often it is the request's own task that waits. But a stream may be written to and read by others, which the end
 * of the request must not leave waiting for what is gone. */
typedef struct {
    nb_wait_t wait;
    nb_link_t link; /* in request->waits */
    nb_request_t *request;
    nb_core_t *core;
    bool flushes, woken, over, sends;
} waiter_t;

static void next_turns(nb_request_t *request) {
    request->flushing = false;
    for (nb_link_t *l = request->waits.next; l != &request->waits; l = l->next) {
        waiter_t *waiter = NB_ENTRY(l, waiter_t, link);
        if (waiter->wait.kind == NB_WAIT_BLOCK) request->awaited |= nb_wake(waiter->core->engine, &waiter->wait, NB_READY, false);
    }
}

static VALUE waiter_park(VALUE argument) {
    waiter_t *waiter = (waiter_t *)argument;
    nb_park(waiter->core->engine, &waiter->wait);
    waiter->woken = true;
    return Qnil;
}

static VALUE waiter_leave(VALUE argument) {
    waiter_t *waiter = (waiter_t *)argument;
    nb_list_remove(&waiter->link);
    if (waiter->sends && !waiter->over) nb_pace_end(&waiter->request->pace, nb_now());
    if (waiter->flushes && !waiter->over) next_turns(waiter->request);
    return Qnil;
}

static void await(waiter_t *waiter) {
    nb_list_append(&waiter->request->waits, &waiter->link);
    waiter->request->flushing |= waiter->flushes;
    rb_ensure(waiter_park, (VALUE)waiter, waiter_leave, (VALUE)waiter);
    if (waiter->over) rb_raise(rb_eIOError, "the request is over, or its connection was hijacked");
}

static bool wait_for(nb_request_t *request, int events, uint64_t timeout, const char *what, bool flushes) {
    nb_connection_t *connection = request->connection;
    nb_core_t *core = request->core;
    waiter_t waiter = {.request = request, .core = core, .flushes = flushes, .sends = events & RUBY_IO_WRITABLE};
    if (events & RUBY_IO_WRITABLE && request->head_sent) nb_crew_stream(request); /* who reads slowly keeps nobody else waiting */
    nb_interest_t interest = {.wait = &waiter.wait, .fd = connection->watch.fd, .events = (short)events};
    nb_wait_init(&waiter.wait, NB_WAIT_IO, core->self);
    if (timeout != NB_NEVER) nb_wait_deadline(&waiter.wait, nb_now() + timeout);
    waiter.wait.interests = &interest;
    waiter.wait.interest_count = 1;
    if (!connection->watch.engine) nb_watch_open(core->engine, &connection->watch, connection->watch.fd, 0);
    int error = nb_interest_add(core->engine, &interest, core->self);
    if (error) rb_syserr_fail(error, what);
    if (waiter.sends && core->settings.min_answer_rate) nb_pace_begin(&request->pace, connection->watch.fd, request->sent_bytes, nb_now());
    await(&waiter);
    if (waiter.wait.outcome == NB_TIMED_OUT) core->timeouts++;
    return waiter.wait.outcome != NB_TIMED_OUT;
}

bool nb_connection_wait(nb_request_t *request, int events, uint64_t timeout, const char *what) {
    return wait_for(request, events, timeout, what, false);
}

static void lose_client(nb_request_t *request, int error) {
    if (!request->client_left && error != ETIMEDOUT) request->core->dropped++;
    request->client_left = true;
    request->failure = error;
    if (request->connection) request->connection->doomed = request->connection->peer_left = true;
}

void nb_output_client_left(nb_request_t *request, int error) {
    lose_client(request, error);
    rb_syserr_fail(error, "the client has left");
}

void nb_output_turn(nb_request_t *request) {
    while (request->flushing) {
        waiter_t waiter = {.request = request, .core = request->core};
        nb_wait_init(&waiter.wait, NB_WAIT_BLOCK, request->core->self);
        await(&waiter);
    }
    if (request->failure == ECANCELED) rb_raise(rb_eIOError, "a write before this one was broken off in its middle: nothing can follow it");
    if (request->failure) nb_output_client_left(request, request->failure);
}

void nb_output_release(nb_request_t *request) {
    while (!nb_list_empty(&request->waits)) {
        waiter_t *waiter = NB_ENTRY(request->waits.next, waiter_t, link);
        nb_list_remove(&waiter->link);
        waiter->over = true;
        nb_wake(request->core->engine, &waiter->wait, NB_READY, false);
    }
    request->flushing = false;
}

void nb_output_hurry(nb_request_t *request, uint64_t now) {
    if (!request->connection || request->crawls) return;
    if (!nb_pace_is_slow(&request->pace, &request->core->settings, request->connection->watch.fd, request->sent_bytes, now)) return;
    for (nb_link_t *l = request->waits.next; l != &request->waits; l = l->next) {
        waiter_t *waiter = NB_ENTRY(l, waiter_t, link);
        if (waiter->sends) request->crawls = nb_wake(request->core->engine, &waiter->wait, NB_TIMED_OUT, true);
    }
}

void nb_output_stalled(nb_request_t *request, uint64_t timeout, const char *what) {
    lose_client(request, ETIMEDOUT);
    if (request->crawls)
        rb_raise(rb_path2class("NeverBlock::TimeoutError"), "the client takes its answer too slowly (min_answer_rate): %s", what);
    rb_raise(rb_path2class("NeverBlock::TimeoutError"), "the client took nothing for %g s: %s", (double)timeout / 1e9, what);
}

/* Earlier answers that were handed over (send.c) come first. */
static void settle(nb_request_t *request) {
    nb_core_t *core = request->core;
    uint64_t limit = core->settings.write_timeout;
    while (request->connection && request->connection->sending) {
        uint64_t since = request->connection->sending_since;
        waiter_t waiter = {.request = request, .core = core, .flushes = true};
        nb_wait_init(&waiter.wait, NB_WAIT_IO, core->self);
        if (limit != NB_NEVER) nb_wait_deadline(&waiter.wait, since + limit);
        await(&waiter);
        if (waiter.wait.outcome == NB_TIMED_OUT && request->connection->sending_since == since) {
            core->timeouts++;
            nb_output_stalled(request, limit, "sending an answer");
        }
        if (request->failure) nb_output_client_left(request, request->failure);
    }
}

void nb_output_sent(nb_request_t *request) {
    for (nb_link_t *l = request->waits.next; l != &request->waits; l = l->next) {
        waiter_t *waiter = NB_ENTRY(l, waiter_t, link);
        if (waiter->wait.kind == NB_WAIT_IO && waiter->wait.interest_count == 0) nb_wake(waiter->core->engine, &waiter->wait, NB_READY, true);
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

/* The buffer, then the String's bytes, then the tail. The String may change or die while we wait: so only then a frozen
 * copy, which shares its memory, stands in for it. */
void nb_output_flush_with(nb_request_t *request, VALUE string, const char *tail, size_t tail_length) {
    nb_output_t *out = &request->out;
    VALUE held = Qnil;
    bool big = !NIL_P(string);
    settle(request);
    piece_t pieces[3] = {{out->bytes + out->sent, out->length - out->sent},
                         {big ? RSTRING_PTR(string) : NULL, big ? (size_t)RSTRING_LEN(string) : 0}, {tail, tail_length}};
    if (!request->connection) rb_raise(rb_eIOError, "the connection is closed");
    while (pieces[0].length + pieces[1].length + pieces[2].length > 0) {
        ssize_t sent = send_pieces(request->connection->watch.fd, pieces, 3);
        if (sent >= 0) {
            request->sent_bytes += (uint64_t)sent;
            advance(pieces, 3, (size_t)sent);
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) nb_output_client_left(request, errno);
        if (big && NIL_P(held)) {
            size_t done = (size_t)RSTRING_LEN(string) - pieces[1].length;
            held = rb_str_new_frozen(string);
            pieces[1].bytes = RSTRING_PTR(held) + done;
        }
        out->sent = out->length - pieces[0].length;
        if (big) request->failure = ECANCELED; /* should the wait be ended: nothing can follow half a String */
        uint64_t timeout = request->core->settings.write_timeout;
        if (!wait_for(request, RUBY_IO_WRITABLE, timeout, "sending an answer", true)) nb_output_stalled(request, timeout, "sending an answer");
        request->failure = 0;
    }
    out->length = out->sent = 0;
    RB_GC_GUARD(held);
    RB_GC_GUARD(string);
    if (!request->awaited) return;
    request->awaited = false;
    nb_yield(request->core->engine); /* the others' turn; the request may be over when ours comes again */
}

void nb_output_flush(nb_request_t *request) {
    nb_output_turn(request);
    if (request->out.length > request->out.sent) nb_output_flush_with(request, Qnil, NULL, 0);
    else settle(request);
}

/* Before the app waits for something else: what goes without waiting goes now. */
void nb_output_try(nb_request_t *request) {
    nb_output_t *out = &request->out;
    if (request->flushing) return;
    if (request->connection && request->connection->sending) {
        request->connection->left_over = true;
        return;
    }
    while (request->connection && out->sent < out->length) {
        ssize_t sent = send(request->connection->watch.fd, out->bytes + out->sent, out->length - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) nb_connection_want(request->connection, request->connection->watch.events | RUBY_IO_WRITABLE);
        else if (sent < 0) request->failure = errno; /* the next write or flush raises it */
        if (sent < 0) return;
        request->sent_bytes += (uint64_t)sent;
        out->sent += (size_t)sent;
    }
    if (out->sent == out->length) out->length = out->sent = 0;
}
