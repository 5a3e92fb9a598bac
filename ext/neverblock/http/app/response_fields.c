/*
 * The fields of a response, from the headers that the app returned. Names and values are checked: a CR, LF or NUL would
 * let a value become a field, or a response, of its own (CVE-2020-5247, CVE-2020-5249). The app's Transfer-Encoding,
 * Connection and Status never leave: the server alone decides on them.
 */
#include "app.h"
#include "../protocol/bytes.h"
#include <string.h>

static ID id_each, id_trailers;
static VALUE eProtocol, key_te;

static bool is_name(VALUE name, const char *word, size_t length) {
    return (size_t)RSTRING_LEN(name) == length &&
        nb_same_word((const uint8_t *)RSTRING_PTR(name), word, (uint32_t)length);
}
#define IS(name, word) is_name(name, word, sizeof(word) - 1)

static void check_name(VALUE name) {
    const uint8_t *bytes = (const uint8_t *)RSTRING_PTR(name);
    long length = RSTRING_LEN(name);
    bool good = length > 0;
    for (long i = 0; i < length && good; i++) good = nb_is(bytes[i], NB_TOKEN);
    if (!good)
        rb_raise(eProtocol, "the app's response has a header named %+"PRIsVALUE": names are letters, digits and "
                            "-!#$%%&'*+.^_`|~", name);
}

static void refuse_value(VALUE name, VALUE value) {
    rb_raise(eProtocol, "the app's response has a header %"PRIsVALUE" with a control character in its value "
                        "%+"PRIsVALUE": remove it", name, value);
}

void nb_response_field_line(nb_response_fields_t *fields, VALUE name, VALUE whole, const char *bytes, size_t length) {
    const uint8_t *start = (const uint8_t *)bytes, *end = start + length;
    if (nb_value_end(start, end) != end) refuse_value(name, whole);
    nb_output_t *out = fields->out;
    nb_output_add(out, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
    NB_OUTPUT_LITERAL(out, ": ");
    nb_output_add(out, bytes, length);
    NB_OUTPUT_LITERAL(out, "\r\n");
}

static bool has_word(VALUE value, const char *word) {
    size_t length = strlen(word), total = (size_t)RSTRING_LEN(value);
    const uint8_t *bytes = (const uint8_t *)RSTRING_PTR(value);
    for (size_t i = 0; i + length <= total; i++) if (nb_same_word(bytes + i, word, (uint32_t)length)) return true;
    return false;
}

static void content_length(nb_response_fields_t *fields, VALUE value) {
    uint64_t length = 0;
    const char *digits = RSTRING_PTR(value);
    long count = RSTRING_LEN(value);
    bool good = count > 0 && count < 19;
    for (long i = 0; i < count && good; i++) {
        good = digits[i] >= '0' && digits[i] <= '9';
        length = length * 10 + (uint64_t)(digits[i] - '0');
    }
    if (!good)
        rb_raise(eProtocol, "the app's response has the Content-Length %+"PRIsVALUE": it must be a number of bytes",
                 value);
    if (fields->has_length) rb_raise(eProtocol, "the app's response has Content-Length twice: once is enough");
    fields->has_length = true;
    fields->length = length;
}

static void add_value(nb_response_fields_t *fields, VALUE name, VALUE value) {
    if (!RB_TYPE_P(value, T_STRING)) value = rb_obj_as_string(value);
    if (IS(name, "content-length")) content_length(fields, value);
    else if (IS(name, "transfer-encoding") || IS(name, "status")) return; /* CGI's Status */
    else if (IS(name, "connection")) {
        fields->close |= has_word(value, "close");
        fields->upgrade |= has_word(value, "upgrade");
    } else {
        if (IS(name, "date")) fields->has_date = true;
        const char *bytes = RSTRING_PTR(value), *end = bytes + RSTRING_LEN(value);
        const char *newline = fields->newlines_separate ? memchr(bytes, '\n', (size_t)(end - bytes)) : NULL;
        for (; newline; newline = memchr(bytes, '\n', (size_t)(end - bytes))) { /* Rack 2: one field a line */
            nb_response_field_line(fields, name, value, bytes, (size_t)(newline - bytes));
            bytes = newline + 1;
        }
        nb_response_field_line(fields, name, value, bytes, (size_t)(end - bytes));
    }
    RB_GC_GUARD(value);
}

static int add_field(VALUE name, VALUE value, VALUE argument) {
    nb_response_fields_t *fields = (nb_response_fields_t *)argument;
    if (!RB_TYPE_P(name, T_STRING)) name = rb_obj_as_string(name);
    if (RSTRING_LEN(name) >= 5 && memcmp(RSTRING_PTR(name), "rack.", 5) == 0) {
        if (IS(name, "rack.hijack")) fields->hijack = value;
        else if (IS(name, "rack.protocol")) fields->protocol = value;
        return ST_CONTINUE;
    }
    check_name(name);
    if (NIL_P(value)) return ST_CONTINUE;
    if (!RB_TYPE_P(value, T_ARRAY)) add_value(fields, name, value);
    else for (long i = 0; i < RARRAY_LEN(value); i++) add_value(fields, name, RARRAY_AREF(value, i));
    RB_GC_GUARD(name);
    return ST_CONTINUE;
}

static VALUE collect_pair(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, pairs)) {
    bool one = argc == 1 && RB_TYPE_P(yielded, T_ARRAY);
    VALUE name = one ? rb_ary_entry(yielded, 0) : yielded;
    VALUE value = one ? rb_ary_entry(yielded, 1) : argc > 1 ? argv[1] : Qnil;
    rb_ary_push(pairs, rb_assoc_new(name, value));
    return Qnil;
}

