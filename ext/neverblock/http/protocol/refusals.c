/*
 * The table of refusals: the name and the status of each kind. A kind is named after the directive, or after the
 * status of RFC 9110, that it comes from; or after what is missing.
 */
#include "refusals.h"
#include <stdio.h>
#include <string.h>

static const struct { const char *name; int status; } kinds[NB_REFUSALS] = {
    [NB_REFUSED_QUEUE_LIMIT] = {"queue_limit", 503},
    [NB_REFUSED_QUEUE_MAX_WAIT] = {"queue_max_wait", 503},
    [NB_REFUSED_MAX_QUEUE_TIME] = {"max_queue_time", 503},
    [NB_REFUSED_FIBER] = {"fiber", 503},
    [NB_REFUSED_BODY_QUOTA] = {"body_quota", 503},
    [NB_REFUSED_BODY_FILE] = {"body_file", 503},
    [NB_REFUSED_HEAD_TIMEOUT] = {"head_timeout", 408},
    [NB_REFUSED_BODY_TIMEOUT] = {"body_timeout", 408},
    [NB_REFUSED_MIN_BODY_RATE] = {"min_body_rate", 408},
    [NB_REFUSED_BAD_REQUEST] = {"bad_request", 400},
    [NB_REFUSED_CONTENT_TOO_LARGE] = {"content_too_large", 413},
    [NB_REFUSED_URI_TOO_LONG] = {"uri_too_long", 414},
    [NB_REFUSED_EXPECTATION_FAILED] = {"expectation_failed", 417},
    [NB_REFUSED_FIELDS_TOO_LARGE] = {"header_fields_too_large", 431},
    [NB_REFUSED_NOT_IMPLEMENTED] = {"not_implemented", 501},
    [NB_REFUSED_VERSION] = {"http_version_not_supported", 505},
};

nb_refusal_t nb_refusal_too_large(uint64_t max_body_size) {
    nb_refusal_t refusal = {.kind = NB_REFUSED_CONTENT_TOO_LARGE, .text = "the body is larger than this server takes"};
    snprintf(refusal.detail, sizeof refusal.detail, "the body is larger than max_body_size (%llu bytes)",
             (unsigned long long)max_body_size);
    return refusal;
}

/* The detail names the limit and shows how the request begins. The URI itself may not have been read. */
nb_refusal_t nb_refusal_of_head(const nb_head_limits_t *limits, int status, const char *text, const char *bytes,
                                size_t length) {
    nb_refusal_t refusal = nb_refusal_of(status, text);
    if (refusal.kind != NB_REFUSED_URI_TOO_LONG && refusal.kind != NB_REFUSED_FIELDS_TOO_LARGE) return refusal;
    int line = 0;
    while (line < 48 && (size_t)line < length && bytes[line] != '\r') line++;
    bool target = !strcmp(text, NB_TARGET_TOO_LONG), count = !strcmp(text, NB_TOO_MANY_FIELDS);
    bool head = !strcmp(text, NB_HEAD_TOO_LONG) || !strcmp(text, NB_LINE_TOO_LONG);
    if (!target && !count && !head) return refusal;
    snprintf(refusal.detail, sizeof refusal.detail, "%s: %s is %u: %.*s%s", text,
             target ? "max_uri_length" : count ? "max_header_count" : "max_head_size",
             target ? limits->uri : count ? limits->fields : limits->head, line, bytes, line == 48 ? "..." : "");
    return refusal;
}

const char *nb_refusal_name(nb_refusal_kind_t kind) { return kinds[kind].name; }

int nb_refusal_status(nb_refusal_kind_t kind) { return kinds[kind].status; }

nb_refusal_t nb_refusal_of(int status, const char *text) {
    nb_refusal_t refusal = {.kind = NB_REFUSED_BAD_REQUEST, .text = text};
    for (int kind = NB_REFUSED_BAD_REQUEST; kind < NB_REFUSALS; kind++)
        if (kinds[kind].status == status) refusal.kind = (nb_refusal_kind_t)kind;
    return refusal;
}
