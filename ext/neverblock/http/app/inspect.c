/*
 * The parser and the chunk decoder as Ruby sees them, for the tests alone.
 *
 *     NeverBlock::Server::Head.parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n")   # => {method: "GET", ...}
 *     NeverBlock::Server::Head.parse("GET /", cuts: [1, 2, 3, 4])            # => :more, having come a byte at a time
 *     NeverBlock::Server::Head.parse("GET /\r\n")                            # => [400, "no HTTP version: ..."]
 *     NeverBlock::Server::Head.parse_chunks("1\r\na\r\n0\r\n\r\n")           # => {data: "a", consumed: 11}
 *     NeverBlock::Server::Head.parse_proxy("PROXY UNKNOWN\r\n")             # => {address: nil, consumed: 15}
 *
 * cuts: where the bytes are cut into what arrives together. Every time they are in another place in memory.
 */
#include "../../scheduler/scheduler.h"
#include "../protocol/chunks.h"
#include "../protocol/parser.h"
#include "../protocol/proxy.h"
#include <string.h>

void nb_init_http_inspect(void);

static VALUE text(VALUE bytes, nb_span_t span) { return rb_str_new(RSTRING_PTR(bytes) + span.at, span.length); }

static void set(VALUE hash, const char *key, VALUE value) { rb_hash_aset(hash, ID2SYM(rb_intern(key)), value); }

static VALUE option(VALUE options, const char *key) {
    return NIL_P(options) ? Qnil : rb_hash_lookup(options, ID2SYM(rb_intern(key)));
}

static uint32_t number_option(VALUE options, const char *key, uint32_t otherwise) {
    VALUE value = option(options, key);
    return NIL_P(value) ? otherwise : NUM2UINT(value);
}

static VALUE cuts_option(VALUE options) {
    VALUE cuts = option(options, "cuts");
    return NIL_P(cuts) ? rb_ary_new() : rb_Array(cuts);
}

/* Where the piece with this index ends. */
static long cut(VALUE cuts, long index, VALUE bytes) {
    long length = RSTRING_LEN(bytes), at = index < RARRAY_LEN(cuts) ? NUM2LONG(rb_ary_entry(cuts, index)) : length;
    if (at < 0 || at > length) rb_raise(rb_eArgError, "cut %ld is outside of %ld bytes", at, length);
    return at;
}

static VALUE refusal(int status, const char *reason) { return rb_assoc_new(INT2NUM(status), rb_str_new_cstr(reason)); }

static VALUE describe_fields(VALUE bytes, const nb_head_t *head) {
    VALUE fields = rb_ary_new();
    for (uint32_t i = 0; i < head->field_count; i++)
        rb_ary_push(fields, rb_assoc_new(text(bytes, head->fields[i].name), text(bytes, head->fields[i].value)));
    return fields;
}

static VALUE describe_keys(const nb_head_t *head) {
    VALUE keys = rb_ary_new();
    for (uint32_t i = 0; i < head->field_count; i++) {
        uint8_t known = head->fields[i].known;
        rb_ary_push(keys, known ? rb_str_new(nb_known_names[known].key, nb_known_names[known].key_length) : Qnil);
    }
    return keys;
}

static VALUE describe(VALUE bytes, const nb_head_t *head) {
    static const char *const forms[] = {"origin", "absolute", "authority", "asterisk"};
    VALUE hash = rb_hash_new();
    set(hash, "method", text(bytes, head->method));
    set(hash, "method_id", INT2NUM(head->method_id));
    set(hash, "target", text(bytes, head->target));
    set(hash, "form", ID2SYM(rb_intern(forms[head->form])));
    set(hash, "path", text(bytes, head->path));
    set(hash, "query", text(bytes, head->query));
    set(hash, "authority", text(bytes, head->authority));
    set(hash, "host", text(bytes, head->host));
    set(hash, "server_name", text(bytes, head->server_name));
    set(hash, "server_port", INT2NUM(head->server_port));
    set(hash, "minor", INT2NUM(head->minor));
    set(hash, "fields", describe_fields(bytes, head));
    set(hash, "keys", describe_keys(head));
    set(hash, "content_length", head->has_length ? ULL2NUM(head->length) : Qnil);
    set(hash, "chunked", RBOOL(head->chunked));
    set(hash, "keep_alive", RBOOL(head->keep_alive));
    set(hash, "expect_continue", RBOOL(head->expect_continue));
    set(hash, "upgrade", RBOOL(head->upgrade));
    set(hash, "head_length", UINT2NUM(head->head_length));
    return hash;
}

static nb_head_limits_t limits_option(VALUE options) {
    return (nb_head_limits_t){number_option(options, "uri", 8192), number_option(options, "head", 65536),
                              number_option(options, "fields", NB_MAX_FIELDS)};
}

/* One call. head: nothing but scanned is set, for nothing else may be relied on. */
static int parse_piece(VALUE piece, uint32_t scanned, nb_head_t *head, const nb_head_limits_t *limits,
                       const char **reason) {
    memset(head, 0xaa, sizeof *head);
    head->scanned = scanned;
    return nb_head_parse(RSTRING_PTR(piece), RSTRING_LEN(piece), head, limits, reason);
}

