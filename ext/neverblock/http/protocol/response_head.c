/*
 * The status line, and the entries to the shared readers for responses and trailers.
 */
#include "response_head.h"
#include "head.h"
#include <string.h>

/* The text of the byte that is not as in "HTTP/1.0 000". */
static const char *bad_status_line(const uint8_t *start, size_t at) {
    if (at == 5 && nb_is(start[at], NB_DIGIT)) return "an HTTP version other than 1.1 and 1.0";
    if (at < 8) return "no HTTP version at the beginning of a response";
    if (at == 8) return "no space after the HTTP version";
    return "a status that is not a number of three digits";
}

/* RFC 9112 §4. The space before an empty reason phrase may be missing: many servers omit it, and what it means is
 * beyond doubt. */
int nb_status_line(const nb_reader_t *in, const uint8_t **cursor) {
    static const char form[] = "HTTP/1.0 000";
    nb_head_t *head = in->head;
    const uint8_t *start = *cursor, *at = start;
    for (size_t i = 0; i < sizeof form - 1; i++, at++) {
        if (at == in->end) return NB_HEAD_MORE;
        bool fits = form[i] == '0' ? nb_is(*at, NB_DIGIT) : *at == (uint8_t)form[i];
        if (!fits || (i == 9 && *at == '0')) return nb_refuse(in, NB_RESPONSE_INVALID, bad_status_line(start, i));
    }
    head->minor = start[7] != '0';
    head->status = (uint16_t)((start[9] - '0') * 100 + (start[10] - '0') * 10 + (start[11] - '0'));
    if (at < in->end && *at == ' ') {
        const uint8_t *phrase = ++at;
        at = nb_value_end(at, in->end);
        if (at - phrase > NB_MAX_PHRASE)
            return nb_refuse(in, NB_RESPONSE_INVALID, "a reason phrase of more than 1024 bytes");
        head->phrase = nb_span(in, phrase, at);
    }
    if (at < in->end && *at != '\r') return nb_refuse(in, NB_RESPONSE_INVALID, "no space after the status");
    if (in->end - at < 2) return NB_HEAD_MORE;
    if (at[1] != '\n') return nb_refuse(in, NB_RESPONSE_INVALID, "a carriage return without line feed");
    *cursor = at + 2;
    return NB_HEAD_COMPLETE;
}

static int outcome_of(int outcome) { return outcome > NB_HEAD_COMPLETE ? NB_RESPONSE_INVALID : outcome; }

int nb_response_parse(const char *buffer, size_t length, nb_head_t *head, const nb_head_limits_t *limits, bool to_head,
                      const char **reason) {
    const uint8_t *base = (const uint8_t *)buffer;
    const nb_head_limits_t own = {.uri = NB_MAX_PHRASE, .head = limits->head, .fields = limits->fields};
    nb_reader_t in = {base, base + (length < limits->head ? length : limits->head), head, &own, reason,
                      NB_OF_RESPONSE, to_head};
    return outcome_of(nb_head_read(&in));
}

int nb_trailers_parse(const char *buffer, size_t length, nb_head_t *head, const nb_head_limits_t *limits,
                      const char **reason) {
    const uint8_t *base = (const uint8_t *)buffer;
    nb_reader_t in = {base, base + length, head, limits, reason, NB_OF_TRAILERS, false};
    memset(head, 0, offsetof(nb_head_t, fields));
    if (length > limits->head) return nb_refuse(&in, NB_RESPONSE_INVALID, "trailers that are too long");
    return outcome_of(nb_field_lines(&in, base));
}
