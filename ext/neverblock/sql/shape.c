/*
 * A statement's text without its literals: equal for texts that differ only in numbers, in strings, in the lengths of
 * lists of these and of rows of them, and in comments.
 *
 *     NeverBlock::SqlShape.of("SELECT * FROM users WHERE id IN (7, 8) AND name = 'Al'", :postgres)
 *     # => "SELECT * FROM users WHERE id IN ('') AND name = ''"
 *     NeverBlock::SqlShape.of("INSERT INTO users VALUES (7, 'Al'), (8, NULL)", :postgres)
 *     # => "INSERT INTO users VALUES ('')"
 *     NeverBlock::SqlShape.of("SELECT 1 -- 'one'", :postgres)   # => nil
 *
 * The dialect says where strings end: :postgres, :mysql, or :mysql_plain (with NO_BACKSLASH_ESCAPES).
 *
 * The shape is SQL too, with the same words, and is its own shape. Where a literal may end elsewhere than it seems to,
 * because of a dollar quote, a comment or an encoding, a text has no shape.
 */
#include <ruby/encoding.h>
#include <string.h>
#include <strings.h>
#include "sql.h"

#define MAX_DEPTH 64 /* of parentheses */

typedef enum { POSTGRES, MYSQL, MYSQL_PLAIN } dialect_t;

/* What a backslash in a string is. */
typedef enum { CHARACTER, ESCAPE, UNKNOWN } backslash_t;

/* What is in one pair of parentheses, or outside of all. */
typedef struct {
    char *start;             /* of it in the shape, at its parenthesis */
    char *row, *row_end;     /* the last row in it, if only blanks and a comma follow; else NULL */
    bool is_row;
} level_t;

