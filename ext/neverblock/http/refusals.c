/*
 * Refusals: what the server itself turns away. Each has a kind, named after the directive or the status of RFC 9110 that
 * it comes from; and each is counted by it, and told in the error log with the client's address.
 */
#include "http.h"
#include <stdio.h>
#include <string.h>

static const struct { const char *name; int status; } kinds[NB_REFUSALS] = {
    [NB_REFUSED_QUEUE_LIMIT] = {"queue_limit", 503},
    [NB_REFUSED_QUEUE_MAX_WAIT] = {"queue_max_wait", 503},
    [NB_REFUSED_MAX_QUEUE_TIME] = {"max_queue_time", 503},
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

nb_refusal_t nb_too_large(const nb_core_t *core) {
    nb_refusal_t refusal = {NB_REFUSED_CONTENT_TOO_LARGE, "the body is larger than this server takes"};
    snprintf(refusal.detail, sizeof refusal.detail, "the body is larger than max_body_size (%llu bytes)", (unsigned long long)core->settings.max_body_size);
    return refusal;
}

/* Which limit it was, and how the request begins: what it asks for is not known, or not sure. */
nb_refusal_t nb_head_refusal(const nb_core_t *core, int status, const char *text, const char *bytes, size_t length) {
    const nb_head_limits_t *limits = &core->settings.head;
    nb_refusal_t refusal = nb_refusal_of(status, text);
    if (refusal.kind != NB_REFUSED_URI_TOO_LONG && refusal.kind != NB_REFUSED_FIELDS_TOO_LARGE) return refusal;
    int line = 0;
    while (line < 48 && (size_t)line < length && bytes[line] != '\r') line++;
    bool target = !strcmp(text, NB_TARGET_TOO_LONG), count = !strcmp(text, NB_TOO_MANY_FIELDS), head = !strcmp(text, NB_HEAD_TOO_LONG) || !strcmp(text, NB_LINE_TOO_LONG);
    if (!target && !count && !head) return refusal;
    snprintf(refusal.detail, sizeof refusal.detail, "%s: %s is %u: %.*s%s", text, target ? "max_uri_length" : count ? "max_header_count" : "max_head_size",
             target ? limits->uri : count ? limits->fields : limits->head, line, bytes, line == 48 ? "..." : "");
    return refusal;
}

int nb_refusal_status(nb_refusal_kind_t kind) { return kinds[kind].status; }

nb_refusal_t nb_refusal_of(int status, const char *text) {
    nb_refusal_t refusal = {NB_REFUSED_BAD_REQUEST, text};
    for (int kind = NB_REFUSED_BAD_REQUEST; kind < NB_REFUSALS; kind++) if (kinds[kind].status == status) refusal.kind = (nb_refusal_kind_t)kind;
    return refusal;
}

void nb_refused(nb_connection_t *connection, const nb_refusal_t *refusal) {
    nb_core_t *core = connection->core;
    nb_request_t *request = connection->request;
    VALUE address = request ? nb_env_address(request) : nb_env_remote(connection);
    core->refused[refusal->kind]++;
    nb_core_trouble(core, kinds[refusal->kind].name, "%s from %" PRIsVALUE " is refused with %d: %s%" PRIsVALUE,
                    request && request->started ? "the body of a request" : "a request", address, /* the app may yet say something else */
                    kinds[refusal->kind].status, refusal->detail[0] ? refusal->detail : refusal->text, request ? nb_env_asked(request) : rb_str_new_cstr(""));
}

void nb_refused_access(nb_request_t *request) {
    if (!request->core->settings.log_requests) return;
    if (request->queued) nb_env_queue_time(request, nb_now());
    nb_core_protect(nb_core_access, (VALUE)request);
}

VALUE nb_refusals_stats(nb_core_t *core) {
    VALUE stats = rb_hash_new();
    for (int kind = 1; kind < NB_REFUSALS; kind++) rb_hash_aset(stats, ID2SYM(rb_intern(kinds[kind].name)), ULONG2NUM(core->refused[kind]));
    return stats;
}
