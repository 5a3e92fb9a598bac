/*
 * A statement's text without its literals: equal for texts that differ only in numbers, in strings, in the lengths of
 * lists of these, and in comments.
 *
 *     NeverBlock::SqlShape.of("SELECT * FROM users WHERE id IN (7, 8) AND name = 'Al'", false)
 *     # => "SELECT * FROM users WHERE id IN (0) AND name = ''"
 *     NeverBlock::SqlShape.of("SELECT 1 -- 'one'", false)   # => nil
 *
 * The shape is SQL too, with the same words. Where a literal may end elsewhere than it seems to, because of a
 * backslash, a dollar quote, a comment or an encoding, a text has no shape.
 */
#include <ruby/encoding.h>
#include <string.h>
#include "sql.h"

#define LONGEST (1 << 20) /* bytes of a text: a longer one hardly comes twice, and a shape takes as much memory */

typedef struct {
    const char *at, *end; /* of the text */
    char *out, *start;    /* of the shape, which is never longer */
    char *literal;        /* start of the last literal in the shape, if only blanks and a comma follow; else NULL */
    bool comma;           /* whether a comma follows */
    bool mysql;           /* its rules; else PostgreSQL's */
} scan_t;

static bool digit(char byte) { return byte >= '0' && byte <= '9'; }

static bool blank(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static bool begins_word(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || (unsigned char)byte >= 0x80;
}

static bool in_word(char byte) { return begins_word(byte) || digit(byte) || byte == '$'; }

static char peek(const scan_t *scan, long ahead) { return scan->end - scan->at > ahead ? scan->at[ahead] : '\0'; }

static void copy(scan_t *scan, long bytes) {
    memcpy(scan->out, scan->at, (size_t)bytes);
    scan->out += bytes;
    scan->at += bytes;
}

/* What is no part of a list of literals. */
static void copy_other(scan_t *scan, long bytes) {
    scan->literal = NULL;
    copy(scan, bytes);
}

/* In a list it takes the place of the literal before it. */
static void literal(scan_t *scan, const char *text, long length) {
    if (scan->literal && scan->comma) scan->out = scan->literal;
    scan->literal = scan->out;
    scan->comma = false;
    memcpy(scan->out, text, (size_t)length);
    scan->out += length;
}

static char before(const scan_t *scan) { return scan->out > scan->start ? scan->out[-1] : ' '; }

/* 7 and 7.5; not what may be a part of a name, such as the digits of 7a, t.7, @7 and :7. A dollar quote may follow 7
 * and 7e5 at once. */
static bool number(scan_t *scan) {
    const char *after = scan->at;
    while (after < scan->end && digit(*after)) after++;
    if (after + 1 < scan->end && after[0] == '.' && digit(after[1])) {
        for (after++; after < scan->end && digit(*after); after++) continue;
    }
    bool ends = after == scan->end || (!in_word(*after) && !strchr(".@'\"`", *after));
    if (ends && !strchr(".@:'\"`", before(scan))) {
        scan->at = after;
        literal(scan, "0", 1);
        return true;
    }
    while (after < scan->end && in_word(*after) && *after != '$') after++;
    if (after < scan->end && *after == '$') return false;
    copy_other(scan, after - scan->at);
    return true;
}

/* The length up to the quote that ends it; 0: it has a backslash, a zero byte, or no end. A doubled quote within reads
 * as the end and a new beginning, which is the same for names. */
static long quoted(const scan_t *scan) {
    char quote = *scan->at;
    for (const char *at = scan->at + 1; at < scan->end && *at != '\\' && *at != '\0'; at++) {
        if (*at == quote) return at + 1 - scan->at;
    }
    return 0;
}

/* One with a prefix, such as x'4D', is no part of a list. */
static bool string(scan_t *scan) {
    bool prefixed = in_word(before(scan)) || strchr(".@:&", before(scan));
    do {
        long length = quoted(scan);
        if (!length) return false;
        scan->at += length;
    } while (peek(scan, 0) == '\'');
    literal(scan, "''", 2);
    if (prefixed) scan->literal = NULL;
    return true;
}

static bool name(scan_t *scan) {
    long length = quoted(scan);
    if (length) copy_other(scan, length);
    return length;
}

/* It becomes a blank: tracers put a new one into each text. MySQL executes some comments; PostgreSQL's may have others
 * within. */
static bool comment(scan_t *scan) {
    if (peek(scan, 2) == '!' || (peek(scan, 2) == 'M' && peek(scan, 3) == '!')) return false;
    for (const char *at = scan->at + 2; at + 1 < scan->end; at++) {
        if (at[0] == '/' && at[1] == '*') return false;
        if (at[0] == '*' && at[1] == '/') {
            scan->at = at + 2;
            *scan->out++ = ' ';
            return true;
        }
    }
    return false;
}

/* A parameter, $1; dollar quotes are PostgreSQL's. */
static bool dollar(scan_t *scan) {
    long length = 1;
    while (digit(peek(scan, length))) length++;
    if (length == 1 || in_word(peek(scan, length))) return false;
    copy_other(scan, length);
    return true;
}

static void word(scan_t *scan) {
    long length = 1;
    while (scan->at + length < scan->end && in_word(scan->at[length])) length++;
    copy_other(scan, length);
}

static void comma(scan_t *scan) {
    if (scan->comma) scan->literal = NULL;
    scan->comma = true;
    copy(scan, 1);
}

/* One token, or a blank. */
static bool step(scan_t *scan) {
    char byte = *scan->at;
    if (digit(byte)) return number(scan);
    if (begins_word(byte)) return word(scan), true;
    if (blank(byte)) return copy(scan, 1), true;
    switch (byte) {
    case ',': return comma(scan), true;
    case '\'': return string(scan);
    case '"': return name(scan);
    case '`': return scan->mysql && name(scan);
    case '$': return dollar(scan);
    case '#':
        if (scan->mysql) return false;
        break;
    case '-':
        if (peek(scan, 1) == '-') return false;
        break;
    case '/':
        if (peek(scan, 1) == '*') return comment(scan);
        break;
    case '\\':
    case '\0': return false;
    }
    return copy_other(scan, 1), true;
}

/* No byte of a character may look like a quote. */
static bool readable(VALUE sql) {
    int coderange = rb_enc_str_coderange(sql);
    if (coderange == ENC_CODERANGE_7BIT) return true;
    return coderange == ENC_CODERANGE_VALID && rb_enc_get_index(sql) == rb_utf8_encindex();
}

static VALUE of(VALUE self, VALUE sql, VALUE mysql) {
    Check_Type(sql, T_STRING);
    long length = RSTRING_LEN(sql);
    if (length > LONGEST || !readable(sql)) return Qnil;
    VALUE shape = rb_str_buf_new(length);
    const char *text = RSTRING_PTR(sql);
    char *start = RSTRING_PTR(shape);
    scan_t scan = {.at = text, .end = text + length, .out = start, .start = start, .mysql = RTEST(mysql)};
    while (scan.at < scan.end) {
        if (!step(&scan)) return Qnil;
    }
    rb_str_set_len(shape, scan.out - start);
    RB_GC_GUARD(sql);
    return shape;
}

void nb_init_sql_shape(void) {
    rb_define_singleton_method(rb_define_module_under(nb_mNeverBlock, "SqlShape"), "of", of, 2);
}
