/*
 * Response heads and chunked content as Ruby sees them. Heads are parsed from a buffer that grows; content is decoded
 * in place.
 *
 *     ResponseParser.head(bytes, 0, false, 65_536, 128)
 *     # => [200, 1, "OK", ["content-type", "text/plain", ...], :length, 5, true, false, 62]; 0 and more: scanned so
 *     #    far, to be given with more bytes; a String: why the head is invalid
 *     chunks = ResponseParser::Chunks.new
 *     chunks.feed(bytes)     # => the data, in the same String; nil: invalid, for chunks.reason
 *     chunks.ended?          # => true
 *     chunks.surplus         # => 0, bytes that were behind the end
 *     chunks.trailers(128)   # => ["digest", "..."], or a String: why they are invalid
 *
 * Names are in lower case and frozen; values are binary, as they came.
 */
#include "client.h"
#include "../protocol/chunks.h"
#include "../protocol/response_head.h"
#include <ruby/encoding.h>

static VALUE delimiters[4];

static VALUE boolean(bool value) { return value ? Qtrue : Qfalse; }

static char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? (char)(byte | 0x20) : byte; }

static VALUE field_name(const char *bytes, const nb_field_t *field) {
    const nb_known_name_t *known = &nb_known_names[field->known];
    if (field->known) return rb_enc_interned_str(known->name, known->length, rb_utf8_encoding());
    VALUE name = rb_utf8_str_new(bytes + field->name.at, field->name.length);
    char *to = RSTRING_PTR(name);
    for (uint32_t i = 0; i < field->name.length; i++) to[i] = lower(to[i]);
    return rb_obj_freeze(name);
}

/* Names, each with its value. string stays where it is: nothing here can run Ruby code, and it is on the caller's
 * stack. */
static VALUE fields_of(VALUE string, const nb_head_t *head) {
    VALUE fields = rb_ary_new_capa(2 * head->field_count);
    for (uint32_t i = 0; i < head->field_count; i++) {
        const nb_field_t *field = &head->fields[i];
        rb_ary_push(fields, field_name(RSTRING_PTR(string), field));
        rb_ary_push(fields, rb_str_new(RSTRING_PTR(string) + field->value.at, field->value.length));
    }
    return fields;
}

static uint32_t bounded(VALUE number, uint32_t most) {
    unsigned long value = NUM2ULONG(number);
    return value < most ? (uint32_t)value : most;
}

/* call-seq: head(bytes, scanned, to_head, max_bytes, max_fields) -> Array, Integer or String */
static VALUE head(VALUE self, VALUE bytes, VALUE scanned, VALUE to_head, VALUE max_bytes, VALUE max_fields) {
    StringValue(bytes);
    nb_head_limits_t limits = {.head = bounded(max_bytes, UINT32_MAX), .fields = bounded(max_fields, NB_MAX_FIELDS)};
    size_t length = (size_t)RSTRING_LEN(bytes);
    const char *reason = NULL;
    nb_head_t found;
    found.scanned = bounded(scanned, length < UINT32_MAX ? (uint32_t)length : UINT32_MAX);
    int outcome = nb_response_parse(RSTRING_PTR(bytes), length, &found, &limits, RTEST(to_head), &reason);
    if (outcome == NB_HEAD_MORE) return UINT2NUM(found.scanned);
    if (outcome != NB_HEAD_COMPLETE) return rb_utf8_str_new_cstr(reason);
    VALUE phrase = rb_str_new(RSTRING_PTR(bytes) + found.phrase.at, found.phrase.length);
    VALUE values[] = {
        INT2FIX(found.status), INT2FIX(found.minor), phrase, fields_of(bytes, &found), delimiters[found.framing],
        found.has_length ? ULL2NUM(found.length) : Qnil, boolean(found.keep_alive), boolean(found.upgrade),
        UINT2NUM(found.head_length),
    };
    VALUE described = rb_ary_new_from_values(sizeof values / sizeof *values, values);
    RB_GC_GUARD(bytes);
    return described;
}

/* ---- chunked content ---- */
typedef struct {
    nb_chunks_t chunks;
    VALUE section; /* the trailers' bytes */
    const char *reason;
    size_t surplus;
    bool ended;
} content_t;