nb_response_fields_t nb_response_fields_of(nb_server_t *server, nb_output_t *out) {
    return (nb_response_fields_t){.out = out, .hijack = Qnil, .protocol = Qnil,
                      .newlines_separate = server->settings.newlines_separate};
}

/* An app's own each may keep its block, and call it when this stack frame is gone: so the block only fills an Array. */
void nb_response_fields_add(nb_response_fields_t *fields, VALUE headers) {
    if (NIL_P(headers)) return;
    if (RB_TYPE_P(headers, T_HASH)) {
        rb_hash_foreach(headers, add_field, (VALUE)fields);
        return;
    }
    VALUE pairs = rb_ary_new();
    rb_block_call(headers, id_each, 0, NULL, collect_pair, pairs);
    for (long i = 0; i < RARRAY_LEN(pairs); i++) {
        VALUE pair = RARRAY_AREF(pairs, i);
        add_field(rb_ary_entry(pair, 0), rb_ary_entry(pair, 1), (VALUE)fields);
    }
    RB_GC_GUARD(pairs);
}

/* ---- field lines outside of a response's head ---- */
typedef struct { nb_response_fields_t fields; VALUE headers; } lines_t;

static VALUE add_lines(VALUE argument) {
    lines_t *lines = (lines_t *)argument;
    nb_response_fields_add(&lines->fields, lines->headers);
    return Qnil;
}

/* Written into memory of their own: if a field is refused, no byte of them leaves. */
VALUE nb_response_field_lines(nb_server_t *server, VALUE headers, bool newlines_separate) {
    nb_output_t out = {0};
    lines_t lines = {.fields = nb_response_fields_of(server, &out), .headers = headers};
    lines.fields.newlines_separate |= newlines_separate;
    int state = 0;
    rb_protect(add_lines, (VALUE)&lines, &state);
    VALUE text = state ? Qnil : rb_str_new(out.bytes, (long)out.length);
    xfree(out.bytes);
    if (state) rb_jump_tag(state);
    return text;
}

static bool lists_trailers(VALUE te) {
    const char *from = RSTRING_PTR(te), *end = from + RSTRING_LEN(te);
    while (from < end) {
        const char *comma = memchr(from, ',', (size_t)(end - from)), *to = comma ? comma : end;
        while (from < to && nb_is_blank((uint8_t)*from)) from++;
        while (from < to && nb_is_blank((uint8_t)to[-1])) to--;
        if (to - from == 8 && nb_same_word((const uint8_t *)from, "trailers", 8)) return true;
        from = comma ? comma + 1 : end;
    }
    return false;
}

/* RFC 9110 §6.5.1: clients say that they look at trailers. Those that do not may drop them, or take them for fields of
 * the head. */
VALUE nb_response_trailers(nb_request_t *request, VALUE body) {
    if (request->response_framing != NB_BODY_CHUNKED) return Qnil;
    VALUE te = rb_hash_lookup(request->env, key_te);
    if (!RB_TYPE_P(te, T_STRING) || !lists_trailers(te) || !rb_respond_to(body, id_trailers)) return Qnil;
    VALUE trailers = rb_funcallv(body, id_trailers, 0, NULL);
    if (!NIL_P(trailers) && !rb_respond_to(trailers, id_each))
        rb_raise(eProtocol, "the trailers of the app's body are %+"PRIsVALUE": return a Hash of names and values",
                 trailers);
    return nb_response_field_lines(request->server, trailers, false);
}

void nb_init_response_fields(void) {
    id_each = rb_intern("each");
    id_trailers = rb_intern("trailers");
    key_te = rb_interned_str_cstr("HTTP_TE");
    rb_gc_register_mark_object(key_te);
    eProtocol = rb_path2class("NeverBlock::ProtocolError");
    rb_gc_register_mark_object(eProtocol);
}
