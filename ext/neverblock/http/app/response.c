/*
 * From what the app returned to a response (RFC 9112 §4, §6): its head, its framing - which is the server's to decide -
 * and the kind of its body.
 */
#include "app.h"
#include "../protocol/status.h"
#include <string.h>

static ID id_call, id_close, id_each, id_to_ary, id_to_path;
static VALUE eProtocol;

/* ---- the status line ---- */
static void add_status(nb_output_t *out, int status) {
    if (status == 200) {
        NB_OUTPUT_LITERAL(out, "HTTP/1.1 200 OK\r\n");
        return;
    }
    char text[32];
    nb_output_add(out, text, (size_t)snprintf(text, sizeof text, "HTTP/1.1 %d ", status));
    const char *reason = nb_reason(status);
    nb_output_add(out, reason, strlen(reason));
    NB_OUTPUT_LITERAL(out, "\r\n");
}

/* ---- framing ---- */
static void add_number(nb_output_t *out, uint64_t number) {
    char digits[20];
    int at = sizeof digits;
    do digits[--at] = (char)('0' + number % 10); while (number /= 10);
    nb_output_add(out, digits + at, sizeof digits - (size_t)at);
}

static bool bodiless(int status) { return status < 200 || status == 204 || status == 304; }

typedef enum { BODY_NONE, BODY_ARRAY, BODY_FILE, BODY_EACH, BODY_STREAM, BODY_HIJACK } kind_t;

static void add_length(nb_output_t *out, uint64_t length) {
    NB_OUTPUT_LITERAL(out, "Content-Length: ");
    add_number(out, length);
    NB_OUTPUT_LITERAL(out, "\r\n");
}

/* A client that closes by itself stays known as such: nothing of it is unread then. */
static void server_closes(nb_request_t *request) {
    if (request->persistence == NB_PERSISTENCE_KEEP) request->persistence = NB_PERSISTENCE_SERVER_CLOSES;
}

static void end_head(nb_request_t *request, nb_response_fields_t *fields, kind_t kind) {
    nb_output_t *out = &request->io.out;
    nb_server_t *server = request->server;
    bool none = bodiless(request->status);
    request->response_framing = fields->has_length && !none && kind != BODY_NONE ? NB_BODY_LENGTH : NB_BODY_NONE;
    request->declared_output = fields->length;
    nb_connection_t *connection = request->io.connection;
    /* 100 Continue was not sent, and need not be (RFC 9110 §10.1.1). */
    bool unsent = request->input_phase == NB_INPUT_AWAITS_CONTINUE && connection->in_length == 0;
    if (fields->close || server->net.draining || connection->close_mode != NB_KEEP_OPEN || unsent)
        server_closes(request);
    if (kind == BODY_HIJACK || request->status == 101) {
        server_closes(request);
        if (fields->has_length && !none) add_length(out, fields->length);
        if (!fields->upgrade) NB_OUTPUT_LITERAL(out, "Connection: close\r\n");
    } else {
        if (fields->has_length && !none) {
            add_length(out, fields->length);
        } else if (!none && kind != BODY_NONE && !request->http10 && !request->head_only) {
            request->response_framing = NB_BODY_CHUNKED;
            NB_OUTPUT_LITERAL(out, "Transfer-Encoding: chunked\r\n");
        } else if (!none && kind != BODY_NONE && !request->head_only) {
            server_closes(request); /* HTTP/1.0: the end of the connection is the end of the body */
        }
        if (request->persistence != NB_PERSISTENCE_KEEP) NB_OUTPUT_LITERAL(out, "Connection: close\r\n");
        else if (request->http10) NB_OUTPUT_LITERAL(out, "Connection: keep-alive\r\n");
    }
    if (fields->upgrade) NB_OUTPUT_LITERAL(out, "Connection: upgrade\r\n"); /* 426 too: RFC 9110 §7.8 */
    if (!fields->has_date) {
        size_t length;
        const char *date = nb_server_date(server, &length);
        NB_OUTPUT_LITERAL(out, "Date: ");
        nb_output_add(out, date, length);
        NB_OUTPUT_LITERAL(out, "\r\n");
    }
    NB_OUTPUT_LITERAL(out, "\r\n");
}

static uint64_t total_length(VALUE array) {
    uint64_t total = 0;
    for (long i = 0; i < RARRAY_LEN(array); i++) {
        VALUE part = RARRAY_AREF(array, i);
        if (!RB_TYPE_P(part, T_STRING))
            rb_raise(eProtocol, "the app's body has a part of class %"PRIsVALUE": parts are Strings",
                     rb_obj_class(part));
        total += (uint64_t)RSTRING_LEN(part);
    }
    return total;
}

