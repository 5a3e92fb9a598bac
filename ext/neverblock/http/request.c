/*
 * From bytes to a request: the head is parsed where it was received, the body is collected - in memory, or in a file
 * that has no name - and then the request is up for admission. Slow clients cost memory here, never a fiber.
 */
#include "http.h"
#include "proxy.h"
#include <errno.h>
#include <fcntl.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST_REFUSED 65536 /* how much of an unwanted body is read so that the answer arrives */

/* ---- the structs, used again and again ---- */
static nb_request_t *request_new(nb_connection_t *connection) {
    nb_core_t *core = connection->core;
    nb_request_t *request = core->spare;
    if (request) core->spare = (nb_request_t *)request->connection;
    else request = ALLOC(nb_request_t);
    memset(request, 0, sizeof *request);
    request->core = core;
    request->connection = connection;
    request->env = request->input = request->handle = request->path = request->task = request->collected = Qnil;
    request->hints = request->headers = Qnil;
    request->file = -1;
    nb_list_init(&request->queue);
    nb_list_init(&request->waits);
    nb_list_append(&core->requests, &request->link);
    core->request_count++;
    connection->request = request;
    return request;
}

void nb_request_free(nb_request_t *request) {
    nb_core_t *core = request->core;
    nb_admission_leave(request);
    nb_list_remove(&request->link);
    core->request_count--;
    core->body_bytes -= request->charged;
    if (request->file >= 0) close(request->file);
    nb_handle_forget(request);
    nb_output_release(request);
    nb_output_give(request);
    if (core->closed) {
        xfree(request);
        return;
    }
    request->connection = (nb_connection_t *)core->spare;
    core->spare = request;
}

/* ---- bodies ---- */
static bool charge(nb_request_t *request, size_t length) {
    nb_core_t *core = request->core;
    if (core->body_bytes + length > core->settings.body_quota) return false;
    core->body_bytes += length;
    request->charged += length;
    return true;
}

static int unnamed_file(void) {
    const char *folder = getenv("TMPDIR");
    char path[256];
    if (!folder || !*folder || strlen(folder) > 200) folder = "/tmp";
#ifdef O_TMPFILE
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0) return fd;
#endif
    snprintf(path, sizeof path, "%s/neverblock-body-XXXXXX", folder);
    int named = mkstemp(path);
    if (named < 0) return -1;
    unlink(path);
    fcntl(named, F_SETFD, FD_CLOEXEC);
    return named;
}

