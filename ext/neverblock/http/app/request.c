/*
 * From bytes to a request. The head is parsed where it was received, the body is collected in memory or in a file
 * without a name, and the complete request goes to admission. Slow clients cost memory here, never a fiber.
 */
#include "app.h"
#include "../protocol/proxy.h"
#include <errno.h>
#include <fcntl.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the structs, used again and again ---- */
static nb_request_t *request_new(nb_connection_t *connection) {
    nb_server_t *server = nb_server_of(connection);
    nb_request_t *request = server->spare;
    if (request) server->spare = request->next_spare;
    else request = ALLOC(nb_request_t);
    memset(request, 0, sizeof *request);
    request->server = server;
    request->io.transport = &server->net;
    request->io.connection = connection;
    request->env = request->input = request->rack_request = request->path = request->task = request->collected = Qnil;
    request->hints = request->headers = Qnil;
    request->file = -1;
    nb_list_init(&request->queue);
    nb_list_init(&request->io.waits);
    nb_list_append(&server->requests, &request->link);
    server->request_count++;
    connection->exchange = &request->io;
    return request;
}

void nb_request_free(nb_request_t *request) {
    nb_server_t *server = request->server;
    nb_admission_leave(request);
    nb_list_remove(&request->link);
    server->request_count--;
    server->body_bytes -= request->charged;
    if (request->file >= 0) close(request->file);
    nb_rack_request_forget(request);
    nb_output_release(&request->io);
    nb_output_give(&request->io);
    if (server->net.closed) {
        xfree(request);
        return;
    }
    request->next_spare = server->spare;
    server->spare = request;
}

/* ---- the end ---- */
void nb_request_over(nb_request_t *request) {
    nb_connection_t *connection = request->io.connection;
    connection->exchange = NULL;
    connection->fiber_reads = false;
    connection->served++;
    bool keep = request->persistence == NB_PERSISTENCE_KEEP && connection->close_mode == NB_KEEP_OPEN &&
                !connection->transport->draining;
    /* No byte of the client can be unread: there is no need to linger. */
    bool all_read = request->persistence == NB_PERSISTENCE_CLIENT_CLOSES && connection->in_length == 0 &&
                    request->input_phase == NB_INPUT_ENDED && connection->close_mode == NB_KEEP_OPEN;
    request->io.connection = NULL;
    nb_request_free(request);
    if (connection->close_mode >= NB_CLOSE_AT_ONCE || all_read) nb_connection_leave(connection);
    else if (keep) nb_connection_next(connection);
    else nb_connection_linger(connection);
}

/* ---- bodies ---- */
void nb_request_continue(nb_request_t *request) {
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (request->input_phase != NB_INPUT_AWAITS_CONTINUE) return;
    request->input_phase = NB_INPUT_COMING;
    nb_send_words(request->io.connection, text, sizeof text - 1);
}

/* A client that sends a byte now and then keeps every pause short: only its rate shows it. */
static bool is_slow(const nb_request_t *request) {
    const nb_settings_t *settings = &request->server->settings;
    uint64_t age = nb_now() - request->io.connection->began;
    if (!settings->min_body_rate || age < settings->min_body_rate_after) return false;
    return (double)request->received < (double)settings->min_body_rate * (double)age / 1e9;
}

