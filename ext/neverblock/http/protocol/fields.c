/*
 * The fields that say where a message ends, which host it is for, and what becomes of the connection. Requests are
 * smuggled where two servers read these differently: every field that could be read in two ways is refused.
 */
#include "head.h"

enum { /* head->seen */
    SEEN_HOST = 1, SEEN_CODINGS = 2, SEEN_OTHER_CODING = 4, SEEN_CLOSE = 8, SEEN_KEEP_ALIVE = 16,
    SEEN_CONNECTION_UPGRADE = 32, SEEN_UPGRADE = 64, SEEN_CONTINUE = 128, SEEN_OTHER_EXPECTATION = 256,
};

/* The elements of a comma-separated list, without the blanks around them; false after the last. */
typedef struct { const uint8_t *at, *end, *stop; } list_t;

static list_t list_of(const nb_reader_t *in, nb_span_t value) {
    const uint8_t *at = in->base + value.at;
    return (list_t){.at = at, .end = at + value.length};
}

/* element: from, to. An empty list has one empty element. */
static bool next_element(list_t *list, const uint8_t **from, const uint8_t **to) {
    const uint8_t *at = list->stop ? list->stop + 1 : list->at, *stop;
    if (at > list->end) return false;
    for (stop = at; stop < list->end && *stop != ',';) stop++;
    list->stop = stop;
    while (at < stop && nb_is_blank(*at)) at++;
    while (stop > at && nb_is_blank(stop[-1])) stop--;
    *from = at;
    *to = stop;
    return true;
}

static bool is_word(const uint8_t *from, const uint8_t *to, const char *word, uint32_t length) {
    return (size_t)(to - from) == length && nb_same_word(from, word, length);
}
#define IS_WORD(from, to, word) is_word(from, to, word, sizeof word - 1)

/* RFC 9112 §3.2: more than one or an invalid one is a 400, whatever the version. */
static int host(const nb_reader_t *in, nb_span_t value) {
    nb_head_t *head = in->head;
    int32_t port;
    if (head->seen & SEEN_HOST) return nb_refuse(in, 400, "more than one Host");
    head->seen |= SEEN_HOST;
    if (value.length == 0) return head->minor ? nb_refuse(in, 400, "an empty Host") : 0;
    if (!nb_authority_read(in, value, &head->server_name, &port)) return nb_refuse(in, 400, "an invalid Host");
    head->server_port = port < 0 ? 0 : (uint16_t)port;
    head->host = value;
    return 0;
}

/* Digits only: puma's CVE-2023-40175 was an empty one, protocol-http1's CVE-2023-38697 "+1" and "0x1". */
static int content_length(const nb_reader_t *in, nb_span_t value) {
    nb_head_t *head = in->head;
    const uint8_t *at = in->base + value.at, *end = at + value.length;
    if (head->has_length) return nb_refuse(in, 400, "more than one Content-Length");
    head->has_length = true;
    if (at == end) return nb_refuse(in, 400, "an empty Content-Length");
    for (const uint8_t *digit = at; digit < end; digit++)
        if (!nb_is(*digit, NB_DIGIT)) return nb_refuse(in, 400, "a Content-Length that is not a number");
    for (; at < end; at++) {
        uint64_t digit = *at - '0';
        if (head->length > (INT64_MAX - digit) / 10) return nb_refuse(in, 413, "a Content-Length beyond all limits");
        head->length = head->length * 10 + digit;
    }
    return 0;
}

/* RFC 9112 §6.1. Several fields are one list. Recipients are asked to accept empty elements; here it is not sure
 * that the peers before us count them the same way. */
static int transfer_encoding(const nb_reader_t *in, nb_span_t value) {
    nb_head_t *head = in->head;
    list_t list = list_of(in, value);
    const uint8_t *from, *to;
    if (head->minor == 0) return nb_refuse(in, 400, "Transfer-Encoding in HTTP/1.0");
    head->seen |= SEEN_CODINGS;
    while (next_element(&list, &from, &to)) {
        const uint8_t *at = from;
        while (at < to && nb_is(*at, NB_TOKEN)) at++;
        if (at == from) return nb_refuse(in, 400, "an empty transfer coding");
        if (head->chunked) /* CVE-2022-24790 and CVE-2022-32213: what comes after is not read by all */
            return nb_refuse(in, 400, IS_WORD(from, at, "chunked") ? "chunked twice" : "a coding after chunked");
        if (IS_WORD(from, at, "chunked")) {
            if (at < to) return nb_refuse(in, 400, "chunked with a parameter"); /* §7.1 */
            head->chunked = true;
        } else if (at < to && *at != ';' && !nb_is_blank(*at)) {
            return nb_refuse(in, 400, "a malformed transfer coding");
        } else {
            head->seen |= SEEN_OTHER_CODING;
        }
    }
    return 0;
}

