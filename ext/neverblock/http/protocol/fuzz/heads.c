/*
 * The part of the fuzz target for heads, of requests and responses, and for trailers.
 */
#include "../bytes.h"
#include "../response_head.h"
#include "pieces.h"

typedef struct {
    int outcome;
    size_t given; /* bytes, when it was decided */
    const char *reason;
    nb_head_t head;
} parsed_t;

static int parse_as(kind_t kind, const char *bytes, size_t size, nb_head_t *head, const nb_head_limits_t *limits,
                    const char **reason) {
    if (kind == REQUEST) return nb_head_parse(bytes, size, head, limits, reason);
    return nb_response_parse(bytes, size, head, limits, kind == RESPONSE_TO_HEAD, reason);
}

static void parse(parsed_t *parsed, kind_t kind, const uint8_t *bytes, size_t size, unsigned plan,
                  const nb_head_limits_t *limits) {
    pieces_t pieces = {plan, (uint32_t)size};
    uint32_t scanned = 0;
    size_t given = 0;
    do {
        given += next_piece(&pieces, size - given);
        char *copy = copy_of(bytes, given);
        memset(parsed, 0xaa, sizeof *parsed); /* nothing but scanned may be relied on */
        parsed->head.scanned = scanned;
        parsed->reason = NULL;
        parsed->outcome = parse_as(kind, copy, given, &parsed->head, limits, &parsed->reason);
        free(copy);
        scanned = parsed->head.scanned;
    } while (parsed->outcome == NB_HEAD_MORE && given < size);
    parsed->given = given;
}

static void check_span(const uint8_t *bytes, const nb_head_t *head, nb_span_t span, uint8_t kind) {
    MUST((uint64_t)span.at + span.length <= head->head_length);
    for (uint32_t i = 0; i < span.length; i++) MUST(nb_is(bytes[span.at + i], kind));
}

