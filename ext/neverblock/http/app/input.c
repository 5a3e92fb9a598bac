/*
 * A body that the app reads itself (`request_body :stream`), behind Server::Input and Server::Stream. Each read takes
 * the bytes that have come, and parks if there are none. After the response the rest is dropped, or ends the
 * connection.
 */
#include "app.h"
#include <errno.h>
#include <ruby/io.h>
#include <string.h>

#define LARGEST_REFUSED 65536 /* bytes of an unwanted body that are read so that the response arrives */

NORETURN(static void unreadable(nb_request_t *, const char *error, nb_refusal_t));

/* Becomes the response, unless the app returns another. */
static void unreadable(nb_request_t *request, const char *error, nb_refusal_t refusal) {
    request->refusal = refusal.kind;
    request->refusal_text = refusal.text;
    request->input_phase = NB_INPUT_ENDED;
    nb_connection_close_by(request->io.connection, NB_CLOSE_AFTER_RESPONSE);
    if (request->response < NB_RESPONSE_HEAD_SENT) nb_refused(request->io.connection, &refusal);
    rb_raise(rb_path2class(error), "the request's body can't be read: %s", refusal.text);
}

/* Up to max bytes as they come, or nil at the end. Parks, if it may. The client has to wait while the app does not
 * read. */
VALUE nb_request_read(nb_request_t *request, size_t max, bool may_wait) {
    nb_server_t *server = request->server;
    while (request->input_phase != NB_INPUT_ENDED) {
        nb_connection_t *connection = request->io.connection;
        if (!connection) rb_raise(rb_eIOError, "the connection is gone");
        nb_receive_stop(connection);
        if (connection->in_length == 0) {
            if (!may_wait) return Qnil;
            bool asks = request->input_phase == NB_INPUT_AWAITS_CONTINUE && request->response < NB_RESPONSE_HEAD_SENT;
            if (asks && request->io.flushing) { /* another task is in the middle of an interim response */
                nb_output_turn(&request->io);
                continue;
            }
            if (asks) nb_request_continue(request);
            if (!nb_connection_wait(&request->io, RUBY_IO_READABLE, server->settings.body_timeout,
                                    "the request's body"))
                unreadable(request, "NeverBlock::TimeoutError",
                           (nb_refusal_t){NB_REFUSED_BODY_TIMEOUT, "the request's body did not come in time"});
            connection = request->io.connection;
            ssize_t got = recv(connection->watch.fd, server->net.scratch, NB_SCRATCH, MSG_DONTWAIT);
            if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (got <= 0) {
                server->net.dropped++;
                request->io.client_left = true;
                nb_connection_close_by(connection, NB_CLOSE_AT_ONCE);
                rb_raise(rb_eEOFError, "the client left before the end of its request's body");
            }
            nb_connection_keep(connection, server->net.scratch, (size_t)got);
        }
        /* The client did not wait for 100 Continue, or no longer does. */
        if (request->input_phase == NB_INPUT_AWAITS_CONTINUE) request->input_phase = NB_INPUT_COMING;
        size_t some = connection->in_length < max ? connection->in_length : max, consumed = 0, gathered = 0;
        if (request->framing == NB_BODY_LENGTH) {
            uint64_t left = request->declared - request->received;
            consumed = gathered = left < some ? (size_t)left : some;
        } else {
            const char *reason = NULL;
            int outcome = nb_chunks_gather(&request->chunks, connection->in, some, &consumed, &gathered, &reason);
            if (outcome == NB_CHUNKS_END) request->input_phase = NB_INPUT_ENDED;
            else if (outcome != NB_CHUNKS_MORE)
                unreadable(request, "NeverBlock::ProtocolError", nb_refusal_of(outcome, reason));
        }
        request->received += gathered;
        if (request->received > server->settings.max_body_size)
            unreadable(request, "NeverBlock::ProtocolError", nb_refusal_too_large(server->settings.max_body_size));
        VALUE piece = gathered ? rb_str_new(connection->in, (long)gathered) : Qnil;
        nb_connection_keep(connection, connection->in + consumed, connection->in_length - consumed);
        if (request->framing == NB_BODY_LENGTH && request->received >= request->declared)
            request->input_phase = NB_INPUT_ENDED;
        if (!NIL_P(piece)) return piece;
    }
    return Qnil;
}

static VALUE drop_some(VALUE request) {
    while (!NIL_P(nb_request_read((nb_request_t *)request, NB_SCRATCH, false))) {}
    return Qnil;
}

/* From an upgraded connection: any bytes that the client sends; nil at the end. */
VALUE nb_request_read_raw(nb_request_t *request, size_t max) {
    nb_connection_t *connection = request->io.connection;
    nb_receive_stop(connection);
    while (connection->in_length == 0) {
        ssize_t got = recv(connection->watch.fd, request->server->net.scratch, max, MSG_DONTWAIT);
        if (got > 0) return rb_str_new(request->server->net.scratch, got);
        if (got == 0 || errno == ECONNRESET) return Qnil;
        if (errno != EAGAIN && errno != EINTR) nb_output_client_left(&request->io, errno);
        nb_connection_wait(&request->io, RUBY_IO_READABLE, NB_NEVER, "reading");
    }
    size_t length = connection->in_length < max ? connection->in_length : max;
    VALUE piece = rb_str_new(connection->in, (long)length);
    nb_connection_keep(connection, connection->in + length, connection->in_length - length);
    return piece;
}

/* The response is out, and the body is not read. A short rest, or one that has come, is read and dropped, so that the
 * connection can go on; otherwise it ends. */
void nb_request_drain(nb_request_t *request) {
    nb_connection_t *connection = request->io.connection;
    if (request->input_phase == NB_INPUT_ENDED || !connection) return;
    /* 100 Continue was not sent, and need not be (RFC 9110 §10.1.1). */
    if (request->input_phase == NB_INPUT_AWAITS_CONTINUE && connection->in_length == 0) {
        nb_connection_close_by(connection, NB_CLOSE_AFTER_RESPONSE);
        return;
    }
    nb_receive_stop(connection);
    for (size_t dropped = 0; dropped < LARGEST_REFUSED && request->input_phase != NB_INPUT_ENDED;) {
        if (connection->in_length == 0) {
            ssize_t got = recv(connection->watch.fd, request->server->net.scratch, NB_SCRATCH, MSG_DONTWAIT);
            if (got <= 0) break;
            nb_connection_keep(connection, request->server->net.scratch, (size_t)got);
        }
        int state = 0;
        dropped += connection->in_length;
        rb_protect(drop_some, (VALUE)request, &state);
        if (!state) continue;
        rb_set_errinfo(Qnil);
        break;
    }
    if (request->input_phase != NB_INPUT_ENDED) nb_connection_close_by(connection, NB_CLOSE_AFTER_RESPONSE);
}