/* RFC 9110 §7.6.1. Options of no concern to us, and empty ones, are passed over. */
static void connection(const nb_reader_t *in, nb_span_t value) {
    list_t list = list_of(in, value);
    const uint8_t *from, *to;
    while (next_element(&list, &from, &to)) {
        if (IS_WORD(from, to, "close")) in->head->seen |= SEEN_CLOSE;
        else if (IS_WORD(from, to, "keep-alive")) in->head->seen |= SEEN_KEEP_ALIVE;
        else if (IS_WORD(from, to, "upgrade")) in->head->seen |= SEEN_CONNECTION_UPGRADE;
    }
}

/* RFC 9110 §10.1.1 */
static void expect(const nb_reader_t *in, nb_span_t value) {
    list_t list = list_of(in, value);
    const uint8_t *from, *to;
    while (next_element(&list, &from, &to))
        if (from < to) in->head->seen |= IS_WORD(from, to, "100-continue") ? SEEN_CONTINUE : SEEN_OTHER_EXPECTATION;
}

int nb_field_note(const nb_reader_t *in, const nb_field_t *field) {
    if (in->section == NB_OF_TRAILERS) /* RFC 9110 §6.5.1 */
        return nb_refuse(in, 400, "a trailer that only a head can have: it would change where messages end");
    switch (field->known) {
    case NB_NAME_HOST: return in->section == NB_OF_REQUEST ? host(in, field->value) : 0;
    case NB_NAME_CONTENT_LENGTH: return content_length(in, field->value);
    case NB_NAME_TRANSFER_ENCODING: return transfer_encoding(in, field->value);
    case NB_NAME_CONNECTION: connection(in, field->value); break;
    case NB_NAME_EXPECT: expect(in, field->value); break;
    case NB_NAME_UPGRADE: in->head->seen |= SEEN_UPGRADE; break;
    }
    return 0;
}

/* The absolute-form target's authority wins; see nb_authority_agrees. */
static int settle_host(const nb_reader_t *in) {
    nb_head_t *head = in->head;
    int32_t port;
    if (head->minor && !(head->seen & SEEN_HOST)) return nb_refuse(in, 400, "no Host");
    if (head->form != NB_FORM_ABSOLUTE) return 0;
    if (head->host.length && !nb_authority_agrees(in, head->host))
        return nb_refuse(in, 400, "a Host other than the request target's");
    head->host = head->authority;
    nb_authority_read(in, head->host, &head->server_name, &port);
    head->server_port = port < 0 ? 0 : (uint16_t)port;
    return 0;
}

/* RFC 9112 §6.3, of a response: where it ends, and whether another one may follow on the connection. */
static int settle_framing(const nb_reader_t *in) {
    nb_head_t *head = in->head;
    if (head->status < 200) { /* what follows is read as a response, so it must not be content: RFC 9110 §15.2 */
        if (head->minor == 0) return nb_refuse(in, 400, "an interim response of HTTP/1.0");
        if (head->chunked || head->has_length) return nb_refuse(in, 400, "an interim response with content");
        head->framing = NB_DELIMITED_EMPTY;
        if (head->status == 101) head->keep_alive = false;
    } else if (in->to_head || head->status == 204 || head->status == 304) {
        head->framing = NB_DELIMITED_EMPTY;
        if (head->status == 204 && (head->chunked || head->length > 0)) head->keep_alive = false; /* doubtful */
    } else if (head->chunked || head->has_length) {
        head->framing = head->chunked ? NB_DELIMITED_CHUNKED : NB_DELIMITED_LENGTH;
    } else {
        head->framing = NB_DELIMITED_CLOSE;
        head->keep_alive = false;
    }
    return 0;
}

int nb_fields_judge(const nb_reader_t *in) {
    nb_head_t *head = in->head;
    bool current = head->minor > 0, request = in->section == NB_OF_REQUEST;
    int status = request ? settle_host(in) : 0;
    if (status) return status;
    if ((head->seen & SEEN_CODINGS) && head->has_length) /* CVE-2020-11076, CVE-2020-11077 */
        return nb_refuse(in, 400, "both Transfer-Encoding and Content-Length");
    if (head->seen & SEEN_OTHER_CODING) return nb_refuse(in, 501, "a transfer coding other than chunked");
    head->upgrade = current && (head->seen & SEEN_UPGRADE) && (head->seen & SEEN_CONNECTION_UPGRADE);
    head->keep_alive = !(head->seen & SEEN_CLOSE) && (current || (head->seen & SEEN_KEEP_ALIVE));
    if (!request) return settle_framing(in);
    /* HTTP/1.1: an older client cannot mean the rest */
    if (current && (head->seen & SEEN_OTHER_EXPECTATION))
        return nb_refuse(in, 417, "an expectation other than 100-continue");
    head->expect_continue = current && (head->seen & SEEN_CONTINUE) && (head->chunked || head->length > 0);
    return 0;
}
