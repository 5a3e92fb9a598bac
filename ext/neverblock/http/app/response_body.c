/*
 * The kinds of bodies that an app may return. Chunks of one `each` gather and leave together: when enough have come,
 * a millisecond after the first, at the end, and before the app's own next wait. So the chunks of a slow producer
 * arrive as they are made, and those of a fast one cost one system call.
 */
#include "app.h"
#include <errno.h>
#include <fcntl.h>
#include <ruby/io.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef NB_PORTABLE
#include <sys/sendfile.h>
#endif

#define LONGEST_GATHER NB_MILLISECOND
#define FILE_PIECE 262144 /* bytes of a file sent in one go */
#define SMALL_FILE NB_GATHER

static ID id_call, id_each, id_new;

/* ---- counting against Content-Length ---- */
static size_t allowed(nb_request_t *request, size_t length) {
    if (request->response_framing == NB_BODY_LENGTH && request->written + length > request->declared_output) {
        length = (size_t)(request->declared_output - request->written);
        request->overlong = true; /* the app gets an error once that is sent: it may never stop by itself */
    }
    request->written += length;
    return length;
}

static VALUE wrong_length(nb_request_t *request) {
    VALUE message = rb_sprintf("the app's body is %s than its Content-Length of %llu: the connection is closed",
                               request->overlong ? "longer" : "shorter", (unsigned long long)request->declared_output);
    if (request->io.connection) nb_connection_close_by(request->io.connection, NB_CLOSE_AFTER_RESPONSE);
    return rb_exc_new_str(rb_path2class("NeverBlock::ProtocolError"), message);
}

static void check_length(nb_request_t *request) {
    if (request->response_framing == NB_BODY_LENGTH &&
        (request->overlong || request->written != request->declared_output))
        rb_exc_raise(wrong_length(request));
}

/* ---- one piece ---- */
static void add_hex(nb_output_t *out, size_t number) {
    static const char digits[] = "0123456789abcdef";
    char text[18];
    int at = sizeof text;
    text[--at] = '\n';
    text[--at] = '\r';
    do text[--at] = digits[number & 15]; while (number >>= 4);
    nb_output_add(out, text + at, sizeof text - (size_t)at);
}

static void be_fair(nb_engine_t *engine) {
    if (engine->budget) engine->budget--;
    if (engine->budget == 0 && engine->task) nb_yield(engine);
}

static void flush(nb_request_t *request) {
    nb_engine_t *engine = request->server->net.engine;
    request->gathering = 0;
    nb_output_flush(&request->io);
    be_fair(engine);
}

static void add_piece(nb_request_t *request, VALUE string, bool more_follows) {
    nb_output_turn(&request->io);
    if (request->response >= NB_RESPONSE_ENDED) rb_raise(rb_eIOError, "the stream is closed for writing");
    size_t length = allowed(request, (size_t)RSTRING_LEN(string));
    bool chunked = request->response_framing == NB_BODY_CHUNKED;
    nb_output_t *out = &request->io.out;
    if (request->overlong) {
        VALUE error = wrong_length(request);
        nb_output_add(out, RSTRING_PTR(string), length);
        nb_output_flush(&request->io);
        rb_exc_raise(error);
    }
    if (length == 0) {
        be_fair(request->server->net.engine);
        return;
    }
    if (chunked) add_hex(out, length);
    if (length <= NB_COPIED) {
        nb_output_add(out, RSTRING_PTR(string), length);
        if (chunked) NB_OUTPUT_LITERAL(out, "\r\n");
    } else {
        nb_engine_t *engine = request->server->net.engine;
        request->gathering = 0;
        nb_output_flush_with(&request->io, string, "\r\n", chunked ? 2 : 0);
        be_fair(engine);
        return;
    }
    if (out->length >= NB_GATHER) {
        flush(request);
    } else if (more_follows) {
        uint64_t now = nb_now();
        if (!request->gathering) request->gathering = now;
        else if (now - request->gathering > LONGEST_GATHER) flush(request);
    }
}

