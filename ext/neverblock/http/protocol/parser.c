/*
 * Lines: the request line and the fields. Two readers over the same bytes:
 *
 * - read_head takes a whole head apart in one pass, and needs all of it;
 * - survey looks for the end of the head alone, goes on where it stopped, and refuses early what must not wait.
 *
 * A head that came in one piece, as nearly all do, is read once. In every other case the survey decides first: so the
 * outcome is the same however the bytes were cut.
 */
#include "head.h"
#include <string.h>

const char *const nb_method_names[NB_METHODS] = {
    "", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
};

static uint8_t method_id(const uint8_t *name, size_t length) { /* case matters: RFC 9110 §9.1 */
    for (uint8_t id = 1; id < NB_METHODS; id++)
        if (strncmp(nb_method_names[id], (const char *)name, length) == 0 && !nb_method_names[id][length]) return id;
    return NB_METHOD_OTHER;
}

/* ---- the request line ---- */
static int bad_method(const nb_reader_t *in, const uint8_t *start, const uint8_t *at) {
    if (at > start) return nb_refuse(in, 400, "no space after the method");
    if (*at == '\r') return nb_refuse(in, 400, "an empty line in place of a request line");
    return nb_refuse(in, 400, "a request line that begins with no method");
}

static int bad_target(const nb_reader_t *in, uint8_t byte) {
    if (byte == '\r') return nb_refuse(in, 400, "no HTTP version: HTTP/0.9 is not spoken here");
    if (byte == '#') return nb_refuse(in, 400, "a fragment in the request target");
    if (byte >= 0x80) return nb_refuse(in, 400, "a byte above 127 in the request target: it must be percent-encoded");
    return nb_refuse(in, 400, "a control character in the request target");
}

/* Byte by byte, for all but the versions that we speak: RFC 9112 §2.3, names are case-sensitive, one digit each. */
static int odd_version(const nb_reader_t *in, const uint8_t *start) {
    static const char form[] = "HTTP/0.0\r\n";
    for (const uint8_t *at = start; at < in->end; at++) {
        char wanted = form[at - start];
        if (wanted == '0' ? nb_is(*at, NB_DIGIT) : *at == wanted) {
            if (wanted == '\n') return nb_refuse(in, 505, "an HTTP version other than 1.1 and 1.0");
            continue;
        }
        return nb_refuse(in, 400, at - start < 8 ? "no HTTP version after the request target"
                                                 : "bytes after the HTTP version");
    }
    return NB_HEAD_MORE;
}

/* *cursor: at the line's first byte; once it is complete, at that of the next line. */
static int request_line(const nb_reader_t *in, const uint8_t **cursor) {
    nb_head_t *head = in->head;
    const uint8_t *start = *cursor, *at = start;
    while (at < in->end && nb_is(*at, NB_TOKEN)) at++;
    if (at - start > NB_MAX_METHOD) return nb_refuse(in, 501, "a method of more than 32 bytes");
    if (at == in->end) return NB_HEAD_MORE;
    if (at == start || *at != ' ') return bad_method(in, start, at);
    head->method = nb_span(in, start, at);
    head->method_id = method_id(start, head->method.length);

    start = ++at;
    while (at < in->end && nb_is(*at, NB_TARGET)) at++;
    if ((size_t)(at - start) > in->limits->uri) return nb_refuse(in, 414, NB_TARGET_TOO_LONG);
    if (at == in->end) return NB_HEAD_MORE;
    if (*at != ' ') return bad_target(in, *at);
    if (at == start) return nb_refuse(in, 400, "no request target after the method and one space");
    head->target = nb_span(in, start, at);

    start = ++at;
    if (in->end - at < 10 || memcmp(at, "HTTP/1.", 7) != 0 || !nb_is(at[7], NB_DIGIT) || at[8] != '\r' || at[9] != '\n')
        return odd_version(in, start);
    head->minor = at[7] != '0'; /* RFC 9110 §2.5: a later minor version is read as the one that we speak */
    *cursor = at + 10;
    int status = nb_target_read(in);
    return status ? status : NB_HEAD_COMPLETE;
}

/* ---- fields ---- */
static int bad_name(const nb_reader_t *in, const uint8_t *start, const uint8_t *at) {
    if (at == start && nb_is_blank(*at)) /* RFC 9112 §2.2 and §5.2: node's CVE-2022-32215 was the second */
        return nb_refuse(in, 400, in->head->field_count ? "a folded field: a line that begins with a blank"
                                                        : "a blank before the first field");
    if (at == start) return nb_refuse(in, 400, "a field without a name");
    if (nb_is_blank(*at)) return nb_refuse(in, 400, "a blank in or after a field name"); /* §5.1 */
    return nb_refuse(in, 400, *at == '\r' ? "a field line without a colon" : "a character no field name can have");
}