static void content_mark(void *data) { rb_gc_mark_movable(((content_t *)data)->section); }

static void content_compact(void *data) {
    content_t *content = data;
    content->section = rb_gc_location(content->section);
}

static size_t content_size(const void *data) { return sizeof(content_t); }

static const rb_data_type_t content_type = {
    "NeverBlock::ResponseParser::Chunks",
    {content_mark, RUBY_TYPED_DEFAULT_FREE, content_size, content_compact},
    NULL, NULL, RUBY_TYPED_FREE_IMMEDIATELY,
};

static content_t *content_of(VALUE self) { return rb_check_typeddata(self, &content_type); }

static VALUE content_allocate(VALUE class) {
    content_t *content;
    VALUE self = TypedData_Make_Struct(class, content_t, &content_type, content);
    content->section = Qnil;
    return self;
}

/* call-seq: feed(bytes) -> bytes, which then has the data alone; nil if the content is invalid */
static VALUE feed(VALUE self, VALUE bytes) {
    content_t *content = content_of(self);
    size_t consumed, gathered;
    StringValue(bytes);
    rb_str_modify(bytes);
    size_t length = (size_t)RSTRING_LEN(bytes);
    uint32_t before = content->chunks.trailers;
    int outcome = nb_chunks_gather(&content->chunks, RSTRING_PTR(bytes), length, &consumed, &gathered,
                                   &content->reason);
    if (outcome > NB_CHUNKS_END) return Qnil;
    /* They are what was consumed last, and data moves towards the front: so they are still there. */
    uint32_t trailers = content->chunks.trailers - before;
    if (trailers && NIL_P(content->section)) content->section = rb_str_new(NULL, 0);
    if (trailers) rb_str_cat(content->section, RSTRING_PTR(bytes) + consumed - trailers, trailers);
    content->ended = outcome == NB_CHUNKS_END;
    content->surplus += length - consumed;
    rb_str_set_len(bytes, (long)gathered);
    return bytes;
}

static VALUE is_ended(VALUE self) { return boolean(content_of(self)->ended); }

static VALUE surplus(VALUE self) { return SIZET2NUM(content_of(self)->surplus); }

static VALUE reason(VALUE self) {
    const char *reason = content_of(self)->reason;
    return reason ? rb_utf8_str_new_cstr(reason) : Qnil;
}

/* call-seq: trailers(max_fields) -> Array or String; nil before the end */
static VALUE trailers(VALUE self, VALUE max_fields) {
    content_t *content = content_of(self);
    VALUE section = content->section;
    nb_head_limits_t limits = {.head = NB_TRAILERS, .fields = bounded(max_fields, NB_MAX_FIELDS)};
    const char *reason = NULL;
    nb_head_t found;
    if (!content->ended) return Qnil;
    if (NIL_P(section)) return rb_ary_new();
    int outcome = nb_trailers_parse(RSTRING_PTR(section), (size_t)RSTRING_LEN(section), &found, &limits, &reason);
    if (outcome == NB_HEAD_COMPLETE) {
        VALUE fields = fields_of(section, &found);
        RB_GC_GUARD(section);
        return fields;
    }
    return outcome == NB_HEAD_MORE ? rb_utf8_str_new_cstr("trailers without an end") : rb_utf8_str_new_cstr(reason);
}

void nb_init_response_parser(void) {
    static const char *const names[] = {"empty", "length", "chunked", "close"}; /* nb_delimiter_t */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) delimiters[i] = ID2SYM(rb_intern(names[i]));
    VALUE parser = rb_define_module_under(nb_mNeverBlock, "ResponseParser");
    rb_define_singleton_method(parser, "head", head, 5);
    rb_define_const(parser, "MAX_FIELDS", INT2FIX(NB_MAX_FIELDS));
    VALUE chunks = rb_define_class_under(parser, "Chunks", rb_cObject);
    rb_define_alloc_func(chunks, content_allocate);
    rb_define_method(chunks, "feed", feed, 1);
    rb_define_method(chunks, "ended?", is_ended, 0);
    rb_define_method(chunks, "surplus", surplus, 0);
    rb_define_method(chunks, "reason", reason, 0);
    rb_define_method(chunks, "trailers", trailers, 1);
}