static kind_t kind_of(nb_request_t *request, VALUE *body, VALUE hijack) {
    if (RTEST(hijack)) return BODY_HIJACK;
    if (RB_TYPE_P(*body, T_ARRAY)) return BODY_ARRAY;
    if (bodiless(request->status) && request->status != 101) return BODY_NONE;
    if (rb_respond_to(*body, id_to_path) && nb_body_open_file(request, *body, id_to_path)) return BODY_FILE;
    if (rb_respond_to(*body, id_to_ary)) {
        VALUE list = rb_funcall(*body, id_to_ary, 0);
        if (!NIL_P(list)) *body = list;
        if (RB_TYPE_P(list, T_ARRAY)) return BODY_ARRAY; // and no Array where Rails 7.2 is given an Enumerator
    }
    if (rb_respond_to(*body, id_each)) return BODY_EACH;
    if (rb_respond_to(*body, id_call)) return BODY_STREAM;
    rb_raise(eProtocol, "the app's body is a %"PRIsVALUE": it must answer to each, call, to_ary or to_path",
             rb_obj_class(*body));
}

/* The app takes one of the protocols that the client offers: in HTTP/1.1 that is 101 and an Upgrade field (RFC 9110
 * §7.8), whatever status the app gave, since HTTP/2 would want 200. */
static int upgrade(nb_request_t *request, nb_response_fields_t *fields) {
    if (request->http10)
        rb_raise(eProtocol, "the app's response has rack.protocol, which a client of HTTP/1.0 can't have asked for");
    VALUE protocol = rb_obj_as_string(fields->protocol);
    *fields = nb_response_fields_of(request->server, &request->io.out);
    request->status = 101;
    request->io.out.length = 0;
    add_status(&request->io.out, 101);
    nb_response_fields_add(fields, request->headers);
    nb_response_field_line(fields, rb_str_new_cstr("upgrade"), protocol, RSTRING_PTR(protocol),
                           (size_t)RSTRING_LEN(protocol));
    fields->upgrade = true;
    return 101;
}

typedef struct { nb_request_t *request; VALUE status, headers, body; } returned_t;

static VALUE no_number(VALUE nothing, VALUE error) { return nothing; }

static VALUE send_response(VALUE argument) {
    returned_t *returned = (returned_t *)argument;
    nb_request_t *request = returned->request;
    VALUE body = returned->body;
    nb_response_fields_t fields = nb_response_fields_of(request->server, &request->io.out);
    request->response = NB_RESPONSE_RENDERING;
    VALUE number = RB_INTEGER_TYPE_P(returned->status) ? returned->status
        : rb_rescue2(rb_Integer, returned->status, no_number, Qnil, rb_eStandardError, (VALUE)0);
    int status = FIXNUM_P(number) && FIX2LONG(number) <= 999 && FIX2LONG(number) >= 0 ? FIX2INT(number) : 0;
    if (status < 200 && status != 101) /* after any other 1xx the client would wait for a final response */
        rb_raise(eProtocol, "the app's response has the status %+"PRIsVALUE": it is a number from 200 to 999, or 101",
                 returned->status);
    if (NIL_P(body)) body = rb_ary_new();
    request->status = status;
    request->headers = returned->headers;
    nb_output_turn(&request->io);
    nb_output_take(&request->io);
    request->io.out.length = request->io.out.sent = 0; /* drops interim responses that were refused */
    add_status(&request->io.out, status);
    nb_response_fields_add(&fields, returned->headers);
    if (!NIL_P(fields.protocol)) status = upgrade(request, &fields);
    if (status == 101 && request->http10) /* RFC 9110 §15.2: HTTP/1.0 has no 1xx */
        rb_raise(eProtocol, "the app's response has the status 101, which a client of HTTP/1.0 can't have asked for");
    kind_t kind = kind_of(request, &body, fields.hijack);
    if (status == 205 && kind != BODY_HIJACK) { /* no content, and a Content-Length that says so: RFC 9110 §15.3.6 */
        kind = BODY_NONE;
        fields.has_length = true;
        fields.length = 0;
    }
    if (kind == BODY_ARRAY && !bodiless(status)) {
        uint64_t total = total_length(body);
        if (!fields.has_length) {
            fields.has_length = !(request->head_only && total == 0);
            fields.length = total;
        }
    } else if (kind == BODY_FILE && !fields.has_length) {
        fields.has_length = true;
        fields.length = nb_body_file_size(request);
    }
    if (nb_server_is_forked(request->server)) return Qnil; /* by one of the methods that were called until here */
    end_head(request, &fields, bodiless(status) && kind == BODY_ARRAY ? BODY_NONE : kind);
    if (kind == BODY_HIJACK || kind == BODY_STREAM) nb_handlers_stream(request);
    if (kind != BODY_HIJACK && (request->head_only || (bodiless(status) && status != 101))) kind = BODY_NONE;
    request->response = NB_RESPONSE_HEAD_SENT;
    request->sent_before = request->io.sent_bytes;
    switch (kind) {
    case BODY_NONE: nb_send_finish(&request->io); break;
    case BODY_ARRAY: nb_body_array(request, body); break;
    case BODY_FILE: nb_body_file(request); break;
    case BODY_EACH: nb_body_each(request, body); break;
    case BODY_STREAM: nb_body_stream(request, body); break;
    case BODY_HIJACK: nb_body_hijack(request, fields.hijack); break;
    }
    request->response = NB_RESPONSE_COMPLETE;
    return Qnil;
}