static bool charge(nb_request_t *request, size_t length) {
    nb_server_t *server = request->server;
    if (server->body_bytes + length > server->settings.body_quota) return false;
    server->body_bytes += length;
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


/* Fills in the refusal if the body can't be stored. */
static void store(nb_request_t *request, const char *bytes, size_t length, nb_refusal_t *refusal) {
    nb_server_t *server = request->server;
    request->received += length;
    if (request->received > server->settings.max_body_size) {
        *refusal = nb_refusal_too_large(server->settings.max_body_size);
        return;
    }
    if (!charge(request, length)) {
        *refusal = (nb_refusal_t){NB_REFUSED_BODY_QUOTA, "too many bodies are being received"};
        snprintf(refusal->detail, sizeof refusal->detail, "the bodies being held use up body_quota (%llu bytes)",
                 (unsigned long long)server->settings.body_quota);
        return;
    }
    if (request->file < 0 && request->received <= server->settings.body_memory) {
        if (NIL_P(request->collected)) {
            size_t expected = request->framing == NB_BODY_LENGTH ? request->declared : 1024;
            size_t most = server->settings.body_memory;
            request->collected = rb_str_buf_new((long)(expected < most ? expected : most));
        }
        rb_str_cat(request->collected, bytes, (long)length);
        return;
    }
    if (request->file < 0) {
        request->file = unnamed_file();
        bool ok = request->file >= 0;
        VALUE collected = request->collected;
        if (ok && !NIL_P(collected))
            ok = write_all(request->file, RSTRING_PTR(collected), (size_t)RSTRING_LEN(collected));
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

/* A collected body becomes an IO only when the app is called: an IO of a request that is dropped in the queue would
 * stay open until a garbage collection. */
void nb_request_open_input(nb_request_t *request) {
    if (request->framing == NB_BODY_NONE || request->streaming_input) return;
    if (request->framing == NB_BODY_CHUNKED) nb_env_length(request);
    request->input = input_of(request);
    rb_hash_aset(request->env, nb_key_input, request->input);
}

static void complete(nb_connection_t *connection) {
    nb_request_t *request = nb_request_of(connection);
    request->input_phase = NB_INPUT_ENDED;
    nb_admission_enter(request);
}

/* ---- the body ---- */
static void collect(nb_connection_t *connection, char *bytes, size_t length) {
    nb_request_t *request = nb_request_of(connection);
    nb_refusal_t refusal = {NB_REFUSED_NOT};
    size_t used = 0;
    bool ended = false;
    if (request->framing == NB_BODY_LENGTH) {
        uint64_t left = request->declared - request->received;
        used = left < length ? (size_t)left : length;
        if (used) store(request, bytes, used, &refusal);
        ended = request->received >= request->declared;
    } else { /* decodes all bytes before it stores any: a client may send chunks of one byte */
        const char *reason = NULL;
        size_t gathered = 0;
        int outcome = nb_chunks_gather(&request->chunks, bytes, length, &used, &gathered, &reason);
        ended = outcome == NB_CHUNKS_END;
        if (!ended && outcome != NB_CHUNKS_MORE) refusal = nb_refusal_of(outcome, reason);
        else if (gathered) store(request, bytes, gathered, &refusal);
    }
    if (!refusal.kind && !ended && is_slow(request))
        refusal = (nb_refusal_t){NB_REFUSED_MIN_BODY_RATE, "the body comes too slowly"};
    if (refusal.kind) {
        nb_refuse_request(connection, &refusal);
        return;
    }
    nb_connection_keep(connection, bytes + used, length - used);
    if (ended) {
        complete(connection);
        return;
    }
    uint64_t pause = nb_server_of(connection)->settings.body_timeout;
    nb_connection_deadline(connection, pause == NB_NEVER ? NB_NEVER : nb_now() + pause);
    if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
}

/* ---- the head ---- */
static bool is_streamed(nb_server_t *server, const char *path, size_t length) {
    VALUE paths = server->settings.stream_paths;
    if (!RB_TYPE_P(paths, T_ARRAY)) return RTEST(paths);
    for (long i = 0; i < RARRAY_LEN(paths); i++) {
        VALUE prefix = RARRAY_AREF(paths, i);
        size_t size = (size_t)RSTRING_LEN(prefix);
        if (size <= length && memcmp(RSTRING_PTR(prefix), path, size) == 0) return true;
    }
    return false;
}

static void begin(nb_connection_t *connection, char *bytes, size_t length, const nb_head_t *head) {
    nb_server_t *server = nb_server_of(connection);
    if (!nb_connection_address(connection)) { /* no app is to run for an unknown client, which gets no response */
        server->net.dropped++;
        nb_connection_close(connection);
        return;
    }
    nb_request_t *request = request_new(connection);
    server->requests_total++;
    request->arrived = connection->began;
    request->http10 = head->minor == 0;
    unsigned most = server->settings.max_requests;
    bool last = most && connection->served + 1 >= most;
    request->persistence = !head->keep_alive ? NB_PERSISTENCE_CLIENT_CLOSES
                           : last            ? NB_PERSISTENCE_SERVER_CLOSES
                                             : NB_PERSISTENCE_KEEP;
    request->head_only = head->method_id == NB_METHOD_HEAD;
    bool has_body = head->chunked || (head->has_length && head->length);
    request->framing = head->chunked ? NB_BODY_CHUNKED : has_body ? NB_BODY_LENGTH : NB_BODY_NONE;
    request->declared = head->length;
    request->input_phase = head->expect_continue && has_body ? NB_INPUT_AWAITS_CONTINUE : NB_INPUT_COMING;
    request->streaming_input = has_body && is_streamed(server, bytes + head->path.at, head->path.length);
    nb_env_build(request, bytes, head);
    if (head->has_length && head->length > server->settings.max_body_size) {
        nb_refusal_t refusal = nb_refusal_too_large(server->settings.max_body_size);
        nb_refuse_request(connection, &refusal);
        return;
    }
    if (has_body && nb_admission_full(server)) { /* refused before its body is received */
        nb_admission_refuse(request);
        return;
    }
    bytes += head->head_length;
    length -= head->head_length;
    if (request->streaming_input) {
        request->input = rb_funcall(rb_path2class("NeverBlock::Server::Input"), rb_intern("new"), 1,
                                    request->rack_request);
        rb_hash_aset(request->env, nb_key_input, request->input);
        nb_connection_keep(connection, bytes, length);
        nb_admission_enter(request);
    } else if (!has_body) {
        request->input_phase = NB_INPUT_ENDED;
        nb_connection_keep(connection, bytes, length);
        nb_admission_enter(request);
    } else {
        connection->state = NB_CONNECTION_BODY;
        if (length == 0) nb_request_continue(request);
        collect(connection, bytes, length);
    }
}

static void head_bytes(nb_connection_t *connection, char *bytes, size_t length) {
    nb_server_t *server = nb_server_of(connection);
    nb_head_t *head = &server->head;
    const char *reason = NULL;
    if (connection->state == NB_CONNECTION_IDLE) {
        connection->state = NB_CONNECTION_HEAD;
        nb_list_remove(&connection->idles);
        connection->began = nb_now();
        connection->scanned = 0;
    }
    head->scanned = connection->scanned;
    connection->asks_head = length >= 5 && memcmp(bytes, "HEAD ", 5) == 0; /* a refusal has no body: RFC 9110 §9.3.2 */
    int result = nb_head_parse(bytes, length, head, &server->settings.head, &reason);
    if (result == 1) {
        begin(connection, bytes, length, head);
    } else if (result == 0) {
        connection->scanned = head->scanned;
        nb_connection_keep(connection, bytes, length);
        uint64_t limit = server->net.settings.head_timeout;
        nb_connection_deadline(connection, limit == NB_NEVER ? NB_NEVER : connection->began + limit);
        if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
    } else {
        nb_refusal_t refusal = nb_refusal_of_head(&server->settings.head, result, reason, bytes, length);
        nb_refuse_request(connection, &refusal);
    }
}

typedef struct { nb_connection_t *connection; char *bytes; size_t length; } arrival_t;

/* Takes off the PROXY header, which must be a connection's first bytes where its listener asks for one: a client
 * without one has bypassed the balancer. False: it is incomplete, nothing follows, or the connection was closed. */
static bool take_proxy_header(arrival_t *arrival) {
    nb_connection_t *connection = arrival->connection;
    nb_server_t *server = nb_server_of(connection);
    const char *reason = NULL;
    nb_proxy_t proxy;
    nb_proxy_outcome_t outcome = nb_proxy_parse(arrival->bytes, arrival->length, &proxy, &reason);
    if (outcome == NB_PROXY_INVALID) {
        server->proxy_errors++;
        nb_server_trouble(server, "proxy", "a connection from %" PRIsVALUE " is closed: %s (proxy=required)",
                          nb_env_remote(connection), reason);
        nb_connection_close(connection);
        return false;
    }
    if (proxy.has_address) {
        memcpy(connection->address, proxy.address, 16);
        connection->has_address = connection->has_proxy_header = true;
    }
    if (outcome == NB_PROXY_COMPLETE) {
        connection->awaits_proxy = false;
        if (!nb_address_limit_acquire(connection)) {
            nb_connection_close(connection);
            return false;
        }
    }
    arrival->bytes += proxy.length;
    arrival->length -= proxy.length;
    if (outcome == NB_PROXY_COMPLETE && arrival->length) return true;
    nb_connection_keep(connection, arrival->bytes, arrival->length);
    if (nb_connection_want(connection, RUBY_IO_READABLE)) nb_connection_leave(connection);
    return false;
}

static VALUE arrive(VALUE argument) {
    arrival_t *arrival = (arrival_t *)argument;
    if (arrival->connection->awaits_proxy && !take_proxy_header(arrival)) return Qnil;
    if (arrival->connection->state == NB_CONNECTION_BODY) collect(arrival->connection, arrival->bytes, arrival->length);
    else head_bytes(arrival->connection, arrival->bytes, arrival->length);
    return Qnil;
}

/* Called from the loop, where nothing may be raised. Running out of memory costs the connection, not the server. */
void nb_request_bytes(nb_connection_t *connection, char *bytes, size_t length) {
    arrival_t arrival = {connection, bytes, length};
    int state = 0;
    rb_protect(arrive, (VALUE)&arrival, &state);
    if (!state) return;
    VALUE error = rb_errinfo();
    if (SPECIAL_CONST_P(error)) rb_jump_tag(state); /* Thread#kill */
    rb_set_errinfo(Qnil);
    nb_server_trouble(nb_server_of(connection), "request", "a request could not be taken in: %s",
                      rb_obj_classname(error));
    nb_connection_close(connection);
}