typedef struct {
    const char *text, *at, *end;
    char *out, *start; /* of the shape, which is never longer */
    char *literal;     /* start of the last literal in the shape, if only blanks and a comma follow; else NULL */
    bool comma;        /* whether a comma follows it, or the last row */
    bool parameters;   /* whether they are literals */
    dialect_t dialect;
    level_t *level, levels[MAX_DEPTH];
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

/* What is no part of a list of literals or rows. */
static void copy_other(scan_t *scan, long bytes) {
    scan->literal = NULL;
    scan->level->row = NULL;
    scan->comma = false;
    copy(scan, bytes);
}

static char before(const scan_t *scan) { return scan->out > scan->start ? scan->out[-1] : ' '; }

/* The last byte of the shape that is no blank; 0: none. */
static char last(const scan_t *scan) {
    for (const char *at = scan->out; at > scan->start; at--) {
        if (!blank(at[-1])) return at[-1];
    }
    return '\0';
}

/* Whether an item of a list in parentheses begins. */
static bool begins_item(const scan_t *scan) { return last(scan) == '(' || last(scan) == ','; }

/* In a list it takes the place of the literal before it: a list is '', whatever its literals are. A string before it
 * could go on with that. */
static void literal(scan_t *scan, const char *text, long length) {
    if (scan->literal && scan->comma) {
        scan->out = scan->literal;
        if (last(scan) != '\'') text = "''", length = 2;
    }
    scan->literal = before(scan) == '&' ? NULL : scan->out; /* u&'' is a string */
    scan->level->row = NULL;
    scan->comma = false;
    memcpy(scan->out, text, (size_t)length);
    scan->out += length;
}

/* The end of 7 and 7.5; NULL for what may be a part of a name, such as the digits of 7a, or a name, such as 7 (. A
 * dollar quote may follow 7 and 7e5 at once. */
static const char *number_end(const scan_t *scan, const char *after) {
    while (after < scan->end && digit(*after)) after++;
    if (after + 1 < scan->end && after[0] == '.' && digit(after[1])) {
        for (after++; after < scan->end && digit(*after); after++) continue;
    }
    if (after < scan->end && (in_word(*after) || strchr(".@'\"`", *after))) return NULL;
    const char *next = after;
    while (next < scan->end && blank(*next)) next++;
    return next < scan->end && *next == '(' ? NULL : after;
}

/* The digits of t.7, @7 and :7 may be a part of a name too. */
static bool number(scan_t *scan) {
    const char *after = number_end(scan, scan->at);
    if (after && !strchr(".@:'\"`", before(scan))) {
        scan->at = after;
        literal(scan, "0", 1);
        return true;
    }
    for (after = scan->at; after < scan->end && (in_word(*after) || *after == '.') && *after != '$';) after++;
    if (after < scan->end && *after == '$') return false;
    copy_other(scan, after - scan->at);
    return true;
}

/* -7, where a list has 7. */
static bool negative(scan_t *scan) {
    const char *after = digit(peek(scan, 1)) && begins_item(scan) ? number_end(scan, scan->at + 1) : NULL;
    if (!after) return false;
    scan->at = after;
    literal(scan, "0", 1);
    return true;
}

/* The length up to the quote that ends it; 0: it has a zero byte, or no end. A doubled quote within reads as the end
 * and a new beginning, which is the same for names. */
static long quoted(const scan_t *scan, backslash_t backslash) {
    char quote = *scan->at;
    if (backslash == CHARACTER) {
        const char *end = memchr(scan->at + 1, quote, (size_t)(scan->end - scan->at - 1));
        return end && !memchr(scan->at, '\0', (size_t)(end - scan->at)) ? end + 1 - scan->at : 0;
    }
    for (const char *at = scan->at + 1; at < scan->end && *at != '\0'; at++) {
        if (*at == quote) return at + 1 - scan->at;
        if (*at != '\\') continue;
        if (backslash == UNKNOWN || ++at == scan->end || *at == '\0') return 0;
    }
    return 0;
}

/* In PostgreSQL the string e'\n' has escapes, date'\n' has none; 7e'\n' is read differently by its releases. */
static backslash_t backslash(const scan_t *scan) {
    if (scan->dialect != POSTGRES) return scan->dialect == MYSQL ? ESCAPE : CHARACTER;
    const char *word = scan->at;
    while (word > scan->text && in_word(word[-1])) word--;
    if (word == scan->at) return CHARACTER;
    if (!begins_word(*word)) return UNKNOWN;
    return scan->at - word == 1 && (*word == 'e' || *word == 'E') ? ESCAPE : CHARACTER;
}

/* A string with escapes goes on after a line break. */
static bool continues(const scan_t *scan) {
    const char *at = scan->at;
    while (at < scan->end && blank(*at)) at++;
    return at < scan->end && *at == '\'';
}

/* One with a prefix, such as x'4D', is no part of a list. */
static bool string(scan_t *scan) {
    bool prefixed = in_word(before(scan)) || strchr(".@:&", before(scan));
    backslash_t rule = backslash(scan);
    do {
        long length = quoted(scan, rule);
        if (!length) return false;
        scan->at += length;
    } while (peek(scan, 0) == '\'');
    if (rule == ESCAPE && scan->dialect == POSTGRES && continues(scan)) return false;
    literal(scan, "''", 2);
    if (prefixed) scan->literal = NULL;
    return true;
}

/* MySQL's "a" is a string or a name. */
static bool name(scan_t *scan) {
    long length = quoted(scan, scan->dialect != POSTGRES && *scan->at == '"' ? UNKNOWN : CHARACTER);
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
    bool ends = scan->at + length == scan->end || !strchr(".@'\"`", peek(scan, length));
    if (scan->parameters && ends && begins_item(scan)) {
        scan->at += length;
        literal(scan, "$1", 2);
    } else {
        copy_other(scan, length);
    }
    return true;
}

/* The next byte that is neither a blank nor in a comment, or the end. */
static const char *beyond_blanks(const scan_t *scan, const char *at) {
    for (;;) {
        while (at < scan->end && blank(*at)) at++;
        if (scan->end - at < 4 || at[0] != '/' || at[1] != '*') return at;
        const char *end = at + 2;
        while (end + 1 < scan->end && (end[0] != '*' || end[1] != '/')) end++;
        if (end + 1 >= scan->end) return at;
        at = end + 2;
    }
}

/* A key word that stands for a value, where that is all that an item of a list has. */
static bool value(const scan_t *scan, long length) {
    static const char *const words[] = {"null", "true", "false", "default"};
    bool found = false;
    for (int i = 0; i < 4; i++) {
        if (strlen(words[i]) == (size_t)length && strncasecmp(words[i], scan->at, (size_t)length) == 0) found = true;
    }
    if (!found || !begins_item(scan)) return false;
    const char *after = beyond_blanks(scan, scan->at + length);
    return after < scan->end && (*after == ',' || *after == ')');
}

/* e'a', unless it would go on with a string before it. */
static bool prefix(const scan_t *scan) {
    if (scan->dialect != POSTGRES || (*scan->at != 'e' && *scan->at != 'E') || peek(scan, 1) != '\'') return false;
    return strchr(" (,", before(scan)) && last(scan) != '\'';
}

static bool word(scan_t *scan) {
    if (prefix(scan)) {
        scan->at++;
        return string(scan);
    }
    long length = 1;
    while (scan->at + length < scan->end && in_word(scan->at[length])) length++;
    if (value(scan, length)) {
        scan->at += length;
        literal(scan, "0", 1);
    } else {
        copy_other(scan, length);
    }
    return true;
}

static void comma(scan_t *scan) {
    if (scan->comma) scan->literal = scan->level->row = NULL;
    scan->comma = true;
    copy(scan, 1);
}

/* Whether a parenthesis begins a row: not the arguments of a call, or another thing that has a name. */
static bool begins_row(const scan_t *scan) {
    if (begins_item(scan)) return true;
    const char *end = scan->out;
    while (end > scan->start && blank(end[-1])) end--;
    if (end - scan->start < 6 || strncasecmp(end - 6, "values", 6) != 0) return false;
    return end - scan->start == 6 || blank(end[-7]) || end[-7] == '(' || end[-7] == ')';
}

static bool open_level(scan_t *scan) {
    if (scan->level == scan->levels + MAX_DEPTH - 1) return false;
    bool row = begins_row(scan);
    if (!row || !scan->comma) scan->level->row = NULL;
    scan->level++;
    *scan->level = (level_t){.start = scan->out, .is_row = row};
    scan->literal = NULL;
    scan->comma = false;
    copy(scan, 1);
    return true;
}

/* A row like the one before it is left out, with its comma. */
static void close_level(scan_t *scan) {
    if (scan->level == scan->levels) return copy_other(scan, 1);
    scan->literal = NULL;
    scan->comma = false;
    copy(scan, 1);
    level_t *closed = scan->level--, *level = scan->level;
    if (!closed->is_row) {
        level->row = NULL;
        return;
    }
    long length = scan->out - closed->start;
    if (level->row && level->row_end - level->row == length && memcmp(level->row, closed->start, (size_t)length) == 0) {
        scan->out = level->row_end;
    } else {
        level->row = closed->start;
        level->row_end = scan->out;
    }
}

/* One token, or a blank. */
static bool step(scan_t *scan) {
    char byte = *scan->at;
    if (digit(byte)) return number(scan);
    if (begins_word(byte)) return word(scan);
    if (blank(byte)) return copy(scan, 1), true;
    switch (byte) {
    case ',': return comma(scan), true;
    case '(': return open_level(scan);
    case ')': return close_level(scan), true;
    case '\'': return string(scan);
    case '"': return name(scan);
    case '`': return scan->dialect != POSTGRES && name(scan);
    case '$': return dollar(scan);
    case '#':
        if (scan->dialect != POSTGRES) return false;
        break;
    case '-':
        if (peek(scan, 1) == '-') return false;
        if (negative(scan)) return true;
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

static dialect_t dialect_of(VALUE name) {
    Check_Type(name, T_SYMBOL);
    if (name == ID2SYM(rb_intern("postgres"))) return POSTGRES;
    if (name == ID2SYM(rb_intern("mysql"))) return MYSQL;
    if (name == ID2SYM(rb_intern("mysql_plain"))) return MYSQL_PLAIN;
    rb_raise(rb_eArgError, "%" PRIsVALUE " is no dialect: use :postgres, :mysql or :mysql_plain", rb_inspect(name));
}

/* `parameters`: whether lists of them are left out too. */
static VALUE of(VALUE self, VALUE sql, VALUE dialect, VALUE parameters) {
    Check_Type(sql, T_STRING);
    scan_t scan;
    scan.dialect = dialect_of(dialect);
    if (!readable(sql)) return Qnil;
    long length = RSTRING_LEN(sql);
    VALUE shape = rb_str_buf_new(length);
    rb_enc_associate_index(shape, rb_utf8_encindex());
    scan.text = scan.at = RSTRING_PTR(sql);
    scan.end = scan.text + length;
    scan.out = scan.start = RSTRING_PTR(shape);
    scan.literal = NULL;
    scan.comma = false;
    scan.parameters = RTEST(parameters) && scan.dialect == POSTGRES; /* MySQL's $1 is a name */
    scan.level = scan.levels;
    *scan.level = (level_t){.row = NULL};
    while (scan.at < scan.end) {
        if (!step(&scan)) return Qnil;
    }
    rb_str_set_len(shape, scan.out - scan.start);
    RB_GC_GUARD(sql);
    return rb_str_resize(shape, RSTRING_LEN(shape)); /* gives back what it does not need */
}

void nb_init_sql_shape(void) {
    rb_define_singleton_method(rb_define_module_under(nb_mNeverBlock, "SqlShape"), "of", of, 3);
}