/* An Array that has no close of its own, without asking it. */
static bool is_plain_array(VALUE body) { return RB_TYPE_P(body, T_ARRAY) && RBASIC_CLASS(body) == rb_cArray; }

static VALUE close_body(VALUE argument) {
    returned_t *returned = (returned_t *)argument;
    if (returned->request->response < NB_RESPONSE_HEAD_SENT)
        returned->request->io.out.length = returned->request->io.out.sent = 0;
    if (!is_plain_array(returned->body) && rb_respond_to(returned->body, id_close))
        rb_funcallv(returned->body, id_close, 0, NULL);
    return Qnil;
}

/* Sends what the app returned. The body is always closed (CVE-2022-23634). */
void nb_respond(nb_request_t *request, VALUE value) {
    VALUE array = rb_check_array_type(value);
    if (request->hijacked) { /* the return value is ignored, but its body has to be closed */
        returned_t returned = {request, Qnil, Qnil, NIL_P(array) ? Qnil : rb_ary_entry(array, 2)};
        close_body((VALUE)&returned);
        return;
    }
    if (NIL_P(array) || RARRAY_LEN(array) < 3)
        rb_raise(eProtocol, "the app returned %+"PRIsVALUE": a Rack app returns [status, headers, body]", value);
    returned_t returned = {request, RARRAY_AREF(array, 0), RARRAY_AREF(array, 1), RARRAY_AREF(array, 2)};
    if (is_plain_array(returned.body)) send_response((VALUE)&returned);
    else rb_ensure(send_response, (VALUE)&returned, close_body, (VALUE)&returned);
    RB_GC_GUARD(array);
}

/* The body raised before any byte of the response had left: another response may take its place. */
void nb_response_take_back(nb_request_t *request) {
    if (request->response < NB_RESPONSE_HEAD_SENT || request->response == NB_RESPONSE_COMPLETE) return;
    if (request->io.failure || request->io.sent_bytes != request->sent_before) return;
    request->response = NB_RESPONSE_NONE;
    request->response_framing = NB_BODY_NONE;
    request->overlong = false;
    request->written = request->gathering = 0;
}

/* ---- the server's own responses ---- */
void nb_respond_plain(nb_request_t *request, int status, const char *text) {
    nb_response_fields_t fields = {.out = &request->io.out, .has_length = true, .length = strlen(text) + 1};
    nb_output_turn(&request->io); /* another task may be in the middle of an interim response */
    nb_output_take(&request->io);
    request->io.out.length = request->io.out.sent = 0;
    request->status = status;
    add_status(&request->io.out, status);
    NB_OUTPUT_LITERAL(&request->io.out, "Content-Type: text/plain\r\n");
    if (status == 503) NB_OUTPUT_LITERAL(&request->io.out, "Retry-After: 1\r\n");
    end_head(request, &fields, BODY_ARRAY);
    request->response = NB_RESPONSE_HEAD_SENT;
    request->written = request->head_only ? 0 : fields.length; /* for the access log */
    if (!request->head_only) {
        nb_output_add(&request->io.out, text, strlen(text));
        NB_OUTPUT_LITERAL(&request->io.out, "\n");
    }
    nb_send_finish(&request->io);
    request->response = NB_RESPONSE_COMPLETE;
}

/* The app's methods that this calls may wait, and the request may be over when they return. */
VALUE nb_interim_head(nb_server_t *server, VALUE status, VALUE headers) {
    /* 100 is the server's own word on the request's content, and 101 ends HTTP on the connection. */
    if (!FIXNUM_P(status) || FIX2LONG(status) < 102 || FIX2LONG(status) > 199)
        rb_raise(eProtocol, "the app's interim response has the status %+"PRIsVALUE": it is a number from 102 to 199",
                 status);
    VALUE lines = nb_response_field_lines(server, headers, true); /* one field a line, as Puma takes early hints */
    VALUE head = rb_sprintf("HTTP/1.1 %d %s\r\n", FIX2INT(status), nb_reason(FIX2INT(status)));
    rb_str_cat(head, RSTRING_PTR(lines), RSTRING_LEN(lines));
    RB_GC_GUARD(lines);
    return rb_str_cat(head, "\r\n", 2);
}

/* 103 (RFC 8297) and its like: several may precede the response. HTTP/1.0 has none. */
void nb_respond_interim(nb_request_t *request, VALUE head) {
    if (request->http10) return;
    nb_output_turn(&request->io);
    if (request->response != NB_RESPONSE_NONE || !request->io.connection) return;
    /* As a String: if the wait for the client is interrupted, no response can follow half a head. */
    nb_output_flush_with(&request->io, head, NULL, 0);
    RB_GC_GUARD(head);
}

void nb_init_response(void) {
    id_call = rb_intern("call");
    id_close = rb_intern("close");
    id_each = rb_intern("each");
    id_to_ary = rb_intern("to_ary");
    id_to_path = rb_intern("to_path");
    eProtocol = rb_path2class("NeverBlock::ProtocolError");
    rb_gc_register_mark_object(eProtocol);
}
