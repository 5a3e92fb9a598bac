/*
 * Bytes on their way out. They gather in a buffer and leave in one system call: with an answer's head goes its body,
 * with one chunk all that came before it. A buffer belongs to a request while it is answered and is used again.
 *
 * What the kernel does not take at once is waited for, in the request's fiber, with the limit for stalls; except
 * before the app's own waits (nb_output_try), where what is left goes with the next bytes.
 */
#include "http.h"
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
    nb_core_t *core = request->core;
    if (!request->out.bytes) return;
    if (core->output_count < NB_KEPT_OUTPUTS && request->out.capacity <= 4 * NB_GATHER && !core->closed) core->outputs[core->output_count++] = request->out;
    else xfree(request->out.bytes);
    request->out = (nb_output_t){0};
}

/* ---- waiting ---- */
void nb_connection_wait(nb_request_t *request, int events, uint64_t timeout, const char *what) {
    nb_connection_t *connection = request->connection;
    nb_core_t *core = request->core;
    nb_wait_t wait;
    nb_interest_t interest = {.wait = &wait, .fd = connection->watch.fd, .events = (short)events};
    nb_wait_init(&wait, NB_WAIT_IO, core->self);
    if (timeout != NB_NEVER) nb_wait_deadline(&wait, nb_now() + timeout);
    wait.interests = &interest;
    wait.interest_count = 1;
    if (!connection->watch.engine) nb_watch_open(core->engine, &connection->watch, connection->watch.fd, 0);
    int error = nb_interest_add(core->engine, &interest, core->self);
    if (error) rb_syserr_fail(error, what);
    nb_park(core->engine, &wait);
    if (!request->connection) rb_raise(rb_eIOError, "the connection is closed");
    if (wait.outcome != NB_TIMED_OUT) return;
    core->timeouts++;
    request->client_left = true;
    request->connection->doomed = request->connection->peer_left = true;
    rb_raise(rb_path2class("NeverBlock::TimeoutError"), "the client did not take or send anything for %g s: %s", (double)timeout / 1e9, what);
}

void nb_output_client_left(nb_request_t *request, int error) {
    request->client_left = true;
    request->core->dropped++;
    request->connection->doomed = request->connection->peer_left = true;
    rb_syserr_fail(error, "the client has left");
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
        request->flushing = true;
        nb_connection_wait(request, RUBY_IO_WRITABLE, request->core->settings.write_timeout, "sending an answer");
        request->flushing = false;
    }
    out->length = out->sent = 0;
    RB_GC_GUARD(held);
    RB_GC_GUARD(string);
}

void nb_output_flush(nb_request_t *request) {
    if (request->out.length > request->out.sent) nb_output_flush_with(request, Qnil, NULL, 0);
}

/* Before the app waits for something else: what goes without waiting goes now. */
void nb_output_try(nb_request_t *request) {
    nb_output_t *out = &request->out;
    while (request->connection && out->sent < out->length) {
        ssize_t sent = send(request->connection->watch.fd, out->bytes + out->sent, out->length - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) nb_connection_want(request->connection, request->connection->watch.events | RUBY_IO_WRITABLE);
        if (sent < 0) return; /* other errors: the next flush finds them too, and may raise */
        request->sent_bytes += (uint64_t)sent;
        out->sent += (size_t)sent;
    }
    if (out->sent == out->length) out->length = out->sent = 0;
}