static bool write_all(int fd, const char *bytes, size_t length) {
    while (length) {
        ssize_t wrote = write(fd, bytes, length);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

static const nb_refusal_t too_large = {NB_REFUSED_CONTENT_TOO_LARGE, "the body is larger than this server takes"};

/* Leaves a refusal where it can't be had. */
static void store(nb_request_t *request, const char *bytes, size_t length, nb_refusal_t *refusal) {
    nb_core_t *core = request->core;
    request->received += length;
    if (request->received > core->settings.max_body_size) {
        *refusal = too_large;
        return;
    }
    if (!charge(request, length)) {
        *refusal = (nb_refusal_t){NB_REFUSED_BODY_QUOTA, "too many bodies are being received"};
        snprintf(refusal->detail, sizeof refusal->detail, "the bodies being held use up body_quota (%llu bytes)",
                 (unsigned long long)core->settings.body_quota);
        return;
    }
    if (request->file < 0 && request->received <= core->settings.body_memory) {
        if (NIL_P(request->collected)) {
            size_t expected = request->framing == NB_BODY_LENGTH ? request->declared : 1024;
            request->collected = rb_str_buf_new((long)(expected < core->settings.body_memory ? expected : core->settings.body_memory));
        }
        rb_str_cat(request->collected, bytes, (long)length);
        return;
    }
    if (request->file < 0) {
        request->file = unnamed_file();
        bool ok = request->file >= 0;
        if (ok && !NIL_P(request->collected)) ok = write_all(request->file, RSTRING_PTR(request->collected), (size_t)RSTRING_LEN(request->collected));
        request->collected = Qnil;
        if (!ok) goto failed;
    }
    if (write_all(request->file, bytes, length)) return;
failed:
    *refusal = (nb_refusal_t){NB_REFUSED_BODY_FILE, "the body can't be stored"};
    snprintf(refusal->detail, sizeof refusal->detail, "its body can't be stored in TMPDIR: %s", strerror(errno));
}

static VALUE input_of(nb_request_t *request) {
    if (request->file >= 0) {
        lseek(request->file, 0, SEEK_SET);
        VALUE arguments[] = {INT2NUM(request->file), rb_str_new_cstr("r+b")};
        VALUE file = rb_funcallv(rb_cFile, rb_intern("for_fd"), 2, arguments); /* its position is the beginning */
        request->file = -1; /* the File closes it */
        return file;
    }
    static ID id_stringio;
    if (!id_stringio) id_stringio = rb_intern("StringIO");
    VALUE collected = NIL_P(request->collected) ? rb_str_buf_new(0) : request->collected;
    return rb_class_new_instance(1, &collected, rb_const_get(rb_cObject, id_stringio));
}

/* A collected body becomes an IO when the app is called, and not before: of a request that is dropped in the queue, only
 * a collection of garbage would close it. */
void nb_request_open_input(nb_request_t *request) {
    if (request->framing == NB_BODY_NONE || request->streaming_input) return;
    request->input = input_of(request);
    rb_hash_aset(request->env, nb_key_input, request->input);
}

static void complete(nb_connection_t *connection) {
    nb_request_t *request = connection->request;
    request->input_ended = true;
    nb_admission_enter(request);
}

/* ---- the body ---- */
static void collect(nb_connection_t *connection, const char *bytes, size_t length) {
    nb_request_t *request = connection->request;
    nb_refusal_t refusal = {NB_REFUSED_NOT};
    size_t used = 0;
    bool ended = false;
    if (request->framing == NB_BODY_LENGTH) {
        uint64_t left = request->declared - request->received;
        used = left < length ? (size_t)left : length;
        if (used) store(request, bytes, used, &refusal);
        ended = request->received >= request->declared;
    } else {
        while (used < length && !ended && !refusal.kind) {
            const char *reason = NULL;
            size_t consumed = 0;
            nb_span_t data;
            int result = nb_chunks_feed(&request->chunks, bytes + used, length - used, &consumed, &data, &reason);
            if (result == 1) store(request, bytes + used + data.at, data.length, &refusal);
            else if (result == 2) ended = true;
            else if (result > 2) refusal = nb_refusal_of(result, reason);
            used += consumed;
            if (result == 0 && consumed == 0) break;
        }
    }
    if (!refusal.kind && !ended && nb_connection_body_slow(connection))
        refusal = (nb_refusal_t){NB_REFUSED_MIN_BODY_RATE, "the body comes too slowly"};
    if (refusal.kind) {
        nb_connection_refuse(connection, &refusal);
        return;
    }
    nb_connection_keep(connection, bytes + used, length - used);
    if (ended) {
        complete(connection);
        return;
    }
    uint64_t pause = connection->core->settings.body_timeout;
    nb_connection_deadline(connection, pause == NB_NEVER ? NB_NEVER : nb_now() + pause);
    if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
}

/* ---- the head ---- */
static bool is_streamed(nb_core_t *core, const char *path, size_t length) {
    VALUE paths = core->settings.stream_paths;
    if (!RB_TYPE_P(paths, T_ARRAY)) return RTEST(paths);
    for (long i = 0; i < RARRAY_LEN(paths); i++) {
        VALUE prefix = RARRAY_AREF(paths, i);
        if ((size_t)RSTRING_LEN(prefix) <= length && memcmp(RSTRING_PTR(prefix), path, (size_t)RSTRING_LEN(prefix)) == 0) return true;
    }
    return false;
}

static void begin(nb_connection_t *connection, char *bytes, size_t length, const nb_head_t *head) {
    nb_core_t *core = connection->core;
    nb_request_t *request = request_new(connection);
    core->requests_total++;
    request->arrived = connection->began;
    request->http10 = head->minor == 0;
    request->keep_alive = head->keep_alive && !(core->settings.max_requests && connection->served + 1 >= core->settings.max_requests);
    request->client_closes = !head->keep_alive;
    request->head_only = head->method_id == NB_METHOD_HEAD;
    request->framing = head->chunked ? NB_BODY_CHUNKED : head->has_length && head->length ? NB_BODY_LENGTH : NB_BODY_NONE;
    request->declared = head->length;
    request->expects = head->expect_continue && request->framing != NB_BODY_NONE;
    request->streaming_input = request->framing != NB_BODY_NONE && is_streamed(core, bytes + head->path.at, head->path.length);
    nb_env_build(request, bytes, head);
    if (head->has_length && head->length > core->settings.max_body_size) {
        nb_connection_refuse(connection, &too_large);
        return;
    }
    if (request->framing != NB_BODY_NONE && nb_admission_full(core)) { /* not worth its body */
        nb_admission_refuse(request);
        return;
    }
    bytes += head->head_length;
    length -= head->head_length;
    if (request->streaming_input) {
        request->input = rb_funcall(rb_path2class("NeverBlock::Server::Input"), rb_intern("new"), 1, request->handle);
        rb_hash_aset(request->env, nb_key_input, request->input);
        nb_connection_keep(connection, bytes, length);
        nb_admission_enter(request);
    } else if (request->framing == NB_BODY_NONE) {
        request->input_ended = true;
        nb_connection_keep(connection, bytes, length);
        nb_admission_enter(request);
    } else {
        connection->state = NB_CONNECTION_BODY;
        if (request->expects && length == 0) nb_connection_continue(connection);
        collect(connection, bytes, length);
    }
}

static void head_bytes(nb_connection_t *connection, char *bytes, size_t length) {
    nb_core_t *core = connection->core;
    nb_head_t *head = &core->head;
    const char *reason = NULL;
    if (connection->state == NB_CONNECTION_IDLE) {
        connection->state = NB_CONNECTION_HEAD;
        connection->began = nb_now();
        connection->scanned = 0;
    }
    head->scanned = connection->scanned;
    connection->asks_head = length >= 5 && memcmp(bytes, "HEAD ", 5) == 0; /* its refusal has no body either (RFC 9110 §9.3.2) */
    int result = nb_head_parse(bytes, length, head, &core->settings.head, &reason);
    if (result == 1) {
        begin(connection, bytes, length, head);
    } else if (result == 0) {
        connection->scanned = head->scanned;
        nb_connection_keep(connection, bytes, length);
        uint64_t limit = core->settings.head_timeout;
        nb_connection_deadline(connection, limit == NB_NEVER ? NB_NEVER : connection->began + limit);
        if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
    } else {
        nb_refusal_t refusal = nb_refusal_of(result, reason);
        nb_connection_refuse(connection, &refusal);
    }
}

typedef struct { nb_connection_t *connection; char *bytes; size_t length; } arrival_t;

/* Takes a PROXY header off, which a connection's first bytes must be where its address asks for one: whoever comes
 * without has gone past the balancer. False: it is not all there yet, or nothing follows, or the connection is closed. */
static bool introduced(arrival_t *arrival) {
    nb_connection_t *connection = arrival->connection;
    nb_core_t *core = connection->core;
    const char *reason = NULL;
    nb_proxy_t proxy;
    nb_proxy_outcome_t outcome = nb_proxy_parse(arrival->bytes, arrival->length, &proxy, &reason);
    if (outcome == NB_PROXY_INVALID) {
        core->proxy_errors++;
        nb_core_trouble(core, "proxy", "a connection from %" PRIsVALUE " is closed: %s (proxy=required)", nb_env_remote(connection), reason);
        nb_connection_close(connection);
        return false;
    }
    if (proxy.has_address) {
        memcpy(connection->address, proxy.address, 16);
        connection->has_address = connection->introduced = true;
    }
    if (outcome == NB_PROXY_COMPLETE) connection->awaits_proxy = false;
    arrival->bytes += proxy.length;
    arrival->length -= proxy.length;
    if (outcome == NB_PROXY_COMPLETE && arrival->length) return true;
    nb_connection_keep(connection, arrival->bytes, arrival->length);
    if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
    return false;
}

static VALUE arrive(VALUE argument) {
    arrival_t *arrival = (arrival_t *)argument;
    if (arrival->connection->awaits_proxy && !introduced(arrival)) return Qnil;
    if (arrival->connection->state == NB_CONNECTION_BODY) collect(arrival->connection, arrival->bytes, arrival->length);
    else head_bytes(arrival->connection, arrival->bytes, arrival->length);
    return Qnil;
}

/* Called from the loop, where nothing may be raised: out of memory costs the connection, not the server. */
void nb_request_bytes(nb_connection_t *connection, char *bytes, size_t length) {
    arrival_t arrival = {connection, bytes, length};
    int state = 0;
    rb_protect(arrive, (VALUE)&arrival, &state);
    if (!state) return;
    VALUE error = rb_errinfo();
    if (SPECIAL_CONST_P(error)) rb_jump_tag(state); /* Thread#kill */
    rb_set_errinfo(Qnil);
    nb_core_trouble(connection->core, "request", "a request could not be taken in: %s", rb_obj_classname(error));
    nb_connection_close(connection);
}

/* ---- a body that the app reads itself ---- */
NORETURN(static void unreadable(nb_request_t *, const char *error, nb_refusal_t));

/* Unless the app has something else to say, this is the answer. */
static void unreadable(nb_request_t *request, const char *error, nb_refusal_t refusal) {
    request->refusal = refusal.kind;
    request->refusal_text = refusal.text;
    request->input_ended = request->connection->doomed = true;
    if (!request->head_sent) nb_refused(request->connection, &refusal);
    rb_raise(rb_path2class(error), "the request's body can't be read: %s", refusal.text);
}

/* Up to max bytes as they come, or nil at the end. Parks, if it may; the client waits while nobody reads. */
VALUE nb_request_read(nb_request_t *request, size_t max, bool may_wait) {
    nb_core_t *core = request->core;
    while (!request->input_ended) {
        nb_connection_t *connection = request->connection;
        if (!connection) rb_raise(rb_eIOError, "the connection is gone");
        nb_receive_stop(connection);
        if (connection->in_length == 0) {
            if (!may_wait) return Qnil;
            if (request->expects && !request->head_sent) nb_connection_continue(connection);
            if (!nb_connection_wait(request, RUBY_IO_READABLE, core->settings.body_timeout, "the request's body"))
                unreadable(request, "NeverBlock::TimeoutError", (nb_refusal_t){NB_REFUSED_BODY_TIMEOUT, "the request's body did not come in time"});
            connection = request->connection;
            ssize_t got = recv(connection->watch.fd, core->scratch, NB_SCRATCH, MSG_DONTWAIT);
            if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (got <= 0) {
                core->dropped++;
                request->client_left = connection->doomed = connection->peer_left = true;
                rb_raise(rb_eEOFError, "the client left before the end of its request's body");
            }
            nb_connection_keep(connection, core->scratch, (size_t)got);
        }
        request->expects = false; /* it did not wait, or no longer does */
        size_t length = connection->in_length, consumed = 0;
        nb_span_t data = {0, 0};
        if (request->framing == NB_BODY_LENGTH) {
            uint64_t left = request->declared - request->received;
            data.length = (uint32_t)(left < length ? left : length);
            if (data.length > max) data.length = (uint32_t)max;
            consumed = data.length;
        } else {
            const char *reason = NULL;
            size_t some = length < max ? length : max;
            int result = nb_chunks_feed(&request->chunks, connection->in, some, &consumed, &data, &reason);
            if (result == 2) request->input_ended = true;
            if (result != 1) data.length = 0;
            if (result > 2) unreadable(request, "NeverBlock::ProtocolError", nb_refusal_of(result, reason));
        }
        request->received += data.length;
        if (request->received > core->settings.max_body_size)
            unreadable(request, "NeverBlock::ProtocolError", too_large);
        VALUE piece = data.length ? rb_str_new(connection->in + data.at, data.length) : Qnil;
        nb_connection_keep(connection, connection->in + consumed, length - consumed);
        if (request->framing == NB_BODY_LENGTH && request->received >= request->declared) request->input_ended = true;
        if (!NIL_P(piece)) return piece;
    }
    return Qnil;
}

static VALUE drop_some(VALUE request) {
    while (!NIL_P(nb_request_read((nb_request_t *)request, NB_SCRATCH, false))) {}
    return Qnil;
}

/* From an upgraded connection: whatever the client sends; nil at its end. */
VALUE nb_request_read_raw(nb_request_t *request, size_t max) {
    nb_connection_t *connection = request->connection;
    nb_receive_stop(connection);
    while (connection->in_length == 0) {
        ssize_t got = recv(connection->watch.fd, request->core->scratch, max, MSG_DONTWAIT);
        if (got > 0) return rb_str_new(request->core->scratch, got);
        if (got == 0 || errno == ECONNRESET) return Qnil;
        if (errno != EAGAIN && errno != EINTR) nb_output_client_left(request, errno);
        nb_connection_wait(request, RUBY_IO_READABLE, NB_NEVER, "reading");
    }
    size_t length = connection->in_length < max ? connection->in_length : max;
    VALUE piece = rb_str_new(connection->in, (long)length);
    nb_connection_keep(connection, connection->in + length, connection->in_length - length);
    return piece;
}

/* The answer is out before the body was read: what is there already, or is short, is read and dropped, so that the
 * connection can go on; else it ends. */
void nb_request_drain(nb_request_t *request) {
    nb_connection_t *connection = request->connection;
    if (request->input_ended || !connection) return;
    if (request->expects && !request->continued && connection->in_length == 0) { /* it has not been sent, and need not be (RFC 9110 §10.1.1) */
        connection->doomed = true;
        return;
    }
    nb_receive_stop(connection);
    for (size_t dropped = 0; dropped < LARGEST_REFUSED && !request->input_ended;) {
        if (connection->in_length == 0) {
            ssize_t got = recv(connection->watch.fd, request->core->scratch, NB_SCRATCH, MSG_DONTWAIT);
            if (got <= 0) break;
            nb_connection_keep(connection, request->core->scratch, (size_t)got);
        }
        int state = 0;
        dropped += connection->in_length;
        rb_protect(drop_some, (VALUE)request, &state);
        if (!state) continue;
        rb_set_errinfo(Qnil);
        break;
    }
    if (!request->input_ended) connection->doomed = true;
}
