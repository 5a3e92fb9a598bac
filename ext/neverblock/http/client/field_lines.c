/*
 * The lines of a request's fields. Names come checked, as the beginnings of their lines; values are checked here.
 *
 *     FieldLines.add(lines, "accept: ", "text/html")     # => true: lines ends with "accept: text/html\r\n"
 *     FieldLines.add(lines, "accept: ", "a\r\nb: c")     # => false: nothing in a value may end a line
 *     FieldLines.of_env(env, prefixes) { |name| ... }    # => "accept: text/html\r\n"
 *
 * prefixes is a Hash like {"HTTP_ACCEPT" => "accept: ", "HTTP_TE" => false}: false is not passed on. The block gets the
 * names in env of fields whose values can't be sent.
 */
#include "client.h"
#include "../protocol/bytes.h"
#include <string.h>

#define CAPACITY 500 /* bytes that the lines of most requests have room in */

static bool add_line(VALUE lines, VALUE prefix, VALUE value) {
    if (!RB_TYPE_P(value, T_STRING)) return false;
    const char *bytes = RSTRING_PTR(value);
    long length = RSTRING_LEN(value), before = RSTRING_LEN(lines), name = RSTRING_LEN(prefix);
    const uint8_t *end = (const uint8_t *)bytes + length;
    if (nb_value_end((const uint8_t *)bytes, end) < end) return false;
    rb_str_modify_expand(lines, name + length + 2);
    char *to = RSTRING_PTR(lines) + before;
    memcpy(to, RSTRING_PTR(prefix), (size_t)name);
    memcpy(to + name, RSTRING_PTR(value), (size_t)length);
    memcpy(to + name + length, "\r\n", 2);
    rb_str_set_len(lines, before + name + length + 2);
    RB_GC_GUARD(value);
    return true;
}

/* call-seq: add(lines, prefix, value) -> true or false */
static VALUE add(VALUE self, VALUE lines, VALUE prefix, VALUE value) {
    Check_Type(lines, T_STRING);
    Check_Type(prefix, T_STRING);
    return add_line(lines, prefix, value) ? Qtrue : Qfalse;
}

typedef struct { VALUE lines, prefixes; } additions_t;

static int add_entry(VALUE name, VALUE value, VALUE pointer) {
    static const char header[] = "HTTP_";
    enum { LENGTH = sizeof header - 1 };
    additions_t *additions = (additions_t *)pointer;
    if (!RB_TYPE_P(name, T_STRING) || !RB_TYPE_P(value, T_STRING)) return ST_CONTINUE;
    if (RSTRING_LEN(name) < LENGTH || memcmp(RSTRING_PTR(name), header, LENGTH)) return ST_CONTINUE;
    VALUE prefix = rb_hash_aref(additions->prefixes, name); /* may run the Hash's block */
    if (!RTEST(prefix)) return ST_CONTINUE;
    Check_Type(prefix, T_STRING);
    if (!add_line(additions->lines, prefix, value)) rb_yield(name);
    return ST_CONTINUE;
}

/* call-seq: of_env(env, prefixes) { |name| ... } -> String */
static VALUE of_env(VALUE self, VALUE env, VALUE prefixes) {
    Check_Type(env, T_HASH);
    Check_Type(prefixes, T_HASH);
    VALUE lines = rb_str_buf_new(CAPACITY);
    additions_t additions = {.lines = lines, .prefixes = prefixes};
    rb_hash_foreach(env, add_entry, (VALUE)&additions);
    RB_GC_GUARD(lines);
    RB_GC_GUARD(prefixes);
    return lines;
}

void nb_init_field_lines(void) {
    VALUE module = rb_define_module_under(nb_mNeverBlock, "FieldLines");
    rb_define_singleton_method(module, "add", add, 3);
    rb_define_singleton_method(module, "of_env", of_env, 2);
}
