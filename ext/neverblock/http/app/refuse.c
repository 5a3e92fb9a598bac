/*
 * Turning requests away: each refusal is counted by its kind, and told in the error log with the client's address.
 */
#include "../http.h"

void nb_refused(nb_connection_t *connection, const nb_refusal_t *refusal) {
    nb_core_t *core = connection->core;
    nb_request_t *request = connection->request;
    VALUE address = request ? nb_env_address(request) : nb_env_remote(connection);
    core->refused[refusal->kind]++;
    nb_core_trouble(core, nb_refusal_name(refusal->kind), "%s from %" PRIsVALUE " is refused with %d: %s%" PRIsVALUE,
                    request && request->started ? "the body of a request" : "a request", address, /* the app may yet say something else */
                    nb_refusal_status(refusal->kind), refusal->detail[0] ? refusal->detail : refusal->text, request ? nb_env_asked(request) : rb_str_new_cstr(""));
}

void nb_refused_access(nb_request_t *request) {
    if (!request->core->settings.log_requests) return;
    if (request->queued) nb_env_queue_time(request, nb_now());
    nb_core_protect(nb_core_access, (VALUE)request);
}

VALUE nb_refusals_stats(nb_core_t *core) {
    VALUE stats = rb_hash_new();
    for (int kind = 1; kind < NB_REFUSALS; kind++) rb_hash_aset(stats, ID2SYM(rb_intern(nb_refusal_name((nb_refusal_kind_t)kind))), ULONG2NUM(core->refused[kind]));
    return stats;
}