int nb_field_lines(const nb_reader_t *in, const uint8_t *at) {
    nb_head_t *head = in->head;
    const uint8_t *end = in->end;
    uint32_t most = in->limits->fields < NB_MAX_FIELDS ? in->limits->fields : NB_MAX_FIELDS;
    for (;;) {
        const uint8_t *start = at;
        while (at < end && nb_is(*at, NB_TOKEN)) at++;
        if (end - at < 2) return NB_HEAD_MORE;
        if (*at != ':' || at == start) {
            if (at > start || at[0] != '\r' || at[1] != '\n') return bad_name(in, start, at);
            head->head_length = (uint32_t)(at + 2 - in->base);
            return NB_HEAD_COMPLETE;
        }
        if (at - start > NB_MAX_NAME) return nb_refuse(in, 431, "a field name of more than 256 bytes");
        if (head->field_count == most) return nb_refuse(in, 431, NB_TOO_MANY_FIELDS);
        nb_field_t *field = &head->fields[head->field_count++];
        field->name = nb_span(in, start, at);
        field->known = nb_known_name(start, field->name.length);

        do at++; while (at < end && nb_is_blank(*at));
        start = at;
        at = nb_value_end(at, end);
        if (end - at < 2) return NB_HEAD_MORE;
        if (at[0] != '\r' || at[1] != '\n') return nb_refuse(in, 400, "a control character in a field");
        const uint8_t *stop = at;
        while (stop > start && nb_is_blank(stop[-1])) stop--;
        field->value = nb_span(in, start, stop);
        at += 2;
        if (field->known <= NB_NAME_UPGRADE && field->known) {
            int status = nb_field_note(in, field);
            if (status) return status;
        }
    }
}

/* ---- both readers ---- */

static int first_line(const nb_reader_t *in, const uint8_t **cursor) {
    return in->section == NB_OF_REQUEST ? request_line(in, cursor) : nb_status_line(in, cursor);
}

/* One empty line may precede a request: RFC 9112 §2.2, for clients that end a body with one more CRLF. None may
 * precede a response: it would be a surplus of the one before. */
static const uint8_t *first_byte(const nb_reader_t *in) {
    if (in->section == NB_OF_RESPONSE) return in->base;
    return in->base + (in->end - in->base >= 2 && in->base[0] == '\r' && in->base[1] == '\n' ? 2 : 0);
}

static int read_head(const nb_reader_t *in) {
    nb_head_t *head = in->head;
    uint32_t scanned = head->scanned;
    memset(head, 0, offsetof(nb_head_t, fields));
    head->scanned = scanned;
    const uint8_t *at = first_byte(in);
    int outcome = first_line(in, &at);
    if (outcome == NB_HEAD_COMPLETE) outcome = nb_field_lines(in, at);
    if (outcome != NB_HEAD_COMPLETE) return outcome;
    int status = nb_fields_judge(in);
    return status ? status : NB_HEAD_COMPLETE;
}

static int bad_byte(const nb_reader_t *in, const uint8_t *at) {
    if (*at == '\n') return nb_refuse(in, 400, "a line feed without carriage return"); /* puma's CVE-2021-41136 */
    if (*at == 0x16 && at == in->base) return nb_refuse(in, 400, "TLS, on a port for plain HTTP");
    if (*at == 0x15 && at == in->base) return nb_refuse(in, 400, "an alert of TLS, in place of plain HTTP");
    return nb_refuse(in, 400, "a control character");
}

static int unfinished(const nb_reader_t *in, const uint8_t *at, bool in_fields) {
    in->head->scanned = (uint32_t)(at - in->base);
    if ((size_t)(in->end - in->base) < in->limits->head) return NB_HEAD_MORE;
    bool fields = in_fields || in->section != NB_OF_REQUEST;
    return fields ? nb_refuse(in, 431, NB_HEAD_TOO_LONG) : nb_refuse(in, 414, NB_LINE_TOO_LONG);
}

static int survey(const nb_reader_t *in) {
    /* the first line */
    const size_t longest = (size_t)in->limits->uri + NB_MAX_METHOD + sizeof "  HTTP/1.1\r\n";
    const uint8_t *start = first_byte(in), *at = in->base + in->head->scanned, *line = start;
    if (at < start) at = start;
    bool in_fields = memchr(start, '\n', (size_t)(at - start)) != NULL;
    for (;; at += 2) {
        at = nb_value_end(at, in->end);
        if (!in_fields && (size_t)(at - start) > longest) {
            int outcome = first_line(in, &line);
            if (outcome > NB_HEAD_COMPLETE) return outcome;
        }
        if (at < in->end && *at != '\r') return bad_byte(in, at);
        if (in->end - at < 2) return unfinished(in, at, in_fields);
        if (at[1] != '\n') return nb_refuse(in, 400, "a carriage return without line feed");
        if (in_fields && at[-1] == '\n') return NB_HEAD_COMPLETE;
        if (!in_fields) {
            int outcome = first_line(in, &line);
            if (outcome != NB_HEAD_COMPLETE) return outcome;
            in_fields = true;
        }
    }
}

int nb_head_read(const nb_reader_t *in) {
    if (in->head->scanned == 0 && read_head(in) == NB_HEAD_COMPLETE) return NB_HEAD_COMPLETE;
    int outcome = survey(in);
    return outcome == NB_HEAD_COMPLETE ? read_head(in) : outcome;
}

int nb_head_parse(const char *buffer, size_t length, nb_head_t *head, const nb_head_limits_t *limits,
                  const char **reason) {
    const uint8_t *base = (const uint8_t *)buffer;
    nb_reader_t in = {base, base + (length < limits->head ? length : limits->head), head, limits, reason,
                      NB_OF_REQUEST, false};
    return nb_head_read(&in);
}