/* call-seq: parse(bytes, uri: 8192, head: 65536, fields: 128, scanned: 0, cuts: []) -> Hash, :more, [status, reason] */
static VALUE parse(int argc, VALUE *argv, VALUE self) {
    VALUE bytes, options;
    rb_scan_args(argc, argv, "1:", &bytes, &options);
    StringValue(bytes);
    VALUE cuts = cuts_option(options);
    nb_head_limits_t limits = limits_option(options);
    uint32_t scanned = number_option(options, "scanned", 0);
    for (long i = 0; i <= RARRAY_LEN(cuts); i++) {
        VALUE piece = rb_str_new(RSTRING_PTR(bytes), cut(cuts, i, bytes));
        const char *reason = NULL;
        nb_head_t head;
        int outcome = parse_piece(piece, scanned, &head, &limits, &reason);
        if (outcome == NB_HEAD_COMPLETE) return describe(piece, &head);
        if (outcome != NB_HEAD_MORE) return refusal(outcome, reason);
        scanned = head.scanned;
    }
    return ID2SYM(rb_intern("more"));
}

/* call-seq: scanned(bytes) -> Integer, how far an incomplete head has been looked through, or nil */
static VALUE scanned_m(VALUE self, VALUE bytes) {
    nb_head_limits_t limits = limits_option(Qnil);
    const char *reason;
    nb_head_t head;
    StringValue(bytes);
    return parse_piece(bytes, 0, &head, &limits, &reason) == NB_HEAD_MORE ? UINT2NUM(head.scanned) : Qnil;
}

/* call-seq: parse_chunks(bytes, cuts: []) -> Hash, :more or [status, reason] */
static VALUE parse_chunks(int argc, VALUE *argv, VALUE self) {
    VALUE bytes, options;
    rb_scan_args(argc, argv, "1:", &bytes, &options);
    StringValue(bytes);
    VALUE cuts = cuts_option(options), decoded = rb_str_new(NULL, 0);
    nb_chunks_t chunks = {0};
    size_t at = 0;
    for (long i = 0; i <= RARRAY_LEN(cuts); i++) {
        VALUE piece = rb_str_new(RSTRING_PTR(bytes) + at, cut(cuts, i, bytes) - (long)at);
        const char *reason = NULL;
        size_t begun = 0, consumed;
        nb_span_t data;
        int outcome;
        do {
            const char *from = RSTRING_PTR(piece) + begun;
            outcome = nb_chunks_feed(&chunks, from, RSTRING_LEN(piece) - begun, &consumed, &data, &reason);
            rb_str_cat(decoded, from + data.at, data.length);
            begun += consumed;
            at += consumed;
        } while (outcome == NB_CHUNKS_DATA);
        if (outcome == NB_CHUNKS_END) {
            VALUE hash = rb_hash_new();
            set(hash, "data", decoded);
            set(hash, "consumed", SIZET2NUM(at));
            return hash;
        }
        if (outcome != NB_CHUNKS_MORE) return refusal(outcome, reason);
    }
    return ID2SYM(rb_intern("more"));
}

/* call-seq: parse_proxy(bytes, cuts: []) -> Hash, :more or [:invalid, reason]; address: 16 bytes */
static VALUE parse_proxy(int argc, VALUE *argv, VALUE self) {
    VALUE bytes, options;
    rb_scan_args(argc, argv, "1:", &bytes, &options);
    StringValue(bytes);
    VALUE cuts = cuts_option(options);
    for (long i = 0; i <= RARRAY_LEN(cuts); i++) {
        VALUE piece = rb_str_new(RSTRING_PTR(bytes), cut(cuts, i, bytes));
        const char *reason = NULL;
        nb_proxy_t proxy;
        nb_proxy_outcome_t outcome = nb_proxy_parse(RSTRING_PTR(piece), (size_t)RSTRING_LEN(piece), &proxy, &reason);
        if (outcome == NB_PROXY_MORE) continue;
        if (outcome == NB_PROXY_INVALID) return rb_assoc_new(ID2SYM(rb_intern("invalid")), rb_str_new_cstr(reason));
        VALUE hash = rb_hash_new();
        set(hash, "address", proxy.has_address ? rb_str_new((const char *)proxy.address, 16) : Qnil);
        set(hash, "consumed", SIZET2NUM(proxy.length));
        return hash;
    }
    return ID2SYM(rb_intern("more"));
}

/* call-seq: known_names -> {name => key in Rack's env} */
static VALUE known_names(VALUE self) {
    VALUE names = rb_hash_new();
    for (int i = 1; i < NB_KNOWN_NAMES; i++)
        rb_hash_aset(names, rb_str_new(nb_known_names[i].name, nb_known_names[i].length),
                     rb_str_new(nb_known_names[i].key, nb_known_names[i].key_length));
    return names;
}

void nb_init_http_inspect(void) {
    VALUE server = rb_define_class_under(nb_mNeverBlock, "Server", rb_cObject);
    VALUE head = rb_define_module_under(server, "Head");
    rb_define_singleton_method(head, "parse", parse, -1);
    rb_define_singleton_method(head, "scanned", scanned_m, 1);
    rb_define_singleton_method(head, "parse_chunks", parse_chunks, -1);
    rb_define_singleton_method(head, "parse_proxy", parse_proxy, -1);
    rb_define_singleton_method(head, "known_names", known_names, 0);
}
