/*
 * Turning requests away, outside of any fiber: each refusal is counted by its kind, and told in the error log with the
 * client's address.
 */
#include "app.h"
#include "../protocol/status.h"
#include <string.h>

void nb_refused(nb_connection_t *connection, const nb_refusal_t *refusal) {
    nb_server_t *server = nb_server_of(connection);
    nb_request_t *request = nb_request_of(connection);
    VALUE address = request ? nb_env_address(request) : nb_env_remote(connection);
    VALUE asked = request ? nb_env_asked(request) : rb_str_new_cstr("");
    bool begun = request && nb_request_begun(request); /* then the app may yet respond otherwise */
    const char *what = begun ? "the body of a request" : "a request";
    server->refused[refusal->kind]++;
    nb_server_trouble(server, nb_refusal_name(refusal->kind),
                      "%s from %" PRIsVALUE " is refused with %d: %s%" PRIsVALUE, what, address,
                      nb_refusal_status(refusal->kind), refusal->detail[0] ? refusal->detail : refusal->text, asked);
}

static void log_access(nb_request_t *request) {
    if (!request->server->settings.log_requests) return;
    if (request->queued) nb_env_queue_time(request, nb_now());
    nb_server_protect(nb_server_access, (VALUE)request);
}

static bool send_refusal(nb_connection_t *connection, const nb_refusal_t *refusal, bool close) {
    char head[512];
    size_t date_length, text_length = strlen(refusal->text) + 1;
    const char *date = nb_server_date(nb_server_of(connection), &date_length);
    nb_request_t *request = nb_request_of(connection);
    int status = nb_refusal_status(refusal->kind);
    bool head_only = request ? request->head_only : connection->asks_head;
    const char *retry = status == 503 ? "Retry-After: 1\r\n" : "", *last = close ? "Connection: close\r\n" : "";
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 %d %s\r\nDate: %.*s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                          "%s%s\r\n%s%s",
                          status, nb_reason(status), (int)date_length, date, text_length, retry, last,
                          head_only ? "" : refusal->text, head_only ? "" : "\n");
    if (request) {
        request->status = status;
        request->written = head_only ? 0 : text_length;
    }
    return nb_send_words(connection, head, (size_t)length);
}

static void refuse(nb_connection_t *connection, const nb_refusal_t *refusal) {
    nb_request_t *request = nb_request_of(connection);
    send_refusal(connection, refusal, true);
    if (request) {
        log_access(request);
        connection->exchange = NULL;
        request->io.connection = NULL;
        nb_request_free(request);
    }
    nb_connection_linger(connection);
}

/* The head or the body is missing, or is not HTTP: nothing that follows on this connection can be trusted. */
void nb_refuse_request(nb_connection_t *connection, const nb_refusal_t *refusal) {
    if (nb_refusal_status(refusal->kind) == 408) connection->transport->timeouts++;
    nb_refused(connection, refusal);
    refuse(connection, refusal);
}

/* Rejects a complete request with 503; keeps the connection unless more is pipelined, since to refuse each of those
 * would be work too. */
void nb_decline_request(nb_request_t *request, const nb_refusal_t *refusal) {
    nb_connection_t *connection = request->io.connection;
    bool keep = request->persistence == NB_PERSISTENCE_KEEP && !request->http10 &&
                request->input_phase == NB_INPUT_ENDED && connection->in_length == 0 &&
                !connection->transport->draining;
    nb_refused(connection, refusal);
    if (!keep || !send_refusal(connection, refusal, false)) {
        refuse(connection, refusal);
        return;
    }
    log_access(request);
    nb_request_over(request);
}

VALUE nb_refusals_stats(nb_server_t *server) {
    VALUE stats = rb_hash_new();
    for (int kind = 1; kind < NB_REFUSALS; kind++) {
        const char *name = nb_refusal_name((nb_refusal_kind_t)kind);
        rb_hash_aset(stats, ID2SYM(rb_intern(name)), ULONG2NUM(server->refused[kind]));
    }
    return stats;
}