/* ---- Array ---- */
void nb_body_array(nb_request_t *request, VALUE array) {
    for (long i = 0; i < RARRAY_LEN(array); i++) {
        VALUE part = RARRAY_AREF(array, i);
        if (RB_TYPE_P(part, T_STRING)) add_piece(request, part, false);
    }
    nb_send_finish(&request->io);
    check_length(request);
}

/* ---- each ---- */
static void app_waits(nb_task_t *task) {
    nb_request_t *request = task->on_park_data;
    if (request->io.flushing || request->io.out.length == request->io.out.sent) return;
    request->gathering = 0;
    nb_handlers_stream(request);
    nb_output_try(&request->io);
}

void nb_body_chunk(nb_request_t *request, VALUE string) {
    if (!RB_TYPE_P(string, T_STRING))
        rb_raise(rb_path2class("NeverBlock::ProtocolError"),
                 "the app's body yielded a %"PRIsVALUE": it must yield Strings", rb_obj_class(string));
    if (!request->io.connection) rb_raise(rb_eIOError, "the connection is closed");
    add_piece(request, string, true);
}

/* The block gets the Ruby object: an app may keep the block, as an Enumerator's yielder does, and call it too late. */
static VALUE each_chunk(RB_BLOCK_CALL_FUNC_ARGLIST(chunk, rack_request)) {
    nb_body_chunk(nb_rack_request_get(rack_request), chunk);
    return Qnil;
}

/* Writes of other tasks come too late from here on, also those that wait for their turn. */
static void end_writes(nb_request_t *request) {
    nb_output_turn(&request->io);
    request->response = NB_RESPONSE_ENDED;
}

static void finish(nb_request_t *request, VALUE trailers) {
    end_writes(request);
    if (request->response_framing == NB_BODY_CHUNKED) {
        NB_OUTPUT_LITERAL(&request->io.out, "0\r\n");
        if (!NIL_P(trailers))
            nb_output_add(&request->io.out, RSTRING_PTR(trailers), (size_t)RSTRING_LEN(trailers));
        NB_OUTPUT_LITERAL(&request->io.out, "\r\n");
    }
    RB_GC_GUARD(trailers);
    nb_send_finish(&request->io);
    check_length(request);
}

typedef struct { nb_request_t *request; nb_task_t *task; VALUE body, argument; ID method; } produce_t;

/* The trailers, if there are any. */
static VALUE produce(VALUE argument) {
    produce_t *it = (produce_t *)argument;
    if (it->method == id_each) {
        rb_block_call(it->body, id_each, 0, NULL, each_chunk, it->request->rack_request);
        if (nb_server_is_forked(it->request->server)) return Qnil;
        end_writes(it->request);
        return nb_response_trailers(it->request, it->body);
    }
    rb_funcallv(it->body, it->method, 1, &it->argument);
    return Qnil;
}

static VALUE produced(VALUE argument) {
    produce_t *it = (produce_t *)argument;
    it->task->on_park = NULL;
    it->task->on_park_data = NULL;
    return Qnil;
}

static VALUE run(nb_request_t *request, VALUE body, ID method, VALUE argument) {
    produce_t it = {request, request->server->net.engine->task, body, argument, method};
    it.task->on_park = app_waits;
    it.task->on_park_data = request;
    return rb_ensure(produce, (VALUE)&it, produced, (VALUE)&it);
}

void nb_body_each(nb_request_t *request, VALUE body) {
    VALUE trailers = run(request, body, id_each, Qnil);
    if (!nb_server_is_forked(request->server)) finish(request, trailers);
}

/* ---- call(stream) and hijack ---- */
void nb_body_stream(nb_request_t *request, VALUE body) {
    VALUE klass = rb_path2class("NeverBlock::Server::Stream");
    bool raw = request->status == 101;
    if (raw) request->response_framing = NB_BODY_RAW;
    VALUE stream = rb_funcall(klass, id_new, 2, request->rack_request, raw ? Qnil : request->input);
    nb_output_flush(&request->io);
    run(request, body, id_call, stream);
    if (nb_server_is_forked(request->server)) return;
    rb_funcall(stream, rb_intern("close"), 0);
    if (request->io.connection) finish(request, Qnil);
}