static void check_lines(const uint8_t *bytes, size_t length) {
    MUST(length >= 4 && memcmp(bytes + length - 4, "\r\n\r\n", 4) == 0);
    for (size_t i = 0; i < length; i++) {
        MUST(bytes[i] >= ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n');
        MUST(bytes[i] != 0x7f);
        if (bytes[i] == '\r') MUST(bytes[i + 1] == '\n');
        if (bytes[i] == '\n') MUST(i > 0 && bytes[i - 1] == '\r');
        if (i >= 4 && i < length - 1) MUST(memcmp(bytes + i - 3, "\r\n\r\n", 4) != 0); /* nothing after the first */
    }
}

static void check_fields(const uint8_t *bytes, const nb_head_t *head, const nb_head_limits_t *limits) {
    MUST(head->field_count <= limits->fields && head->field_count <= NB_MAX_FIELDS);
    for (uint32_t i = 0; i < head->field_count; i++) {
        const nb_field_t *field = &head->fields[i];
        check_span(bytes, head, field->name, NB_TOKEN);
        check_span(bytes, head, field->value, NB_VALUE);
        MUST(field->name.length > 0 && field->name.length <= NB_MAX_NAME);
        MUST(field->known < NB_KNOWN_NAMES);
        MUST(!field->known || nb_known_names[field->known].length == field->name.length);
        if (field->value.length == 0) continue;
        const uint8_t *value = bytes + field->value.at;
        MUST(!nb_is_blank(value[0]) && !nb_is_blank(value[field->value.length - 1]));
    }
}

static void check_request(const uint8_t *bytes, const nb_head_t *head, const nb_head_limits_t *limits) {
    MUST(head->method.length > 0 && head->method.length <= NB_MAX_METHOD && head->method_id < NB_METHODS);
    MUST(head->target.length > 0 && head->target.length <= limits->uri);
    MUST(head->minor == 0 || head->host.length > 0);
    MUST(head->host.length == 0 || (head->server_name.at == head->host.at && head->server_name.length > 0));
    MUST(!head->expect_continue || head->chunked || head->length > 0);
    check_span(bytes, head, head->method, NB_TOKEN);
    check_span(bytes, head, head->target, NB_TARGET);
    check_span(bytes, head, head->path, NB_TARGET);
    check_span(bytes, head, head->query, NB_TARGET);
    check_span(bytes, head, head->authority, NB_TARGET);
    check_span(bytes, head, head->host, NB_TARGET);
}

/* Another response follows only where this one's end is beyond doubt. */
static void check_response(const uint8_t *bytes, const nb_head_t *head, kind_t kind) {
    bool interim = head->status < 200;
    bool empty = interim || kind == RESPONSE_TO_HEAD || head->status == 204 || head->status == 304;
    MUST(memcmp(bytes, "HTTP/1.", 7) == 0 && head->status >= 100 && head->status <= 999);
    MUST(!interim || (head->minor == 1 && !head->chunked && !head->has_length));
    MUST(head->phrase.length <= NB_MAX_PHRASE);
    check_span(bytes, head, head->phrase, NB_VALUE);
    MUST(empty == (head->framing == NB_DELIMITED_EMPTY));
    MUST(empty || head->chunked == (head->framing == NB_DELIMITED_CHUNKED));
    MUST(empty || head->has_length == (head->framing == NB_DELIMITED_LENGTH));
    MUST(head->framing != NB_DELIMITED_CLOSE || !head->keep_alive);
    MUST(head->status != 101 || !head->keep_alive);
}

static void check_complete(const uint8_t *bytes, const parsed_t *parsed, kind_t kind, const nb_head_limits_t *limits) {
    const nb_head_t *head = &parsed->head;
    MUST(head->head_length <= parsed->given && head->head_length <= limits->head);
    check_lines(bytes, head->head_length);
    check_fields(bytes, head, limits);
    MUST(head->minor <= 1);
    MUST(!head->chunked || (!head->has_length && head->minor == 1));
    MUST(head->length <= INT64_MAX && (head->has_length || head->length == 0));
    MUST(!head->upgrade || head->minor == 1);
    if (kind == REQUEST) check_request(bytes, head, limits);
    else check_response(bytes, head, kind);
}

static void same_head(const parsed_t *a, const parsed_t *b) {
    MUST(a->outcome == b->outcome);
    if (a->outcome > NB_HEAD_COMPLETE) MUST(a->reason == b->reason);
    if (a->outcome != NB_HEAD_COMPLETE) return;
    MUST(a->head.head_length == b->head.head_length && a->head.field_count == b->head.field_count);
    const size_t from = offsetof(nb_head_t, method), to = offsetof(nb_head_t, fields);
    MUST(memcmp((const char *)&a->head + from, (const char *)&b->head + from, to - from) == 0);
    for (uint32_t i = 0; i < a->head.field_count; i++) {
        const nb_field_t *x = &a->head.fields[i], *y = &b->head.fields[i];
        MUST(x->known == y->known && x->name.at == y->name.at && x->name.length == y->name.length);
        MUST(x->value.at == y->value.at && x->value.length == y->value.length);
    }
}

void try_head(kind_t kind, const uint8_t *bytes, size_t size, const nb_head_limits_t *limits) {
    static parsed_t whole, other;
    parse(&whole, kind, bytes, size, 0, limits);
    if (whole.outcome == NB_HEAD_COMPLETE) {
        check_complete(bytes, &whole, kind, limits);
        parse(&other, kind, bytes, whole.head.head_length, 0, limits); /* what follows is not looked at */
        same_head(&whole, &other);
        parse(&other, kind, bytes, whole.head.head_length - 1, 0, limits);
        MUST(other.outcome == NB_HEAD_MORE);
    } else if (whole.outcome != NB_HEAD_MORE) {
        if (kind == REQUEST) check_status(whole.outcome, whole.reason);
        else MUST(whole.outcome == NB_RESPONSE_INVALID && whole.reason && *whole.reason);
    }
    for (size_t i = 1; i < PLANS; i++) {
        if (plans[i] == 1 && size > 1024) continue; /* a copy per byte */
        parse(&other, kind, bytes, size, plans[i], limits);
        same_head(&whole, &other);
    }
}

void try_trailers(const uint8_t *bytes, size_t size, const nb_head_limits_t *limits) {
    static nb_head_t head, other;
    const char *reason = NULL;
    char *copy = copy_of(bytes, size);
    memset(&head, 0xaa, sizeof head);
    int outcome = nb_trailers_parse(copy, size, &head, limits, &reason);
    free(copy);
    if (outcome == NB_HEAD_COMPLETE) {
        MUST(head.head_length <= size && head.head_length <= limits->head);
        check_fields(bytes, &head, limits);
        for (uint32_t i = 0; i < head.field_count; i++)
            MUST(!head.fields[i].known || head.fields[i].known > NB_NAME_UPGRADE);
        MUST(nb_trailers_parse((const char *)bytes, head.head_length, &other, limits, &reason) == NB_HEAD_COMPLETE);
        MUST(nb_trailers_parse((const char *)bytes, head.head_length - 1, &other, limits, &reason) == NB_HEAD_MORE);
    } else if (outcome != NB_HEAD_MORE) {
        MUST(outcome == NB_RESPONSE_INVALID && reason && *reason);
    }
}
