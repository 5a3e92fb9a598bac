/*
 * The server's settings, from the Hash that Configuration#to_core makes: counts and bytes as Integers, seconds as
 * Numerics, or nil for never.
 */
#include "app.h"
#include <string.h>

static VALUE fetch(VALUE settings, const char *name) {
    VALUE value = rb_hash_lookup2(settings, ID2SYM(rb_intern(name)), Qundef);
    if (value == Qundef) rb_raise(rb_eKeyError, "Core: the setting %s is missing", name);
    return value;
}

static uint64_t count(VALUE settings, const char *name) {
    VALUE value = fetch(settings, name);
    return NIL_P(value) ? 0 : NUM2ULL(value);
}

static uint64_t duration(VALUE settings, const char *name) {
    VALUE value = fetch(settings, name);
    return NIL_P(value) ? NB_NEVER : (uint64_t)(NUM2DBL(value) * 1e9);
}

/* networks: an Array of [16 bytes, how many bits of them count] */
static void read_trusted(nb_trusted_t *to, VALUE networks) {
    Check_Type(networks, T_ARRAY);
    to->networks = ALLOC_N(nb_network_t, (size_t)RARRAY_LEN(networks));
    for (long i = 0; i < RARRAY_LEN(networks); i++) {
        VALUE network = rb_Array(rb_ary_entry(networks, i)), bytes = rb_ary_entry(network, 0);
        int bits = NUM2INT(rb_ary_entry(network, 1));
        StringValue(bytes);
        if (RSTRING_LEN(bytes) != 16 || bits < 0 || bits > 128)
            rb_raise(rb_eArgError, "Core: no network: %+" PRIsVALUE, network);
        nb_network_t *one = &to->networks[to->count++];
        memcpy(one->address, RSTRING_PTR(bytes), 16);
        one->bits = (uint8_t)bits;
    }
}

/* The processes that accept from the same sockets, and this one's entry among them; or nil. */
static void read_balance(nb_server_t *server, VALUE from) {
    VALUE entry = fetch(from, "balance_entry");
    server->balance = fetch(from, "balance");
    server->net.balance = NIL_P(server->balance) ? NULL : nb_balance_get(server->balance);
    server->net.balance_entry = NIL_P(entry) ? NB_NO_ENTRY : NUM2INT(entry);
}

void nb_settings_read(nb_server_t *server, VALUE from) {
    nb_settings_t *to = &server->settings;
    nb_transport_settings_t *net = &server->net.settings;
    to->max_in_flight = (unsigned)count(from, "max_in_flight");
    to->queue_limit = (unsigned)count(from, "queue_limit");
    net->max_connections = (unsigned)count(from, "max_connections");
    net->max_connections_per_address = (unsigned)count(from, "max_connections_per_address");
    to->max_streams = (unsigned)count(from, "max_streams");
    to->max_requests = (unsigned)count(from, "max_requests_per_connection");
    to->queue_max_wait = duration(from, "queue_max_wait");
    to->max_queue_time = duration(from, "max_queue_time");
    net->head_timeout = duration(from, "head_timeout");
    to->body_timeout = duration(from, "body_timeout");
    net->idle_timeout = duration(from, "idle_timeout");
    net->write_timeout = duration(from, "write_timeout");
    to->request_timeout = duration(from, "request_timeout");
    to->slow_request = duration(from, "slow_request");
    net->linger_timeout = duration(from, "linger_timeout");
    to->min_body_rate = count(from, "min_body_rate");
    to->min_body_rate_after = duration(from, "min_body_rate_after");
    net->min_answer_rate = count(from, "min_answer_rate");
    net->min_answer_rate_after = duration(from, "min_answer_rate_after");
    to->max_body_size = NIL_P(fetch(from, "max_body_size")) ? UINT64_MAX : count(from, "max_body_size");
    to->body_memory = count(from, "body_memory");
    to->body_quota = NIL_P(fetch(from, "body_quota")) ? UINT64_MAX : count(from, "body_quota");
    to->head = (nb_head_limits_t){.uri = (uint32_t)count(from, "max_uri_length"),
                                  .head = (uint32_t)count(from, "max_head_size"),
                                  .fields = (uint32_t)count(from, "max_header_count")};
    if (to->head.fields > NB_MAX_FIELDS) rb_raise(rb_eArgError, "Core: max_header_count is at most %d", NB_MAX_FIELDS);
    net->cancel_on_disconnect = RTEST(fetch(from, "cancel_on_disconnect"));
    to->pass_underscores = RTEST(fetch(from, "pass_underscores"));
    to->early_hints = RTEST(fetch(from, "early_hints"));
    to->log_requests = RTEST(fetch(from, "log_requests"));
    to->newlines_separate = RTEST(rb_hash_lookup2(from, ID2SYM(rb_intern("newlines_separate")), Qfalse));
    net->yields = RTEST(fetch(from, "yields"));
    read_balance(server, from);
    to->stream_paths = fetch(from, "stream_paths");
    read_trusted(&net->trusted, fetch(from, "trusted_networks"));
    to->trusts_local = RTEST(fetch(from, "trusts_local"));
    to->trusts = to->trusts_local || net->trusted.count;
    to->forwarded_field = RTEST(fetch(from, "forwarded_field"));
}