void nb_body_hijack(nb_request_t *request, VALUE callback) {
    nb_output_flush(&request->io);
    VALUE io = nb_rack_request_take_over(request);
    rb_funcallv(callback, id_call, 1, &io);
}

/* ---- files ---- */
static bool is_same_file(int fd, int other) {
    struct stat about, others;
    return fstat(fd, &about) == 0 && fstat(other, &others) == 0 && about.st_dev == others.st_dev &&
           about.st_ino == others.st_ino;
}

/* An IO has a path since Ruby 3.2, which need not lead to its file: nil for a pipe, a command for a popen, the former
 * path of an unlinked file. */
bool nb_body_open_file(nb_request_t *request, VALUE body, ID to_path) {
    VALUE path = rb_funcallv(body, to_path, 0, NULL);
    if (NIL_P(path)) return false;
    FilePathValue(path);
    int fd = open(RSTRING_PTR(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait for a writer otherwise */
    VALUE io = rb_io_check_io(body); /* a Tempfile has one */
    if (!NIL_P(io) && (fd < 0 || !is_same_file(fd, rb_io_descriptor(io)))) {
        if (fd >= 0) close(fd);
        return false;
    }
    struct stat about;
    if (fd < 0) rb_sys_fail_str(path);
    request->file = fd; /* closed with the request */
    if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode))
        rb_raise(rb_path2class("NeverBlock::ProtocolError"),
                 "the app's body has the path %+"PRIsVALUE", which is not a regular file", path);
    return true;
}

uint64_t nb_body_file_size(const nb_request_t *request) {
    struct stat about;
    return fstat(request->file, &about) < 0 ? 0 : (uint64_t)about.st_size;
}

static void append_file(nb_request_t *request, size_t length) {
    nb_output_t *out = &request->io.out;
    char piece[4096];
    while (length) {
        ssize_t got = read(request->file, piece, length < sizeof piece ? length : sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return; /* the file has become shorter: check_length tells */
        nb_output_add(out, piece, (size_t)got);
        request->written += (uint64_t)got;
        length -= (size_t)got;
    }
}

static ssize_t send_file(nb_request_t *request, size_t length) {
#ifdef NB_PORTABLE
    append_file(request, length < NB_GATHER ? length : NB_GATHER);
    size_t added = request->io.out.length;
    nb_output_flush(&request->io);
    request->written -= added;
    return (ssize_t)added;
#else
    return sendfile(request->io.connection->watch.fd, request->file, NULL, length);
#endif
}

void nb_body_file(nb_request_t *request) {
    if (request->declared_output <= SMALL_FILE) append_file(request, (size_t)request->declared_output);
    if (request->written == request->declared_output) nb_send_finish(&request->io);
    else nb_output_flush(&request->io);
    while (request->written < request->declared_output) {
        uint64_t left = request->declared_output - request->written;
        ssize_t sent = send_file(request, left < FILE_PIECE ? (size_t)left : FILE_PIECE);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            uint64_t timeout = request->server->net.settings.write_timeout;
            if (!nb_connection_wait(&request->io, RUBY_IO_WRITABLE, timeout, "sending a file"))
                nb_output_stalled(&request->io, timeout, "sending a file");
            continue;
        }
        if (sent < 0) nb_output_client_left(&request->io, errno);
        if (sent == 0) break; /* the file has become shorter */
        request->written += (uint64_t)sent;
        request->io.sent_bytes += (uint64_t)sent;
        be_fair(request->server->net.engine);
    }
    check_length(request);
}

void nb_init_response_body(void) {
    id_call = rb_intern("call");
    id_each = rb_intern("each");
    id_new = rb_intern("new");
}
